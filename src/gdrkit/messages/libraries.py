"""Messages of libraries and benchmarks, most without a finding code: what each one means."""

from __future__ import annotations

from gdrkit.messages.message import Meaning, MessageTemplate

_UNREACHABLE_SERVER = Meaning(
    "perftest's client does not reach the server over TCP, before any RDMA",
    "Start the server first, and open the port (18515 by default) in the firewall",
)
_OUT_OF_MEMORY = Meaning(
    "The GPU ran out of memory; what other ranks report follows from it",
    "Use less memory per GPU: a smaller batch, a shorter context, or more GPUs",
)

_NO_PLUGIN = Meaning(
    "NCCL found no network plugin, and uses its own code: harmless with InfiniBand and RoCE "
    "NICs, but on EFA it means TCP",
    "With InfiniBand or RoCE, nothing has to be done. On EFA, install aws-ofi-nccl in the image, "
    "and put its folder into LD_LIBRARY_PATH",
    effect="harmless",
)

_COPIED = "Nothing has to be done: programs copy between them through host memory"
_FARTHER = f"{_COPIED}. In a server with PCIe switches, GPUs below one of them may have it"


def _no_p2p(status: str, why: str, todo: str) -> MessageTemplate:
    """A row of the table of `nvidia-smi topo -p2p` with this status of a pair."""
    return MessageTemplate(
        "nvidia-smi",
        rf"GPU{{number:\d{{1,2}}}}{{:\s[\sA-Z]*?\b}}{status}{{:\b}}",
        meaning=Meaning(
            f"The driver allows no peer-to-peer access between two GPUs of this machine ({status}): {why};"
            " it says nothing about the NICs",
            todo,
            effect="aside",
        ),
        source="nvidia-smi topo -p2p, its legend",
        open_end=True,
        sample=f" GPU0\tX\t{status}\t",
    )


