"""GPUDirect Storage: cuFile and its module nvidia-fs."""

from __future__ import annotations

from gdrkit.node import Node
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.rule import Layer, Outcome, Trait, rule, the_node
from gdrkit.rules.shown_by_messages import SHOWN_BY_MESSAGES

_GUIDE = "https://docs.nvidia.com/gpudirect-storage/troubleshooting-guide/"
_CHECK = "gdscheck -p"


@rule(
    "nvidia-fs-not-loaded",
    Layer.DRIVER,
    per=the_node,
    traits=(Trait.NOT_LOADED,),
    reported_by=(DecidingCommand("lsmod | grep nvidia_fs", "nothing"),),
    cost="Storage reads go through host memory. The network is not affected.",
    references=(_GUIDE,),
)
def nvidia_fs_not_loaded(node: Node, _: str) -> Outcome:
    """The module nvidia-fs is not loaded, so cuFile cannot read into GPU memory with it.

    Cost: Files are read into host memory first. GPUDirect RDMA between nodes does not need nvidia-fs.

    How to tell: /proc/driver/nvidia-fs does not exist, and `lsmod | grep nvidia_fs` prints nothing.

    What to do: Install nvidia-fs-dkms (nvidia-gds) and load nvidia-fs. From CUDA 12.8 on, P2PDMA can
    replace it on newer kernels: see gds-p2pdma-off.

    Why: cuFile opens the module's device when it starts; without it only the compatibility mode is left.

    Source: gds-nvidia-fs src/nvfs-core.c; GPUDirect Storage troubleshooting guide.
    """
    return SHOWN_BY_MESSAGES


@rule(
    "nvidia-fs-symbols-missing",
    Layer.DRIVER,
    per=the_node,
    reported_by=(DecidingCommand("sudo dmesg | grep -i nvfs", "probe failed"),),
    cost="nvidia-fs does not serve this kind of storage.",
    references=(_GUIDE,),
)
def nvidia_fs_symbols_missing(node: Node, _: str) -> Outcome:
    """nvidia-fs did not find the symbols of the storage modules or of NVIDIA's driver.

    Cost: Reads from that storage go through host memory.

    How to tell: The kernel log has `nvfs modules probe failed`, or its build ended with undefined symbols
    nvidia_p2p_*.

    What to do: Install the storage modules that MLNX_OFED or DOCA patches for GPUDirect Storage
    (`--with-nvmf`), then rebuild nvidia-fs with the driver's Module.symvers in place.

    Why: nvidia-fs registers itself with nvme, nvme-rdma and file systems by symbols that only patched
    modules export.

    Source: gds-nvidia-fs src/nvfs-core.c, nvfs_init(); gds-nvidia-fs issue 72.
    """
    return SHOWN_BY_MESSAGES


@rule(
    "gds-compat-mode",
    Layer.APPLICATION,
    per=the_node,
    reported_by=(DecidingCommand(_CHECK, "properties.use_compat_mode : true"),),
    cost="Storage reads go through host memory without an error.",
    references=(_GUIDE,),
)
def gds_compat_mode(node: Node, _: str) -> Outcome:
    """cuFile runs in compatibility mode: POSIX reads, and copies through host memory.

    Cost: Reads are slower and use the processor. GPUDirect RDMA between nodes is not affected.

    How to tell: Set CUFILE_ALLOW_COMPAT_MODE=false: then cuFile returns an error with the reason. `gdscheck
    -p` lists the supported storage.

    What to do: Remove the reason that the error names: nvidia-fs, the mount, or a buffer that cannot be
    registered.

    Why: cufile.json allows the compatibility mode by default, so that programs run everywhere.

    Source: ai-dynamo/nixl src/plugins/gds_mt; GPUDirect Storage troubleshooting guide.
    """
    return SHOWN_BY_MESSAGES


@rule(
    "gds-p2pdma-off",
    Layer.APPLICATION,
    per=the_node,
    reported_by=(DecidingCommand(_CHECK, "NVMe P2PDMA : Unsupported"),),
    cost="cuFile needs nvidia-fs for NVMe drives, or copies through host memory.",
    references=(_GUIDE,),
)
def gds_p2pdma_off(node: Node, _: str) -> Outcome:
    """cuFile does not use the kernel's P2PDMA for NVMe drives.

    Cost: Without nvidia-fs either, reads go through host memory.

    How to tell: `gdscheck -p` prints `NVMe P2PDMA : Unsupported`, and cufile.log `pci_p2pdma not supported`.

    What to do: Use a kernel of 6.2 or newer and the open kernel modules from 565 on, set
    `NVreg_RegistryDwords="RMForceStaticBar1=1;RmForceDisableIomapWC=1;"`, and set
    `properties.use_pci_p2pdma` to true in cufile.json.

    Why: P2PDMA needs a static mapping of the GPU's memory in BAR1 and a kernel that lets NVMe use it.

    Source: gds-nvidia-fs issues 70 to 78; GPUDirect Storage troubleshooting guide.
    """
    return SHOWN_BY_MESSAGES
