"""GPUDirect Storage: cuFile and its module nvidia-fs."""

from __future__ import annotations

from gdrkit.evidence import Confidence, EvidenceAbsent, Missing, MissingReason
from gdrkit.facts.driver import driver_flavour, driver_version, registry_dwords
from gdrkit.facts.driver_files import DRIVER
from gdrkit.facts.driver_log import last_line
from gdrkit.facts.kernel import architecture, version
from gdrkit.facts.modules import is_loaded
from gdrkit.facts.newest_read import cite_if_newer
from gdrkit.formats.versions import numbers
from gdrkit.node import Node, if_missing
from gdrkit.programs.environment import SYSTEM, environment
from gdrkit.programs.gds.consumer import GDS
from gdrkit.programs.gds.facts import CONFIGURATION, MODULE, cufile_property, nvidia_fs_is_loaded
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.rule import (
    NVIDIA_FS,
    P2PDMA,
    CauseTrait,
    Failed,
    Layer,
    NotApplicable,
    Outcome,
    Passed,
    rule,
    the_node,
)

_GUIDE = "https://docs.nvidia.com/gpudirect-storage/troubleshooting-guide/"
_CHECK = "gdscheck -p"
PROBE_FAILED = r"nvfs modules probe failed with error"
_DRIVES = Missing("the drives and file systems", MissingReason.UNDECIDED, _CHECK)
P2PDMA_KERNEL, P2PDMA_DRIVER, STATIC_BAR1 = (6, 2), (565,), "RMForceStaticBar1"
"""What cuFile needs for P2PDMA: GPUDirect Storage troubleshooting guide; gds-nvidia-fs issues 70 to 78."""


@rule(
    "nvidia-fs-not-loaded",
    Layer.DRIVER,
    per=the_node,
    takes=(NVIDIA_FS,),
    traits=(CauseTrait.NOT_LOADED,),
    reported_by=(DecidingCommand("lsmod | grep nvidia_fs", "nothing"),),
    cost="Storage reads go through host memory. The network is not affected.",
    references=(_GUIDE,),
)
def nvidia_fs_not_loaded(node: Node, _: str) -> Outcome:
    """The module nvidia-fs is not loaded, so cuFile cannot read into GPU memory with it.

    Cost: Files are read into host memory first. GPUDirect RDMA between nodes does not need nvidia-fs.

    How to tell: /proc/driver/nvidia-fs does not exist, and `lsmod | grep nvidia_fs` prints nothing. In a
    container whose list of modules is not the host's, run it on the host.

    What to do: Install nvidia-fs-dkms (nvidia-gds) and load nvidia-fs. From CUDA 12.8 on, P2PDMA can
    replace it on newer kernels: see gds-p2pdma-off.

    Why: cuFile opens the module's device when it starts; without it only the compatibility mode is left.

    Source: gds-nvidia-fs src/nvfs-core.c; GPUDirect Storage troubleshooting guide.
    """
    if not is_loaded(node, DRIVER) and if_missing(None, driver_version, node) is None:
        return NotApplicable("NVIDIA's driver is not loaded")
    if nvidia_fs_is_loaded(node):
        return Passed(f"{MODULE} is loaded", lacking=(_DRIVES,))
    return Failed(seen=f"{MODULE} is not loaded", expected=f"{MODULE}, loaded", subject=MODULE)


@rule(
    "nvidia-fs-symbols-missing",
    Layer.DRIVER,
    per=the_node,
    takes=(NVIDIA_FS,),
    reported_by=(DecidingCommand("sudo dmesg | grep -i nvfs", "probe failed"),),
    cost="nvidia-fs does not serve this kind of storage.",
    references=(_GUIDE,),
)
def nvidia_fs_symbols_missing(node: Node, _: str) -> Outcome:
    """nvidia-fs did not find the symbols of the storage modules or of NVIDIA's driver.

    Cost: Reads from that storage go through host memory.

    How to tell: The kernel log has `nvfs modules probe failed`, or its build ended with undefined symbols
    nvidia_p2p_*. Or nothing is logged: `gdscheck -p` prints `NVMe : Unsupported`, and nvme is not in
    /proc/driver/nvidia-fs/modules. `sudo grep register_nvfs_dma_ops /proc/kallsyms` shows what the storage
    modules offer, `strings` of nvidia-fs.ko what it asks for.

    What to do: Install the storage modules that MLNX_OFED or DOCA patches for GPUDirect Storage
    (`--with-nvmf`), then rebuild nvidia-fs with the driver's Module.symvers in place. If nvme offers
    `nvme_v2_...` and nvidia-fs asks for `nvme_v1_...`, or the other way round, install releases of both that
    belong together, and rebuild nvidia-fs for this kernel.

    Why: nvidia-fs registers itself with nvme, nvme-rdma and file systems by symbols that only patched
    modules export, and whose names have a version. Its build chooses the version by the kernel's functions;
    a symbol that is not there is skipped without a message.

    Source: gds-nvidia-fs src/nvfs-core.c, nvfs_open(), and the list of modules in src/nvfs-dma.c;
    gds-nvidia-fs issues 72 and 87.
    """
    if not nvidia_fs_is_loaded(node):
        return NotApplicable(f"{MODULE} is not loaded")
    line = last_line(node, PROBE_FAILED)
    if line is None:
        return Passed("no program that opened it failed")
    return Failed(seen=line.text, expected="no such line in the kernel log", subject=MODULE)


