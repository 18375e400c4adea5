"""Peers whose address a NIC does not reach: another rail, another subnet, another cable."""

from __future__ import annotations

from errno import EHOSTUNREACH, ENETUNREACH, ETIMEDOUT

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.facts.nccl_log import logs, nccl_log
from gdrkit.node import Node
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.rule import Failed, Layer, NotApplicable, Outcome, Passed, Status, rule

UNREACHED = (ETIMEDOUT, ENETUNREACH, EHOSTUNREACH)
"""Why an address does not resolve: Linux drivers/infiniband/core/addr.c."""
GUIDE = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"


@rule(
    "rail-unreachable",
    Layer.APPLICATION,
    per=logs,
    default_status=Status.WARNING,
    reported_by=(DecidingCommand("ping", "no answer from the peer over the interface of this NIC"),),
    cost="The job stops after about a minute of retries. The direct path is not the cause.",
    references=(f"{GUIDE}#nccl-cross-nic", f"{GUIDE}#nccl-ib-hca"),
)
def rail_unreachable(node: Node, path: str) -> Outcome:
    """A NIC does not reach the address of the peer's NIC.

    Cost: The job stops at its first connection. NCCL 2.24.3 and newer retry for about a minute before, so
    that the start seems to hang.

    How to tell: The log says `Call to ibv_modify_qp failed with 110 Connection timed out`, from INIT to RTR,
    with both GIDs: addresses of two subnets. `ping -I INTERFACE ADDRESS` from this NIC's interface to the
    peer's address gets no answer. Without both GIDs, or with one that begins with fe80, the GID index may be
    wrong instead: see gid-index-wrong. If NCCL says `retrying` and then goes on, nothing failed.

    What to do: Compare the subnets of both GIDs.

    - Rails without a route between them: `NCCL_CROSS_NIC=0` keeps each channel on one rail. List the NICs
      in the same order on every node (`NCCL_IB_HCA`); a NIC in the middle of the list that only one node has
      moves all after it to another rail.
    - Two DGX Sparks: one cable is two devices (`rocep1s0f0` and `roceP2p1s0f0`), each with a subnet of its
      own, and both belong into `NCCL_IB_HCA`. Give both ends of a cable addresses of one subnet.
    - Cables that connect port 0 with port 1, as in a ring of three nodes: `NCCL_IB_SUBNET_AWARE_ROUTING=1`
      (NCCL 2.30.7 and newer) chooses a port in the peer's subnet; with it set `NCCL_IB_MERGE_NICS=0`.
    - Bootstrap is another connection: `NCCL_SOCKET_IFNAME` names the one interface over which all nodes
      reach each other, on a DGX Spark `enP7s7`.

    `gdr config nccl-env` writes these settings for a node, each with its reason.

    Why: NCCL connects NICs by their number. Where rails or cables are networks of their own, a NIC only
    reaches the NIC on the same rail, and the kernel cannot resolve the other address.

    Source: NCCL src/misc/ibvwrap.cc, wrap_ibv_modify_qp(); src/graph/search.cc, NCCL_CROSS_NIC;
    github.com/NVIDIA/nccl/issues/2013 and 769; github.com/NVIDIA/dgx-spark-playbooks.
    """
    try:
        log = nccl_log(node, path)
    except EvidenceMissing:
        return NotApplicable("not an NCCL log")
    found = next(filter(None, (log.failure("ibv_modify_qp", number) for number in UNREACHED)), None)
    if found is None:
        return Passed("no such failure")
    if not found.record.routable:
        raise EvidenceMissing(Missing("the GIDs of both ends", MissingReason.UNDECIDED, "show_gids"))
    on = f" on {found.record.device}" if found.record.device else ""
    return Failed(
        seen=f"ibv_modify_qp failed with {found.record.number}{on}: {found.record.text}",
        expected="the peer's address resolves from this NIC",
        subject=node.describe_line(path, found.line),
    )
