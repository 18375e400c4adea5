"""Messages of libfabric's EFA provider, of aws-ofi-nccl and of EFA's kernel modules.

libfabric prints with FI_LOG_LEVEL=warn or more, aws-ofi-nccl with NCCL_DEBUG. Read at the tags of
ofiwg/libfabric from v1.15.0 to v2.6.0, aws/aws-ofi-nccl from v1.6.0 to v1.21.1, and amzn/amzn-drivers.
"""

from __future__ import annotations

import functools

from gdrkit.messages.message import MessageTemplate
from gdrkit.messages.verbs_failures import NO_GPU

_fi = functools.partial(MessageTemplate, "libfabric", open_end=True)
_HMEM = "ofiwg/libfabric prov/efa/src/efa_hmem.c"
_INFO = "ofiwg/libfabric prov/efa/src/efa_prov_info.c"
_USER = "ofiwg/libfabric prov/efa/src/efa_user_info.c"
_MR = "ofiwg/libfabric prov/efa/src/efa_mr.c"
_NO_EXPORT = ("driver-proprietary", *NO_GPU)

_ofi = functools.partial(MessageTemplate, "aws-ofi-nccl", open_end=True)
_DMABUF = "aws/aws-ofi-nccl src/nccl_ofi_dmabuf.cpp"
NO_GDR = ("efa-p2p-unavailable", "libfabric-too-old", "efa-driver-too-old", "efa-mapping-refused")
"""Why the plugin gets no GPUDirect RDMA from libfabric."""
SHOWS_EFA = (
    r"Elastic Fabric Adapter|\bprovider: efa\b|\brdmap\d+s\d+|-p efa\b|\bFI_PROVIDER=efa\b"
    r"|\bvpc\.amazonaws\.com/efa\W{1,20}[1-9]|\bp(?:3dn|4de?|5e?n?|6e?-\w{4,5})\.\d{1,2}xlarge\b"
)
"""What a text shows of an EFA: its name in a listing (rdma-core kernel-boot/rdma_rename.c), the provider of
libfabric, the resource of a pod, or a type of instance that has GPUs and EFAs (AWS's list of these)."""
NO_EFA = ("rdma-device-not-in-container", "no-rdma-device")
"""Why libfabric offers the plugin a provider over TCP or UDP instead of EFA."""

_efa = functools.partial(MessageTemplate, "efa", open_end=True)
_DRIVER = "amzn/amzn-drivers kernel/linux/efa/src"

