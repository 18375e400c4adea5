"""Messages of UCX, and of NIXL, which uses UCX or libfabric.

UCX prints warnings and errors; what decides is mostly printed with UCX_LOG_LEVEL=debug. Read at the tags of
openucx/ucx from v1.6.0 to v1.22.0, those of ai-dynamo/nixl from 0.1 to v1.4.0, and both newest commits.
"""

from __future__ import annotations

import functools

from gdrkit.messages.errors import EFAULT
from gdrkit.messages.message import Meaning, MessageTemplate
from gdrkit.messages.verbs_failures import NO_DMABUF, NO_GPU, causes_of

_line = functools.partial(MessageTemplate, "ucx", open_end=True)
_IB = "openucx/ucx src/uct/ib/base/ib_md.c"
_CUDA = "openucx/ucx src/uct/cuda/cuda_copy/cuda_copy_md.c"
_GDR_COPY = "openucx/ucx src/uct/cuda/gdr_copy/gdr_copy_md.c"
_GDAKI = "openucx/ucx src/uct/ib/mlx5/gdaki/gdaki.c"
_UNAVAILABLE = "openucx/ucx src/ucp/core/ucp_context.c"
_BEFORE, _AFTER = r"(?:['`]\w{1,20}['`], ?){0,15}", r"(?:, ?['`]\w{1,20}['`]){0,15}"
"""The names before and after another one in a list of UCX. A post may have backquotes for quotes."""
_NO_EXPORT = ("driver-proprietary", *NO_GPU)
_FILES = ("peermem-not-loaded", "ucx-misses-peermem")
_REGISTER = ("torch-expandable-segments", "mkeys-exhausted")

_nixl = functools.partial(MessageTemplate, "nixl", open_end=True)
_NIXL_UCX = "ai-dynamo/nixl src/plugins/ucx/ucx_utils.cpp"
_NIXL_OFI = "ai-dynamo/nixl src/utils/libfabric/libfabric_rail.cpp"
_NO_HMEM = ("ofi-lacks-hmem", "efa-p2p-unavailable", "libfabric-too-old")

