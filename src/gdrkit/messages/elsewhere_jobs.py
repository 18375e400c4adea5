"""Messages of jobs, launchers and containers that are not about GPUDirect RDMA."""

from __future__ import annotations

from gdrkit.messages.other_message import OtherMessage

_SOCKET = "NCCL src/misc/socket.cc"
_PERFTEST = "perftest src/perftest_parameters.c"

ROWS = (
    OtherMessage(
        "emory",
        r"CUDA out of memory|CUDA error: out of memory|Cuda failure '?out of memory"
        r"|CUDA_ERROR_OUT_OF_MEMORY",
        "The GPU ran out of memory; what other ranks report follows from it",
        "Use less memory per GPU: a smaller batch, a shorter context, or more GPUs",
        "CUDA driver API, cudaErrorMemoryAllocation; PyTorch c10/cuda/CUDACachingAllocator.cpp",
    ),
    OtherMessage(
        "oom",
        r"(?i)\bcuda oom\b|\boom[- ]kill|\bout of (?:host )?memory: killed process",
        "A process ran out of memory (OOM); what other ranks report follows from it",
        "Find the rank that ran out, on the GPU or on the host, and give it more or let it use less",
        "Linux mm/oom_kill.c; how people name cudaErrorMemoryAllocation",
    ),
    OtherMessage(
        "system not yet initialized",
        r"system not yet initialized|CUDA_ERROR_SYSTEM_NOT_READY",
        "CUDA does not start because NVIDIA's Fabric Manager does not run, or is of another"
        " version than the"
        " driver",
        "Install the Fabric Manager of the driver's exact version: `systemctl status nvidia-fabricmanager`",
        "NVIDIA Fabric Manager user guide; CUDA error 802",
    ),
    OtherMessage(
        "CUDA",
        r"CUDA driver version is insufficient for CUDA runtime version"
        r"|API call is not supported in the installed CUDA driver",
        "The NVIDIA driver is older than the CUDA that the program was built with",
        "Update the driver, or use a container of an older CUDA",
        "CUDA runtime API, cudaErrorInsufficientDriver and cudaErrorCallRequiresNewerDriver",
    ),
    OtherMessage(
        "found",
        r"no socket interface found|no device found (?:matching|after excluding) .{0,60}NCCL_OOB_NET",
        "NCCL finds no network interface for its first connection: NCCL_SOCKET_IFNAME names none that is up",
        "Set NCCL_SOCKET_IFNAME to an interface that `ip address` shows on this host, or unset it",
        "NCCL src/bootstrap.cc",
    ),
    OtherMessage(
        "lockdown_reason",
        r"avc: +\*{0,2}denied\*{0,2} +\{ integrity \}.{0,80}lockdown_reason=\"unsigned module loading\"",
        "SELinux forbids this program to load an unsigned module: its policy lacks the permission"
        " `lockdown { integrity }`",
        "Sign the module, add the permission to the policy, or use a kernel from 5.16 on, which no longer"
        " asks SELinux",
        "Linux 5.6 to 5.15 security/selinux/hooks.c, selinux_lockdown(); removed by commit f5d0e5e9d72d",
    ),
    OtherMessage(
        "module_load",
        r"avc: +\*{0,2}denied\*{0,2} +\{ module_load \}",
        "SELinux forbids to load this file as a module: its label is not modules_object_t",
        "Run `restorecon -v FILE` for a file in /lib/modules, or `chcon -t modules_object_t FILE`",
        "Linux security/selinux/hooks.c, selinux_kernel_module_from_file()",
    ),
    OtherMessage(
        "ibv_create_srq()",
        r"UCX +ERROR .{0,40}ibv_create_srq\(\) failed: Operation not supported",
        "The RDMA device has no shared receive queues, which this transport of UCX needs, as EFA has none",
        "Let UCX choose its transports (unset UCX_TLS), or name one that the device has: srd or ud on EFA",
        "UCX src/uct/ib/rc/base/rc_iface.c, uct_rc_iface_init_rx()",
    ),
    OtherMessage(
        "not available, please use one or more of",
        r"UCX +(?:WARN|ERROR|DIAG) +transports? '(?!cuda|gdr_|rocm|ze_)[^ ]{1,80}' (?:is|are) not available",
        "UCX_TLS names a transport that this UCX does not have on this machine",
        "Choose among the transports that the line lists; EFA's is called srd",
        "UCX src/ucp/core/ucp_context.c, ucp_report_unavailable()",
    ),
    OtherMessage(
        "Socket creation failed",
        r"(?:NCCL )?WARN (?:Net : |ncclSocketInit: )?Socket creation failed : ",
        "NCCL cannot create a TCP socket: the container or host has no network interface with an IP address"
        " that it can use",
        "Start the container with the host's network, or give it an interface; `ip address` in it shows what"
        " it has",
        "NCCL src/include/socket.h in 2.3, createListenSocket(); src/misc/socket.cc, ncclSocketInit()",
    ),
    OtherMessage(
        "real path of",
        r"(?:NCCL )?WARN Could not find real path of /sys/class/pci_bus/",
        "NCCL does not find the GPU's PCI device in /sys, as in a container or VM that hides it",
        "Mount /sys of the host in the container (`-v /sys:/sys:ro`), or run it as it runs elsewhere",
        "NCCL src/graph/xml.cc, getPciPath()",
    ),
    OtherMessage(
        "onnect",
        r"(?:[Cc]onnect to|connecting to address) \S+ (?:failed|returned)\b.{0,40}"
        r"(?:refused|No route|timed out|unreachable|abort)",
        "NCCL does not reach the other host over TCP, before any RDMA",
        "Check the interface that NCCL_SOCKET_IFNAME selects, the firewall, and whether the peer still runs",
        _SOCKET,
        kind="follows",
    ),
    OtherMessage(
        "remote peer",
        r"Connection closed by remote peer|connection closed by peer|remote process exited",
        "Another rank stopped first; its log has the reason",
        "Look for the first error of all ranks",
        _SOCKET,
        kind="follows",
    ),
    OtherMessage(
        "/dev/shm",
        r"(?:failed to extend|Error while creating shared memory segment|No space left on device)"
        r".{0,60}/dev/shm|/dev/shm/\S* .{0,40}No space left",
        "The shared memory of the container (/dev/shm) is too small for NCCL",
        "Start the container with --shm-size=1g or more, or mount a memory volume at /dev/shm",
        "NCCL src/misc/shmutils.cc",
    ),
    OtherMessage(
        "No plugin found",
        r"NET/Plugin ?: ?No plugin found \(libnccl-net\.so\)",
        "This line is harmless: NCCL found no network plugin, and uses its own InfiniBand code",
        "Nothing has to be done",
        "NCCL src/plugin/net.cc",
        kind="harmless",
    ),
    OtherMessage(
        "cluster was started with",
        r"Version mismatch: The cluster was started with",
        "The versions of Ray or Python differ between the cluster and this process",
        "Use one image, or the same Ray and Python, on all nodes",
        "Ray python/ray/_private/utils.py, check_version_info()",
    ),
    OtherMessage(
        "unbound variable",
        r"line \d+: \w+: unbound variable",
        "A shell script stops because a variable that it needs is not set: a bug of the script or of its"
        " settings",
        "Set the variable that the line names, or use a release of the script in which it is fixed",
        "bash(1), set -u",
        kind="follows",
    ),
    OtherMessage(
        "ommand not found",
        r"[Cc]ommand not found: nvidia-container-cli|nvidia-container-cli: (?:command )?not found",
        "nvidia-container-cli is not installed on this host, so the container gets no GPU",
        "Install NVIDIA's container toolkit (libnvidia-container-tools) on every host",
        "NVIDIA/enroot conf/hooks/98-nvidia.sh",
    ),
    OtherMessage(
        "could not select device driver",
        r"could not select device driver .{0,20}capabilities: ?\[\[gpu\]\]",
        "Docker has no NVIDIA runtime, so the container gets no GPU",
        "Install nvidia-container-toolkit, run `nvidia-ctk runtime configure`, and restart docker",
        "moby daemon/devices_linux.go",
    ),
    OtherMessage(
        "NVML: Unknown Error",
        r"Failed to initialize NVML: Unknown Error",
        "The container lost its access to the GPU's device files, as after `systemctl daemon-reload`",
        "Start the container again; to keep it, pass the devices with --device or use the CDI",
        "NVIDIA/nvidia-container-toolkit docs, containers losing access to GPUs",
    ),
    OtherMessage(
        "not found",
        r"\bIB device \S{1,40} (?:was)?(?:n't)? ?(?:not )?found",
        "The RDMA device that the command names (-d) is not on this machine",
        "Use a name that `ibv_devices` lists here",
        f"{_PERFTEST}, ctx_find_dev()",
    ),
    OtherMessage(
        "unrecognized option",
        r"unrecognized option '?-{1,2}use_cuda",
        "This perftest was built without CUDA",
        "Build it with ./configure CUDA_H_PATH=/usr/local/cuda/include/cuda.h",
        _PERFTEST,
    ),
    OtherMessage(
        "without CUDA",
        r"CUDA DMA-BUF cannot be used without CUDA",
        "perftest reads its options in order: --use_cuda has to come before --use_cuda_dmabuf",
        "Put --use_cuda=N first on the command line",
        f"{_PERFTEST}, parser()",
    ),
    OtherMessage(
        "Couldn't connect to",
        r"^\W*Couldn't connect to \S+:\d+|Unable to (?:init|open) (?:the )?(?:file descriptor|socket) ",
        "perftest's client does not reach the server over TCP, before any RDMA",
        "Start the server first, and open the port (18515 by default) in the firewall",
        "perftest src/perftest_communication.c",
    ),
    OtherMessage(
        "OpenFabrics",
        r"error initializing an OpenFabrics device|No OpenFabrics connection schemes|"
        r"No preset parameters were found for the device",
        "This warning is harmless where UCX carries the data: Open MPI's old openib component does"
        " not know"
        " the NIC",
        "Silence it with `--mca btl ^openib`, and use `--mca pml ucx`",
        "open-mpi/ompi opal/mca/btl/openib, up to 4.1",
        kind="harmless",
    ),
    OtherMessage(
        "appears to",
        r"An NVIDIA kernel module '\S+' appears to (?:be )?already (?:be )?loaded",
        "A module of the running driver is in use, so another driver cannot be installed now",
        "Stop what uses the GPU (display, persistence daemon, containers), or reboot and install then",
        "NVIDIA/nvidia-installer kernel.c",
    ),
    OtherMessage(
        "ncclIbRoceGetVersionNum",
        r"read failed in ncclIbRoceGetVersionNum",
        "NCCL before 2.26 stops at an empty entry of the GID table, as containers have them",
        "Use NCCL 2.26 or newer, or set NCCL_IB_GID_INDEX to an index that `show_gids` lists in"
        " the container",
        "NCCL src/transport/net_ib.cc, 2.21 to 2.25",
    ),
    OtherMessage(
        "ompletion",
        r"Got completion .{0,80}(?:status=|error )(?:5|9|13)\b",
        "This completion error follows from another one: the peer, or this rank, had already stopped",
        "Look for the first error of all ranks",
        "ibv_poll_cq(3), IBV_WC_WR_FLUSH_ERR",
        kind="follows",
    ),
    OtherMessage(
        "libcuda.so",
        r"Failed to find CUDA library libcuda\.so",
        "The program finds no CUDA driver library, as in a container without the GPU's driver",
        "Start the container with the GPU (--gpus all), or install the driver where the program runs",
        "NCCL src/misc/cudawrap.cc",
    ),
    OtherMessage(
        "undefined!",
        r"\"\w+\" \[\S+\.ko\] undefined!",
        "The module does not build: it uses a symbol that neither the kernel nor the driver that it was"
        " built against exports",
        "Install the driver (and OFED) for this kernel first, with its Module.symvers; then build"
        " the module"
        " again",
        "Linux scripts/mod/modpost.c",
    ),
    OtherMessage(
        "error:",
        r"\.[ch]:\d+:\d+: error: |\berror: objtool: ",
        "The source of the module or program does not compile: it does not fit this version of the"
        " kernel or"
        " of a library",
        "Use a release that supports this kernel, or an older kernel",
        "gcc(1); Linux tools/objtool",
    ),
    OtherMessage(
        "module source",
        r"does not appear to have module source located within it",
        "The DKMS package has no source of the module, or not where it says, so nothing was built",
        "Install another release of the package, or build the module from source",
        "dkms.in, prepare_build()",
    ),
    OtherMessage(
        "Unsupported",
        r"<(?:info|warn)> Unsupported (?:capabilities|endpoint type|mode|version)",
        "A provider of libfabric does not offer what the program requests; the next lines name both",
        "Compare `Supported` and `Requested`; use a provider or a release that has what is missing",
        "libfabric prov/util/src/util_attr.c; prov/efa",
        kind="follows",
    ),
    OtherMessage(
        " transport",
        r"\bno (?:active messages|remote \w+ memory access|auxiliary|tag) transport\b",
        "UCX found no transport with everything that the program asks for; the line names what"
        " each one lacks",
        "Allow more transports in UCX_TLS, or use a UCX release whose transports have it",
        "openucx/ucx src/ucp/wireup/select.c",
    ),
    OtherMessage(
        "/dev/infiniband/",
        r"Device path /dev/infiniband/(?!uverbs)\w+ does not exist",
        "This Mooncake looks for device files by the device's name (/dev/infiniband/mlx5_0), which"
        " no system"
        " has: they are named uverbs0 and so on",
        "Use a release of Mooncake without this regression",
        "kvcache-ai/Mooncake mooncake-transfer-engine/src/topology.cpp",
    ),
    OtherMessage(
        "DeepEP timeout check failed",
        r"DeepEP timeout check failed: ",
        "A rank waited some 100 seconds for another one of the same host, over NVLink: that one failed or"
        " hangs",
        "Find the first error of all ranks of this host; this wait is not on the network",
        "deepseek-ai/DeepEP csrc/kernels/utils.cuh, barrier_block()",
        kind="follows",
    ),
    OtherMessage(
        "unspecified launch failure",
        r"(?:deep_?ep|internode\w*\.cu|intranode\.cu|EPException).{0,80}unspecified launch failure",
        "A kernel of DeepEP stopped, as its kernels do when a wait takes too long, or accessed memory that"
        " is not there",
        "Read the lines before it: a time-out names what was waited for, and the first error of all ranks"
        " is why",
        "deepseek-ai/DeepEP csrc/kernels/utils.cuh, trap(); exception.cuh",
        kind="follows",
    ),
    OtherMessage(
        "undefined symbol: cu",
        r"libcuda\.so(?:\.\d)?: undefined symbol: cu[A-Z]\w+",
        "The libcuda.so.1 that is loaded is of a driver older than the CUDA that the program was built with,"
        " or a stub",
        "Update the driver, and keep CUDA's `stubs` folder out of LD_LIBRARY_PATH",
        "CUDA driver API: names with _v2 came with later drivers",
    ),
    OtherMessage(
        "does not support specifying qp depth",
        r"GIN\w* does not support specifying qp depth",
        "The program asks NCCL's GIN for a queue depth, which its proxy kind does not support",
        "Leave the queue depth at 0, or use GIN of the kind GDAKI, which needs direct access to the NIC",
        "NVIDIA/nccl src/gin; deepseek-ai/DeepEP csrc/kernels/backend/nccl.cu",
    ),
    OtherMessage(
        "undefined symbol: uc",
        r"undefined symbol: uc[pts]_\w+",
        "Libraries of two UCX versions are loaded together",
        "Use one UCX: check LD_LIBRARY_PATH, and `ldd` of the library that fails",
        "openucx/ucx: libuct, libucs and libucp of one build belong together",
    ),
    OtherMessage(
        "merge incompatible devices",
        r"Attempted to merge incompatible devices",
        "NCCL cannot join an InfiniBand port and an Ethernet (RoCE) port into one network device",
        "Name the NICs of one link type: NCCL_IB_HCA; `ibv_devinfo` shows the link layer of each",
        "NCCL src/transport/net_ib/init.cc, ncclIbMakeVDeviceInternal()",
    ),
    OtherMessage(
        "shared memory segment",
        r"Error while attaching to shared memory segment /dev/shm/\S*.{0,60}No such file",
        "A rank of this host does not see the shared memory (/dev/shm) of another one: they run in"
        " containers"
        " with a /dev/shm of their own",
        "Start the containers with --ipc=host, or mount one /dev/shm in all of them;"
        " NCCL_SHM_DISABLE=1 avoids"
        " shared memory",
        "NCCL src/misc/shmutils.cc, ncclShmOpen(); src/os/linux.cc since 2.30",
    ),
    OtherMessage(
        "P2P is disabled between NVLINK",
        r"P2P is disabled between NVLINK connected GPUs",
        "CUDA offers no peer-to-peer access between two GPUs that NVLink connects: mostly a fault of the"
        " hardware, or of the Fabric Manager",
        "`nvidia-smi topo -p2p r` and `nvidia-smi nvlink -s` show the link; look for Xid errors in dmesg",
        "NCCL src/graph/paths.cc, ncclTopoCheckP2p()",
    ),
    OtherMessage(
        "Multicast memory",
        r"Failed to bind NVLink SHARP \(NVLS\) Multicast memory",
        "NCCL cannot use NVLink SHARP (NVLS): the Fabric Manager or the NVSwitches are not set up for it",
        "Check the Fabric Manager: `systemctl status nvidia-fabricmanager`; NCCL_NVLS_ENABLE=0 avoids NVLS",
        "NCCL src/transport/nvls.cc",
    ),
    OtherMessage(
        "IB transport out of range",
        r"IB transport out of range: \d+ >= \d+",
        "MSCCL++ takes one RDMA device for each GPU of a host, and this host has fewer: two GPUs"
        " cannot share"
        " one",
        "Use no more ranks per host than it has RDMA devices; MSCCLPP_HCA_DEVICES names them",
        "microsoft/mscclpp src/ib.cc, getIBDeviceName(), of 0.1 to 0.8; src/core/ib.cc since 0.9",
    ),
)
