"""Amazon's EFA: its driver, libfabric, and the settings of both."""

from __future__ import annotations

from gdrkit.node import Node
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.rule import Layer, Outcome, rule, the_node
from gdrkit.rules.shown_by_messages import SHOWN_BY_MESSAGES

_EFA = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start-nccl.html"
_WARNINGS = "FI_LOG_LEVEL=warn, set for the job"
_VERSIONS = "fi_info --version"
_COST = "GPU memory is copied through host memory, or the program stops."


@rule(
    "efa-p2p-unavailable",
    Layer.RDMA,
    per=the_node,
    reported_by=(DecidingCommand(_WARNINGS, "Failed to register CUDA buffer with the EFA device"),),
    cost=_COST,
    references=(_EFA,),
)
def efa_p2p_unavailable(node: Node, _: str) -> Outcome:
    """libfabric tried to register GPU memory with the EFA device and failed.

    Cost: NCCL and others copy through host memory. On instances that must have GPUDirect RDMA, the plugin
    aws-ofi-nccl stops.

    How to tell: With FI_LOG_LEVEL=warn libfabric prints the error of its trial. The file device/p2p of the
    device in /sys/class/infiniband is empty.

    What to do: Install the newest EFA installer, which has the module efa and libfabric, and the open kernel
    modules of NVIDIA. Remove settings that turn peer-to-peer off.

    Why: libfabric registers two pages of GPU memory when it starts, as a dma-buf and by address. The
    result holds for the whole run.

    Source: ofiwg/libfabric prov/efa/src/efa_hmem.c; amzn/amzn-drivers kernel/linux/efa.
    """
    return SHOWN_BY_MESSAGES


@rule(
    "efa-driver-too-old",
    Layer.RDMA,
    per=the_node,
    reported_by=(DecidingCommand("modinfo -F version efa", "a version before 2.17.3"),),
    cost=_COST,
    references=(_EFA,),
)
def efa_driver_too_old(node: Node, _: str) -> Outcome:
    """The EFA kernel driver is too old to register this GPU memory.

    Cost: GPU memory is copied through host memory, or the job stops.

    How to tell: `modinfo -F version efa` is below 2.17.3 with NVIDIA's driver 580 or newer, or empty: then
    it is the driver of the kernel itself, which has no path besides dma-buf.

    What to do: Install the newest EFA installer and reboot.

    Why: The driver learned dma-buf in 1.16, and the newer form of NVIDIA's peer-to-peer calls in 2.17.3.

    Source: amzn/amzn-drivers kernel/linux/efa/RELEASENOTES.md.
    """
    return SHOWN_BY_MESSAGES


@rule(
    "efa-peermem-proprietary-driver",
    Layer.DRIVER,
    per=the_node,
    reported_by=(DecidingCommand("modinfo -F license nvidia", "NVIDIA: the proprietary kernel modules"),),
    cost="The module efa_nv_peermem does not load; efa finds the proprietary driver without it.",
    references=("https://github.com/amzn/amzn-drivers/tree/master/kernel/linux/efa_nv_peermem",),
)
def efa_peermem_proprietary_driver(node: Node, _: str) -> Outcome:
    """efa_nv_peermem does not load because NVIDIA's proprietary kernel modules run.

    Cost: None by itself: the module efa calls the proprietary driver directly.

    How to tell: The kernel log has `efa_nv_peermem: Nvidia proprietary is unsupported`, and modprobe prints
    `Invalid argument`.

    What to do: Nothing, or install the open kernel modules.

    Why: efa_nv_peermem checks which flavour of NVIDIA's driver runs, and refuses the proprietary one.

    Source: amzn/amzn-drivers kernel/linux/efa_nv_peermem/src/efa_nv_peermem_main.c.
    """
    return SHOWN_BY_MESSAGES


