"""The kernel's account of memory that it keeps for large contiguous allocations (CMA)."""

from __future__ import annotations

from msgspec import Struct

from gdrkit.formats.errors import FormatError
from gdrkit.formats.whole_number import whole_number
from gdrkit.node import Node, fact

MEMINFO = "proc/meminfo"


class ContiguousMemory(Struct, frozen=True):
    """Two lines of /proc/meminfo, in KiB."""

    total: int
    free: int


@fact
def contiguous_memory(node: Node) -> ContiguousMemory | None:
    """`CmaTotal: 65536 kB` and `CmaFree: 60000 kB`; None of a kernel without CONFIG_CMA, which has neither.

    Source: Linux fs/proc/meminfo.c, meminfo_proc_show().
    """
    found = {}
    for line in node.text(MEMINFO).splitlines():
        name, _, value = line.partition(":")
        if name in ("CmaTotal", "CmaFree"):
            number = whole_number(value.removesuffix("kB").strip())
            if number is None:
                raise FormatError(f"not a size in kB: {line[:40]!r}")
            found[name] = number
    if not found:
        return None
    if len(found) < 2:
        raise FormatError("one of CmaTotal and CmaFree is missing")
    return ContiguousMemory(found["CmaTotal"], found["CmaFree"])