FORCED, ON = "force_compat_mode", "use_pci_p2pdma"
"""Properties in cufile.json."""


FORCED_BY, ON_BY = "CUFILE_FORCE_COMPAT_MODE", "CUFILE_USE_PCIP2PDMA"
"""GPUDirect Storage configuration and benchmarking guide, environment variables."""


@rule(
    "gds-compat-mode",
    Layer.APPLICATION,
    per=the_node,
    takes=GDS.own(*GDS.paths),
    reported_by=(DecidingCommand(_CHECK, "properties.use_compat_mode : true"),),
    cost="Storage reads go through host memory without an error.",
    references=(_GUIDE,),
)
def gds_compat_mode(node: Node, _: str) -> Outcome:
    """cuFile runs in compatibility mode: POSIX reads, and copies through host memory.

    Cost: Reads are slower and use the processor. GPUDirect RDMA between nodes is not affected.

    How to tell: Set CUFILE_ALLOW_COMPAT_MODE=false: then cuFile returns an error with the reason. `gdscheck
    -p` lists the supported storage.

    What to do: Remove force_compat_mode from /etc/cufile.json, or CUFILE_FORCE_COMPAT_MODE from the
    environment. If neither is set, remove the reason that the error names: nvidia-fs, the mount, or a buffer
    that cannot be registered.

    Why: cufile.json allows the compatibility mode by default, so that programs run everywhere.

    Source: ai-dynamo/nixl src/plugins/gds_mt; GPUDirect Storage troubleshooting guide.
    """
    if cufile_property(node, FORCED):
        return Failed(seen=f"{FORCED}: true", expected="false", subject=f"/{CONFIGURATION}")
    setting = environment(node, SYSTEM).get(FORCED_BY)
    if setting is not None and setting.value.lower() in ("true", "1"):
        where = node.describe_line(setting.source, setting.line)
        return Failed(seen=f"{FORCED_BY}={setting.value}", expected="unset", subject=where)
    return Passed("it is not forced")


def _switched_on(node: Node) -> bool:
    """Whether a variable of every job turns it on, which cuFile prefers to its configuration."""
    setting = environment(node, SYSTEM).get(ON_BY)
    return setting is not None and setting.value.lower() in ("true", "1")


@rule(
    "gds-p2pdma-off",
    Layer.APPLICATION,
    per=the_node,
    takes=(P2PDMA,),
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
    try:
        flavour, release = driver_flavour(node), driver_version(node)
    except EvidenceAbsent:
        return NotApplicable("the driver is not loaded")
    if flavour != "open" or numbers(release) < P2PDMA_DRIVER:
        return Failed(
            seen=f"the {flavour} driver {release}",
            expected=f"the open driver {P2PDMA_DRIVER[0]} or newer",
            subject="nvidia",
        )
    if cufile_property(node, ON) is not True and not _switched_on(node):
        return Failed(seen=f"{ON} is not true", expected=f"{ON}: true", subject=f"/{CONFIGURATION}")
    if architecture(node) == "x86_64" and not registry_dwords(node).get(STATIC_BAR1):
        return Failed(
            seen=f"RegistryDwords has no {STATIC_BAR1}=1",
            expected=f'NVreg_RegistryDwords="{STATIC_BAR1}=1;RmForceDisableIomapWC=1;"',
            subject="nvidia",
        )
    if version(node) < P2PDMA_KERNEL:
        node.cite("P2PDMA for GPUs", text="distributions may have it earlier", confidence=Confidence.LIKELY)
        return Failed(
            seen=f"Linux {'.'.join(map(str, version(node)))}",
            expected=f"Linux {'.'.join(map(str, P2PDMA_KERNEL))} or newer",
            subject="kernel",
        )
    cite_if_newer(node, "NVIDIA driver", release)
    cite_if_newer(node, "Linux", ".".join(map(str, version(node))))
    return Passed("driver, kernel and cufile.json allow it", lacking=(_DRIVES,))
