"""Messages of NCCL, PyTorch, CUDA and containers, most without a finding code: what each one means."""

from __future__ import annotations

from gdrkit.messages.message import Meaning, MessageTemplate
from gdrkit.messages.torch_watchdog import TIMED_OUT

_SMALL_DEV_SHM = Meaning(
    "The shared memory of the container (/dev/shm) is too small for NCCL",
    "Start the container with --shm-size=1g or more, or mount a memory volume at /dev/shm",
)
_NO_INTERFACE = Meaning(
    "NCCL finds no network interface for its first connection: NCCL_SOCKET_IFNAME names none that is up",
    "Set NCCL_SOCKET_IFNAME to an interface that `ip address` shows on this host, or unset it",
)
_WRONG_VALUES = Meaning(
    "nccl-tests found wrong values in the result: data was corrupted on its way or in a GPU's memory",
    "Do not use this path. Repeat the run on fewer GPUs and hosts until one is left that fails, look there"
    " for Xid and PCIe errors in dmesg, and repeat it with NCCL_NET_GDR_LEVEL=LOC, without GPUDirect RDMA",
)

_OWN_GDRCOPY = Meaning(
    "This line is harmless: NCCL 2.31.2 and newer do what libgdrapi does by mapping a dma-buf themselves",
    "Nothing has to be done, unless a later line says that the internal backend is unavailable",
    effect="harmless",
)
OF_EVERY_HOST = "interface-of-every-host"
_OF_EVERY_HOST = Meaning(
    "NCCL uses an interface that reaches no other host: it has an address that every host of a cluster has,"
    " for Docker, EKS Pod Identity or a cache of DNS. A job over several hosts hangs or is refused",
    "Set NCCL_SOCKET_IFNAME on all ranks to the interface that `ip route get ADDRESS` names for another one,"
    " or leave this one out: ^lo,docker,pod-id-link0,nodelocaldns",
)

