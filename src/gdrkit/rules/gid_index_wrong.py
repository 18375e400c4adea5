"""GID indexes that do not fit the ports."""

from __future__ import annotations

from gdrkit.consumers.nccl import NCCL
from gdrkit.facts.environment import integer, nccl_sources
from gdrkit.facts.nccl_log import FOLDER, nccl_log
from gdrkit.facts.rdma import gids, ports, rdma_devices
from gdrkit.messages.nccl_records import Failure
from gdrkit.node import Node, if_missing
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.job_settings import reach, settings_of
from gdrkit.rules.rule import Failed, Layer, NotApplicable, Outcome, Passed, rule

EINVAL = 22
GUIDE = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"


@rule(
    "gid-index-wrong",
    Layer.APPLICATION,
    per=nccl_sources,
    takes=NCCL.own("dmabuf", "peermem"),
    reported_by=(DecidingCommand("show_gids", "no RoCE v2 entry at NCCL_IB_GID_INDEX"),),
    cost="Connections over this port fail or go out with a GID that nobody routes.",
    references=(f"{GUIDE}#nccl-ib-gid-index",),
)
def gid_index_wrong(node: Node, source: str) -> Outcome:
    """The GID index that NCCL is told does not fit the ports.

    Cost: The job fails at its first connection.

    How to tell: NCCL_IB_GID_INDEX names a slot that is empty on a RoCE port of this node; or a log says
    `Call to ibv_modify_qp failed with 22 Invalid argument`.

    What to do: Unset it, or -1: from 2.21 on NCCL chooses by itself. `show_gids`, or
    /sys/class/infiniband/*/ports/*/gid_attrs/types, tells which slot is RoCE v2.

    Why: An index that was right on another machine. Slots depend on the addresses of the network card, and
    change when one is added. 3 is common for RoCE v2 with IPv4, and no rule.

    Source: NCCL src/transport/net_ib/connect.cc, ncclIbGetGidIndex(); Linux
    Documentation/ABI/stable/sysfs-class-infiniband, gid_attrs.
    """
    found = settings_of(node, source)
    setting = found.get("NCCL_IB_GID_INDEX")
    if source.startswith(FOLDER) and (failed := _modify_qp(node, source)):
        return failed
    index = integer(setting.value) if setting else None
    if setting is None or index is None or index < 0:
        return NotApplicable(f"{source} names no index")
    empty = _empty_on(node, index)
    if not empty:
        return Passed(f"slot {index} is in use on every active RoCE port")
    return Failed(
        seen=f"NCCL_IB_GID_INDEX={index}, empty on {empty}",
        expected="a slot in use, or -1",
        subject=node.describe_line(setting.source, setting.line),
        takes=reach(found),
    )


def _modify_qp(node: Node, source: str) -> Failed | None:
    """NCCL's own word that a queue pair would not take the GID."""
    log = if_missing(None, nccl_log, node, source)
    for found in log.all(Failure) if log else ():
        failure = found.record
        if failure.call == "ibv_modify_qp" and failure.number == EINVAL:
            return Failed(
                seen=f"ibv_modify_qp failed with 22: {failure.text}",
                expected="a GID index in use",
                subject=node.describe_line(source, found.line),
            )
    return None


def _empty_on(node: Node, index: int) -> str:
    """The first active RoCE port without a GID in that slot; "" if there is none."""
    for device in rdma_devices(node):
        for port in ports(node, device.name):
            if port.link_layer != "Ethernet" or port.state != "ACTIVE":
                continue
            if index not in {slot for slot, _, _ in gids(node, device.name, port.number)}:
                return f"{device.name} port {port.number}"
    return ""
