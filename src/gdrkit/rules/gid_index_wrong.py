"""GID indexes that do not fit the ports."""

from __future__ import annotations

from errno import EINVAL

from gdrkit.consumers.consumer import DIRECT
from gdrkit.consumers.nccl import NCCL
from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.facts.environment import integer, nccl_sources
from gdrkit.facts.nccl_log import FOLDER, nccl_log
from gdrkit.facts.rdma import gids, ports, rdma_devices
from gdrkit.node import Node, if_missing
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.job_settings import settings_of, taken_by
from gdrkit.rules.rule import Failed, Layer, NotApplicable, Outcome, Passed, rule

GUIDE = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"


@rule(
    "gid-index-wrong",
    Layer.APPLICATION,
    per=nccl_sources,
    takes=NCCL.own(*DIRECT),
    reported_by=(DecidingCommand("show_gids", "no RoCE v2 entry at the index in NCCL_IB_GID_INDEX"),),
    cost="Connections over this port fail, or use a GID that is not routed.",
    references=(f"{GUIDE}#nccl-ib-gid-index",),
)
def gid_index_wrong(node: Node, source: str) -> Outcome:
    """The GID index that is set does not fit the ports.

    Cost: The job fails at its first connection.

    How to tell: `show_gids` lists no GID at the index in NCCL_IB_GID_INDEX for an active RoCE port of this
    node. `Call to ibv_modify_qp failed with 22 Invalid argument` in a log points to it, without proof:
    an MTU, a VLAN or a link layer that differs from the peer's fails so, too.

    What to do: Unset the variable or set it to -1: from 2.21 on, NCCL chooses the index itself. For older
    versions, find an index of type RoCE v2 with `show_gids`, or in
    /sys/class/infiniband/*/ports/*/gid_attrs/types. For `ib_write_bw`, `-x INDEX` sets it.

    Why: The index was right on another machine. Indexes depend on the addresses of the network card, and
    change when one is added. 3 is common for RoCE v2 with IPv4, but not guaranteed.

    Source: NCCL src/transport/net_ib/connect.cc, ncclIbGetGidIndex(); Linux
    Documentation/ABI/stable/sysfs-class-infiniband, gid_attrs.
    """
    found = settings_of(node, source)
    setting = found.get("NCCL_IB_GID_INDEX")
    index = integer(setting.value) if setting else None
    chosen = setting is not None and index is not None and index >= 0
    empty = _empty_on(node, index) if chosen and index is not None else ""
    if not empty and source.startswith(FOLDER) and _is_refused(node, source):
        raise EvidenceMissing(Missing("the GIDs of both ends", MissingReason.UNDECIDED, "show_gids"))
    if setting is None or index is None or not chosen:
        return NotApplicable(f"{source} sets no index")
    if not empty:
        return Passed(f"index {index} is in use on every active RoCE port")
    return Failed(
        seen=f"NCCL_IB_GID_INDEX={index}, empty on {empty}",
        expected="an index in use, or -1",
        subject=node.describe_line(setting.source, setting.line),
        takes=taken_by(found),
    )


def _is_refused(node: Node, source: str) -> bool:
    """Whether NCCL logged that a queue pair was refused, for which a wrong GID is one of the causes."""
    log = if_missing(None, nccl_log, node, source)
    return log is not None and log.failure("ibv_modify_qp", EINVAL) is not None


def _empty_on(node: Node, index: int) -> str:
    """The first active RoCE port without a GID at that index; "" if every one has a GID there."""
    for device in rdma_devices(node):
        for port in ports(node, device.name):
            if port.link_layer != "Ethernet" or port.state != "ACTIVE":
                continue
            if index not in {used for used, _, _ in gids(node, device.name, port.number)}:
                return f"{device.name} port {port.number}"
    return ""
