"""Packets that the peer did not acknowledge."""

from __future__ import annotations

from gdrkit.evidence import EvidenceMissing
from gdrkit.facts.nccl_log import logs, nccl_log
from gdrkit.node import Node
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.rule import Failed, Layer, NotApplicable, Outcome, Passed, Status, rule

RETRY_EXCEEDED = 12
"""IBV_WC_RETRY_EXC_ERR: rdma-core libibverbs/verbs.h, enum ibv_wc_status."""


@rule(
    "retry-exceeded",
    Layer.APPLICATION,
    per=logs,
    default_status=Status.WARNING,
    reported_by=(DecidingCommand("rdma statistic show", "counters of lost or repeated packets that grow"),),
    cost="The job fails. The direct path is not the cause.",
    references=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",),
)
def retry_exceeded(node: Node, path: str) -> Outcome:
    """The peer did not acknowledge packets within the timeout and the retries.

    Cost: The job fails.

    How to tell: The log shows a work completion with status 12 (IBV_WC_RETRY_EXC_ERR), on mlx5 with vendor
    error 129.

    What to do: Find the first error of all ranks, then check the port counters at both ends. A longer
    NCCL_IB_TIMEOUT only hides congestion. Errors with status 4 (vendor error 81) would point to ACS or an
    IOMMU instead.

    Why: Packets are lost in the fabric (no flow control on RoCE, a wrong GID or VLAN, a dirty cable). Or the
    peer died: then its own log has the first error. Status 5 in other ranks is a consequence.

    Source: rdma-core libibverbs/verbs.h; NCCL src/transport/net_ib.cc.
    """
    try:
        log = nccl_log(node, path)
    except EvidenceMissing:
        return NotApplicable("not an NCCL log")
    found = log.failure("completion", RETRY_EXCEEDED)
    if found is None:
        return Passed("no such completion")
    return Failed(
        seen=f"completion status {RETRY_EXCEEDED}, vendor error {found.record.vendor_error}",
        expected="no such completion",
        subject=node.describe_line(path, found.line),
    )
