"""A graph in Graphviz's language: `gdr topo --dot | dot -Tsvg`.

Source of the language: https://graphviz.org/doc/info/lang.html."""

from __future__ import annotations

from collections.abc import Iterator

from gdrkit.fabric.topology.graph import Net, Role, Topology, TopologyDevice, TopologyGpu

SHAPES = {
    Role.GPU: "box",
    Role.NIC: "box",
    Role.BRIDGE: "ellipse",
    Role.NVSWITCH: "hexagon",
    Role.OTHER: "plain",
}
COLOURS = {Role.GPU: "#76b900", Role.NIC: "#4c8dc8", Role.BRIDGE: "#dddddd", Role.NVSWITCH: "#c8e6a0"}


def dot(topology: Topology) -> str:
    """One undirected graph: PCIe as lines with the link's speed, NVLink dashed, C2C bold.

    Ports that redirect and links that are degraded are red."""
    return "\n".join(["graph topology {", *(f"  {line}" for line in _lines(topology)), "}"]) + "\n"


def _lines(topology: Topology) -> Iterator[str]:
    yield 'node [style=filled, fillcolor="#eeeeee", fontname="sans-serif"]'
    names: dict[str, list[str]] = {}
    for gpu in topology.gpus:
        index = f"GPU{gpu.index} " if gpu.index is not None and gpu.address else ""
        names.setdefault(gpu.address or gpu.id, []).append(f"{index}{gpu.name or gpu.id}")
    for net in topology.nets:
        names.setdefault(net.address or net.id, []).append(net.id)
    for number in _numa_nodes(topology):
        label = "no known NUMA node" if number is None else f"NUMA node {number}"
        yield _node(f"numa{number}", label, "house")
    for bridge in topology.host_bridges:
        yield _node(f"host {bridge.bus}", f"host bridge {bridge.bus}", "invhouse")
        yield f"{_quoted(f'numa{bridge.numa_node}')} -- {_quoted(f'host {bridge.bus}')}"
    for device in topology.devices:
        label = "\n".join([device.address, *names.get(device.address, ())])
        colour = "#e05050" if device.redirects else COLOURS.get(device.role, "#eeeeee")
        yield _node(device.address, label, SHAPES[device.role], colour)
        yield _edge(device)
    yield from _without_address(topology)
    yield from _nvlinks(topology)


def _numa_nodes(topology: Topology) -> list[int | None]:
    """The NUMA nodes that are drawn."""
    found: dict[int | None, None] = {cpu.numa_node: None for cpu in topology.cpus}
    found |= {bridge.numa_node: None for bridge in topology.host_bridges}
    found |= {d.numa_node: None for d in topology.devices if not d.parent and not d.host_bridge}
    found |= {topology.numa_node(end): None for end in _ends_without_address(topology)}
    return list(found)


def _edge(device: TopologyDevice) -> str:
    above = device.parent or (
        f"host {device.host_bridge}" if device.host_bridge else f"numa{device.numa_node}"
    )
    link = device.link
    speed = link.gt_per_s if link.gt_per_s is not None else link.max_gt_per_s
    width = link.width if link.width is not None else link.max_width
    words = [f"{speed:g} GT/s" if speed is not None else "", f"x{width}" if width is not None else ""]
    label = " ".join(word for word in words if word)
    colour = ', color="#e05050"' if link.is_degraded else ""
    return f"{_quoted(above)} -- {_quoted(device.address)} [label={_quoted(label)}{colour}]"


def _ends_without_address(topology: Topology) -> list[TopologyGpu | Net]:
    return [*(g for g in topology.gpus if not g.address), *(n for n in topology.nets if not n.address)]


def _without_address(topology: Topology) -> Iterator[str]:
    """Devices of a matrix, and nets without a PCI function: each is joined to its NUMA node."""
    for end in _ends_without_address(topology):
        role = Role.GPU if isinstance(end, TopologyGpu) else Role.NIC
        yield _node(end.id, end.id, SHAPES[role], COLOURS[role])
        yield f"{_quoted(f'numa{topology.numa_node(end)}')} -- {_quoted(end.id)}"


def _nvlinks(topology: Topology) -> Iterator[str]:
    """Each bond once, even if both ends name it."""
    seen: set[frozenset[str]] = set()
    ids = {gpu.id for gpu in topology.gpus}
    switches = {d.address for d in topology.devices if d.role is Role.NVSWITCH}
    for gpu in topology.gpus:
        bonds: dict[str, int] = {}
        for link in gpu.nvlinks or ():
            end = link.target if link.target in ids | switches else "NVSwitch"
            bonds[end] = bonds.get(end, 0) + link.count
        for end, count in bonds.items():
            if frozenset((gpu.id, end)) not in seen:
                seen.add(frozenset((gpu.id, end)))
                label = _quoted(f"NVLink x{count}")
                yield f"{_quoted(gpu.id)} -- {_quoted(end)} [style=dashed, label={label}]"
        if gpu.c2c is not None:
            numa_node = _quoted(f"numa{topology.numa_node(gpu)}")
            yield f'{numa_node} -- {_quoted(gpu.id)} [style=bold, label="C2C"]'


def _node(name: str, label: str, shape: str, colour: str = "#eeeeee") -> str:
    return f"{_quoted(name)} [label={_quoted(label)}, shape={shape}, fillcolor={_quoted(colour)}]"


def _quoted(text: str) -> str:
    """A quoted string: quotes and backslashes are escaped, a line feed becomes \\\\n."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
