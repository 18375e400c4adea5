"""Settings and builds that make a program choose another transport than RDMA with GPU memory."""

from __future__ import annotations

from gdrkit.consumers.consumer import DIRECT
from gdrkit.consumers.mooncake import MOONCAKE
from gdrkit.consumers.nixl import NIXL
from gdrkit.consumers.ucx import UCX, leaves_out_cuda
from gdrkit.evidence import Confidence
from gdrkit.facts.environment import UCX_CONF, process_sources
from gdrkit.facts.wheels import certain_of, torch_copies
from gdrkit.formats.versions import numbers
from gdrkit.node import Node
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.job_settings import settings_of, taken_by
from gdrkit.rules.rule import Failed, Layer, NotApplicable, Outcome, Passed, rule, the_node
from gdrkit.rules.shown_by_messages import SHOWN_BY_MESSAGES

_UCX = "https://github.com/openucx/ucx"
_MOONCAKE = "https://github.com/kvcache-ai/Mooncake"
_OF_UCX = (*UCX.own(*DIRECT), *NIXL.own(*DIRECT))
_COST = "Data goes over TCP or through host memory."


@rule(
    "ucx-lacks-cuda",
    Layer.LIBRARY,
    per=the_node,
    reported_by=(DecidingCommand("ucx_info -d | grep -i cuda", "nothing"),),
    cost="GPU memory is taken for host memory: registration fails, or the program crashes.",
    references=(_UCX,),
)
def ucx_lacks_cuda(node: Node, _: str) -> Outcome:
    """This UCX was built without CUDA, or does not find its CUDA module.

    Cost: UCX takes a GPU's address for host memory.

    How to tell: `ucx_info -d | grep cuda` prints nothing in the job's environment, or `ldd` of
    libuct_cuda.so shows a missing library.

    What to do: Use a UCX with CUDA, such as that of HPC-X or of NIXL's own package, and make libcuda.so.1
    visible. UCX_MODULE_DIR must point to the modules of the same UCX.

    Why: UCX loads its CUDA support as a module, and goes on without it.

    Source: openucx/ucx src/ucm/cuda, src/uct/cuda; ai-dynamo/nixl src/plugins/ucx/ucx_utils.cpp.
    """
    return SHOWN_BY_MESSAGES


@rule(
    "ucx-transport-excluded",
    Layer.APPLICATION,
    per=lambda node: (UCX_CONF, *process_sources(node)),
    takes=lambda source: () if source == UCX_CONF else _OF_UCX,  # a file that is rarely present
    reported_by=(DecidingCommand("env | grep UCX_, in the job", "UCX_TLS or UCX_NET_DEVICES"),),
    cost=_COST,
    references=(_UCX,),
)
def ucx_transport_excluded(node: Node, source: str) -> Outcome:
    """UCX_TLS or UCX_NET_DEVICES leaves out a transport that GPU memory needs.

    Cost: UCX finds no usable transport, uses TCP, or takes a GPU's address for host memory and fails. This
    holds for NIXL, too.

    How to tell: The job's environment has UCX_TLS without `cuda` or without `rc`, or UCX_NET_DEVICES with a
    device that does not exist there.

    What to do: Remove the variables, or name them completely, as in `UCX_TLS=rc,cuda` with `cuda_ipc` and
    `cuda_copy` included by `cuda`.

    Why: UCX_TLS is a list of what is allowed; what it does not name is off.

    Source: openucx/ucx src/ucp/core/ucp_context.c, at the tags from 1.12 to 1.22.
    """
    found = settings_of(node, source)
    setting = found.get("UCX_TLS")
    if setting is None:
        return NotApplicable(f"{source} does not set UCX_TLS")
    if not leaves_out_cuda(setting.value):
        return Passed(f"UCX_TLS={setting.value} has cuda_copy")
    return Failed(
        seen=f"UCX_TLS={setting.value}, without cuda_copy",
        expected="unset, or a list with cuda",
        subject=node.describe_line(setting.source, setting.line),
        takes=taken_by(found, _OF_UCX),
    )