@rule(
    "efa-gdr-unsupported-instance",
    Layer.HARDWARE,
    per=the_node,
    reported_by=(DecidingCommand("fi_info -p efa -t FI_EP_RDM", "no RDMA read"),),
    cost="GPU memory is copied through host memory.",
    references=(_EFA,),
)
def efa_gdr_unsupported_instance(node: Node, _: str) -> Outcome:
    """The EFA device of this instance has no RDMA, so it cannot access GPU memory.

    Cost: NCCL copies through host memory.

    How to tell: libfabric prints `the EFA device does not have RDMA support`; p3dn and g4dn are such
    instances.

    What to do: Use an instance with EFA of the second generation or newer, such as p4d or p5.

    Why: The first generation of EFA sends and receives only.

    Source: ofiwg/libfabric prov/efa/src/efa_user_info.c.
    """
    return SHOWN_BY_MESSAGES


@rule(
    "libfabric-too-old",
    Layer.LIBRARY,
    per=the_node,
    reported_by=(DecidingCommand(_VERSIONS, "a version before 1.22"),),
    cost=_COST,
    references=(_EFA,),
)
def libfabric_too_old(node: Node, _: str) -> Outcome:
    """The libfabric that the program loads is too old.

    Cost: The plugin aws-ofi-nccl stops, or does without dma-buf.

    How to tell: `fi_info --version` in the job's environment shows less than 1.20 (dma-buf) or 1.22 (EFA
    with aws-ofi-nccl from 1.13 on).

    What to do: Install the newest EFA installer in the image, and check LD_LIBRARY_PATH: /opt/amazon/efa/lib
    must come before other copies.

    Why: The plugin needs functions of newer releases to keep CUDA out of the transport.

    Source: aws/aws-ofi-nccl src/nccl_ofi_net.cpp, src/nccl_ofi_dmabuf.cpp, src/nccl_ofi_ofiutils.cpp.
    """
    return SHOWN_BY_MESSAGES


@rule(
    "ofi-lacks-hmem",
    Layer.LIBRARY,
    per=the_node,
    reported_by=(DecidingCommand(_WARNINGS, "EFA cannot support FI_HMEM"),),
    cost=_COST,
    references=(_EFA,),
)
def ofi_lacks_hmem(node: Node, _: str) -> Outcome:
    """This libfabric was built without CUDA, or finds no CUDA library.

    Cost: GPU memory is taken for host memory: registration fails, or data is copied.

    How to tell: libfabric prints that it was not compiled with FI_HMEM, or that no compatible libraries were
    found. `ldd libfabric.so.1` shows no libcuda or libcudart where it is linked to them.

    What to do: Use the libfabric of the EFA installer instead of the distribution's package, and make
    libcuda.so.1 visible in the container.

    Why: Distributions build libfabric without `--with-cuda`.

    Source: ofiwg/libfabric prov/efa/src/efa_user_info.c; ai-dynamo/nixl src/utils/libfabric.
    """
    return SHOWN_BY_MESSAGES


@rule(
    "ofi-dmabuf-off-by-default",
    Layer.APPLICATION,
    per=the_node,
    reported_by=(DecidingCommand("env | grep OFI_NCCL_DISABLE_DMABUF, in the job", "nothing, or 1"),),
    cost="The plugin registers GPU memory by address, which needs the driver's peer-to-peer calls.",
    references=("https://github.com/aws/aws-ofi-nccl/releases/tag/v1.14.0",),
)
def ofi_dmabuf_off_by_default(node: Node, _: str) -> Outcome:
    """aws-ofi-nccl does not use dma-buf because its setting says so.

    Cost: None where efa reaches NVIDIA's driver in the other way. Otherwise there is no direct path.

    How to tell: The plugin prints `explicitly disabled by user`, or `Support for DMA-BUF registrations:
    false`. Releases 1.14.x do so by default.

    What to do: Set OFI_NCCL_DISABLE_DMABUF=0, or use 1.15 or newer.

    Why: Release 1.14 turned dma-buf off by default, 1.15 on again.

    Source: aws/aws-ofi-nccl src/nccl_ofi_dmabuf.cpp.
    """
    return SHOWN_BY_MESSAGES
