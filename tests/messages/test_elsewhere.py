"""Messages about something else: each is recognised in a line as it is printed."""

from __future__ import annotations

import pytest

from gdrkit import catalogue
from gdrkit.messages.elsewhere import ROWS, match

LINES = (
    "[ 25.2] nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping",
    "nv_mem nv_get_p2p_free_callback:144 nv_get_p2p_free_callback -- invalid page_table",
    "vfio 01:00.0: Please ensure all devices within the iommu_group are bound to their vfio bus driver.",
    "NVRM: Attempting to remove device 0000:3b:00.0 with non-zero usage count!",
    "kernel: [  8.5] PKCS#7 signature not signed with a trusted key",
    "nvidia: module verification failed: signature and/or required key missing - tainting kernel",
    "[ 69.4] nvidia_fs: no symbol version for nvidia_p2p_put_pages",
    "n1:1:2 [7] NCCL INFO NVLS multicast support is not available on dev 7",
    "n1:1:2 [2] NCCL INFO NET/Socket : GPU Direct RDMA Disabled for HCA 0 'eno1'",
    "UCX  ERROR mlx5_1: ibv_modify_qp(UMR QP 0x1) failed to modify to RTR: No such device",
    "[rank3]:[E1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1)",
    "n1:1:2 [0] bootstrap.cc:77 NCCL WARN Message truncated : received 172 bytes instead of 64",
    "topo.cpp:469: [GPU 1] Peer GPU 0 is not accessible, exiting ...",
    "Could not unload NVIDIA driver kernel modules, driver is in use",
    "-E- Cannot locate nvidia modules!",
    "libfabric:4:1:efa:core:rxr_info_to_rxr():506<warn> FI_HMEM capability requires RDMA, which this device "
    "does not support.",
    "ERR:  Error getting the gdrdrv driver version with ioctl error (errno=22). gdrdrv might be too old.",
    "modprobe: ERROR: could not insert 'off': Unknown symbol in module, or unknown parameter (see dmesg)",
    "depends:        nv-p2p-dummy",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB",
    "rank 3 died with cuda oom",
    "RuntimeError: CUDA error: system not yet initialized",
    "n1:1:2 [0] NCCL WARN Cuda failure 'CUDA driver version is insufficient for CUDA runtime version'",
    "n1:1:2 [0] NCCL WARN Bootstrap : no socket interface found",
    'audit: type=1400 audit(1.0:2): avc:  denied  { integrity } for  pid=9 comm="insmod" '
    'lockdown_reason="unsigned module loading" tclass=lockdown permissive=0',
    'type=AVC msg=audit(1.0:2): avc:  **denied**  { module_load } for  pid=4 comm="insmod" path="/tmp/x.ko"',
    "[1.2] [n1:5:0]   rc_iface.c:492  UCX  ERROR ibv_create_srq() failed: Operation not supported",
    "[1.2] [n1:5:0]  ucp_context.c:1323 UCX  WARN  transport 'efa' is not available, please use "
    "one or more of: ib, srd, tcp",
    "n1:1:2 [0] include/socket.h:311 NCCL WARN Net : Socket creation failed : Address family not supported",
    "n1:1:2 [0] graph/xml.cc:332 NCCL WARN Could not find real path of /sys/class/pci_bus/0000:3b/../..",
    "n1:1:2 [0] NCCL WARN socketStartConnect: Connect to 10.0.0.2<4> failed : Connection refused",
    "n1:1:2 [0] NCCL WARN Net : Connection closed by remote peer 10.0.0.2<4>",
    "n1:1:2 [0] NCCL WARN Error: failed to extend /dev/shm/nccl-abc to 9637892 bytes",
    "n1:1:2 [0] NCCL INFO NET/Plugin : No plugin found (libnccl-net.so), using internal implementation",
    "RuntimeError: Version mismatch: The cluster was started with:",
    "/usr/local/bin/start: line 12: MY_VERSION: unbound variable",
    "pyxis:     [ERROR] Command not found: nvidia-container-cli, see the manual",
    'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].',
    "Failed to initialize NVML: Unknown Error",
    " IB device mlx5_7 not found",
    "ib_write_bw: unrecognized option '--use_cuda'",
    "CUDA DMA-BUF cannot be used without CUDA",
    "Couldn't connect to 10.0.0.2:18515",
    "WARNING: There was an error initializing an OpenFabrics device.",
    "ERROR: An NVIDIA kernel module 'nvidia-drm' appears to already be loaded in your kernel.",
    "n1:1:2 [0] NCCL WARN NET/IB : read failed in ncclIbRoceGetVersionNum: Invalid argument",
    "n1:1:2 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.2<1> with status=5 vendor err 249",
    "n1:1:2 [1] misc/cudawrap.cc:179 NCCL WARN Failed to find CUDA library libcuda.so (NCCL_CUDA_PATH='')",
    'ERROR: "nvidia_p2p_get_pages" [/var/lib/dkms/x/1.0/build/x.ko] undefined!',
    "x.c:12:9: error: implicit declaration of function 'sys_close'",
    "Error! The directory /var/lib/x/source/ does not appear to have module source located within it.",
    "libfabric:7:efa:core:efa_check_hints():176<info> Unsupported capabilities",
    "UCX  ERROR no active messages transport to <no debug data>: self/memory - no peer failure handler",
    "W0116 topology.cpp:47] Device path /dev/infiniband/mlx5_0 does not exist",
    "DeepEP timeout check failed: rank = 3, thread = 0, value = 1024)",
    "EPException: CUDA error deep_ep.cpp:83 'unspecified launch failure'",
    "Error string: /lib64/libcuda.so.1: undefined symbol: cuIpcOpenMemHandle_v2",
    "NCCL exception (nccl.cu:88): 5 (GIN_IB_PROXY does not support specifying qp depth)",
    "/opt/lib/libuct.so.0: undefined symbol: ucs_config_parser_fill_opts",
    "n1:1:2 [0] init.cc:25 NCCL WARN NET/IB : Attempted to merge incompatible devices:"
    " [0]mlx5_0:1/IB and [1]"
    "mlx5_1:1/RoCE. Try selecting NICs of only one link type using NCCL_IB_HCA",
    "n1:1:2 [0] misc/shmutils.cc:8 NCCL WARN Error while attaching to shared memory segment"
    " /dev/shm/nccl-aB1 "
    "(size 9637888), error: No such file or directory (2)",
    "n1:1:2 [0] paths.cc:3 NCCL WARN P2P is disabled between NVLINK connected GPUs 1 and 0. This should not",
    "n1:1:2 [0] nvls.cc:3 NCCL WARN Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152",
    "  what():  IB transport out of range: 1 >= 1",
    "Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost.",
    "NVRM: Xid (PCI:0000:3b:00): 79, pid=123, GPU has fallen off the bus.",
    "NVRM: fallen off the bus and is not responding to commands.",
    "mlx5_core 0000:17:00.0: device's health compromised - reached miss count",
    "NVRM: installed in this system is not supported by open",
    "[  417.6] failing symbol_get of non-GPLONLY symbol fs_register_dma_ops.",
    "NVRM: GPU 0000:3b:00.0: RmInitAdapter failed! (0x26:0x56:1474)",
    "rmmod: ERROR: Module nvidia_peermem is in use",
    "NVRM: The NVIDIA GPU 0000:01:00.0 installed in this system is not supported by the NVIDIA 590 driver",
    "pcieport 0000:00:00.0: AER: Uncorrectable (Fatal) error message received from 0000:01:00.0",
    "DOCA_GPUNETIO_DISABLE_GDRCOPY is set, disabling GDRCopy",
    "Mellanox PeerDirect Supported: False",
    "I0116 rdma_context.cpp:1267] No GPU device is explicitly mapped to RNIC mlx5_0; skip DMA-BUF affinity"
    " validation",
    "W0116 nvlink_transport.cpp:701] Memory region 0x7f00 is not allocated by cuMemCreate, but it can",
    "Failed to load CUDA runtime library: libcudart.so: cannot open shared object file",
    "GPU touch not available in kernel plugin",
    "[1.2] [n1:5:0] gdaki.c:249 UCX  DIAG  no active primary CUDA context on any device. Please set "
    "UCX_IB_GDA_RETAIN_INACTIVE_CTX=yes to retain inactive context.",
    "n1:1:2 [0] NCCL INFO dlerror=libnccl-net.so: cannot open shared object file: No such file or directory",
)
"""One line for each row, in the order of the rows."""


