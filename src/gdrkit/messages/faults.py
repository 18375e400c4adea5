"""Messages about faults of GPUs, NICs and their drivers; of those without a finding code, what they mean."""

from __future__ import annotations

import errno

from gdrkit.messages.driver import SYMBOL_REFUSED
from gdrkit.messages.message import Meaning, MessageTemplate
from gdrkit.messages.verbs_failures import causes_of

_OTHER_LAYOUT = Meaning(
    "This line is harmless: rdma_topo judges machines with Data Direct, those with GPU and NIC on root ports"
    " of a Grace or Vera, and those with the GPU below the NIC's switch; this machine is none of them",
    "Run `sudo gdr doctor`, which judges ACS on other layouts too",
    effect="harmless",
)

ROWS = (
    MessageTemplate(
        "cuda",
        "system not yet initialized",
        ("nvswitch-fabric-down",),
        decides=False,
        source="NVIDIA Fabric Manager user guide; CUDA error 802",
        open_end=True,
        sample="RuntimeError: CUDA error: system not yet initialized",
    ),
    MessageTemplate(
        "cuda",
        "{:CUDA_ERROR_SYSTEM_NOT_READY|cudaErrorSystemNotReady}",
        ("nvswitch-fabric-down",),
        decides=False,
        source="NVIDIA Fabric Manager user guide; CUDA error 802",
        open_end=True,
        sample="CUDA error: CUDA_ERROR_SYSTEM_NOT_READY",
    ),
    MessageTemplate(
        "rdma_topo",
        "E: No supported topology detected",
        meaning=_OTHER_LAYOUT,
        open_end=True,
        versions="v64.0 and later",
        source="rdma-core kernel-boot/rdma_topo",
    ),
    MessageTemplate(
        "rdma_topo",
        "No ConnectX DMA Direct functions detected",
        meaning=_OTHER_LAYOUT,
        open_end=True,
        versions="v61.0 to v63.1",
        source="rdma-core kernel-boot/rdma_topo",
    ),
    MessageTemplate(
        "nccl",
        "Could not find real path of /sys/class/pci_bus/",
        meaning=Meaning(
            "NCCL does not find a GPU among the PCI devices in /sys, and stops: WSL2 and some containers do"
            " not show it there, and NCCL before 2.10 needs that",
            "On WSL2, use NCCL 2.10 or newer, which does without; elsewhere, make the host's /sys visible in"
            " the container. WSL2 has no RDMA: lines about libibverbs and TCP have no effect there",
        ),
        source="NCCL src/graph/xml.cc, getPciPath(), and include/topo.h before 2.6; NVIDIA/nccl issues 442"
        " and 511",
        open_end=True,
        sample="n1:1:2 [0] graph/xml.cc:332 NCCL WARN Could not find real path of"
        " /sys/class/pci_bus/0000:01/../../0000:01:00.0",
    ),
    MessageTemplate(  # of enum ncclSocketType: ncclSocketTypeNetSocket and ncclSocketTypeNetIb
        "nccl",
        "socketFinalizeAccept{:(?: from \\S{1,80})?}: wrong type {theirs:3 != 4|4 != 3}",
        meaning=Meaning(
            "A rank that uses InfiniBand or RoCE and one that uses TCP tried to connect: the ranks of the"
            " job chose different networks, and cannot talk to each other",
            "Compare `Using network` of all ranks, and find out why those with Socket have no RDMA device:"
            " `ibv_devinfo` on their host and in their container, and the lines NET/IB of their log."
            " NCCL_IB_DISABLE=1 on all ranks makes them agree on TCP meanwhile",
        ),
        source="NCCL src/misc/socket.cc, socketFinalizeAccept(); include/socket.h",
        open_end=True,
        sample="n1:1:2 [0] misc/socket.cc:441 NCCL WARN socketFinalizeAccept: wrong type 4 != 3",
    ),
    MessageTemplate(
        "torchcomms",
        r"CTRAN ERROR {file:\S{1,200}/ib/\S{1,80}} -> 524 ",
        ("topology-refused", "iommu-groups-differ"),
        source="meta-pytorch/torchcomms comms/ctran/backends/ib/CtranIb.cc; Linux include/linux/errno.h,"
        " ENOTSUPP: what NVIDIA's driver returns where it maps no dma-buf for a NIC",
        decides=False,
        open_end=True,
        sample="E0108 10:38:38.120482 9096 CtranIb.cc:796] CTRAN ERROR"
        " comms/ctran/backends/ib/CtranIb.cc:796 -> 524 (Unknown error 524)",
    ),
    MessageTemplate(
        "nvidia",
        r"nv_get_p2p_free_callback{:\S* ?.{0,40}}detected invalid context",
        meaning=Meaning(
            "This line is harmless: a check in nvidia-peermem, in drivers before 560, skips a "
            "context that is gone",
            "Nothing has to be done. Drivers from 560 on no longer print it",
            effect="harmless",
        ),
        source="open-gpu-kernel-modules kernel-open/nvidia-peermem/nvidia-peermem.c; release "
        "notes of 535.129.03",
        open_end=True,
        sample="[ 25.2] nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid "
        "context, skipping",
    ),
    MessageTemplate(
        "nvidia",
        "nv_get_p2p_free_callback{:.{0,60}}invalid page_table",
        meaning=Meaning(
            "A known bug of older GPU drivers, fixed in R510 and in R470 of May 2021, frees the "
            "page table twice",
            "Update the GPU driver to R510 or newer, or to a newer release of R470",
        ),
        source="Mellanox/nv_peer_memory nv_peer_mem.c, nv_get_p2p_free_callback(); NVIDIA driver "
        "release notes",
        open_end=True,
        sample="nv_mem nv_get_p2p_free_callback:144 nv_get_p2p_free_callback -- invalid page_table",
    ),
    MessageTemplate(
        "kernel",
        "PKCS#7 signature not signed with a trusted key",
        meaning=Meaning(
            "This line is only a notice where signatures are not enforced: the module may load all the same",
            "Find out whether it loaded: `lsmod | grep nvidia`",
            effect="harmless",
        ),
        source="Linux crypto/asymmetric_keys, pkcs7_validate_trust()",
        open_end=True,
        sample="kernel: [  8.5] PKCS#7 signature not signed with a trusted key",
    ),
    MessageTemplate(
        "kernel",
        "ibv_modify_qp{:.{0,60}}No such device",
        causes_of("ibv_modify_qp", errno.ENODEV),
        decides=False,
        source="Linux drivers/infiniband/core/roce_gid_mgmt.c",
        open_end=True,
        sample="UCX  ERROR mlx5_1: ibv_modify_qp(UMR QP 0x1) failed to modify to RTR: No such device",
    ),
    MessageTemplate(
        "nvidia",
        "Could not unload NVIDIA driver kernel modules, driver is in use",
        meaning=Meaning(
            "The driver container cannot unload the NVIDIA driver: another module, such as "
            "gdrdrv, or a process uses it",
            "`lsmod | grep ^nvidia` names the modules that hold it: unload them first, or drain "
            "the node and reboot it",
        ),
        source="NVIDIA/gpu-driver-container nvidia-driver, _unload_driver()",
        open_end=True,
        sample="Could not unload NVIDIA driver kernel modules, driver is in use",
    ),
    MessageTemplate(
        "nvidia",
        "Cannot locate nvidia modules",
        meaning=Meaning(
            "The build found no NVIDIA kernel module for that kernel, so nv_peer_mem cannot be built for it",
            "Install the NVIDIA driver for that kernel first; DKMS also builds for kernels that do not run",
        ),
        source="Mellanox/nv_peer_memory create_nv.symvers.sh",
        sample="-E- Cannot locate nvidia modules!",
    ),
    MessageTemplate(
        "nvidia",
        "Unable to determine the device handle for GPU",
        ("gpu-needs-reset",),
        source="NVIDIA Xid errors, 79 and 48",
        open_end=True,
        sample="Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost.",
    ),
    MessageTemplate(
        "nvidia",
        r"NVRM: Xid (PCI:{:[0-9a-fA-F:.]+}): 63, ",
        meaning=Meaning(
            "The driver has marked a row or page of the GPU's memory for replacement (Xid 63). That takes"
            " effect when the GPU is reset or the machine restarted; until then the GPU works, also for new"
            " jobs",
            "When it suits you: drain the node, then `sudo nvidia-smi --gpu-reset -i <address>`, or reboot."
            " `nvidia-smi -q -d ROW_REMAPPER,PAGE_RETIREMENT` shows what is pending until then; a remapping"
            " failure there is a case for support. With Xid 94 beside it, restart the job that got that",
        ),
        source="https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/error-recovery-and-response-flags.html",
        open_end=True,
        sample="NVRM: Xid (PCI:0000:10:1c): 63, pid=1896, Row Remapper: New row marked for remapping, reset"
        " gpu to activate.",
    ),
    MessageTemplate(
        "nvidia",
        r"NVRM: Xid (PCI:{:[0-9a-fA-F:.]+}): {:(?:74|9[24]|149)\b}",
        meaning=Meaning(
            "The driver reports an error of the GPU's memory or of its NVLink (Xid), which alone does not"
            " show that the GPU needs a reset",
            "Look the number up in NVIDIA's list of Xid errors; `nvidia-smi -q` prints what the GPU needs,"
            " as `GPU Recovery Action`",
            effect="follows",  # from an error of a process, or of another GPU
        ),
        source="NVIDIA Xid errors; those that need a reset are in facts/xids",
        open_end=True,
        sample="NVRM: Xid (PCI:0000:3b:00): 74, pid=123, NVLink: fatal error detected on link 3",
    ),
    MessageTemplate(
        "nvidia",
        "NVRM:{:.{0,120}}fallen off the bus and is not responding",
        ("device-not-answering", "gpu-refused-by-driver"),
        leads=True,
        decides=False,  # a restart may have brought it back
        source="open-gpu-kernel-modules src/nvidia/arch/nvalloc/unix/src/osapi.c, rm_is_supported_device()",
        open_end=True,
        sample="NVRM: fallen off the bus and is not responding to commands.",
    ),
    MessageTemplate(
        "nvidia",
        "NVRM: Xid {number:79}, GPU has fallen off the bus",
        ("device-not-answering", "gpu-missing"),
        leads=True,
        decides=False,  # a restart may have brought it back
        source="a line of the driver as people shorten it: without the GPU's address, no state is known",
        open_end=True,
        sample="NVRM: Xid 79, GPU has fallen off the bus.",
    ),
    MessageTemplate(
        "kernel",
        "mlx5_core {:[0-9a-f:.]+}: {:.{0,60}}High temperature on sensors with bit set",
        meaning=Meaning(
            "A temperature sensor of the NIC is above its limit",
            "Look at the fans, the air flow and the module of its cable: `sudo mget_temp -d <address>`, of"
            " NVIDIA's firmware tools, prints the temperature",
            effect="aside",
        ),
        source="Linux drivers/net/ethernet/mellanox/mlx5/core/events.c, temp_warn()",
        open_end=True,
        sample="mlx5_core 0000:41:00.1: temp_warn:170:(pid 0): High temperature on sensors with bit set 0 1",
    ),
    MessageTemplate(
        "kernel",
        "device's health compromised",
        ("nic-failed",),
        decides=False,  # the driver tries to recover it by itself
        source="Linux drivers/net/ethernet/mellanox/mlx5/core/health.c",
        open_end=True,
        sample="mlx5_core 0000:17:00.0: device's health compromised - reached miss count",
    ),
    MessageTemplate(
        "kernel",
        r"mlx5_core {:\S+}: {:.{0,40}}health{:.{0,30}(?:FW error|fatal)}",
        ("nic-failed",),
        decides=False,  # the driver tries to recover it by itself
        source="Linux drivers/net/ethernet/mellanox/mlx5/core/health.c",
        open_end=True,
        sample="mlx5_core 0000:17:00.0: poll_health:800: Fatal error, health buffer: fatal",
    ),
    MessageTemplate(
        "nvidia",
        "{:requires?} use of the NVIDIA open kernel modules",
        ("gpu-refused-by-driver",),
        decides=False,
        source="the proprietary modules, as their users report: NVIDIA/open-gpu-kernel-modules issue 862",
        open_end=True,
        sample="NVRM: installed in this system requires use of the NVIDIA open kernel modules.",
    ),
    MessageTemplate(
        "nvidia",
        "installed in this {:(?:vGPU host )?}system is not supported by open",
        ("gpu-refused-by-driver",),  # older than Turing, without a GSP, or a vGPU
        decides=False,
        source="open-gpu-kernel-modules 595.45.04 src/nvidia/arch/nvalloc/unix/src/osapi.c",
        open_end=True,
        sample="NVRM: installed in this system is not supported by open",
    ),
    MessageTemplate(
        "kernel",
        rf"{SYMBOL_REFUSED}{{:(?!nvidia_p2p_)\w+}}",
        meaning=Meaning(
            "A module looks up a symbol with symbol_get(), and the kernel refuses: the owner of "
            "the symbol does not export it for GPL modules only, so nvidia-fs cannot be "
            "registered with it",
            "Update the module that exports the symbol, such as the client of the file system, "
            "to a release that exports it with EXPORT_SYMBOL_GPL",
        ),
        source="Linux 6.6 and later kernel/module/main.c, __symbol_get(), commit 9011e49d54dc; "
        "distributions have it in older kernels",
        open_end=True,
        sample="[  417.6] failing symbol_get of non-GPLONLY symbol fs_register_dma_ops.",
    ),
    MessageTemplate(
        "nvidia",
        r"NVRM: {:(?:GPU (?:at )?\S{7,20} )?}RmInitAdapter failed",
        ("gpu-refused-by-driver",),
        decides=False,  # it starts the GPU anew for each program
        source="open-gpu-kernel-modules src/nvidia/arch/nvalloc/unix/src/osinit.c",
        open_end=True,
        sample="NVRM: GPU 0000:3b:00.0: RmInitAdapter failed! (0x26:0x56:1474)",
    ),
    MessageTemplate(
        "modprobe",
        r": Module {:(?:nvidia\w*|gdrdrv|nv_peer_mem)} is in use",
        meaning=Meaning(
            "The module cannot be unloaded while a process or another module uses it",
            "Stop the jobs and services that use the GPU, or reboot",
        ),
        source="kmod tools/rmmod.c",
        open_end=True,
        sample="rmmod: ERROR: Module nvidia_peermem is in use",
    ),
    MessageTemplate(
        "nvidia",
        "installed in this system is not supported by the {:(?:open )?}NVIDIA",
        ("gpu-refused-by-driver",),  # too new, too old, or for the other flavour of modules
        decides=False,
        source="open-gpu-kernel-modules kernel-open/nvidia/nv-pci.c",
        open_end=True,
        sample="NVRM: The NVIDIA GPU 0000:01:00.0 installed in this system is not supported by "
        "the NVIDIA 590 driver",
    ),
    MessageTemplate(
        "kernel",
        r"AER: {:.{0,40}(?:Uncorrect\w+|[Ff]atal)}",
        meaning=Meaning(
            "The PCIe link of a device reported an uncorrectable error, after which the device may be lost",
            "Look which device the address names. Reseat a card or its riser; of one that is soldered on, as"
            " the NIC of a DGX Spark, take the machine's power away. Update the firmware",
        ),
        source="Linux drivers/pci/pcie/aer.c",
        open_end=True,
        sample="pcieport 0000:00:00.0: AER: Uncorrectable (Fatal) error message received from 0000:01:00.0",
    ),
    MessageTemplate(
        "kernel",
        "Detected insufficient power on the PCIe slot ({power:[0-9]{1,4}}W)",
        meaning=Meaning(
            "The NIC finds little power at its slot. A DGX Spark prints this also where it carries its full"
            " rate",
            "On a DGX Spark nothing has to be done for it. Elsewhere connect the card's own power cable, or"
            " use a slot with more power",
            "aside",
        ),
        source="Linux drivers/net/ethernet/mellanox/mlx5/core/events.c, mlx5_pcie_event(); of a Spark"
        " NVIDIA/dgx-spark-playbooks pull request 108",
        sample="mlx5_core 0000:01:00.0: mlx5_pcie_event:326:(pid 466): Detected insufficient power on the"
        " PCIe slot (27W).",
        open_end=True,
    ),
)
