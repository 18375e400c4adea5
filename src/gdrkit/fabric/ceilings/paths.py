"""The chain of limits of each path between a GPU and the network."""

from __future__ import annotations

from collections.abc import Iterable

from gdrkit.fabric.ceilings import memory, ports
from gdrkit.fabric.ceilings.chain import Chain, Limit, LimitName, PathName, chained
from gdrkit.fabric.ceilings.interval import Interval, between, least, total
from gdrkit.fabric.ceilings.links import PcieLink, both_ways
from gdrkit.fabric.ceilings.node_links import (
    Attachment,
    CommonPoint,
    LinkedGpu,
    NicFunction,
    NodeLinks,
    PairRoute,
    Wire,
    active_ports,
    in_use,
    own_wires,
)

PATHS: tuple[PathName, ...] = ("direct", "host-mapped", "staged", "socket")


def chain(machine: NodeLinks, route: PairRoute, path: PathName) -> Chain:
    """The limits of one path of a pair."""
    return {"direct": _direct, "host-mapped": _host_mapped, "staged": _staged, "socket": _socket}[path](
        machine, route
    )


def possible(route: PairRoute) -> tuple[PathName, ...]:
    """The paths that the hardware has: a GPU without memory of its own has none that a NIC could reach, and
    nothing that needs to be copied out of it."""
    if route.gpu.attachment is Attachment.INTEGRATED:
        return ("host-mapped", "socket")
    return PATHS


def network_chain(machine: NodeLinks, function: NicFunction) -> Chain:
    """What one RDMA device moves between host memory and the wire."""
    limits, unknown = _nic_side(machine, function, function.wires)
    return chained("direct", limits, unknown)


def _direct(machine: NodeLinks, route: PairRoute) -> Chain:
    """The NIC reads and writes GPU memory."""
    gpu = _gpu_side(machine, route.gpu, route.gpu_wires)
    nic = _nic_side(machine, route.function, route.nic_wires)
    limits, unknown = gpu[0] + nic[0], gpu[1] + nic[1]
    if route.common_point is not CommonPoint.SWITCH and limits and route.gpu.attachment is Attachment.PCIE:
        limits += (_through_cpu(route, limits),)
    return chained("direct", limits, unknown)


def _host_mapped(machine: NodeLinks, route: PairRoute) -> Chain:
    """The buffer lies in host memory, which the GPU uses in place."""
    gpu = _gpu_side(machine, route.gpu, route.gpu.wires)
    nic = _nic_side(machine, route.function, route.function.wires)
    return chained("host-mapped", gpu[0] + nic[0], gpu[1] + nic[1])


def _staged(machine: NodeLinks, route: PairRoute) -> Chain:
    """The GPU copies between its memory and the host's, the NIC between the host's and the wire. Both go on
    at once; what the copying program makes of it is the lower bound."""
    gpu, unknown = _gpu_side(machine, route.gpu, route.gpu.wires)
    if gpu:
        copy = least(limit.rate for limit in gpu)
        low = memory.STAGED_SHARE if route.gpu.attachment is Attachment.PCIE else 1.0
        said = "copy between GPU and host memory, by the GPU's copy engines"
        gpu += (Limit("host-copy", route.gpu.address, said, copy.scaled(low, 1.0), ()),)
    nic = _nic_side(machine, route.function, route.function.wires)
    return chained("staged", gpu + nic[0], unknown + nic[1])


def _socket(machine: NodeLinks, route: PairRoute) -> Chain:
    """As staged, and the kernel copies once more."""
    staged = _staged(machine, route)
    function = route.function
    if function.down:
        return chained("socket", staged.limits, staged.unknown)
    if function.port is None or function.port.link_layer != "Ethernet":
        return chained("socket", staged.limits, (*staged.unknown, "IP over this port"))
    high = ports.tcp_payload(function.port.rate_gbit_per_s, function.interface_mtu)
    rate = between(min(memory.SOCKET_GB_PER_S, high), high)
    tcp = Limit("tcp", function.name, "TCP over this port, if processors keep up", rate, ())
    kept = tuple(limit for limit in staged.limits if limit.name != "port")
    return chained("socket", (*kept, tcp), staged.unknown)


def _gpu_side(
    machine: NodeLinks, gpu: LinkedGpu, wires: tuple[Wire, ...]
) -> tuple[tuple[Limit, ...], tuple[str, ...]]:
    match gpu.attachment:
        case Attachment.C2C:
            return (Limit("gpu-c2c", gpu.address, "NVLink-C2C", memory.C2C, ()),), ()
        case Attachment.C2C_SHARED:
            said = "NVLink-C2C, shared by two GPUs"
            return (Limit("gpu-c2c", gpu.address, said, memory.C2C_OTHER, ()),), ()
        case Attachment.INTEGRATED:
            return (), ()
        case Attachment.PCIE:
            return _links(machine, gpu.address, "gpu-link", wires)


def _nic_side(
    machine: NodeLinks, function: NicFunction, wires: tuple[Wire, ...]
) -> tuple[tuple[Limit, ...], tuple[str, ...]]:
    limits, unknown = _links(machine, function.name, "nic-link", wires)
    if function.down:
        return (*limits, _dead((function,))), unknown
    if function.port is None:
        return limits, (*unknown, f"port of {function.name}")
    others = tuple(n for n in machine.on_port.get(function.port_key, ()) if n != function.name)
    port = Limit("port", function.name, str(function.port), ports.payload(function.port), others)
    return (*limits, port), unknown