ROWS = (
    _line(
        "cuda GPUDirect RDMA is {state:not detected|disabled}",
        _FILES,
        source=f"{_IB}: `not detected by checking FILE` from 1.18.0 on; `disabled` before; also of rocm",
        decides=False,
        sample="mlx5_0: cuda GPUDirect RDMA is not detected by checking /sys/module/nvidia_peermem/version",
    ),
    _line(
        r"ibv_reg_dmabuf_mr(fd={fd:-?\d+}) returned {answer:.*}, dmabuf is not supported",
        NO_DMABUF,
        source=_IB,
        versions="1.14.0 and later",
        sample="mlx5_0: ibv_reg_dmabuf_mr(fd=-1) returned Function not implemented, dmabuf is not supported",
    ),
    _line(
        r"dmabuf is not supported on cuda device {gpu:\d+}", _NO_EXPORT, source=_CUDA,
        versions="1.14.0 and later",
    ),
    _line(
        r"cuMemGetHandleForAddressRange(address={pointer:0x[0-9a-f]+} length={size:\d+}"
        "{:.{0,60}?DMA_BUF_FD}) failed: ",
        ("memory-not-registrable", "torch-expandable-segments", "driver-proprietary", "gpu-integrated"),
        source=_CUDA,
        versions="1.15.0 and later",
        decides=False,
        sample="cuMemGetHandleForAddressRange(address=0x7f0000000000 length=65536 DMA_BUF_FD) failed: bad",
    ),
    _line("cuMemGetHandleForAddressRange not found", ("driver-mismatch",), source=_CUDA, decides=False),
    _line(
        "dmabuf support requested but not found", _NO_EXPORT, source=_CUDA, versions="1.15.0 and later"
    ),
    _line(
        "Couldn't enable GPUDirect RDMA. Please make sure",
        (*_FILES, "ucx-lacks-dmabuf", "driver-proprietary"),
        source=f"{_IB}: only with UCX_IB_GPU_DIRECT_RDMA=y",
    ),
    _line(
        "Please set max locked memory (ulimit -l) to 'unlimited'",
        ("memlock-limit",),
        source=f"openucx/ucx src/uct/ib/base/ib_log.c; {_IB} in 1.14 and before",
    ),
    _line(
        r"failed to register address {pointer:0x[0-9a-f]+} (cuda{kind:[\w-]*}) length {size:\d+}"
        r" dmabuf_fd {fd:\d+}",
        ("dmabuf-mr-refused", "topology-refused", "iommu-groups-differ", *_REGISTER, "memlock-limit"),
        source="openucx/ucx src/ucp/core/ucp_mm.c: the GPU's driver gave a dma-buf",
        versions="1.14.0 and later",
        decides=False,
        sample="failed to register address 0x7f0000000000 (cuda) length 16384 dmabuf_fd 51 on md[7]=a: x",
    ),
    _line(
        r"failed to register address {pointer:0x[0-9a-f]+} (cuda{kind:[\w-]*})"
        r"{:(?! length \d+ dmabuf_fd \d)}",
        (*causes_of("ibv_reg_mr", EFAULT), *_REGISTER, "dmabuf-mr-refused", "memlock-limit"),
        source="openucx/ucx src/ucp/core/ucp_mm.c; the mem_type bit instead of a name up to 1.12",
        sample="failed to register address 0x7f0000000000 (cuda) length 65536 on md[4]=mlx5_0: Input/output",
    ),
    _line(  # of a NIC: other domains, such as that of TCP, never register a GPU's memory
        r"md {nic:(?:mlx|roce|ib|bnxt|irdma|efa|rdmap)[\w.-]{0,40}} cannot register cuda{kind:[\w-]*}"
        " memory",
        (*_FILES, "ucx-lacks-dmabuf", "driver-proprietary", "dmabuf-disabled-by-env"),
        source="openucx/ucx src/ucp/proto/proto_common.c, ucp_proto_common_find_lanes()",
        versions="1.10 and later",
        decides=False,
        sample="lane[0] rc_mlx5/mlx5_0:1: md mlx5_0 cannot register cuda memory",
    ),
    _line(  # 1 << UCS_MEMORY_TYPE_CUDA, 1 << UCS_MEMORY_TYPE_CUDA_MANAGED; a name since 1.13
        r"failed to register address {pointer:0x[0-9a-f]+} mem_type bit 0x{bit:[24]} length {size:\d+}"
        " on md",
        (*causes_of("ibv_reg_mr", EFAULT), *_REGISTER, "memlock-limit"),
        source="openucx/ucx src/ucp/core/ucp_mm.c",
        versions="1.12 and before",
        decides=False,
        sample="failed to register address 0x7f724fa00000 mem_type bit 0x2 length 4096 on md[5]=mlx5_0: "
        "Input/output error (md reg_mem_types 0x3)",
    ),
    _line(  # transports of CUDA alone, of which this UCX has none
        r"no usable transports/devices (asked {what:(?:cuda|gdr_copy)\w*(?:,(?:cuda|gdr_copy)\w*)*} on",
        ("ucx-lacks-cuda", "ucx-transport-excluded"),
        source="openucx/ucx src/ucp/core/ucp_context.c",
        decides=False,
        leads=True,
        sample="no usable transports/devices (asked cuda on all devices)",
    ),
    _line(  # a list without a transport of the network
        r"no usable transports/devices (asked"
        r" {what:(?!(?:cuda\w*|gdr_copy\w*|,)+ on)(?![^)\s]*\b(?:rc|dc|ud|ib|srd|all|tcp))[^)\s]*}",
        ("ucx-transport-excluded", "ucx-lacks-verbs", "no-rdma-device", "rdma-device-not-in-container"),
        source="openucx/ucx src/ucp/core/ucp_context.c",
        decides=False,
        leads=True,
        sample="no usable transports/devices (asked sm,cuda_copy on network:all)",
    ),
    _line(
        r"no usable transports/devices (asked {what:(?=[^)\s]*\b(?:rc|dc|ud|ib|srd|all|tcp)).*}",
        ("ucx-transport-excluded", "ucx-lacks-verbs", "no-rdma-device", "rdma-device-not-in-container"),
        source="openucx/ucx src/ucp/core/ucp_context.c",
        decides=False,
        sample="no usable transports/devices (asked rc,cuda_copy on network:mlx5_0:1)",
    ),
    _line(  # cuda_copy is left out
        "no copy across memory types transport",
        ("ucx-transport-excluded", "ucx-lacks-cuda"),
        source="openucx/ucx src/ucp/wireup/select.c, ucp_wireup_add_rma_lanes()",
        open_end=True,
        decides=False,
        leads=True,
        sample="no copy across memory types transport to <no debug data>: Destination is unreachable",
    ),
    _line(
        "could not open gdr copy. disabling gdr copy resource", ("gdrcopy-not-loaded",), source=_GDR_COPY,
        decides=False,
    ),
    _line(
        "could not open gdr copy, built for", ("gdrcopy-version-mismatch",), source=_GDR_COPY,
        versions="1.18.0 and later",
    ),
    _line(
        r"GPU memory pin failed. length {size:\d+} ret ",
        ("bar1-exhausted", "gdrcopy-version-mismatch", "vmm-not-rdma-capable"),
        source=_GDR_COPY,
        versions="1.22.0 and later",
    ),
    _line(  # ENOTTY: gdrdrv does not know the request
        r"gdr_pin_buffer failed. length {:\s?}:{size:\d+} ret{:\s?}:25{:\b}",
        ("gdrcopy-version-mismatch",),
        source=f"{_GDR_COPY}; NVIDIA/gdrcopy src/gdrdrv/gdrdrv.c, gdrdrv_ioctl()",
        versions="before 1.22.0",
        decides=False,
        sample="UCX  ERROR gdr_pin_buffer failed. length :65536 ret:25",
    ),
    _line(
        r"gdr_pin_buffer failed. length {:\s?}:{size:\d+} ret{:\s?}:22{:\b}",
        ("memory-not-registrable", *NO_GPU),
        source=_GDR_COPY,
        versions="before 1.22.0",
        decides=False,
        leads=True,
        sample="UCX  ERROR gdr_pin_buffer failed. length :65536 ret:22",
    ),
    _line(
        rf"transport{{:s?}} {{names:{_BEFORE}['`]cuda\w{{0,20}}['`]{_AFTER}}} {{:is|are}} not available",
        ("ucx-lacks-cuda",),
        source=_UNAVAILABLE, decides=False,
        sample="UCX  WARN  transports 'rc','cuda_copy' are not available, please use one or more of: mm",
    ),
    _line(  # UCX has CUDA: it offers cuda_copy
        rf"transport{{:s?}} {{names:{_BEFORE}['`]gdr_copy['`]{_AFTER}}} {{:is|are}} not available"
        "{:.{0,200}one or more of:.{0,200}}cuda_copy",
        ("gdrcopy-not-loaded",),
        source=_UNAVAILABLE, decides=False,
        sample="UCX  WARN  transport 'gdr_copy' is not available, please use one or more of: cma, cuda_copy",
    ),
    _line(
        rf"transport{{:s?}} {{names:{_BEFORE}['`]gdr_copy['`]{_AFTER}}} {{:is|are}} not available"
        "{:(?!.{0,200}one or more of:.{0,200}cuda_copy)}",
        ("gdrcopy-not-loaded", "ucx-lacks-cuda"),
        source=_UNAVAILABLE, decides=False,
        sample="UCX  WARN  transport 'gdr_copy' is not available, please use one or more of: cma, mm",
    ),
    _line(
        "invalid permissions for mapped object at address", ("ucx-lacks-cuda", "ucx-transport-excluded"),
        source="openucx/ucx src/ucs/debug/debug.c: the processor copied from an address of the GPU",
        decides=False,
    ),
    _line(
        r"network device{:s?} {devices:'[^']{1,60}'(?:, ?'[^']{1,60}'){0,15}} {:is|are} not available",
        ("ucx-transport-excluded", "no-rdma-device"),
        source=f"{_UNAVAILABLE}: UCX_NET_DEVICES names it", decides=False, leads=True,
        sample="UCX  WARN  network device 'mlx5_9:1' is not available, please use one of: 'eth0'(tcp)",
    ),
    _line(
        r"{what:Remote access|Local protection}{: ?(?:error)?} on {device:\S+} (synd",
        causes_of("completion", 10),
        source="openucx/ucx src/uct/ib/mlx5/ib_mlx5_log.c", decides=False,
        sample="Remote access error on mlx5_0:1/RoCE (synd 0x13 vend 0x88 hw_synd 0/0)",
    ),
    _line(
        r"device {device:\S+} is not enabled, enable it in UCX_NET_DEVICES", ("ucx-transport-excluded",),
        source="openucx/ucx src/ucp/wireup/wireup_cm.c",
    ),
    _line(
        r"The {what:device lists are|TLs list is} empty. Please specify", ("ucx-transport-excluded",),
        source=_UNAVAILABLE, sample="The TLs list is empty. Please specify the transports you would like",
    ),
    _line(
        r"{what:mlock\(addr=\S{1,20} length=\d+\) failed|please check for CAP_IPC_LOCK privilege}",
        ("memlock-limit",),
        source="openucx/ucx src/ucp/core/ucp_mm.c, src/ucs/sys/sys.c", decides=False,
        sample="mlock(addr=0x7f00 length=4096) failed: Cannot allocate memory",
    ),
    _line(
        r"{what:failed to find a gid which|ibv_query_gid\(dev=\S+ port=\d+ index=\d+\) failed}",
        ("gid-index-wrong",),
        source="openucx/ucx src/uct/ib/base/ib_device.c", decides=False,
        sample="ibv_query_gid(dev=mlx5_0 port=1 index=7) failed: Invalid argument",
    ),
    _line(
        "USE_PCIE=yes requires GDRCopy with gdr_pin_buffer_v2", ("gdrcopy-version-mismatch",),
        source=_GDR_COPY, versions="1.22.0 and later",
    ),
    _line(
        "GDAKI not supported, please add NVreg_RegistryDwords=", ("ibgda-peer-mapping-denied",),
        source=_GDAKI, versions="1.20.0 and later",
    ),
    _line(
        "GDAKI not supported, please load Nvidia peermem driver",
        ("peermem-not-loaded", "gdaki-kernel-too-old"),
        source=_GDAKI,
        versions="1.20.0 and later",
    ),
    _line("IB doesn't support DMA-BUF", NO_DMABUF, source=_GDAKI, versions="1.21.0 and later"),
    _line("CUDA doesn't support DMA-BUF", _NO_EXPORT, source=_GDAKI, versions="1.21.0 and later"),
    _line(
        "DEVX UMEM doesn't support DMA-BUF", ("gdaki-kernel-too-old", "verbs-library-old"), source=_GDAKI,
        versions="1.21.0 and later",
    ),
    _line(
        "direct NIC is disabled because declaration of mlx5dv_get_data_direct_sysfs_path was not found",
        ("data-direct-missing",),
        source="openucx/ucx src/uct/ib/mlx5/dv/ib_mlx5dv_md.c",
        versions="1.20.0 and later",
    ),
    _line(
        "mlx5dv_reg_dmabuf_mr() failed: {answer:.*}",
        ("data-direct-missing", "dmabuf-mr-refused"),
        source="openucx/ucx src/uct/ib/mlx5/dv/ib_mlx5dv_md.c",
        versions="1.20.0 and later",
    ),
    _line(
        "multi-node NVLINK support is requested but not supported",
        ("mnnvl-fabric-incomplete",),
        source="openucx/ucx src/uct/cuda/cuda_ipc/cuda_ipc_md.c",
        versions="1.18.0 and later",
        decides=False,
    ),
    _line(  # printed on two healthy H200s of one host: docs/testing.md
        "multi-node NVLINK support is disabled",
        (),
        source="openucx/ucx src/uct/cuda/cuda_ipc/cuda_ipc_md.c",
        versions="1.18.0 and later",
        meaning=Meaning(
            "No NVLink reaches other hosts, as on every machine outside a rack of NVL72",
            "Nothing, unless this machine is in such a rack",
            effect="harmless",
        ),
    ),
    _line(
        "does not have fabric property",
        ("mnnvl-imex-channel-missing", "mnnvl-fabric-incomplete"),
        source=_CUDA,
        versions="1.18.1 and later",
        decides=False,
        sample="allocated memory at 0x7f00 of size 4096 does not have fabric property",
    ),
    _line(
        r"fabric_info: state={number:[0-2]\b}", ("mnnvl-fabric-incomplete",),
        source="openucx/ucx src/uct/cuda/cuda_ipc/cuda_ipc_md.c; a complete fabric has state 3",
        decides=False, sample="fabric_info: state=1 status=0 uuid=0",
    ),
    _nixl(
        "VRAM memory is detected as host by UCX", ("ucx-lacks-cuda", "ucx-transport-excluded"),
        source=_NIXL_UCX, versions="1.0.0 and later", leads=True,
    ),
    _nixl(
        "memory is detected as host, check that UCX is configured",
        ("ucx-lacks-cuda", "ucx-transport-excluded"),
        source=_NIXL_UCX,
        versions="0.4.0 to 0.10.1",
        leads=True,
    ),
    _nixl(
        "NVIDIA GPU(s) were detected, but UCX CUDA support was not found",
        ("ucx-lacks-cuda", "ucx-transport-excluded"),
        source=_NIXL_UCX,
        versions="0.10.0 and later",
        leads=True,  # the other one needs a setting, which readings.py finds
    ),
    _nixl(
        "IB device(s) were detected, but accelerated IB support was not found",
        (
            "ucx-lacks-verbs", "ucx-transport-excluded", "verbs-library-missing",
            "rdma-device-not-in-container",
        ),
        source=_NIXL_UCX,
        versions="0.10.0 and later",
    ),
    _nixl(
        "which is less than 1.19, CUDA support is limited", ("ucx-misses-peermem",), source=_NIXL_UCX,
        decides=False,
    ),
    _nixl(
        "Amazon EFA(s) were detected, but the UCX backend was configured",
        ("rdma-transport-not-chosen",),
        source="ai-dynamo/nixl src/core/nixl_agent.cpp",
        versions="1.1.0 and later",
    ),
    _nixl(
        "failed to ucp_mem_map: ",
        ("memory-not-registrable", "memlock-limit", "torch-expandable-segments"),
        source=_NIXL_UCX,
        sample="failed to ucp_mem_map: Input/output error",
    ),
    _nixl(
        "No provider found with FI_HMEM capability for rail", _NO_HMEM, source=_NIXL_OFI,
        versions="0.8.0 and later",
    ),
    _nixl(
        "Using provider without FI_HMEM support for rail", _NO_HMEM, source=_NIXL_OFI,
        versions="0.8.0 and later",
    ),
    _nixl(
        "VRAM memory requested but provider does not support FI_HMEM", _NO_HMEM, source=_NIXL_OFI,
        versions="0.8.0 and later",
    ),
    _nixl(
        "Could not find EFA devices, rail selection for DRAM memory type aborted",
        ("no-rdma-device", "rdma-device-not-in-container"),
        source="ai-dynamo/nixl src/utils/libfabric/libfabric_rail_manager.cpp",
        versions="1.0.0 and later",
    ),
    _nixl(
        "No network devices found with any provider", ("no-rdma-device", "rdma-device-not-in-container"),
        source="ai-dynamo/nixl src/utils/libfabric/libfabric_common.cpp", decides=False,
    ),
    _nixl(
        "GDS_MT: error initializing GPU Direct Storage driver: error=",
        ("nvidia-fs-not-loaded", "gds-p2pdma-off"),
        source="ai-dynamo/nixl src/plugins/gds_mt/gds_mt_utils.cpp",
        versions="0.4.0 and later",
    ),
    _nixl(
        "GDS_MT: warning: buffer registration failed - will use compat mode",
        ("gds-compat-mode", "nvidia-fs-not-loaded", "bar1-exhausted"),
        source="ai-dynamo/nixl src/plugins/gds_mt/gds_mt_utils.cpp",
        versions="0.4.0 and later",
    ),
    _nixl(
        "Failed to create DOCA GPU device", ("ibgda-peer-mapping-denied", "gpu-consumer"),
        source="ai-dynamo/nixl src/plugins/gpunetio/gpunetio_backend.cpp",
        versions="0.3.1 and later",
    ),
)  # fmt: skip
