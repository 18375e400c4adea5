"""Settings and builds with which several programs choose another transport than RDMA with GPU memory."""

from __future__ import annotations

from gdrkit.evidence import Confidence
from gdrkit.facts.wheels import certain_of, torch_copies
from gdrkit.formats.versions import numbers
from gdrkit.node import Node
from gdrkit.programs.environment import process_sources
from gdrkit.programs.job_settings import settings_of, taken_by
from gdrkit.programs.mooncake.consumer import MOONCAKE
from gdrkit.programs.nixl.consumer import NIXL
from gdrkit.rules.capabilities import DIRECT
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.rule import (
    SHOWN_BY_MESSAGES,
    Failed,
    Layer,
    NotApplicable,
    Outcome,
    rule,
    the_node,
)

_MOONCAKE = "https://github.com/kvcache-ai/Mooncake"


@rule(
    "rdma-transport-not-chosen",
    Layer.APPLICATION,
    per=the_node,
    reported_by=(DecidingCommand("ibv_devices", "a device, in the container of the job"),),
    cost="Data goes over TCP or through host memory.",
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


FLAGGED_SINCE = (2, 8)
"""The first release of PyTorch that creates such memory for RDMA."""


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
