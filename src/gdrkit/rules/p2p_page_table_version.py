"""Kernel modules that reject the page tables of the driver."""

from __future__ import annotations

from gdrkit.evidence import EvidenceAbsent, EvidenceMissing, Missing, MissingReason
from gdrkit.facts.driver import driver_version
from gdrkit.facts.driver_log import last_line_if_any
from gdrkit.facts.modules import is_loaded, running
from gdrkit.facts.newest_read import cite_if_newer
from gdrkit.formats.versions import numbers
from gdrkit.node import Node, if_missing
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.rule import Failed, Layer, NotApplicable, Outcome, Passed, Status, rule, the_node

FIRST_WITH_TABLE_2 = (580,)
"""NVIDIA_P2P_PAGE_TABLE_VERSION went from 0x00010002 to 0x00020000 with 580.65.06: nv-p2p.h."""

FIRST_GDRDRV = (2, 5, 1)
"""The first release of GDRCopy after that driver. Each compares with the nv-p2p.h that it was compiled with:
an older one accepts the new tables once it is compiled again (src/gdrdrv/gdrdrv.c from v1.3 on)."""

_ASK = "sudo dmesg | grep 'page table version', after a program used GDRCopy"
REJECTED = r"incompatible page table version (0x[0-9a-f]+)"


@rule(
    "p2p-page-table-version",
    Layer.DRIVER,
    per=the_node,
    default_status=Status.WARNING,
    reported_by=(
        DecidingCommand(
            "sudo dmesg | grep 'page table version'", "incompatible page table version 0x00020000"
        ),
    ),
    cost="A module built for an older driver, such as gdrdrv, fails; peermem and dma-buf are not affected.",
    references=("https://github.com/NVIDIA/gdrcopy/releases/tag/v2.5",),
)
def p2p_page_table_version(node: Node, _: str) -> Outcome:
    """A third-party kernel module or an old gdrdrv rejects the page tables of driver 580 and newer.

    Cost: GDRCopy, GPUDirect Storage or your own kernel module stops working. RDMA through nvidia-peermem or
    dma-buf is not affected.

    How to tell: The kernel log shows `incompatible page table version 0x00020000`. Or
    gdrdrv was compiled before the driver became 580 or newer, which its version does not show.

    What to do: Rebuild the module against nv-p2p.h of the new driver. For gdrdrv, install GDRCopy 2.5.1 or
    newer, or compile it again: `sudo dkms install gdrdrv/<version> --force`.

    Why: Modules that use nvidia_p2p_get_pages compare the version of the page table with the version that
    they were compiled for.

    Source: open-gpu-kernel-modules kernel-open/nvidia/nv-p2p.h at 575.51.02 and 580.65.06; NVIDIA/gdrcopy.
    """
    line = last_line_if_any(node, REJECTED)
    if line is not None:
        return Failed(seen=line.text, expected="a module built for this driver", subject="gdrdrv")
    try:
        version = driver_version(node)
    except EvidenceAbsent:
        return NotApplicable("no NVIDIA driver is loaded")
    if numbers(version) < FIRST_WITH_TABLE_2:
        return NotApplicable(f"driver {version} has the old page tables")
    if not is_loaded(node, "gdrdrv"):
        return NotApplicable("gdrdrv is not loaded")
    gdrdrv = if_missing("", lambda: running(node, "gdrdrv").version)
    if numbers(gdrdrv) and numbers(gdrdrv) < FIRST_GDRDRV:
        what = f"driver that gdrdrv {gdrdrv} was compiled for"
        raise EvidenceMissing(Missing(what, MissingReason.UNDECIDED, _ASK))
    cite_if_newer(node, "NVIDIA driver", version)
    return Passed(f"gdrdrv {gdrdrv}" if gdrdrv else "no such error in the kernel log")
