"""Messages about something other than GPUDirect RDMA, or less telling than they seem: what each one means.

Posts are full of them. None has a code of its own: most are harmless, follow from another error, or belong
to a problem elsewhere. Each row says what the line means and what to do, in words for its reader.
"""

from __future__ import annotations

import re

from gdrkit.messages import elsewhere_hardware, elsewhere_jobs, elsewhere_programs
from gdrkit.messages.other_message import OtherMessage

_DRIVERS = (
    OtherMessage(
        "detected invalid context",
        r"nv_get_p2p_free_callback\S* ?.{0,40}detected invalid context",
        "This line is harmless: a check in nvidia-peermem, in drivers before 560, skips a context"
        " that is gone",
        "Nothing has to be done. Drivers from 560 on no longer print it",
        "open-gpu-kernel-modules kernel-open/nvidia-peermem/nvidia-peermem.c; release notes of 535.129.03",
        kind="harmless",
    ),
    OtherMessage(
        "invalid page_table",
        r"nv_get_p2p_free_callback.{0,60}invalid page_table",
        "A known bug of older GPU drivers, fixed in R510 and in R470 of May 2021, frees the page"
        " table twice",
        "Update the GPU driver to R510 or newer, or to a newer release of R470",
        "Mellanox/nv_peer_memory nv_peer_mem.c, nv_get_p2p_free_callback(); NVIDIA driver release notes",
    ),
    OtherMessage(
        "iommu_group are bound",
        r"ensure all devices within the iommu_group are bound to their vfio bus driver",
        "A function in the IOMMU group of the device, such as the GPU's audio function, is not bound"
        " to vfio-pci",
        "Bind every function of the group to vfio-pci; `lspci -nnk -s BUS:DEVICE` shows the driver of each",
        "QEMU hw/vfio/container.c, vfio_container_connect()",
    ),
    OtherMessage(
        "non-zero usage count",
        r"[Aa]ttempting to remove device \S+ with non-zero usage count",
        "The GPU is still in use, so the NVIDIA driver cannot release it",
        "Stop every process that uses the GPU, the persistence daemon included, then unbind it again",
        "open-gpu-kernel-modules kernel-open/nvidia/nv-pci.c, nv_pci_remove()",
    ),
    OtherMessage(
        "not signed with a trusted key",
        r"PKCS#7 signature not signed with a trusted key",
        "This line is only a notice where signatures are not enforced: the module may load all the same",
        "Find out whether it loaded: `lsmod | grep nvidia`",
        "Linux crypto/asymmetric_keys, pkcs7_validate_trust()",
        kind="harmless",
    ),
    OtherMessage(
        "required key missing",
        r"module verification failed: signature and/or required key missing",
        "This line is harmless: the module was loaded without a trusted signature, and the kernel notes it",
        "Nothing has to be done",
        "Linux kernel/module/main.c",
        kind="harmless",
    ),
    OtherMessage(
        "no symbol version for",
        r"\w+: no symbol version for \w+",
        "This line is a warning: the module was built without versions of these symbols, and may load",
        "Find out whether it loaded: `lsmod`",
        "Linux kernel/module/version.c, check_version()",
        kind="harmless",
        denies=("module-crc-mismatch", "module-symbol-missing"),
    ),
    OtherMessage(
        "NVLS multicast",
        r"NVLS multicast support is not available",
        "This line is harmless: NVLink multicast is a feature of some machines only",
        "Nothing has to be done",
        "NCCL src/transport/nvls.cc",
        kind="harmless",
    ),
    OtherMessage(
        "GPU Direct RDMA Disabled",
        r"NET/(?:Fast)?Socket ?: GPU Direct RDMA Disabled",
        "NCCL uses TCP sockets, which never access GPU memory; the line does not name a fault of"
        " GPUDirect RDMA",
        "If this machine has an RDMA NIC, look above for why NCCL did not take it: `NET/IB : No"
        " device found`",
        "NCCL src/graph/topo.cc, ncclTopoPopulateNics()",
        kind="harmless",
    ),
    OtherMessage(
        "ibv_modify_qp",
        r"ibv_modify_qp.{0,60}No such device",
        "The connection could not be set up: the GID that was chosen belongs to no network interface here,"
        " as in a container without that interface",
        "Compare `show_gids` in the container and on the host, and choose a GID index that both have",
        "Linux drivers/infiniband/core/roce_gid_mgmt.c",
    ),
    OtherMessage(
        "collective operation timeout",
        r"Watchdog caught collective operation timeout|collective operation timeout: WorkNCCL",
        "A collective operation did not finish in time; the line does not say why",
        "Look for the first error of all ranks; without one, find the rank that did not arrive",
        "PyTorch torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp",
        kind="follows",
    ),
    OtherMessage(
        "Message truncated",
        r"NCCL WARN Message truncated : received \d+ bytes instead of",
        "Two programs with different jobs or NCCL versions talked to each other while NCCL started",
        "End processes that are left from earlier runs, and use one NCCL version on all ranks",
        "NCCL src/bootstrap.cc",
    ),
    OtherMessage(
        "is not accessible",
        r"Peer GPU \d+ is not accessible",
        "NVSHMEM found no way between two GPUs: neither NVLink or PCIe inside the machine, nor a"
        " network transport",
        "Look above for the transport that was skipped, and why",
        "NVSHMEM src/host/topo/topo.cpp",
        kind="follows",
    ),
    OtherMessage(
        "driver is in use",
        r"Could not unload NVIDIA driver kernel modules, driver is in use",
        "The driver container cannot unload the NVIDIA driver: another module, such as gdrdrv, or a"
        " process uses it",
        "`lsmod | grep ^nvidia` names the modules that hold it: unload them first, or drain the node"
        " and reboot it",
        "NVIDIA/gpu-driver-container nvidia-driver, _unload_driver()",
    ),
    OtherMessage(
        "Cannot locate nvidia modules",
        r"Cannot locate nvidia modules",
        "The build found no NVIDIA kernel module for that kernel, so nv_peer_mem cannot be built for it",
        "Install the NVIDIA driver for that kernel first; DKMS also builds for kernels that do not run",
        "Mellanox/nv_peer_memory create_nv.symvers.sh",
    ),
    OtherMessage(
        "FI_HMEM",
        r"FI_HMEM capability requires RDMA, which this device does not support",
        "The EFA device of this instance has no RDMA, so it cannot access GPU memory",
        "Use an instance type whose EFA supports RDMA, such as p4d and newer; elsewhere NCCL copies through"
        " host memory",
        "libfabric prov/efa/src/rxr/rxr_init.c, rxr_info_to_rxr(), of 1.11 to 1.17",
    ),
    OtherMessage(
        "gdrdrv",
        r"Error getting the gdrdrv driver version with ioctl error \(errno=22\)",
        "Another driver answers for /dev/gdrdrv: its device number (major) is no longer that of gdrdrv",
        "Compare `grep gdrdrv /proc/devices` with `ls -l /dev/gdrdrv`; load gdrdrv again if they differ",
        "NVIDIA/gdrcopy src/gdrapi.c, gdr_open()",
    ),
    OtherMessage(
        "could not insert",
        r"could not insert ['`\u2018]?off\b",
        "A line `alias nvidia off` in modprobe's configuration sends nvidia to a module named off,"
        " which is none",
        "Find the line: `grep -rn 'alias nvidia' /etc/modprobe.d /lib/modprobe.d`, and remove it",
        "modprobe.d(5); bumblebee and prime-select write such a line",
    ),
    OtherMessage(
        "nv-p2p-dummy",
        r"depends: *nv-p2p-dummy",
        "This gdrdrv was built against nv-p2p-dummy, a stub, instead of the NVIDIA driver: it cannot work",
        "Build gdrdrv again where the sources of the installed driver are found (its DKMS package,"
        " or NVIDIA_SRC_DIR)",
        "NVIDIA/gdrcopy packages/dkms.conf, and nv-p2p-dummy",
    ),
)


ROWS = (*_DRIVERS, *elsewhere_jobs.ROWS, *elsewhere_hardware.ROWS, *elsewhere_programs.ROWS)


def match(text: str) -> OtherMessage | None:
    """The first message that a line contains; None if it contains none."""
    for row in ROWS:
        if row.word in text and re.search(row.pattern, text):
            return row
    return None