@rule(
    "rdma-transport-not-chosen",
    Layer.APPLICATION,
    per=the_node,
    reported_by=(DecidingCommand("ibv_devices", "a device, in the container of the job"),),
    cost=_COST,
    references=(_MOONCAKE,),
)
def rdma_transport_not_chosen(node: Node, _: str) -> Outcome:
    """The program chose another transport than the RDMA device that it has, or found none.

    Cost: KV caches and other data go over TCP.

    How to tell: Mooncake prints `Using TCP transport` or `MC_FORCE_TCP is set`; NIXL advises another backend
    for EFA. aws-ofi-nccl prints `Selected provider is tcp` or `sockets`, where EFA is `efa`; without that
    plugin NCCL prints `Using network Socket`.

    What to do: Remove MC_FORCE_TCP, give the container its devices, or choose the backend that the message
    names. For EFA, `fi_info -p efa` must list a device in the container: else install EFA's software there,
    request `vpc.amazonaws.com/efa`, and check the plugin's place in LD_LIBRARY_PATH.

    Why: The choice depends on settings, on the build, and on the devices that the container shows.

    Source: kvcache-ai/Mooncake mooncake-transfer-engine/src/transfer_engine_impl.cpp; ai-dynamo/nixl
    src/core/nixl_agent.cpp; aws/aws-ofi-nccl src/nccl_ofi_net.cpp.
    """
    return SHOWN_BY_MESSAGES


@rule(
    "torch-expandable-segments",
    Layer.APPLICATION,
    per=process_sources,
    takes=(*NIXL.own(*DIRECT), *MOONCAKE.own(*DIRECT)),
    reported_by=(DecidingCommand("env | grep ALLOC_CONF, in the job", "expandable_segments:True"),),
    cost="Memory of PyTorch cannot be registered, or is copied through host memory.",
    references=("https://github.com/pytorch/pytorch/pull/153261",),
)
def torch_expandable_segments(node: Node, source: str) -> Outcome:
    """PyTorch's expandable segments are memory that older versions do not create for RDMA.

    Cost: NIXL and Mooncake cannot register such memory (EFAULT), or UCX moves the data over TCP without an
    error.

    How to tell: PYTORCH_CUDA_ALLOC_CONF or PYTORCH_ALLOC_CONF has `expandable_segments:True`, and the same
    job works without it.

    What to do: Remove the setting, or use PyTorch 2.8 or newer, which sets gpuDirectRDMACapable.

    Why: Such a segment is mapped from several pieces of cuMemCreate. A range over several pieces is not one
    dma-buf either, with any version.

    Source: pytorch/pytorch pull 153261, merged in May 2025, after 2.7; ai-dynamo/nixl issue 1754;
    kvcache-ai/Mooncake pull 3538.
    """
    found = settings_of(node, source)
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        setting = found.get(name)
        if setting is not None and "expandable_segments:true" in setting.value.lower().replace(" ", ""):
            break
    else:
        return NotApplicable(f"{source} does not set it")
    copies = torch_copies(node)
    old = certain_of(copies, tuple(copy for copy in copies if numbers(copy.version) < FLAGGED_SINCE))
    copy = next(iter(old), copies[0])
    node.cite(copy.source, text=f"PyTorch {copy.version}", confidence=Confidence.LIKELY)
    return Failed(
        seen=f"{name}={setting.value}, PyTorch {copy.version}",
        expected="no expandable segments" if not old else "PyTorch 2.8 or newer, or no expandable segments",
        subject=node.describe_line(setting.source, setting.line),
        takes=taken_by(found) if len(old) == len(copies) else (),
    )


FLAGGED_SINCE = (2, 8)
"""The first release of PyTorch that creates such memory for RDMA."""


@rule(
    "gdr-disabled-by-env",
    Layer.APPLICATION,
    per=the_node,
    reported_by=(
        DecidingCommand("env | grep -E 'FI_|disable_gpu_direct', in the job", "the setting that is named"),
    ),
    cost="GPU memory is copied through host memory.",
    references=("https://github.com/ofiwg/libfabric/blob/main/man/fi_efa.7.md",),
)
def gdr_disabled_by_env(node: Node, _: str) -> Outcome:
    """A setting of libfabric or Mooncake turns the direct path off.

    Cost: Data is copied through host memory, or GPU memory is refused.

    How to tell: The message names the setting, such as FI_EFA_USE_DEVICE_RDMA=0, FI_HMEM_DISABLE_P2P=1 or
    disable_gpu_direct_rdma.

    What to do: Remove the setting. libfabric calls the second one FI_HMEM_P2P_DISABLED in its message.

    Why: Somebody set it, often in an image or a job script.

    Source: ofiwg/libfabric prov/efa/src/efa_prov_info.c, efa_user_info.c; kvcache-ai/Mooncake tent.
    """
    return SHOWN_BY_MESSAGES
