"""Messages of the system around the driver: SELinux, IOMMU, dynamic linker, installers, RDMA tools."""

from __future__ import annotations

import functools

from gdrkit.messages.errors import EFAULT
from gdrkit.messages.message import Meaning, MessageTemplate
from gdrkit.messages.verbs_failures import causes_of

_kernel = functools.partial(MessageTemplate, "kernel", open_end=True, decides=False)
_linker = functools.partial(MessageTemplate, "ld.so", open_end=True, source="GNU C Library elf/dl-lookup.c")
_rdma = functools.partial(MessageTemplate, "rdma tools", open_end=True, decides=False, leads=True)
_NO_DEVICE = ("no-rdma-device", "rdma-device-not-in-container")
_installer = functools.partial(MessageTemplate, "nvidia-installer", open_end=True, decides=False)
_INSTALLER = "NVIDIA/nvidia-installer kernel.c"
_dkms = functools.partial(
    MessageTemplate, "dkms", causes=("module-not-found",), open_end=True, decides=False
)

ROWS = (
    MessageTemplate(
        "llama.cpp",
        r"RDMA activated: qpn={:\d+}->{:\d+} mtu={:\d+} rx_depth=",
        meaning=Meaning(
            "llama.cpp's RPC uses RDMA here, between buffers of host memory to which it copies: it neither"
            " needs nor uses GPUDirect RDMA",
            "Nothing has to be done. If it prints mtu=1024, the Ethernet MTU is 1500: 9000 at both ends"
            " gives 4096 (`gdr codes MTU`)",
            effect="harmless",
        ),
        source="ggml-org/llama.cpp ggml/src/ggml-rpc/transport.cpp, rdma_activate(), rdma_send()",
        open_end=True,
        sample="RDMA activated: qpn=322->463 mtu=1024 rx_depth=24",
    ),
    MessageTemplate(
        "kernel",
        r'avc:{: +}denied{: +\x7b} integrity {:\x7d.{0,80}}lockdown_reason="unsigned module loading"',
        meaning=Meaning(
            "SELinux forbids this program to load an unsigned module: its policy lacks the "
            "permission `lockdown { integrity }`",
            "Sign the module, add the permission to the policy, or use a kernel from 5.16 on, "
            "which no longer asks SELinux",
        ),
        source="Linux 5.6 to 5.15 security/selinux/hooks.c, selinux_lockdown(); removed by "
        "commit f5d0e5e9d72d",
        open_end=True,
        sample="audit: type=1400 audit(1.0:2): avc:  denied  { integrity } for  pid=9 "
        'comm="insmod" lockdown_reason="unsigned module loading" tclass=lockdown '
        "permissive=0",
    ),
    MessageTemplate(
        "kernel",
        r"avc:{: +}denied{: +\x7b} module_load {:\x7d}",
        meaning=Meaning(
            "SELinux forbids to load this file as a module: its label is not modules_object_t",
            "Run `restorecon -v FILE` for a file in /lib/modules, or `chcon -t modules_object_t FILE`",
        ),
        source="Linux security/selinux/hooks.c, selinux_kernel_module_from_file()",
        open_end=True,
        sample="type=AVC msg=audit(1.0:2): avc:  denied  { module_load } for  pid=4 "
        'comm="insmod" path="/tmp/x.ko"',
    ),
    _kernel(
        r"DMAR: [DMA {way:Read|Write}{:[^\]]{0,20}}] Request device",
        ("iommu-translating", "acs-redirect"),
        source="Linux drivers/iommu/intel/dmar.c, dmar_fault_do_one()",
        leads=True,
        sample="DMAR: [DMA Write NO_PASID] Request device [17:00.0] fault addr 0x207ff0000000",
    ),
    _kernel(
        "Event logged [IO_PAGE_FAULT",
        ("iommu-translating", "acs-redirect"),
        source="Linux drivers/iommu/amd/iommu.c, amd_iommu_report_page_fault()",
        leads=True,
        sample="mlx5_core 0000:c1:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0037]",
    ),
    _kernel(
        "ib_invalidate_peer_memory+0x",
        ("lock-inversion",),
        source="MLNX_OFED drivers/infiniband/core/peer_mem.c, in a stack of a task that hangs",
        sample="[<0>] ib_invalidate_peer_memory+0x61/0xc0 [ib_core]",
    ),
    _kernel(
        r"Gb/s available PCIe bandwidth, limited by {speed:[\d.]+ GT/s} PCIe x{width:\d+} link",
        ("link-narrower-than-port", "link-degraded"), decides=False,  # the slot may have no more lanes
        source="Linux drivers/pci/pci.c, __pcie_print_link_status(): the device can do more than a link on"
        " its way",
        sample="mlx5_core 0000:41:00.0: 63.008 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x8"
        " link at 0000:40:01.0 (capable of 252.048 Gb/s with 16.0 GT/s PCIe x16 link)",
    ),
    _kernel(
        r"Port module event{:(?:\[error\])?}: module {number:\d+}, Cable {what:error|unplugged}",
        ("port-down",), decides=False,  # of the module named here: another port may be up
        source="Linux drivers/net/ethernet/mellanox/mlx5/core/events.c, port_module()",
        sample="mlx5_core 0000:41:00.0: Port module event[error]: module 0, Cable error, Bus stuck(I2C or"
        " data shorted)",
    ),
    _kernel(
        "ib_umem_get: failed to get user pages", causes_of("ibv_reg_mr", EFAULT),
        source="MLNX_OFED drivers/infiniband/core/umem.c: no peer-memory client claimed the address",
    ),
    _kernel(
        r"umem get failed (-{number:14|22|12})", causes_of("ibv_reg_mr", EFAULT),
        source="Linux drivers/infiniband/hw/mlx5/mr.c, mr_umem_get()",
        sample="mlx5_0:mr_umem_get:709:(pid 15855): umem get failed (-14)",
    ),
    _kernel(
        r"NVRM: BAR1 is {size:\d+M} @ 0x0", ("bar1-small",),
        source="open-gpu-kernel-modules kernel-open/nvidia/nv-pci.c: the BIOS assigned no window",
        sample="NVRM: BAR1 is 0M @ 0x0 (PCI:0000:af:00.0)",
    ),
    _kernel(
        "NVRM: No address space to allocate resized BAR1", ("bar1-small",), decides=False,
        source="open-gpu-kernel-modules 595.45.04 kernel-open/nvidia/nv-pci.c, nv_resize_pcie_bars()",
    ),
    MessageTemplate(
        "nvidia",
        "NVRM: Invalid argument in nv_p2p_get_pages,{:\\s?}address or length are not aligned",
        ("memory-not-registrable",),
        source="open-gpu-kernel-modules kernel-open/nvidia/nv-p2p.c, nv_p2p_get_pages()",
        open_end=True,
        sample="NVRM: Invalid argument in nv_p2p_get_pages,address or length are not aligned "
        "address=0xfffd39e00000, length=0x10008",
    ),
    _linker(
        r"undefined symbol: {symbol:ibv_reg_dmabuf_mr}", ("verbs-lacks-dmabuf", "verbs-library-old"),
        sample="/opt/x.so: undefined symbol: ibv_reg_dmabuf_mr",
    ),
    _linker(
        r"undefined symbol: {symbol:(?!ibv_reg_dmabuf_mr\b)(?:mlx[45]dv|efadv|ibv|rdma)_\w{1,80}}",
        ("verbs-provider-mismatch", "verbs-library-old"),
        leads=True,
        sample="/usr/lib64/libmlx5.so.1: undefined symbol: mlx5dv_devx_umem_reg_ex",
    ),
    _linker(
        r"version `{version:(?:IBVERBS|MLX5|EFA|RDMACM)_\d+\.\d+}' not found",
        ("verbs-provider-mismatch", "verbs-library-old"),
        leads=True,
        sample="/lib/libibverbs.so.1: version `IBVERBS_1.14' not found (required by /opt/x.so)",
    ),
    _linker(
        r"undefined symbol: {symbol:nccl[A-Z]\w{1,80}}", ("gin-library-mismatch",),
        sample="ImportError: libtorch_cuda.so: undefined symbol: ncclCommRegister",
    ),
    _rdma(
        "Failed to get {kind:IB|RDMA} devices list", _NO_DEVICE,
        source="rdma-core libibverbs/examples/devinfo.c, device_list.c: no uverbs module is loaded",
        sample="Failed to get IB devices list: Function not implemented",
    ),
    _rdma(
        "libibverbs: Fatal: couldn't read uverbs ABI version", _NO_DEVICE,
        source="rdma-core libibverbs/init.c, check_abi_version(): no uverbs module is loaded",
    ),
    _rdma(
        r"cannot access {path:'?/dev/infiniband[/\w]*'?}: No such file",
        ("rdma-device-not-in-container", "no-rdma-device"),
        source="coreutils ls.c: the container has no such folder, or no module for RDMA is loaded",
        sample="ls: cannot access '/dev/infiniband/': No such file or directory",
    ),
    _rdma(
        r"Fatal error: {: ?}No devices", _NO_DEVICE, source="infiniband-diags ibstatus",
        sample="Fatal error:  No devices",
    ),
    _rdma(
        r"Port number {port:\d{1,3}} state is {state:Down|Initialize|Armed|Active defer}", ("port-down",),
        source="perftest src/perftest_parameters.c, check_link_and_mtu()",
        sample=" Port number 1 state is Down",
    ),
    _rdma(  # also where the port is active at another rate
        r"No IB port{port:(?: [\w:.-]{1,40})?} is {state:\w{4,10} \(\w{4,20}(?: \d{1,4} Gb/sec)?\)}",
        ("port-down", "port-slower-than-others"), leads=False,
        source="LBNL Node Health Check (mej/nhc), scripts/lbnl_hw.nhc, check_hw_ib()",
        sample="ERROR:  nhc:  Health check failed:  check_hw_ib:  No IB port mlx5_2:1 is ACTIVE (LinkUp 400"
        " Gb/sec).",
    ),
    _rdma(
        r"Failed status {status:4|10|11}: wr_id", causes_of("completion", 10),
        source="perftest src/perftest_resources.c", sample=" Failed status 10: wr_id 0 syndrom 0x88",
    ),
    _rdma(
        "Couldn't get context for the device",
        ("rdma-device-not-in-container", "verbs-provider-mismatch"),
        source="perftest src/write_bw.c: ibv_open_device() failed",
    ),
    _rdma(
        "{what:Unable to find the Infiniband/RoCE device|No RDMA devices were detected}",
        _NO_DEVICE,
        source="perftest src/write_bw.c; rdma-core librdmacm/examples/common.c",
        sample=" Unable to find the Infiniband/RoCE device",
    ),
    _rdma(
        r"{what:Found Incompatibility issue with GID types|can't read sgid of index \d+"
        r"|Could not get local gid for gid index \d+}",
        ("gid-index-wrong",),
        source="perftest src/write_bw.c; rdma-core libibverbs/examples",
        sample=" Found Incompatibility issue with GID types.",
    ),
    _rdma(
        r"{what:does not support CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE"
        r"|CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE is missing}",
        ("data-direct-missing",),
        source="perftest src/cuda_memory.c",
        sample="support for CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE is missing",
    ),
    _rdma(
        "Unable to Connect the HCA's through the link", ("rail-unreachable", "gid-index-wrong", "port-down"),
        source="perftest src/perftest_resources.c, ctx_connect()",
    ),
    _rdma(
        r"{what:Cannot initialize PeerDirect, '\w+' not found|PeerDirect interface was not detected}",
        ("rdma-lacks-peer-api",),
        source="ROCm amdkfd kfd_peerdirect.c, kfd_init_peer_direct(), which looks for the symbols again when"
        " a process starts; ROCm/amdgpu issue 102",
        decides=False,
        sample="amdkfd: PeerDirect interface was not detected",
    ),
    _rdma(
        r"missing RDMA device spec for device {address:\S+ RDMA device}",
        ("umad-device-missing",),
        source="Mellanox/k8s-rdma-shared-dev-plugin pkg/resources/rdma_device_spec.go",
        sample='missing RDMA device spec for device 0000:5e:00.0, RDMA device \\"issm\\" not found',
    ),
    _rdma(
        r"{what:can't open UMAD port|failed to open UMAD port|stat of IB device '\S+' failed|umad_init:"
        r" can't read ABI version"
        r"|[Ff]ailed to open '?/dev/infiniband/(?:umad|issm)}",
        ("umad-device-missing", "rdma-device-not-in-container", "no-rdma-device"),
        source="infiniband-diags src/ibstat.c; rdma-core libibumad/umad.c, libibmad/rpc.c",
        sample="ibwarn: [52] mad_rpc_open_port: can't open UMAD port ((null):0)",
    ),
    _installer(
        "{before:failed to load, because it was"
        "|likely because it was} not signed by a key that is trusted",
        ("module-unknown-key", "module-unsigned", "lockdown-blocks-module"),
        source=_INSTALLER,
        leads=True,
        sample="ERROR: The kernel module failed to load, because it was not signed by a key that is trusted "
        "by the kernel.",
    ),
    _kernel(
        "modpost: GPL-incompatible module {file:[\\w.-]+} uses GPL-only symbol",
        ("module-symbol-gpl-only",),
        source="Linux scripts/mod/modpost.c, check_exports()",
        sample="ERROR: modpost: GPL-incompatible module nvidia.ko uses GPL-only symbol '__rcu_read_lock'",
    ),
    MessageTemplate(
        "cuda",
        r'CUDA error at {:\S{1,200}} code={number:\d+}({name:\w+}) "cudaDeviceEnablePeerAccess(',
        meaning=Meaning(
            "CUDA does not let one GPU access the memory of another: that is the way between GPUs, and says "
            "nothing of the way to a NIC",
            "`nvidia-smi topo -p2p r` shows for which GPUs the driver allows it; `gdr doctor` judges the "
            "way to the NICs",
        ),
        source="NVIDIA/cuda-samples Common/helper_cuda.h, check(); simpleP2P",
        open_end=True,
        sample="CUDA error at simpleP2P.cu:130 code=205(cudaErrorMapBufferObjectFailed) "
        '"cudaDeviceEnablePeerAccess(gpuid[1], 0)"',
    ),
    MessageTemplate(
        "cuda",
        r"{:(?<!NvlinkTransport: )}cuMem{way:[EI]\w{5,9}}ShareableHandle{:\W{1,4}(?:\w+ ){0,2}fail}",
        ("mnnvl-imex-channel-missing", "mnnvl-imex-not-ready", "mnnvl-clique-differs"),
        source="CUDA driver API: handles of CU_MEM_HANDLE_TYPE_FABRIC need IMEX",
        open_end=True,
        decides=False,
        sample="cuMemImportFromShareableHandle() fails with CUDA failure 101",
    ),
    MessageTemplate(
        "cuda",
        "cuMemCreate failed{:\\W{1,4}(?:with )?}operation not permitted",
        ("mnnvl-imex-channel-missing",),
        source="CUDA driver API, cuMemCreate(): CU_MEM_HANDLE_TYPE_FABRIC needs an IMEX channel",
        open_end=True,
        decides=False,
        sample="cuMemCreate failed: operation not permitted",
    ),
    MessageTemplate(
        "nccl",
        "{:\\b}NCCL_GIN_TYPE_NONE",
        ("gin-unavailable",),
        source="NCCL src/include/nccl_device.h: what ncclCommQueryProperties() reports without GIN",
        open_end=True,
        decides=False,
        sample="props.ginType == NCCL_GIN_TYPE_NONE",
    ),
    MessageTemplate(
        "nccl",
        "argument must be initialized via NCCL_{name:\\w{1,60}}_INITIALIZER",
        ("gin-library-mismatch",),
        source="NCCL src/dev_runtime.cc: the size that the program was built with is another one",
        open_end=True,
        sample="NCCL WARN Cannot create device communicator: ncclDevCommRequirements_t argument must be "
        "initialized via NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER",
    ),
    _installer(
        "Unable to find the kernel source tree for the currently running kernel", ("module-not-found",),
        source=_INSTALLER,
    ),
    _installer(
        "The Nouveau kernel driver is currently in use by your system", ("driver-not-loaded",),
        source=_INSTALLER,
    ),
    MessageTemplate(
        "openibd",
        "Module {module} does not exist, skipping...",
        ("module-not-found",),
        source="MLNX_OFED openibd: OFED is not installed for the running kernel",
        open_end=True,
        decides=False,
    ),
    _dkms(
        "Error! Your kernel headers for kernel {release} cannot be found", source="dkms.in, actual_build()",
        sample="Error! Your kernel headers for kernel 5.15.0-76-generic cannot be found.",
    ),
    _dkms(
        "Bad return status for module build on kernel", source="dkms.in, actual_build()",
        sample="Error! Bad return status for module build on kernel: 5.15.0-76-generic (x86_64)",
    ),
    _dkms(
        r"Build of {module}.ko failed for: ", source="dkms.in, actual_build()",
        sample="Error!  Build of nvidia-peermem.ko failed for: 6.2.0-36-generic (x86_64)",
    ),
    _dkms(
        r"dkms autoinstall on {release:\S+} failed for ", source="dkms.in, autoinstall()",
        sample="dkms autoinstall on 6.11.0-26-generic/x86_64 failed for nvidia(10)",
    ),
    _dkms(
        r"build for kernel {release:\S+} was skipped since the kernel {what:headers|source} for this kernel",
        source="dkms debian/scripts, common.postinst",
        sample="Module build for kernel 6.1.0-18-amd64 was skipped since the kernel headers for this kernel "
        "do not seem to be installed.",
    ),
    _dkms(
        r"{module:(?:nvidia|nv_peer_mem|gdrdrv|mlnx|ofa_kernel)[\w-]*}{:/|, }{version:\d[\w.-]*}"
        r"{kernel:(?:, [\w.+~-]+, \w+)?}: {state:added|built$}",
        source="dkms(8), status: built, but not installed for the kernel",
        sample="nvidia/550.54.14: added",
    ),
    MessageTemplate(
        "nvidia-container-cli",
        "nvml error: driver not loaded",
        ("driver-not-loaded",),
        source="NVIDIA/libnvidia-container src/nvc.c: of the host",
        open_end=True,
        sample="nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown",
    ),
)  # fmt: skip
