"""GDRCopy: the processor's own access to GPU memory, which some direct transports need."""

from __future__ import annotations

from gdrkit.node import Node
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.rule import Layer, Outcome, Trait, rule, the_node
from gdrkit.rules.shown_by_messages import SHOWN_BY_MESSAGES

_INSTALL = "https://github.com/NVIDIA/gdrcopy#build-and-installation"


@rule(
    "gdrcopy-not-loaded",
    Layer.DRIVER,
    per=the_node,
    traits=(Trait.NOT_LOADED,),
    reported_by=(DecidingCommand("ls -l /dev/gdrdrv", "No such file or directory"),),
    cost="Short messages are slower. NVSHMEM on EFA and IBGDA with a CPU proxy stop.",
    references=(_INSTALL,),
)
def gdrcopy_not_loaded(node: Node, _: str) -> Outcome:
    """GDRCopy cannot be used: its module gdrdrv, its device file or its library is missing.

    Cost: GDRCopy is not GPUDirect RDMA: large transfers stay direct without it. UCX and libfabric copy
    short messages more slowly. NVSHMEM on EFA, NVSHMEM_IBGDA_NIC_HANDLER=cpu and GIN on EFA need it.

    How to tell: `ls /dev/gdrdrv` finds nothing, on the host or in the container, or libgdrapi.so.2 is
    missing. A program prints `GDRCopy open call failed` or `could not open gdr copy`.

    What to do: Install gdrdrv-dkms on the host and load the module gdrdrv. Start containers with
    `--device=/dev/gdrdrv`; with the GPU Operator, set `gdrcopy.enabled=true`.

    Why: gdrdrv maps GPU memory into a process. `modprobe gdrdrv` alone does not make the device file where
    neither udev nor the init script of the package does.

    Source: NVIDIA/gdrcopy src/gdrapi.c, gdr_open(); nvshmem src/modules/transport/common.
    """
    return SHOWN_BY_MESSAGES


@rule(
    "gdrcopy-version-mismatch",
    Layer.DRIVER,
    per=the_node,
    reported_by=(DecidingCommand("modinfo -F version gdrdrv", "a version other than libgdrapi's"),),
    cost="GDRCopy is not used: short messages are slower, and programs that need it stop.",
    references=(_INSTALL,),
)
def gdrcopy_version_mismatch(node: Node, _: str) -> Outcome:
    """The library libgdrapi and the module gdrdrv have incompatible versions.

    Cost: As if GDRCopy were missing: see gdrcopy-not-loaded.

    How to tell: Compare `modinfo -F version gdrdrv` on the host with the version of libgdrapi.so.2 in the
    container. With GDRCOPY_ENABLE_LOGGING=1 GDRCOPY_LOG_LEVEL=1 the library prints what it requires.

    What to do: Install the same release of GDRCopy on the host and in the image; the newer of the two sets
    what is needed.

    Why: Both sides check the other's version when a program opens the device.

    Source: NVIDIA/gdrcopy src/gdrapi.c, gdr_open(); src/gdrdrv/gdrdrv.c.
    """
    return SHOWN_BY_MESSAGES


@rule(
    "gdrcopy-built-for-proprietary",
    Layer.DRIVER,
    per=the_node,
    reported_by=(DecidingCommand("sudo dmesg | grep gdrdrv", "built for proprietary NVIDIA driver"),),
    cost="Some functions of GDRCopy fail.",
    references=(_INSTALL,),
)
def gdrcopy_built_for_proprietary(node: Node, _: str) -> Outcome:
    """gdrdrv was built for the other flavour of NVIDIA's kernel modules.

    Cost: gdrdrv may not load, or may lack functions such as those for confidential computing.

    How to tell: The kernel log has `loading gdrdrv version ... built for proprietary NVIDIA driver`, while
    /proc/driver/nvidia/version names the Open Kernel Module, or the reverse.

    What to do: Rebuild gdrdrv-dkms after the driver was changed: `sudo dkms install gdrdrv/<version>`.

    Why: The build looks at the installed driver once. A later change of the flavour does not rebuild it.

    Source: NVIDIA/gdrcopy src/gdrdrv/gdrdrv.c, gdrdrv_init().
    """
    return SHOWN_BY_MESSAGES
