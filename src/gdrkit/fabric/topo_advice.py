"""What to do if NCCL would use GPUDirect RDMA on no path of a node.

Each setting is tried in the model of NCCL, and named only if it helps there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from gdrkit.fabric.nccl.view import NO_PROGRAM, DirectionView, NcclView
from gdrkit.fabric.topology.graph import Net, Topology, TopologySource
from gdrkit.fabric.topology.nccl_defaults import ASSUMED_GPUS
from gdrkit.fabric.topology.products import CONSUMER, INTEGRATED

LEVELS = ("PHB", "SYS")
"""The levels beyond the default, nearest first."""
MOST_PORTS = 2
"""Of one ConnectX or BlueField card."""
NO_RDMA = "the NIC's side does not support it"
KIND = "if these GPUs can do it, as data-centre GPUs can, and a GeForce or a GB10 never can: "
TREE = (
    "in a virtual machine, whose PCIe tree is often not that of the host: give NCCL the host's tree with "
    "NCCL_TOPO_FILE; gdr topo --write-nccl-xml writes it on the host"
)
See = Callable[[Mapping[str, str]], NcclView]


def advice(
    topology: Topology,
    now: NcclView,
    environment: Mapping[str, str],
    see: See,
    *,
    is_guest: bool | None = None,
) -> tuple[str, ...]:
    """Sentences for a node; `see` is NCCL's view of it with other variables. Empty if some path is direct
    and NCCL keeps cards apart."""
    return (*_cards_as_one(topology), *_nothing_direct(topology, now, environment, see, is_guest))


def _cards_as_one(topology: Topology) -> Iterator[str]:
    """NCCL takes all functions of a bus for one card, which in a virtual machine they need not be:
    net_ib/init.cc, ncclIbGetPciPath(). No card has more than two ports, or several GUIDs."""
    cards: dict[str, list[Net]] = {}
    for net in topology.nets:
        if net.address and net.device and net.guid.strip("0x:"):
            bus = net.address[:7] if topology.shows_ports else net.address
            cards.setdefault(bus, []).append(net)
    found = [
        len(nets)
        for nets in cards.values()
        if not any(net.is_virtual for net in nets)
        and (len(nets) > MOST_PORTS or len({net.guid for net in nets}) > 1)
    ]
    if found:
        yield (
            f"set NCCL_IB_MERGE_VFS=0: NCCL takes {max(found)} ports for one card, since the machine shows "
            "them on one bus, as virtual machines do"
        )


def _nothing_direct(
    topology: Topology, now: NcclView, environment: Mapping[str, str], see: See, is_guest: bool | None
) -> Iterator[str]:
    views = _views(now)
    if not views or any(view.direct for view in views):
        return
    reasons = {view.because for view in views}
    if lasting := sorted(reasons.intersection((CONSUMER.sentence, INTEGRATED.sentence))):
        yield f"no setting changes this: {lasting[0]}; buffers go through host memory"
        reasons.difference_update(lasting)
        if not reasons:
            return
    if reasons == {NO_RDMA}:
        yield (
            "an Ethernet interface without RDMA never does it; for an RDMA device, gdr doctor on the "
            "machine shows what is missing"
        )
        return
    if any(reason.startswith(NO_PROGRAM) for reason in reasons):
        yield "no setting changes this: gdr doctor says what a device that no program can use needs"
        return
    if all(reason.startswith("the port is ") for reason in reasons):
        yield "bring a port up: NCCL uses active ports only"
        return
    if len(reasons) == 1 and (name := next(iter(reasons))).startswith("NCCL_"):
        yield f"unset {name.partition('=')[0]}: with it NCCL does not use these NICs"
        return
    by_hand = topology.origin is TopologySource.NCCL_XML and all(gpu.rank is None for gpu in topology.gpus)
    tree = () if by_hand or is_guest is False else (TREE,)
    levels = tuple(_levels(topology, environment, see, unsure=ASSUMED_GPUS in now.assumed))
    if levels:
        yield from (*tree, *levels) if is_guest else (*levels, *tree)


def _levels(topology: Topology, environment: Mapping[str, str], see: See, *, unsure: bool) -> Iterator[str]:
    """The nearest level that makes any pair direct; `unsure` whether the GPUs can do it at all."""
    for level in LEVELS:
        tried = _views(see({**environment, "NCCL_NET_GDR_LEVEL": level}))
        count = sum(view.direct for view in tried)
        if count:
            yield (
                f"{KIND if unsure else ''}set NCCL_NET_GDR_LEVEL={level}: then {count} of {len(tried)} "
                "directions are direct, through the processor, which on some machines is slower: "
                "gdr bench compares"
            )
            return


def _views(view: NcclView) -> list[DirectionView]:
    return [one for pair in view.pairs.values() for one in (pair.send, pair.receive)]


def all_refused(views: Iterable[DirectionView | None]) -> bool:
    """Whether NCCL's answer is known of some direction, and all of those are refused."""
    known = [view.direct for view in views if view is not None]
    return bool(known) and not any(known)