def _dead(functions: tuple[NicFunction, ...]) -> Limit:
    """The ports of these are known to be down."""
    names = ", ".join(function.name for function in functions)
    states = ", ".join(dict.fromkeys(function.down for function in functions))
    return Limit("port", names, f"{states}, carries nothing", between(0.0, 0.0), ())


def _links(
    machine: NodeLinks, who: str, own: LimitName, wires: tuple[Wire, ...]
) -> tuple[tuple[Limit, ...], tuple[str, ...]]:
    """A device's own link, then those of the switches above it."""
    if not wires:
        return (), (f"PCIe link of {who}",)
    limits, unknown = [], []
    for index, wire in enumerate(wires):
        if wire.link is None:
            unknown.append(f"PCIe link of {who if index == 0 else wire.address}")
            continue
        others = tuple(name for name in machine.users.get(wire.address, ()) if name != who)
        name: LimitName = own if index == 0 else "switch-uplink"
        subject = who if index == 0 else wire.address
        limits.append(Limit(name, subject, describe_link(wire.link), both_ways(wire.link), others))
    return tuple(limits), tuple(unknown)


def describe_link(link: PcieLink) -> str:
    """A link in words, with what decides its overhead."""
    size = link.max_payload_bytes
    return f"PCIe {link}, " + (f"MaxPayload {size}" if size else "MaxPayload not known")


def _through_cpu(route: PairRoute, limits: Iterable[Limit]) -> Limit:
    """Peer traffic that turns in a processor: its links bound it from above, what was seen from below."""
    links = [limit.rate for limit in limits if limit.name != "port"]
    words = {
        CommonPoint.ROOT_COMPLEX: "peer traffic through one root complex",
        CommonPoint.SOCKETS: "peer traffic between two sockets",
        CommonPoint.UNKNOWN: "peer traffic: nobody can tell whether a switch joins them",
    }
    rate = least(links or [limit.rate for limit in limits]).scaled(memory.THROUGH_CPU_SHARE, 1.0)
    return Limit(
        "root-complex", f"{route.gpu.address} {route.function.name}", words[route.common_point], rate, ()
    )


# -- the node --------------------------------------------------------------------------------------


def card_chain(functions: tuple[NicFunction, ...]) -> Chain:
    """What one card moves in one direction: its links together, its ports in use together. What is down
    counts for nothing, and its link with it; a card of which all is down moves nothing."""
    alive = in_use(functions)
    dead = () if alive else functions
    functions = alive or functions
    limits: list[Limit] = []
    names = ", ".join(function.name for function in functions)
    wires, busy = own_wires(functions), active_ports(functions)
    unknown = [f"PCIe link of {name}" for name, wire in wires.items() if wire.link is None]
    links = [wire.link for wire in wires.values() if wire.link is not None]
    if links and not unknown:
        words = (
            describe_link(links[0])
            if len(links) == 1
            else f"{len(links)} links, each {describe_link(links[0])}"
        )
        limits.append(Limit("nic-link", names, words, total(both_ways(link) for link in links), ()))
    if not wires:
        unknown.append(f"PCIe link of {names}")
    if busy:
        words = str(next(iter(busy.values())))
        words = words if len(busy) == 1 else f"{len(busy)} ports, the first {words}"
        together = total(ports.payload(port) for port in busy.values())
        limits.append(Limit("port", names, words, together, ()))
    elif dead:
        limits.append(_dead(dead))
    else:
        unknown.append(f"port of {names}")
    return chained("direct", tuple(limits), tuple(unknown))


def gpus_together(machine: NodeLinks) -> Interval | None:
    """What all GPUs move over their own links at once. None where that is not known or nothing bounds it."""
    sides = [_gpu_side(machine, gpu, gpu.wires[:1]) for gpu in machine.gpus]
    if not sides or any(unknown or not limits for limits, unknown in sides):
        return None
    return total(least(limit.rate for limit in limits) for limits, _ in sides)


def node_total(machine: NodeLinks) -> Chain:
    """What the node moves over its network in one direction: all cards together, or all GPUs, if less."""
    cards = [(card, card_chain(functions)) for card, functions in machine.cards.items()]
    known = [found.rate for _, found in cards if found.rate is not None]
    limits = []
    if known:
        able = [interval for interval in known if interval.high_gb_per_s]
        words = "1 card" if len(able) == 1 else f"{len(able)} cards"
        limits.append(Limit("network", words, _counted(machine), total(known), ()))
    gpus = gpus_together(machine)
    if gpus is not None and known:
        words = "1 GPU" if len(machine.gpus) == 1 else f"{len(machine.gpus)} GPUs"
        limits.append(Limit("gpu-links", words, "the GPUs' own links together", gpus, ()))
    unknown = tuple(word for _, found in cards for word in found.unknown)
    return chained("direct", tuple(limits), unknown)


def _counted(machine: NodeLinks) -> str:
    """What goes into the sum of all cards, and what does not."""
    down = [function.name for function in machine.functions if function.down]
    words = "cards and ports, each counted once"
    return f"{words}; down and not counted: {', '.join(down)}" if down else words
