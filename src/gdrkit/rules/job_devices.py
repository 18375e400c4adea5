"""Devices that a job or a container does not get as it needs them."""

from __future__ import annotations

from gdrkit.node import Node
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.rule import Layer, Outcome, rule, the_node
from gdrkit.rules.shown_by_messages import SHOWN_BY_MESSAGES


@rule(
    "gpu-shared-by-ranks",
    Layer.APPLICATION,
    per=the_node,
    reported_by=(
        DecidingCommand("env | grep -E 'CUDA_VISIBLE|LOCAL_RANK', in each rank", "one GPU in two ranks"),
    ),
    cost="NCCL stops before it uses the network.",
    references=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/usage/communicators.html",),
)
def gpu_shared_by_ranks(node: Node, _: str) -> Outcome:
    """Two ranks use the same GPU, which NCCL does not allow.

    Cost: The job stops with `ncclInvalidUsage`. GPUDirect RDMA has no part in it.

    How to tell: NCCL warns `Duplicate GPU detected : rank A and rank B both on CUDA device X`.

    What to do: Give each rank its own GPU: set CUDA_VISIBLE_DEVICES for each process, or call
    `torch.cuda.set_device(local_rank)`, which is cudaSetDevice(), before the first use of CUDA. Start no
    more ranks on a host than it has GPUs.

    Why: The launcher started more ranks than GPUs, each rank took the first GPU, or two containers of the
    job see the same GPU.

    Source: NVIDIA/nccl src/init.cc, initTransportsRank().
    """
    return SHOWN_BY_MESSAGES


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
