"""GDRCopy: the processor's own access to GPU memory, which some direct transports need."""

from __future__ import annotations

from gdrkit.evidence import EvidenceAbsent
from gdrkit.facts.driver import driver_flavour
from gdrkit.facts.driver_files import DRIVER
from gdrkit.facts.modules import is_loaded
from gdrkit.facts.newest_read import cite_if_newer
from gdrkit.formats.versions import numbers
from gdrkit.node import Node, if_missing
from gdrkit.programs.gdrcopy.facts import (
    DEVICE,
    MODULE,
    gdrapi_copies,
    gdrdrv_flavour,
    gdrdrv_version,
    needs_no_module,
)
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.rule import (
    GDRDRV,
    CauseTrait,
    Failed,
    Layer,
    NotApplicable,
    Outcome,
    Passed,
    rule,
    the_node,
)

_INSTALL = "https://github.com/NVIDIA/gdrcopy#build-and-installation"


@rule(
    "gdrcopy-not-loaded",
    Layer.DRIVER,
    per=the_node,
    takes=(GDRDRV,),
    traits=(CauseTrait.NOT_LOADED,),
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
    neither udev nor the init script of the package does. GDRCopy 2.6 and newer can do without gdrdrv, with a
    driver of CUDA 13.3 or newer.

    Source: NVIDIA/gdrcopy src/gdrapi.c, gdr_open(); nvshmem src/modules/transport/common.
    """
    if not is_loaded(node, DRIVER):
        return NotApplicable("NVIDIA's driver is not loaded")
    if not is_loaded(node, MODULE):
        if if_missing(False, needs_no_module, node):
            return Passed("this GDRCopy and this CUDA need no module")
        return Failed(seen=f"{MODULE} is not loaded", expected=f"{MODULE}, loaded", subject=MODULE)
    if not node.exists(DEVICE):
        return Failed(
            seen=f"{MODULE} is loaded, but /{DEVICE} is missing", expected=f"/{DEVICE}", subject=DEVICE
        )
    return Passed(f"{MODULE} is loaded, and /{DEVICE} is there")


OLDEST_ON_BOTH_SIDES = (2, 0)
"""What each side requires of the other, in every release from 2.0 to 2.6: MINIMUM_GDRDRV_VERSION in
src/gdrapi.c, and MINIMUM_GDR_API_VERSION in src/gdrdrv/gdrdrv.c."""


@rule(
    "gdrcopy-version-mismatch",
    Layer.DRIVER,
    per=the_node,
    takes=(GDRDRV,),
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

    Why: Both sides check the other's version when a program opens the device. Releases from 2.0 to 2.6
    accept each other; programs may require a newer one, such as 2.5 for GIN on EFA.

    Source: NVIDIA/gdrcopy src/gdrapi.c, gdr_open(); src/gdrdrv/gdrdrv.c, at the tags from v2.0 to v2.6.
    """
    try:
        version = gdrdrv_version(node)
    except EvidenceAbsent:
        return NotApplicable(f"{MODULE} is not loaded")
    try:
        copies = gdrapi_copies(node)
    except EvidenceAbsent:
        return NotApplicable("libgdrapi is not installed; an image brings its own")
    if numbers(version) >= OLDEST_ON_BOTH_SIDES:
        for one in (version, copies[0].version):
            cite_if_newer(node, "GDRCopy", one)
        return Passed(f"{MODULE} {version} and libgdrapi {copies[0].version} accept each other")
    return Failed(
        seen=f"{MODULE} {version or 'of no version'}, and libgdrapi {copies[0].version}",
        expected=f"{MODULE} {'.'.join(map(str, OLDEST_ON_BOTH_SIDES))} or newer",
        subject=MODULE,
    )


@rule(
    "gdrcopy-built-for-proprietary",
    Layer.DRIVER,
    per=the_node,
    takes=(GDRDRV,),
    reported_by=(DecidingCommand("sudo dmesg | grep gdrdrv", "built for proprietary NVIDIA driver"),),
    cost="Some functions of GDRCopy fail.",
    references=(_INSTALL,),
)
def gdrcopy_built_for_proprietary(node: Node, _: str) -> Outcome:
    """gdrdrv was built for the other flavour of NVIDIA's kernel modules.

    Cost: gdrdrv may not load, or may lack functions such as those for confidential computing.

    How to tell: /proc/driver/gdrdrv/params, or the line `loading gdrdrv version ... built for proprietary
    NVIDIA driver` in the kernel log, names another flavour than /proc/driver/nvidia/version.

    What to do: Rebuild gdrdrv-dkms after the driver was changed: `sudo dkms install gdrdrv/<version>`.

    Why: The build looks at the installed driver once. A later change of the flavour does not rebuild it.

    Source: NVIDIA/gdrcopy src/gdrdrv/gdrdrv.c, gdrdrv_init(); NVIDIA/gdrcopy issue 334.
    """
    try:
        built_for, flavour = gdrdrv_flavour(node), driver_flavour(node)
    except EvidenceAbsent:
        return NotApplicable(f"{MODULE} or the driver is not loaded")
    if built_for == flavour:
        return Passed(f"{MODULE} was built for the {flavour} driver")
    return Failed(
        seen=f"{MODULE} was built for the {built_for} driver",
        expected=f"built for the {flavour} driver, which is loaded",
        subject=MODULE,
        takes=(),  # it is loaded: some functions work
    )
