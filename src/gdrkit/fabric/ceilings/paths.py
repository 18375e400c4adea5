"""The chain of limits of each path between a GPU and the network."""

from __future__ import annotations

from collections.abc import Iterable

from gdrkit.fabric.ceilings import ports
from gdrkit.fabric.ceilings.chain import Chain, Limit, LimitName, PathName, chained
from gdrkit.fabric.ceilings.interval import Interval, between, least, total
from gdrkit.fabric.ceilings.links import PcieLink, both_ways
from gdrkit.fabric.ceilings.node_links import (
    Attachment,
    CommonPoint,
    LinkedGpu,
    NicFunction,
    NodeLinks,
    PairLinks,
    UpstreamLink,
    active_ports,
    in_use,
    own_links,
)

# -- the rate of NVLink-C2C, and the rates of copies through host memory, sockets and processors --

C2C = between(300.0, 450.0)
"""NVLink-C2C of a GH200, one direction. 900 GB/s in both: NVIDIA GH200 Grace Hopper Superchip datasheet.
Copies from host to GPU reach 346, those back about 15 % less: github.com/NVIDIA/nvbandwidth/issues/23."""

C2C_OTHER = between(150.0, 450.0)
"""The same where two GPUs share a Grace, as in GB200 and GB300: the share of one GPU is not public."""

STAGED_SHARE = 36.5 / 55.4
"""NCCL 2.28's rate through host memory relative to a plain copy: 36.5 GB/s of 55.4, measured on two H200s of
one machine (docs/measurements.md). A ring of large chunks reached 0.97 on the same machine."""

SOCKET_GB_PER_S = 3.5
"""What one NCCL socket transport reaches at least: 3.5 GB/s over loopback, same machine. Eight streams
reached 21.8 GB/s over a DGX Spark's port; NVIDIA daqiri docs/benchmarks/performance-dgx-spark.md."""

THROUGH_CPU_SHARE = 0.4
"""The lowest rate of peer traffic seen through a processor's root complex, as a share of the rate to host
memory: 39 of 97 Gbit/s on a POWER9, github.com/Mellanox/nv_peer_memory/issues/66; 11.0 of 23.0 GB/s across
two sockets, github.com/linux-rdma/perftest/issues/241. Older processors are known to be worse: NVIDIA
GPUDirect RDMA, "Supported Systems"."""


PATHS: tuple[PathName, ...] = ("direct", "host-mapped", "staged", "socket")


def chain(machine: NodeLinks, pair: PairLinks, path: PathName) -> Chain:
    """The limits of one path of a pair."""
    return {"direct": _direct, "host-mapped": _host_mapped, "staged": _staged, "socket": _socket}[path](
        machine, pair
    )


def possible(pair: PairLinks) -> tuple[PathName, ...]:
    """The paths that the hardware has. A GPU without its own memory has none that a NIC could reach, and
    nothing to copy out of it."""
    if pair.gpu.attachment is Attachment.INTEGRATED:
        return ("host-mapped", "socket")
    return PATHS


def network_chain(machine: NodeLinks, function: NicFunction) -> Chain:
    """The limits of one RDMA device between host memory and the network."""
    limits, unknown = _nic_side(machine, function, function.links)
    return chained("direct", limits, unknown)


def _direct(machine: NodeLinks, pair: PairLinks) -> Chain:
    """The NIC reads and writes GPU"""
    gpu = _gpu_side(machine, pair.gpu, pair.gpu_links)
    nic = _nic_side(machine, pair.function, pair.nic_links)
    limits, unknown = gpu[0] + nic[0], gpu[1] + nic[1]
    if pair.common_point is not CommonPoint.SWITCH and limits and pair.gpu.attachment is Attachment.PCIE:
        limits += (_through_cpu(pair, limits),)
    return chained("direct", limits, unknown)


def _host_mapped(machine: NodeLinks, pair: PairLinks) -> Chain:
    """The buffer is in host memory, which the GPU uses in place."""
    gpu = _gpu_side(machine, pair.gpu, pair.gpu.links)
    nic = _nic_side(machine, pair.function, pair.function.links)
    return chained("host-mapped", gpu[0] + nic[0], gpu[1] + nic[1])


def _staged(machine: NodeLinks, pair: PairLinks) -> Chain:
    """The GPU copies between its memory and host memory, the NIC between host memory and the network, both
    at once. The lower bound is the efficiency of the program that copies."""
    gpu, unknown = _gpu_side(machine, pair.gpu, pair.gpu.links)
    if gpu:
        copy = least(limit.rate for limit in gpu)
        low = STAGED_SHARE if pair.gpu.attachment is Attachment.PCIE else 1.0
        description = "copy between GPU and host memory, by the GPU's copy engines"
        gpu += (Limit("host-copy", pair.gpu.address, description, copy.scaled(low, 1.0), ()),)
    nic = _nic_side(machine, pair.function, pair.function.links)
    return chained("staged", gpu + nic[0], unknown + nic[1])


def _socket(machine: NodeLinks, pair: PairLinks) -> Chain:
    """As staged, with one more copy by the kernel."""
    staged = _staged(machine, pair)
    function = pair.function
    if function.down:
        return chained("socket", staged.limits, staged.unknown)
    if function.port is None or function.port.link_layer != "Ethernet":
        return chained("socket", staged.limits, (*staged.unknown, "IP over this port"))
    high = ports.tcp_payload(function.port.rate_gbit_per_s, function.interface_mtu)
    rate = between(min(SOCKET_GB_PER_S, high), high)
    tcp = Limit("tcp", function.name, "TCP over this port, if processors keep up", rate, ())
    kept = tuple(limit for limit in staged.limits if limit.name != "port")
    return chained("socket", (*kept, tcp), staged.unknown)