ROWS = (
    _fi(
        "Failed to register CUDA buffer with the EFA device, FI_HMEM transfers",
        ("efa-p2p-unavailable", "driver-proprietary", "bar1-exhausted", "efa-driver-too-old"),
        source=_HMEM,
    ),
    _fi(
        "Unable to register CUDA device buffer via dmabuf: {answer:.*}. Fall back to ibv_reg_mr",
        ("efa-driver-too-old", "dmabuf-mr-refused"),
        source=_HMEM,
        versions="1.20.0 and later",
        decides=False,
    ),
    _fi(
        "Unable to retrieve dmabuf fd of CUDA device buffer: ", _NO_EXPORT, source=_HMEM,
        versions="1.20.0 and later", decides=False,
    ),
    _fi(
        "FI_HMEM_CUDA_USE_DMABUF set to false. Not using DMABUF for CUDA", ("dmabuf-disabled-by-env",),
        source=_HMEM, versions="2.5.0 and later",
    ),
    _fi(
        "DMABUF disabled by environment variable", ("dmabuf-disabled-by-env",), source=_HMEM,
        versions="2.5.0 and later",
    ),
    _fi(
        r"{kind:cuda|FI_HMEM_CUDA} P2P support is not available", ("efa-p2p-unavailable",), source=_HMEM,
        versions="2.0.0 and later", decides=False, sample="FI_HMEM_CUDA P2P support is not available.",
    ),
    _ofi(
        r"Using Libfabric version 1.{number:1?\d\b}", ("libfabric-too-old",), decides=False, goes_on=True,
        source="aws/aws-ofi-nccl src/nccl_ofi_net.cpp; src/nccl_ofi_dmabuf.cpp wants 1.20",
        sample="NET/OFI Using Libfabric version 1.17",
    ),
    _fi(
        "cuda dmabuf support status: 0", (*_NO_EXPORT, "dmabuf-disabled-by-env"),
        source="ofiwg/libfabric src/hmem_cuda.c", versions="1.20.0 and later", decides=False,
    ),
    _fi(
        "requires p2p, unset FI_HMEM_DISABLE_P2P", ("gdr-disabled-by-env",), source=_HMEM,
        versions="2.5.0 and later",
    ),
    _fi(
        "which is disabled because FI_HMEM_P2P_DISABLED was set", ("gdr-disabled-by-env",), source=_INFO,
        versions="1.18.0 and later",
    ),
    _fi(
        "EFA cannot support FI_HMEM because the EFA device does not have RDMA support",
        ("efa-gdr-unsupported-instance",),
        source=_USER,
        versions="1.18.0 and later",
    ),
    _fi(
        "EFA cannot support FI_HMEM because the environment variable FI_EFA_USE_DEVICE_RDMA is 0",
        ("gdr-disabled-by-env",),
        source=_USER,
        versions="1.18.0 and later",
    ),
    _fi(
        "EFA cannot support FI_HMEM because it was not compiled with", ("ofi-lacks-hmem",), source=_USER,
        versions="1.18.0 and later",
    ),
    _fi(
        "FI_HMEM cannot be supported because no compatible libraries were found", ("ofi-lacks-hmem",),
        source=_USER, versions="1.18.0 and later",
    ),
    _fi(
        "HMEM interface but the interface does not support p2p transfers", ("efa-p2p-unavailable",),
        source=_INFO, versions="2.1.0 and later", decides=False,
    ),
    _fi(
        r"assumed dmabuf support for {kind:\S+} was incorrect", ("efa-driver-too-old", "dmabuf-mr-refused"),
        source=_MR, versions="2.5.0 and later",
    ),
    _fi(
        r"ofi_hmem_get_dmabuf_fd failed for {kind:\S+}: ret=",
        ("memory-not-registrable", "driver-proprietary", "torch-expandable-segments"),
        source=_MR,
        versions="2.5.0 and later",
    ),
    _fi(
        r"Unable to register MR{size:(?: of \d+ bytes)?}: Bad address",
        ("memory-not-registrable", "efa-driver-too-old", "efa-p2p-unavailable"),
        source=_MR,
        decides=False,
        sample="Unable to register MR of 2097152 bytes: Bad address, ibv pd: 0x55d0",
    ),
    _fi(
        "ibv_reg_dmabuf_mr is required for memory registration with FI_MR_DMABUF flags",
        ("verbs-library-old", "verbs-lacks-dmabuf"),
        source=_MR,
        versions="1.20.0 and later",
    ),
    _fi(
        "Sender fallback to emulated long CTS write protocol because p2p is not available",
        ("efa-p2p-unavailable",),
        source="ofiwg/libfabric prov/efa/src/rdm",
        versions="2.0.0 and later",
        decides=False,
    ),
    _fi(
        "None of the copy methods: localread, gdrcopy or cudaMemcpy is available",
        ("efa-p2p-unavailable", "gdrcopy-not-loaded"),
        source="ofiwg/libfabric prov/efa/src/rdm",
        versions="1.18.0 and later",
    ),
    _fi(
        "gdrcopy initialization failed! gdrcopy will not be used", ("gdrcopy-not-loaded",),
        source="ofiwg/libfabric src/hmem_cuda.c", decides=False,
    ),
    _ofi(
        r"Selected {word:[Pp]rovider} is {provider:tcp|sockets|udp}",
        NO_EFA,
        source="aws/aws-ofi-nccl src/nccl_ofi_net.c: libfabric found no EFA device here",
        decides=False, leads=True,
        sample="n1:1:2 [0] NCCL INFO NET/OFI Selected Provider is tcp (found 1 nics)",
    ),
    _ofi(
        "fi_getinfo() call failed: No data available",
        ("rdma-device-not-in-container", "no-rdma-device", "libfabric-too-old"),
        source="aws/aws-ofi-nccl src/nccl_ofi_net.c: libfabric offers no EFA device",
        decides=False, leads=True,
        sample="NCCL WARN NET/OFI OFI fi_getinfo() call failed: No data available",
    ),
    _ofi(
        r"{what:fi_getinfo: -61|fi_getinfo\(?\)?:? provider efa output empty list|Could not find any"
        r" optimal provider"
        r"|Insufficient Libfabric devices found}",
        ("rdma-device-not-in-container", "no-rdma-device", "libfabric-too-old"),
        source="libfabric util/info.c, src/fabric.c; aws/aws-ofi-nccl src: no EFA device is offered",
        decides=False, leads=True,
        sample="fi_getinfo: provider efa output empty list",
    ),
    _ofi(
        "{what:FI_OPT_CUDA_API_PERMITTED is not declared|Failed to set FI_OPT_CUDA_API_PERMITTED}",
        ("libfabric-too-old", "efa-p2p-unavailable"),
        source="aws/aws-ofi-nccl src/nccl_ofi_ofiutils.cpp", decides=False,
        sample="Using Libfabric 1.18 API with GPUDirect RDMA support, and FI_OPT_CUDA_API_PERMITTED is not "
        "declared.",
    ),
    _ofi(
        "Failed to resolve {what:GDRCopy v2 API|libgdrapi.so symbol}", ("gdrcopy-version-mismatch",),
        source="aws/aws-ofi-nccl src/nccl_ofi_gdrcopy.cpp",
        sample="Failed to resolve GDRCopy v2 API (gdr_pin_buffer_v2)",
    ),
    _ofi(
        "NET/OFI Only EFA provi", ("no-rdma-device", "rdma-device-not-in-container"),
        source="aws/aws-ofi-nccl src/nccl_ofi_net.c: libfabric found another provider than efa",
        decides=False, leads=True,
    ),
    _ofi(
        "GDR disabled on GDR-supported instance type", NO_GDR,
        source="aws/aws-ofi-nccl src/platform-aws.cpp; then the plugin stops", versions="1.7.4 and later",
    ),
    _ofi(
        "Could not disable CUDA API usage for HMEM, disabling GDR", NO_GDR,
        source="aws/aws-ofi-nccl src/nccl_ofi_ofiutils.cpp", versions="1.7.0 and later",
    ),
    _ofi(
        "GDR support reported to NCCL but then couldn't be configured on an endpoint", NO_GDR,
        source="aws/aws-ofi-nccl src/nccl_ofi_ofiutils.cpp", versions="1.7.0 and later",
    ),
    _ofi(
        "Support for DMA-BUF registrations: false",
        ("ofi-dmabuf-off-by-default", "driver-proprietary", "libfabric-too-old", "kernel-lacks-dmabuf"),
        source="aws/aws-ofi-nccl src/nccl_ofi_net.cpp",
        versions="1.13.0 and later",
        decides=False,
        states=True,  # EFA's driver may reach GPU memory without a dma-buf
        goes_on=True,
    ),
    _ofi(
        "Will not use DMA-BUF, requires Libfabric 1.20 or greater", ("libfabric-too-old",), source=_DMABUF,
        versions="1.13.0 and later",
    ),
    _ofi(
        "Will not attempt to use DMA-BUF, explicitly disabled by user", ("ofi-dmabuf-off-by-default",),
        source=_DMABUF, versions="1.13.0 and later",
    ),
    _ofi(
        "Will not attempt to use DMA-BUF, device does not support DMA-BUF", _NO_EXPORT, source=_DMABUF,
        versions="1.18.0 and later",
    ),
    _ofi(
        "Will not attempt to use DMA-BUF, kernel 5.12+ not found", ("kernel-lacks-dmabuf",), source=_DMABUF,
        versions="1.13.0 and later",
    ),
    _ofi(
        "EFA provider requires at least libfabric version 1.22.0", ("libfabric-too-old",),
        source="aws/aws-ofi-nccl src/nccl_ofi_net.cpp", versions="1.13.0 and later",
    ),
    _ofi(
        "Passed fd handle, but not compiled with DMA-BUF support", ("libfabric-too-old",),
        source="aws/aws-ofi-nccl src/nccl_ofi_api.cpp: of its build", versions="1.13.0 and later",
    ),
    _ofi(
        "GIN only supports RDMA transport protocol", ("gin-unavailable",),
        source="aws/aws-ofi-nccl src/rdma/gin", versions="1.19.0 and later",
    ),
    _ofi(
        "gin: OFI NET plugin has not been initialized", ("gin-unavailable", "net-plugin-replaced"),
        source="aws/aws-ofi-nccl src/rdma/gin", versions="1.20.0 and later",
    ),
    _ofi(
        "Could not load libgdrapi.so", ("gdrcopy-not-loaded",),
        source="aws/aws-ofi-nccl src/nccl_ofi_gdrcopy.cpp", versions="1.18.0 and later",
    ),
    _ofi(
        "Failed to open gdr handle", ("gdrcopy-not-loaded",),
        source="aws/aws-ofi-nccl src/nccl_ofi_gdrcopy.cpp", versions="1.18.0 and later",
    ),
    _ofi(
        "GIN requires GDRCopy 2.5+ for forced PCIe copy support", ("gdrcopy-version-mismatch",),
        source="aws/aws-ofi-nccl src/rdma/gin", versions="1.19.0 and later",
    ),
    _ofi(
        "No eligible providers were found", ("rdma-device-not-in-container", "no-efa-device"),
        source="aws/aws-ofi-nccl src",
    ),
    _ofi(
        "Unable to find a protocol that worked.{: {1,2}}Failing initialization",
        ("efa-p2p-unavailable", "no-rdma-device", "rdma-device-not-in-container"),
        source="aws/aws-ofi-nccl src",
        sample="Unable to find a protocol that worked.  Failing initialization.",
    ),
    _efa(
        "efa_nv_peermem: Nvidia proprietary is unsupported", ("efa-peermem-proprietary-driver",),
        source="amzn/amzn-drivers kernel/linux/efa_nv_peermem/src/efa_nv_peermem_main.c",
    ),
    _efa(
        "efa_nv_peermem: Nvidia P2P symbols are unavailable", ("driver-not-loaded", "driver-mismatch"),
        source="amzn/amzn-drivers kernel/linux/efa_nv_peermem/src/efa_nv_peermem_main.c",
    ),
    _efa(
        r"nvidia_p2p_get_pages failed {number:-?\d+}",
        ("memory-not-registrable", "bar1-exhausted", *NO_GPU),
        source=f"{_DRIVER}/efa_nvmem_impl.h",
    ),
    _efa(
        r"nvidia_p2p_dma_map_pages failed {number:-?\d+}", ("iommu-translating", "p2p-page-table-version"),
        source=f"{_DRIVER}/efa_nvmem_impl.h",
    ),
    _efa(
        r"Failed to get dmabuf umem[{number:-?\d+}]", ("dmabuf-mr-refused", "dmabuf-no-p2p-importer"),
        source=f"{_DRIVER}/efa_verbs.c",
    ),
)  # fmt: skip
