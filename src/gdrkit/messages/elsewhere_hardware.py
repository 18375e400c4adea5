"""Messages about GPUs, NICs and the GPU driver that are not about GPUDirect RDMA."""

from __future__ import annotations

from gdrkit.messages.other_message import OtherMessage

ROWS = (
    OtherMessage(
        "Unable to determine the device handle",
        r"Unable to determine the device handle for GPU",
        "The driver does not reach a GPU any more: it fell off the PCIe bus, or its memory failed",
        "Look for `NVRM: Xid` in the kernel log; reset or replace the GPU",
        "NVIDIA Xid errors, 79 and 48",
    ),
    OtherMessage(
        "Xid",
        r"NVRM: Xid \(PCI:[0-9a-fA-F:.]+\): (?:48|62|63|64|74|79|92|94|95|119|120|136|140|143|149"
        r"|154)\b",
        "The driver reports an error of the GPU itself (Xid): its memory, NVLink, or PCIe link",
        "Look the number up in NVIDIA's list of Xid errors; drain the node and reset or replace the GPU",
        "NVIDIA Xid errors",
    ),
    OtherMessage(
        "fallen off the bus",
        r"NVRM:.{0,120}fallen off the bus and is not responding",
        "The GPU no longer answers on its PCIe link: the driver does not start it",
        "Restart the machine with power removed; if it happens again, look at the card's seat, power and"
        " temperature",
        "open-gpu-kernel-modules src/nvidia/arch/nvalloc/unix/src/osapi.c, rm_is_supported_device()",
    ),
    OtherMessage(
        "health compromised",
        r"device's health compromised|mlx5_core \S+: .{0,40}health.{0,30}(?:FW error|fatal)",
        "The firmware of the NIC stopped working",
        "Update the NIC's firmware, and power-cycle the host",
        "Linux drivers/net/ethernet/mellanox/mlx5/core/health.c",
    ),
    OtherMessage(
        "supported by open",
        r"installed in this (?:vGPU host )?system is not supported by open",
        "The open kernel modules do not support this GPU: it is older than Turing and has no GSP, or it"
        " is a vGPU",
        "Install the proprietary flavour of a driver branch that supports the GPU",
        "open-gpu-kernel-modules 595.45.04 src/nvidia/arch/nvalloc/unix/src/osapi.c",
    ),
    OtherMessage(
        "failing symbol_get",
        r"failing symbol_get of non-GPLONLY symbol \w+",
        "A module looks up a symbol with symbol_get(), and the kernel refuses: the owner of the symbol does"
        " not export it for GPL modules only, so nvidia-fs cannot be registered with it",
        "Update the module that exports the symbol, such as the client of the file system, to a release"
        " that exports it with EXPORT_SYMBOL_GPL",
        "Linux 6.6 and later kernel/module/main.c, __symbol_get(), commit 9011e49d54dc; distributions have"
        " it in older kernels",
    ),
    OtherMessage(
        "RmInitAdapter failed",
        r"RmInitAdapter failed",
        "The driver cannot start the GPU",
        "Look for the first NVRM line before it; update driver and firmware, reseat or replace the GPU",
        "open-gpu-kernel-modules src/nvidia/arch/nvalloc/unix/src/osinit.c",
    ),
    OtherMessage(
        "in use",
        r"(?:rmmod: ERROR|modprobe: FATAL): Module (?:nvidia\w*|gdrdrv|nv_peer_mem) is in use",
        "The module cannot be unloaded while a process or another module uses it",
        "Stop the jobs and services that use the GPU, or reboot",
        "kmod tools/rmmod.c",
    ),
    OtherMessage(
        "not supported by the NVIDIA",
        r"installed in this system is not supported by the (?:open )?NVIDIA"
        r"|requires use of the NVIDIA open kernel",
        "The driver does not support this GPU: it is too new, too old, or needs the other flavour"
        " of modules",
        "Install the driver branch, and the flavour (open or proprietary), that supports the GPU",
        "open-gpu-kernel-modules kernel-open/nvidia/nv-pci.c",
    ),
    OtherMessage(
        "AER:",
        r"AER: .{0,40}(?:Uncorrect\w+|[Ff]atal)",
        "The PCIe link of a device reported an uncorrectable error, after which the device may be lost",
        "Look which device the address names; reseat it or its riser, update its firmware, and reboot",
        "Linux drivers/pci/pcie/aer.c",
    ),
)
