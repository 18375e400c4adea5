"""The ports of a card that NCCL fuses into one NIC, and the topology that NCCL then uses.

NCCL_TOPO_DUMP_FILE shows NICs before they are fused. Until 2.23.4 NET/IB fused them
(src/transport/net_ib.cc, ncclIbFindMatchingDev()), since 2.24.3 the topology does (src/graph/topo.cc,
ncclTopoAutoMerge()). Sockets are not fused, nor is InfiniBand with Ethernet: ncclIbFindMatchingDev()
compares link layers, and since 2.24.3 ncclIbMakeVDeviceInternal() refuses ports that differ in them. Until
2.25.1 NCCL then stopped (ncclTopoMakeVnic()); since 2.26.2 it leaves out the first port and tries again.

The default is modelled: ports of one PCI function, as NCCL sees it. Not modelled are the wider levels of
NCCL_NET_MERGE_LEVEL, for which NCCL invents PCI devices, and NCCL_NET_FORCE_MERGE.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import Struct, structs

from gdrkit.fabric.nccl.settings import MERGE_LEVELS, Settings
from gdrkit.fabric.nccl.system import number
from gdrkit.formats.errors import FormatError
from gdrkit.formats.xml_text import XmlNode
from gdrkit.programs.nccl.releases import Release

SOCKET_GUIDS = 0xFFFF
"""Higher than any GUID of a socket, which is the device's number: src/transport/net_socket.cc."""


class FusedNic(Struct, frozen=True):
    """A virtual NIC: the names of its parts and its speed, the sum of theirs, in Mb/s."""

    name: str
    parts: tuple[str, ...]
    mbit_per_s: int


def fuse(
    root: XmlNode,
    rules: Release,
    settings: Settings,
    left_out: Collection[str] = (),
    layers: Mapping[int, str] | None = None,
) -> tuple[XmlNode, tuple[FusedNic, ...]]:
    """The topology with fused NICs in place of their parts, and a list of those NICs.

    `left_out` are names of ports that NCCL is configured not to use. `layers` are link layers by the number
    of the port (`dev`), which no topology file has; a port of an unknown one is assumed to be like the
    others. Raises FormatError if NCCL would fail."""
    wide = MERGE_LEVELS.index(settings.merge_level) >= MERGE_LEVELS.index("PORT")
    if not rules.merges or not settings.merge_nics or (rules.merges == "topology" and not wide):
        return root, ()
    count = sum(1 for node in root.walk() if node.name == "net")
    fused: list[FusedNic] = []
    alike = _Alike(rules, layers or {})
    return _fuse(root, alike, left_out, fused, count), tuple(fused)


def _fuse(
    node: XmlNode, alike: _Alike, left_out: Collection[str], fused: list[FusedNic], count: int
) -> XmlNode:
    if node.name != "nic":
        below = tuple(_fuse(child, alike, left_out, fused, count) for child in node.children)
        return structs.replace(node, children=below)
    rules = alike.rules
    kept = [net for net in node.all("net") if net.get("name") in left_out]
    for group in alike.groups([net for net in node.all("net") if net not in kept]):
        if len(group) == 1:
            kept.append(group[0])
            continue
        kept.append(_virtual(group, rules, count + len(fused)))
        name = kept[-1].get("name")
        parts = tuple(part.get("name") for part in group)
        fused.append(FusedNic(name, parts, number(kept[-1].get("speed"))))
    return structs.replace(node, children=tuple(kept))


class _Alike:
    """The rule by which one version fuses ports of a card."""

    def __init__(self, rules: Release, layers: Mapping[int, str]) -> None:
        self.rules, self.layers = rules, layers

    def groups(self, nets: list[XmlNode]) -> list[list[XmlNode]]:
        """The ports of a card in groups, as large as this version allows."""
        alone = [[net] for net in nets if _is_socket(net)]
        ports = [net for net in nets if not _is_socket(net)]
        found = self._by_topology(ports) if self.rules.merges == "topology" else self._by_plugin(ports)
        return sorted(found + alone, key=lambda group: nets.index(group[0]))

    def _by_plugin(self, ports: list[XmlNode]) -> list[list[XmlNode]]:
        groups: list[list[XmlNode]] = []
        for port in ports:
            for group in groups:
                same = group[0].get("guid") == port.get("guid") and not self._differ(group[0], port)
                if same and len(group) < self.rules.merge_limit:
                    group.append(port)
                    break
            else:
                groups.append([port])
        return groups

    def _by_topology(self, ports: list[XmlNode]) -> list[list[XmlNode]]:
        """If the plugin refuses a group, its first port is not combined with any other of that group."""
        groups: list[list[XmlNode]] = []
        left, apart = list(range(len(ports))), set[tuple[int, int]]()
        while left:
            first, *others = left
            near = [other for other in others if (first, other) not in apart]
            group = [first, *near[: self.rules.merge_limit - 1]]
            if any(self._differ(ports[first], ports[other]) for other in group[1:]):
                if not self.rules.retries_merge:
                    raise FormatError("NCCL fails: it cannot fuse an InfiniBand port with an Ethernet port")
                apart.update((first, other) for other in group[1:])
                continue
            groups.append([ports[index] for index in group])
            left = [index for index in left if index not in group]
        return groups

    def _differ(self, one: XmlNode, other: XmlNode) -> bool:
        """Whether the link layers of two ports are known to be different."""
        known = {self.layers.get(number(port.get("dev", "-1")), "") for port in (one, other)} - {""}
        return len(known) > 1


def _is_socket(net: XmlNode) -> bool:
    return number(net.get("guid", "0")) <= SOCKET_GUIDS


def _virtual(group: list[XmlNode], rules: Release, dev: int) -> XmlNode:
    """The virtual NIC of several ports: the attributes of the first, and the sum of their speeds."""
    first = group[0]
    names = [part.get("name") for part in group]
    attributes = {
        **first.attributes,
        "name": "+".join(names),
        "speed": str(sum(number(part.get("speed")) for part in group)),
    }
    if rules.merges == "topology":
        attributes["dev"] = str(dev)
    return structs.replace(first, attributes=attributes)