ROWS = (
    MessageTemplate(
        "nccl-tests",
        r"# Out of bounds values :{:\s*}{count:[1-9]\d*} FAILED",
        meaning=_WRONG_VALUES,
        source="NVIDIA/nccl-tests src/common.cu, writeResultFooter()",
        sample="# Out of bounds values : 2 FAILED",
    ),
    MessageTemplate(
        "nccl",
        "falling back to NCCL internal DMA-BUF mmap backend",
        meaning=_OWN_GDRCOPY,
        source="NCCL src/misc/gdrwrap.cc, of 2.31.2",
        versions="2.31.2 and later",
        open_end=True,
        sample="n1:1:2 [0] NCCL INFO Failed to open libgdrapi.so.2 - no such file; falling back to NCCL "
        "internal DMA-BUF mmap backend",
    ),
    MessageTemplate(
        "nccl",
        "NET/{:(?:Fast)?}Socket{: ?}: GPU Direct RDMA Disabled",
        meaning=Meaning(
            "NCCL uses TCP sockets, which never access GPU memory; the line does not name a fault of"
            " GPUDirect RDMA",
            "If this machine has an RDMA NIC, look above for why NCCL did not take it: `NET/IB : No device"
            " found`",
            effect="harmless",
        ),
        source="NCCL src/graph/topo.cc, ncclTopoPopulateNics()",
        open_end=True,
        sample="n1:1:2 [2] NCCL INFO NET/Socket : GPU Direct RDMA Disabled for HCA 0 'eno1'",
    ),
    MessageTemplate(
        "nccl",
        "NET/Plugin{: ?}:{: ?}No plugin found (libnccl-net.so)",
        meaning=Meaning(
            "This line is harmless: NCCL found no network plugin, and uses its own InfiniBand code",
            "Nothing has to be done",
            effect="harmless",
        ),
        source="NCCL src/plugin/net.cc",
        open_end=True,
        sample="n1:1:2 [0] NCCL INFO NET/Plugin : No plugin found (libnccl-net.so), using internal",
    ),
    MessageTemplate(
        "nccl",
        "NVLS multicast support is not available",
        meaning=Meaning(
            "This line is harmless: NVLink multicast is a feature of some machines only",
            "Nothing has to be done",
            effect="harmless",
        ),
        source="NCCL src/transport/nvls.cc",
        open_end=True,
        sample="n1:1:2 [7] NCCL INFO NVLS multicast support is not available on dev 7",
    ),
    MessageTemplate(
        "nccl",
        "Watchdog caught collective operation timeout",
        meaning=TIMED_OUT,
        source="PyTorch torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp",
        open_end=True,
        sample="[rank3]:[E1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1)",
    ),
    MessageTemplate(
        "nccl",
        r"NCCL WARN Message truncated : received {:\d+} bytes instead of",
        meaning=Meaning(
            "Two programs with different jobs or NCCL versions talked to each other while NCCL started",
            "End processes that are left from earlier runs, and use one NCCL version on all ranks",
        ),
        source="NCCL src/bootstrap.cc",
        open_end=True,
        sample="n1:1:2 [0] bootstrap.cc:77 NCCL WARN Message truncated : received 172 bytes instead of 64",
    ),
    MessageTemplate(
        "nvidia",
        "CUDA driver version is insufficient for CUDA runtime version",
        meaning=Meaning(
            "The NVIDIA driver is older than the CUDA that the program was built with",
            "Update the driver, or use a container of an older CUDA",
        ),
        source="CUDA runtime API, cudaErrorInsufficientDriver and cudaErrorCallRequiresNewerDriver",
        open_end=True,
        sample="n1:1:2 [0] NCCL WARN Cuda failure 'CUDA driver version is insufficient for CUDA "
        "runtime version'",
    ),
    MessageTemplate(
        "nccl",
        "no socket interface found",
        meaning=_NO_INTERFACE,
        source="NCCL src/bootstrap.cc",
        open_end=True,
        sample="n1:1:2 [0] NCCL WARN Bootstrap : no socket interface found",
    ),
    MessageTemplate(
        "nccl",
        "no device found {:(?:matching|after excluding)} {:.{0,60}}NCCL_OOB_NET",
        meaning=_NO_INTERFACE,
        source="NCCL src/bootstrap.cc",
        open_end=True,
        sample="NCCL WARN no device found matching the list in NCCL_OOB_NET",
    ),
    MessageTemplate(
        "torch",
        "{what:The client socket has timed out after .{1,20} while trying to connect|The client socket has"
        " failed to connect to any network address|The connection to the C10d store has failed}",
        meaning=Meaning(
            "torch.distributed does not reach the store of rank 0 over TCP. Neither NCCL nor RDMA has a part"
            " in that",
            "Read the log of rank 0 first: it may not have started, or have stopped. Else try, from here,"
            " the host and port that the line names: `getent hosts HOST`, `nc -vz HOST PORT`. A name that"
            " does not resolve, a firewall, a network policy, or another MASTER_PORT keep them apart",
        ),
        source="PyTorch torch/csrc/distributed/c10d/socket.cpp; torch/distributed/elastic/rendezvous",
        open_end=True,
        sample="[E1124 10:01:12.1 socket.cpp:1019] [c10d] The client socket has timed out after 60000ms"
        " while trying to connect to (trainer-0, 29500).",
    ),
    MessageTemplate(
        "torch",
        r"Timed out after {:\d{1,6}} seconds waiting for clients. {joined:\d{1,6}}/{all:\d{1,6}} clients"
        " joined",
        meaning=Meaning(
            "Not all processes of the job reached the store of rank 0 in time: some did not start, or cannot"
            " reach it over TCP",
            "Look for the processes that did not join: the first error in their logs, or that they have"
            " none",
            effect="follows",
        ),
        source="PyTorch torch/csrc/distributed/c10d/TCPStore.cpp, waitForWorkers()",
        open_end=True,
        sample="torch.distributed.DistStoreError: Timed out after 301 seconds waiting for clients. 1/2"
        " clients joined.",
    ),
    MessageTemplate(
        "nccl",
        r"{:(?:Bootstrap|NET/Socket) ?: ?Using|OOB}{:.{0,400}?(?<![\w-])}"
        "{interface:pod-id-link0|nodelocaldns}:169.254.",
        meaning=_OF_EVERY_HOST,
        source="aws/eks-pod-identity-agent configuration/config.go; Kubernetes NodeLocal DNSCache; "
        "aws-samples/aws-do-eks pull request 54",
        open_end=True,
        name=OF_EVERY_HOST,
        sample="n1:1:2 [0] NCCL INFO NET/Socket : Using [0]enp73s0:10.1.216.156<0> "
        "[1]pod-id-link0:169.254.170.23<0>",
    ),
    MessageTemplate(
        "nccl",
        "Socket creation failed : ",
        meaning=Meaning(
            "NCCL cannot create a TCP socket: the container or host has no network interface "
            "with an IP address that it can use",
            "Start the container with the host's network, or give it an interface; `ip address` "
            "in it shows what it has",
        ),
        source="NCCL src/include/socket.h in 2.3, createListenSocket(); src/misc/socket.cc, "
        "ncclSocketInit()",
        open_end=True,
        sample="n1:1:2 [0] include/socket.h:311 NCCL WARN Net : Socket creation failed : Address "
        "family not supported",
    ),
    MessageTemplate(
        "nccl",
        r"{:[Cc]}onnect{: to|ing to address} 172.17.0.{:\d+<\d+> (?:failed|returned)}",
        meaning=_OF_EVERY_HOST,
        source="NCCL src/misc/socket.cc; docs.docker.com, the default bridge is 172.17.0.0/16",
        open_end=True,
        sample="NCCL WARN socketPollConnect: Connect to 172.17.0.1<3> returned 111(Connection refused)",
    ),
    MessageTemplate(
        "nccl",
        r"{:[Cc]}onnect{: to|ing to address} {:\S+} {:(?:failed|returned)\b.{0,40}}"
        r"{:refused|No route|timed out|unreachable}",
        meaning=Meaning(
            "NCCL does not reach the other host over TCP, before any RDMA",
            "Check the interface that NCCL_SOCKET_IFNAME selects, the firewall, and whether the "
            "peer still runs",
            effect="follows",
        ),
        source="NCCL src/misc/socket.cc",
        open_end=True,
        sample="n1:1:2 [0] NCCL WARN socketStartConnect: Connect to 10.0.0.2<4> failed : Connection refused",
    ),
    MessageTemplate(
        "nccl",
        "Connection closed by remote peer",
        meaning=Meaning(
            "Another rank stopped first; its log has the reason",
            "Look for the first error of all ranks",
            effect="follows",
        ),
        source="NCCL src/misc/socket.cc",
        sample="n1:1:2 [0] NCCL WARN Net : Connection closed by remote peer 10.0.0.2<4>",
    ),
    MessageTemplate(
        "nccl",
        "{:(?:failed to extend|Error while creating shared memory segment).{0,60}}/dev/shm",
        meaning=_SMALL_DEV_SHM,
        source="NCCL src/misc/shmutils.cc",
        open_end=True,
        sample="n1:1:2 [0] NCCL WARN Error: failed to extend /dev/shm/nccl-abc to 9637892 bytes",
    ),
    MessageTemplate(
        "nccl",
        r"/dev/shm/{:\S{0,255}+} {:.{0,40}}No space left",
        meaning=_SMALL_DEV_SHM,
        source="NCCL src/misc/shmutils.cc",
        open_end=True,
        sample="open /dev/shm/nccl-a1: No space left on device",
    ),
    MessageTemplate(
        "container",
        "Failed to initialize NVML: Unknown Error",
        meaning=Meaning(
            "The container lost its access to the GPU's device files, as after `systemctl daemon-reload`",
            "Start the container again; to keep it, pass the devices with --device or use the CDI",
        ),
        source="NVIDIA/nvidia-container-toolkit docs, containers losing access to GPUs",
        open_end=True,
        sample="Failed to initialize NVML: Unknown Error",
    ),
    MessageTemplate(
        "nccl",
        "read failed in ncclIbRoceGetVersionNum",
        meaning=Meaning(
            "NCCL before 2.26 stops at an empty entry of the GID table, as containers have them",
            "Use NCCL 2.26 or newer, or set NCCL_IB_GID_INDEX to an index that `show_gids` lists "
            "in the container",
        ),
        source="NCCL src/transport/net_ib.cc, 2.21 to 2.25",
        open_end=True,
        sample="n1:1:2 [0] NCCL WARN NET/IB : read failed in ncclIbRoceGetVersionNum: Invalid argument",
    ),
    MessageTemplate(
        "verbs",
        r"{:Got completion .{0,80}(?:status=|error )(?:5|9|13)\b|IBV_WC_WR_FLUSH_ERR"
        r"|Work Request Flushed Error}",
        meaning=Meaning(
            "This completion error follows from another one: the peer, or this rank, had already stopped",
            "Look for the first error of all ranks",
            effect="follows",
        ),
        source="ibv_poll_cq(3); rdma-core libibverbs/verbs.c, ibv_wc_status_str()",
        open_end=True,
        sample="n1:1:2 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.2<1> with status=5 "
        "vendor err 249",
    ),
    MessageTemplate(
        "nccl",
        "Failed to find CUDA library libcuda.so",
        meaning=Meaning(
            "The program finds no CUDA driver library, as in a container without the GPU's driver",
            "Start the container with the GPU (--gpus all), or install the driver where the program runs",
        ),
        source="NCCL src/misc/cudawrap.cc",
        open_end=True,
        sample="n1:1:2 [1] NCCL WARN Failed to find CUDA library libcuda.so (NCCL_CUDA_PATH='')",
    ),
    MessageTemplate(
        "kernel",
        r'"{:\w+}" [{:\S+}.ko] undefined!',
        meaning=Meaning(
            "The module does not build: it uses a symbol that neither the kernel nor the driver "
            "that it was built against exports",
            "Install the driver (and OFED) for this kernel first, with its Module.symvers; then "
            "build the module again",
        ),
        source="Linux scripts/mod/modpost.c",
        open_end=True,
        sample='ERROR: "nvidia_p2p_get_pages" [/var/lib/dkms/x/1.0/build/x.ko] undefined!',
    ),
    MessageTemplate(
        "nvidia",
        r"libcuda.so{:(?:\.\d)?}: undefined symbol: cu{:[A-Z]\w+}",
        meaning=Meaning(
            "The libcuda.so.1 that is loaded is of a driver older than the CUDA that the program "
            "was built with, or a stub",
            "Update the driver, and keep CUDA's `stubs` folder out of LD_LIBRARY_PATH",
        ),
        source="CUDA driver API: names with _v2 came with later drivers",
        open_end=True,
        sample="Error string: /lib64/libcuda.so.1: undefined symbol: cuIpcOpenMemHandle_v2",
    ),
    MessageTemplate(
        "nccl",
        r"GIN{:\w*} does not support specifying qp depth",
        meaning=Meaning(
            "The program asks NCCL's GIN for a queue depth, which its proxy kind does not support",
            "Leave the queue depth at 0, or use GIN of the kind GDAKI, which needs direct access to the NIC",
        ),
        source="NVIDIA/nccl src/gin; deepseek-ai/DeepEP csrc/kernels/backend/nccl.cu",
        open_end=True,
        sample="NCCL exception (nccl.cu:88): 5 (GIN_IB_PROXY does not support specifying qp depth)",
    ),
    MessageTemplate(
        "nccl",
        "Attempted to merge incompatible devices",
        meaning=Meaning(
            "NCCL cannot join an InfiniBand port and an Ethernet (RoCE) port into one network device",
            "Name the NICs of one link type: NCCL_IB_HCA; `ibv_devinfo` shows the link layer of each",
        ),
        source="NCCL src/transport/net_ib/init.cc, ncclIbMakeVDeviceInternal()",
        open_end=True,
        sample="n1:1:2 [0] init.cc:25 NCCL WARN NET/IB : Attempted to merge incompatible "
        "devices: [0]mlx5_0:1/IB and [1]mlx5_1:1/RoCE. Try selecting NICs of only one "
        "link type using NCCL_IB_HCA",
    ),
    MessageTemplate(
        "nccl",
        r"Error while attaching to shared memory segment /dev/shm/{:\S*.{0,60}}No such file",
        meaning=Meaning(
            "A rank of this host does not see the shared memory (/dev/shm) of another one: they "
            "run in containers with a /dev/shm of their own",
            "Start the containers with --ipc=host, or mount one /dev/shm in all of them; "
            "NCCL_SHM_DISABLE=1 avoids shared memory",
        ),
        source="NCCL src/misc/shmutils.cc, ncclShmOpen(); src/os/linux.cc since 2.30",
        open_end=True,
        sample="n1:1:2 [0] misc/shmutils.cc:8 NCCL WARN Error while attaching to shared memory "
        "segment /dev/shm/nccl-aB1 (size 9637888), error: No such file or directory (2)",
    ),
    MessageTemplate(
        "nccl",
        "P2P is disabled between NVLINK connected GPUs",
        meaning=Meaning(
            "CUDA offers no peer-to-peer access between two GPUs that NVLink connects: mostly a "
            "fault of the hardware, or of the Fabric Manager",
            "`nvidia-smi topo -p2p r` and `nvidia-smi nvlink -s` show the link; look for Xid "
            "errors in dmesg",
        ),
        source="NCCL src/graph/paths.cc, ncclTopoCheckP2p()",
        open_end=True,
        sample="n1:1:2 [0] paths.cc:3 NCCL WARN P2P is disabled between NVLINK connected GPUs 1 "
        "and 0. This should not",
    ),
    MessageTemplate(
        "nccl",
        "Failed to bind NVLink SHARP (NVLS) Multicast memory",
        meaning=Meaning(
            "NCCL cannot use NVLink SHARP (NVLS): the Fabric Manager or the NVSwitches are not "
            "set up for it",
            "Check the Fabric Manager: `systemctl status nvidia-fabricmanager`; "
            "NCCL_NVLS_ENABLE=0 avoids NVLS",
        ),
        source="NCCL src/transport/nvls.cc",
        open_end=True,
        sample="n1:1:2 [0] nvls.cc:3 NCCL WARN Failed to bind NVLink SHARP (NVLS) Multicast "
        "memory of size 2097152",
    ),
    MessageTemplate(
        "nccl",
        "DOCA_GPUNETIO_DISABLE_GDRCOPY is set, disabling GDRCopy",
        meaning=Meaning(
            "This line is harmless: a variable keeps DOCA GPUNetIO from GDRCopy, so that it uses "
            "memory of the host where it would map the GPU's",
            "Unset DOCA_GPUNETIO_DISABLE_GDRCOPY if that was not meant",
            effect="harmless",
        ),
        source="NVIDIA/nccl src/transport/net_ib/gdaki/doca-gpunetio/src/doca_gpunetio_gdrcopy.cpp",
        open_end=True,
        sample="DOCA_GPUNETIO_DISABLE_GDRCOPY is set, disabling GDRCopy",
    ),
)
