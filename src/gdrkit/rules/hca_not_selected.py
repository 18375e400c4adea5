"""RDMA devices that a job does not use."""

from __future__ import annotations

from gdrkit.consumers.consumer import DIRECT
from gdrkit.consumers.nccl import NCCL
from gdrkit.facts.environment import Environment, Setting, selects
from gdrkit.facts.rdma import DISTANCES, RdmaDevice, distance, pairs, rdma_devices
from gdrkit.node import Node, fact, if_missing
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.job_settings import first_wrong, taken_by
from gdrkit.rules.rule import Failed, Layer, Outcome, Passed, rule


@rule(
    "hca-not-selected",
    Layer.APPLICATION,
    per=rdma_devices,
    takes=NCCL.own(*DIRECT),
    reported_by=(DecidingCommand("env | grep NCCL, in the job", "NCCL_IB_HCA without the device"),),
    cost="GPUs near this NIC use one that is farther away, or the traffic shares fewer NICs.",
    references=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-ib-hca",),
)
def hca_not_selected(node: Node, device: RdmaDevice) -> Outcome:
    """A setting such as NCCL_IB_HCA leaves out an RDMA device that is the nearest one to a GPU.

    Cost: The GPU's nearest NIC is idle.

    How to tell: The variable is set in /etc/nccl.conf or in the job (`env | grep NCCL_IB_HCA`), and does
    not name a device that `ibv_devinfo` lists and that `nvidia-smi topo -m` shows nearest to a GPU.

    What to do: Name every NIC that carries data, `NCCL_IB_HCA==mlx5_0,mlx5_1,...`, or unset it and let NCCL
    choose by distance. It is right to leave out NICs for storage or management: this page is only about
    those nearest to a GPU.

    Why: The list was written for another machine, or for fewer NICs. Names are prefixes unless the list
    starts with `=`: mlx5_1 also selects mlx5_10. On a DGX Spark one cable appears as two devices, and both
    must be named for the full rate.

    Source: NCCL src/transport/net_ib/init.cc, NCCL_IB_HCA, and src/misc/utils.cc, parseStringList().
    """

    def wrong(found: Environment, setting: Setting) -> Failed | None:
        if selects(setting.value, device.name) or not _is_nearest(node, device):
            return None
        return Failed(
            seen=f"NCCL_IB_HCA={setting.value} in {node.describe_line(setting.source, setting.line)}",
            expected=f"a list with {device.name}",
            subject=device.name,
            takes=taken_by(found),
        )

    return first_wrong(node, "NCCL_IB_HCA", wrong) or Passed("selected, or nearest to no GPU")


def _is_nearest(node: Node, device: RdmaDevice) -> bool:
    """Whether some GPU has no NIC nearer than this one. True also if distances are not known."""
    found = if_missing(frozenset(), nearest_devices, node)
    return not found or device.name in found


@fact
def nearest_devices(node: Node) -> frozenset[str]:
    """The devices than which some GPU has none nearer. Raises EvidenceMissing if a distance is not known."""
    far = {pair: DISTANCES.index(distance(node, pair)) for pair in pairs(node)}
    nearest: dict[str, int] = {}
    for pair, steps in far.items():
        nearest[pair.gpu] = min(steps, nearest.get(pair.gpu, steps))
    return frozenset(pair.device for pair, steps in far.items() if steps == nearest[pair.gpu])