ROWS = (
    _no_p2p(
        "GNS",
        "it does not support these GPUs for it, as most GeForce cards",
        _COPIED,
    ),
    _no_p2p("NS", "it does not support it, and names no reason", _FARTHER),
    _no_p2p("CNS", "it does not support the chipset between them", _FARTHER),
    _no_p2p("TNS", "it does not support their place on the PCIe bus", _FARTHER),
    _no_p2p(
        "DR",
        "a setting of the driver turns it off",
        "Look at RegistryDwords in /proc/driver/nvidia/params, and at the options in /etc/modprobe.d",
    ),
    MessageTemplate(  # $(OFA_KERNEL)/Module.symvers: without OFED's sources the folder is empty
        "cp",
        r"cannot stat {:['`]}{path:(?:/[\w.+/-]*(?:ofa_kernel|openib|mlnx-ofed)[\w.+/-]*)?/Module.symvers}"
        "{:'}: No such file or directory",
        meaning=Meaning(
            "A module is built against OFED, and OFED's Module.symvers for that kernel is not there: OFED's"
            " own modules are not built for it yet, or their files for building are missing",
            "Build OFED's modules for that kernel first (mlnx-ofed-kernel-dkms or mlnx-ofa_kernel-devel),"
            " then this one: `sudo dkms autoinstall -k KERNEL` builds what is missing",
        ),
        source="Mellanox/nv_peer_memory Makefile; coreutils cp",
        open_end=True,
        sample="cp: cannot stat '/Module.symvers': No such file or directory",
    ),
    MessageTemplate(
        "libfabric",
        "FI_HMEM capability requires RDMA, which this device does not support",
        ("efa-gdr-unsupported-instance",),
        source="libfabric prov/efa/src/rxr/rxr_init.c, rxr_info_to_rxr(), of 1.11 to 1.17",
        open_end=True,
        sample="libfabric:4:1:efa:core:rxr_info_to_rxr():506<warn> FI_HMEM capability requires "
        "RDMA, which this device does not support.",
    ),
    MessageTemplate(
        "gdrcopy",
        "depends:{: *}nv-p2p-dummy",
        meaning=Meaning(
            "This gdrdrv was built against nv-p2p-dummy, a stub, instead of the NVIDIA driver: "
            "it cannot work",
            "Build gdrdrv again where the sources of the installed driver are found (its DKMS "
            "package, or NVIDIA_SRC_DIR)",
        ),
        source="NVIDIA/gdrcopy packages/dkms.conf, and nv-p2p-dummy",
        open_end=True,
        sample="depends:        nv-p2p-dummy",
    ),
    MessageTemplate(
        "cuda",
        "CUDA out of memory",
        meaning=_OUT_OF_MEMORY,
        source="CUDA driver API, cudaErrorMemoryAllocation; PyTorch c10/cuda/CUDACachingAllocator.cpp",
        open_end=True,
        sample="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB",
    ),
    MessageTemplate(
        "cuda",
        "CUDA error: out of memory",
        meaning=_OUT_OF_MEMORY,
        source="CUDA driver API, cudaErrorMemoryAllocation; PyTorch c10/cuda/CUDACachingAllocator.cpp",
        open_end=True,
    ),
    MessageTemplate(
        "cuda",
        r"Cuda failure {:(?:\d{1,3} )?'?}out of memory",
        meaning=_OUT_OF_MEMORY,
        source="CUDA driver API, cudaErrorMemoryAllocation; PyTorch c10/cuda/CUDACachingAllocator.cpp",
        open_end=True,
        sample="n1:1:2 [0] NCCL WARN Cuda failure 'out of memory'",
    ),
    MessageTemplate(
        "cuda",
        "CUDA_ERROR_OUT_OF_MEMORY",
        meaning=_OUT_OF_MEMORY,
        source="CUDA driver API, cudaErrorMemoryAllocation; PyTorch c10/cuda/CUDACachingAllocator.cpp",
        open_end=True,
    ),
    MessageTemplate(
        "ucx",
        "UCX{: +}ERROR {:.{0,40}}ibv_create_srq() failed: Operation not supported",
        meaning=Meaning(
            "The RDMA device has no shared receive queues, which this transport of UCX needs, as "
            "EFA has none",
            "Let UCX choose its transports (unset UCX_TLS), or name one that the device has: srd "
            "or ud on EFA",
        ),
        source="UCX src/uct/ib/rc/base/rc_iface.c, uct_rc_iface_init_rx()",
        open_end=True,
        sample="[1.2] [n1:5:0]   rc_iface.c:492  UCX  ERROR ibv_create_srq() failed: Operation "
        "not supported",
    ),
    MessageTemplate(
        "ucx",
        r"UCX{: +\w+ +}transport{:s?} '{:(?!cuda|gdr_|rocm|ze_)[^ ]{1,80}}' {:is|are} not available",
        meaning=Meaning(
            "UCX_TLS names a transport that this UCX does not have on this machine",
            "Choose among the transports that the line lists; EFA's is called srd",
        ),
        source="UCX src/ucp/core/ucp_context.c, ucp_report_unavailable()",
        open_end=True,
        sample="[1.2] [n1:5:0]  ucp_context.c:1323 UCX  WARN  transport 'efa' is not available, "
        "please use one or more of: ib, srd, tcp",
    ),
    MessageTemplate(
        "perftest",
        r"IB device {:\S{1,40}} {:(?:was)?(?:n't)? ?(?:not )?}found",
        meaning=Meaning(
            "The RDMA device that the command names (-d) is not on this machine",
            "Use a name that `ibv_devices` lists here",
        ),
        source="perftest src/perftest_parameters.c, ctx_find_dev()",
        open_end=True,
        sample=" IB device mlx5_7 not found",
    ),
    MessageTemplate(
        "perftest",
        "unrecognized option {:'?-{1,2}}use_cuda",
        meaning=Meaning(
            "This perftest was built without CUDA",
            "Build it with ./configure CUDA_H_PATH=/usr/local/cuda/include/cuda.h",
        ),
        source="perftest src/perftest_parameters.c",
        open_end=True,
        sample="ib_write_bw: unrecognized option '--use_cuda'",
    ),
    MessageTemplate(
        "perftest",
        "CUDA DMA-BUF cannot be used without CUDA",
        meaning=Meaning(
            "perftest reads its options in order: --use_cuda has to come before --use_cuda_dmabuf",
            "Put --use_cuda=N first on the command line",
        ),
        source="perftest src/perftest_parameters.c, parser()",
        open_end=True,
        sample="CUDA DMA-BUF cannot be used without CUDA",
    ),
    MessageTemplate(
        "perftest",
        r"Couldn't connect to {:\S+}:{:\d+}",
        meaning=_UNREACHABLE_SERVER,
        source="perftest src/perftest_communication.c",
        open_end=True,
        sample="Couldn't connect to 10.0.0.2:18515",
    ),
    MessageTemplate(
        "perftest",
        "Unable to {:(?:init|open)} {:(?:the )?(?:file descriptor|socket)} ",
        meaning=_UNREACHABLE_SERVER,
        source="perftest src/perftest_communication.c",
        open_end=True,
        sample="Unable to open file descriptor for socket connection",
    ),
    MessageTemplate(
        "openmpi",
        "error initializing an OpenFabrics device",
        meaning=Meaning(
            "This warning is harmless where UCX carries the data: Open MPI's old openib "
            "component does not know the NIC",
            "Silence it with `--mca btl ^openib`, and use `--mca pml ucx`",
            effect="harmless",
        ),
        source="open-mpi/ompi opal/mca/btl/openib, up to 4.1",
        open_end=True,
        sample="WARNING: There was an error initializing an OpenFabrics device.",
    ),
    MessageTemplate(
        "ucx",
        r"no {:(?:active messages|remote \w+ memory access|auxiliary|tag)} transport",
        meaning=Meaning(
            "UCX found no transport with everything that the program asks for; the line names "
            "what each one lacks",
            "Allow more transports in UCX_TLS, or use a UCX release whose transports have it",
        ),
        source="openucx/ucx src/ucp/wireup/select.c",
        open_end=True,
        sample="UCX  ERROR no active messages transport to <no debug data>: self/memory - no "
        "peer failure handler",
    ),
    MessageTemplate(
        "mooncake",
        r"Device path /dev/infiniband/{:(?!uverbs)\w+} does not exist",
        meaning=Meaning(
            "This Mooncake looks for device files by the device's name (/dev/infiniband/mlx5_0), "
            "which no system has: they are named uverbs0 and so on",
            "Use a release of Mooncake without this regression",
        ),
        source="kvcache-ai/Mooncake mooncake-transfer-engine/src/topology.cpp",
        open_end=True,
        sample="W0116 topology.cpp:47] Device path /dev/infiniband/mlx5_0 does not exist",
    ),
    MessageTemplate(
        "deepep",
        "DeepEP timeout check failed: ",
        meaning=Meaning(
            "A rank waited some 100 seconds for another one of the same host, over NVLink: that "
            "one failed or hangs",
            "Find the first error of all ranks of this host; this wait is not on the network",
            effect="follows",
        ),
        source="deepseek-ai/DeepEP csrc/kernels/utils.cuh, barrier_block()",
        open_end=True,
        sample="DeepEP timeout check failed: rank = 3, thread = 0, value = 1024)",
    ),
    MessageTemplate(
        "deepep",
        r"{:(?:deep_?ep|internode\w*\.cu|intranode\.cu|EPException).{0,80}}unspecified launch failure",
        meaning=Meaning(
            "A kernel of DeepEP stopped, as its kernels do when a wait takes too long, or "
            "accessed memory that is not there",
            "Read the lines before it: a time-out names what was waited for, and the first error "
            "of all ranks is why",
            effect="follows",
        ),
        source="deepseek-ai/DeepEP csrc/kernels/utils.cuh, trap(); exception.cuh",
        open_end=True,
        sample="EPException: CUDA error deep_ep.cpp:83 'unspecified launch failure'",
    ),
    MessageTemplate(
        "ucx",
        r"undefined symbol: uc{:[pts]}_{:\w+}",
        meaning=Meaning(
            "Libraries of two UCX versions are loaded together",
            "Use one UCX: check LD_LIBRARY_PATH, and `ldd` of the library that fails",
        ),
        source="openucx/ucx: libuct, libucs and libucp of one build belong together",
        open_end=True,
        sample="/opt/lib/libuct.so.0: undefined symbol: ucs_config_parser_fill_opts",
    ),
    MessageTemplate(
        "mscclpp",
        r"IB transport out of range: {:\d+} >= {:\d+}",
        meaning=Meaning(
            "MSCCL++ takes one RDMA device for each GPU of a host, and this host has fewer: two "
            "GPUs cannot share one",
            "Use no more ranks per host than it has RDMA devices; MSCCLPP_HCA_DEVICES names them",
        ),
        source="microsoft/mscclpp src/ib.cc, getIBDeviceName(), of 0.1 to 0.8; src/core/ib.cc since 0.9",
        open_end=True,
        sample="  what():  IB transport out of range: 1 >= 1",
    ),
    MessageTemplate(
        "nvidia",
        "/sys/kernel/mm/memory_peers/{client:nv_mem(?:_nc)?}/version: No such file or directory",
        meaning=Meaning(
            "No peer-memory client of that name is listed. Newer kernels have no such list even where"
            " nvidia_peermem works, and NCCL before 2.23.4 looks nowhere else; where there is a list, the"
            " module is not registered. The text does not show which of both it is",
            "`ls /sys/kernel/mm/memory_peers` shows whether there is a list, and `gdr doctor` judges the"
            " module, and dma-buf, which does not need it",
            effect="aside",
        ),
        source="NCCL src/transport/net_ib.cc, ncclIbGdrSupport(); NVIDIA/nccl issue 1939",
        sample="cat: /sys/kernel/mm/memory_peers/nv_mem/version: No such file or directory",
    ),
    MessageTemplate(
        "nvidia-fs",
        "Mellanox PeerDirect Supported: False",
        meaning=Meaning(
            "This line does not show that GPUDirect Storage cannot use RDMA: nvidia-fs looks for "
            "nv_peer_mem at /sys/kernel/mm/memory_peers alone, which newer kernels do not have",
            "Look at what `gdscheck -p` says of the file system",
            effect="harmless",
        ),
        source="NVIDIA/gds-nvidia-fs src/nvfs-stat.c",
        open_end=True,
        sample="Mellanox PeerDirect Supported: False",
    ),
    MessageTemplate(
        "mooncake",
        "No GPU device is explicitly mapped to RNIC",
        meaning=Meaning(
            "This line is harmless: in Mooncake's topology no GPU belongs to this NIC, so that "
            "it leaves out a test of dma-buf",
            "Nothing has to be done, unless a GPU is near that NIC: `nvidia-smi topo -m`",
            effect="harmless",
        ),
        source="kvcache-ai/Mooncake mooncake-transfer-engine/src/transport/rdma_transport/rdma_context.cpp",
        open_end=True,
        sample="I0116 rdma_context.cpp:1267] No GPU device is explicitly mapped to RNIC mlx5_0; "
        "skip DMA-BUF affinity validation",
    ),
    MessageTemplate(
        "mooncake",
        "is not allocated by cuMemCreate",
        meaning=Meaning(
            "Mooncake's NVLink transport got memory that other hosts cannot open: it was not "
            "allocated with cuMemCreate",
            "Allocate the buffers from Mooncake's own memory pool, or use its RDMA transport",
        ),
        source="kvcache-ai/Mooncake "
        "mooncake-transfer-engine/src/transport/nvlink_transport/nvlink_transport.cpp",
        open_end=True,
        sample="W0116 nvlink_transport.cpp:701] Memory region 0x7f00 is not allocated by "
        "cuMemCreate, but it can",
    ),
    MessageTemplate(
        "perftest",
        "Failed to load CUDA runtime library",
        meaning=Meaning(
            "perftest finds no CUDA runtime, so that it cannot allocate GPU memory; the line "
            "does not concern RDMA",
            "Install the CUDA runtime (libcudart), or put its folder into LD_LIBRARY_PATH",
        ),
        source="linux-rdma/perftest src/cuda_loader.c, of 26.04",
        open_end=True,
        sample="Failed to load CUDA runtime library: libcudart.so: cannot open shared object file",
    ),
    MessageTemplate(
        "perftest",
        "GPU touch not available in kernel plugin",
        meaning=Meaning(
            "perftest has no plugin by which a GPU kernel touches the buffer, so --gpu_touch "
            "cannot be used; the line does not concern RDMA",
            "Build perftest with its CUDA kernels, or leave --gpu_touch out",
        ),
        source="linux-rdma/perftest src/cuda_memory.c, of 26.04",
        open_end=True,
        sample="GPU touch not available in kernel plugin",
    ),
    MessageTemplate(
        "ucx",
        "no active primary CUDA context on any device",
        meaning=Meaning(
            "UCX was started before the program had a CUDA context, so that it offers no GPU for "
            "transfers that GPU kernels start",
            "Use the GPU before UCX is started, or set UCX_IB_GDA_RETAIN_INACTIVE_CTX=yes",
        ),
        source="openucx/ucx src/uct/ib/mlx5/gdaki/gdaki.c, of 1.22",
        open_end=True,
        sample="[1.2] [n1:5:0] gdaki.c:249 UCX  DIAG  no active primary CUDA context on any "
        "device. Please set UCX_IB_GDA_RETAIN_INACTIVE_CTX=yes to retain inactive context.",
    ),
    MessageTemplate(
        "nccl",
        r"libnccl-net{:[\w.-]{0,40}}.so{:\S{0,8}}: cannot open shared object file",
        meaning=_NO_PLUGIN,
        source="NCCL src/plugin/plugin_open.cc",
        open_end=True,
        sample="n1:1:2 [0] NCCL INFO dlerror=libnccl-net.so: cannot open shared object file: No "
        "such file or directory",
    ),
    MessageTemplate(
        "nccl",
        r"NET/Plugin{: ?}:{: ?}Could not find{::?} {:\S*}libnccl-net",
        meaning=_NO_PLUGIN,
        source="NCCL src/plugin/plugin_open.cc",
        open_end=True,
        sample="n1:1:2 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net-ofi.so.",
    ),
)