def _gpu_side(
    machine: NodeLinks, gpu: LinkedGpu, links: tuple[UpstreamLink, ...]
) -> tuple[tuple[Limit, ...], tuple[str, ...]]:
    match gpu.attachment:
        case Attachment.C2C:
            return (Limit("gpu-c2c", gpu.address, "NVLink-C2C", C2C, ()),), ()
        case Attachment.C2C_SHARED:
            description = "NVLink-C2C, shared by two GPUs"
            return (Limit("gpu-c2c", gpu.address, description, C2C_OTHER, ()),), ()
        case Attachment.INTEGRATED:
            return (), ()
        case Attachment.PCIE:
            return _links(machine, gpu.address, "gpu-link", links)


def _nic_side(
    machine: NodeLinks, function: NicFunction, links: tuple[UpstreamLink, ...]
) -> tuple[tuple[Limit, ...], tuple[str, ...]]:
    limits, unknown = _links(machine, function.name, "nic-link", links)
    if function.down:
        return (*limits, _dead((function,))), unknown
    if function.port is None:
        return limits, (*unknown, f"port of {function.name}")
    others = tuple(n for n in machine.on_port.get(function.port_key, ()) if n != function.name)
    port = Limit("port", function.name, str(function.port), ports.payload(function.port), others)
    return (*limits, port), unknown


def _dead(functions: tuple[NicFunction, ...]) -> Limit:
    """The limit of devices whose ports are known to be down."""
    names = ", ".join(function.name for function in functions)
    states = ", ".join(dict.fromkeys(function.down for function in functions))
    return Limit("port", names, f"{states}, carries nothing", between(0.0, 0.0), ())


def _links(
    machine: NodeLinks, user: str, own: LimitName, links: tuple[UpstreamLink, ...]
) -> tuple[tuple[Limit, ...], tuple[str, ...]]:
    """The limits of a device's own link, then those of the switches above it; and what is unknown."""
    if not links:
        return (), (f"PCIe link of {user}",)
    limits, unknown = [], []
    for index, link in enumerate(links):
        if link.pcie is None:
            unknown.append(f"PCIe link of {user if index == 0 else link.address}")
            continue
        others = tuple(name for name in machine.users.get(link.address, ()) if name != user)
        name: LimitName = own if index == 0 else "switch-uplink"
        subject = user if index == 0 else link.address
        limits.append(Limit(name, subject, describe_link(link.pcie), both_ways(link.pcie), others))
    return tuple(limits), tuple(unknown)


def describe_link(link: PcieLink) -> str:
    """A link in words, with MaxPayload, on which its overhead depends."""
    size = link.max_payload_bytes
    return f"PCIe {link}, " + (f"MaxPayload {size}" if size else "MaxPayload not known")


def _through_cpu(pair: PairLinks, limits: Iterable[Limit]) -> Limit:
    """The limit of peer traffic through a processor: between the lowest rate seen and that of the links."""
    links = [limit.rate for limit in limits if limit.name != "port"]
    words = {
        CommonPoint.ROOT_COMPLEX: "peer traffic through one root complex",
        CommonPoint.SOCKETS: "peer traffic between two sockets",
        CommonPoint.UNKNOWN: "peer traffic, not known whether through a switch",
    }
    rate = least(links or [limit.rate for limit in limits]).scaled(THROUGH_CPU_SHARE, 1.0)
    return Limit(
        "root-complex", f"{pair.gpu.address} {pair.function.name}", words[pair.common_point], rate, ()
    )


# -- the node --------------------------------------------------------------------------------------


def card_chain(functions: tuple[NicFunction, ...]) -> Chain:
    """The limits of one card in one direction: all its links, all its active ports. A device whose port is
    down does not count, nor does its link; a card with all ports down carries nothing."""
    alive = in_use(functions)
    dead = () if alive else functions
    functions = alive or functions
    limits: list[Limit] = []
    names = ", ".join(function.name for function in functions)
    links, busy = own_links(functions), active_ports(functions)
    unknown = [f"PCIe link of {name}" for name, link in links.items() if link.pcie is None]
    pcie = [link.pcie for link in links.values() if link.pcie is not None]
    if pcie and len(pcie) == len(links):
        words = describe_link(pcie[0])
        words = words if len(pcie) == 1 else f"{len(pcie)} links, each {words}"
        limits.append(Limit("nic-link", names, words, total(both_ways(link) for link in pcie), ()))
    if not links:
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
    """The rate of all GPUs over their own links at once. None if it is not known or not limited."""
    sides = [_gpu_side(machine, gpu, gpu.links[:1]) for gpu in machine.gpus]
    if not sides or any(unknown or not limits for limits, unknown in sides):
        return None
    return total(least(limit.rate for limit in limits) for limits, _ in sides)


def node_total(machine: NodeLinks) -> Chain:
    """The limits of the node's network in one direction: all cards together, and all GPUs together."""
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
    """What the sum of all cards counts, and which devices it leaves out."""
    down = [function.name for function in machine.functions if function.down]
    words = "cards and ports, each counted once"
    return f"{words}; down and not counted: {', '.join(down)}" if down else words
