"""A device file for management that an RDMA device lacks."""

from __future__ import annotations

from gdrkit.node import Node
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.rule import SHOWN_BY_MESSAGES, Layer, Outcome, rule, the_node


@rule(
    "umad-device-missing",
    Layer.RDMA,
    per=the_node,
    reported_by=(DecidingCommand("ls /dev/infiniband", "no umad<n>, or no issm<n>"),),
    cost="The device plugin hands out no RDMA device; tools for the subnet do not run.",
    references=("https://github.com/Mellanox/k8s-rdma-shared-dev-plugin",),
)
def umad_device_missing(node: Node, _: str) -> Outcome:
    """The RDMA device has no device file for management (umad or issm).

    Cost: The shared device plugin of Kubernetes skips the device, so that no pod gets it. ibstat, perfquery
    and opensm cannot open the port. Verbs, and GPUDirect RDMA, do not need these files.

    How to tell: The plugin prints `missing RDMA device spec for device ADDRESS, RDMA device "issm" not
    found`, or `"umad"`. /dev/infiniband has uverbs<n>, but neither umad<n> nor issm<n>.

    What to do: Load ib_umad on the host (`sudo modprobe ib_umad`), which makes both. If the NIC is not of
    NVIDIA, or its ports are Ethernet on a newer kernel, there is no issm: use a newer release of the plugin,
    or select only devices that have all files. For tools in a container, add
    `--device=/dev/infiniband/umad0`.

    Why: The module ib_umad makes these files, one pair for each port that handles management datagrams.
    Nothing but tools needs it, so it is not always loaded.

    Source: Linux drivers/infiniband/core/user_mad.c; k8s-rdma-shared-dev-plugin rdma_device_spec.go.
    """
    return SHOWN_BY_MESSAGES