def test_every_row_has_a_line():
    assert len(LINES) == len(ROWS)


@pytest.mark.parametrize("number", range(len(ROWS)))
def test_a_line_is_recognised_by_its_row_and_by_no_code(number):
    line = LINES[number]
    assert match(line) is ROWS[number]
    known = catalogue.match(line)
    assert known is None or not (known.causes and known.message.decides) or "off" in line


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.word)
def test_a_row_has_sentences_without_a_full_stop_and_a_source(row):
    assert row.means and row.todo and row.source
    assert not row.means.endswith(".")
    assert not row.todo.endswith(".")


@pytest.mark.parametrize(
    "line",
    [
        "NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'",
        "Call to ibv_modify_qp failed with error Invalid argument",
        "modprobe: ERROR: could not insert 'office': Invalid argument",
        "depends:        nvidia",
        "beegfs: found symbol beegfs_register_dma_ops, which is not GPL-only",
        "NVRM: installed in this system: the open flavour",
        "ERR:  Error getting the gdrdrv driver version with ioctl error (errno=25). gdrdrv might be old.",
        "UCX  ERROR gdr_pin_buffer failed. length :65536 ret:22",
        "NCCL WARN Error while attaching to shared memory segment /dev/shm/nccl-a, error: Permission denied",
        "NCCL INFO P2P is disabled between connected GPUs 1 and 0",
        "Mellanox PeerDirect Supported: True",
        "NCCL INFO NET/Plugin: Loaded net plugin Libfabric (v8) from libnccl-net.so",
    ],
)
def test_a_similar_line_is_not_recognised(line):
    assert match(line) is None
