"""Hearing what programs other than the module loader print: a row of program_rows.py in a line. PURE."""

from __future__ import annotations

import functools
import re

from msgspec import Struct

from gdrkit.facts.loaded_modules import canonical
from gdrkit.rules.program_rows import ROWS, Row


class Said(Struct, frozen=True):
    """A row that a line has the form of."""

    row: Row
    module: str  # the module that it names or is about; "" if none


@functools.cache
def _compiled() -> tuple[tuple[Row, re.Pattern[str]], ...]:
    return tuple((row, re.compile(row.pattern)) for row in ROWS)


@functools.cache
def _any() -> re.Pattern[str]:
    """What every row's line has at least: a quick look at lines that are none."""
    return re.compile(
        r"allocate MR|DMA-BUF|integrated: 1|ibv_reg_|IB devices|GPU Direct|No device|Got completion"
        r"|ibv_modify|Mismatched|topology|importer|_p2p_|BAR1|page table|CDMM|localized|NVRM: API|NVML"
        r"|communicate"
        r"|\(err 0\)|depmod|loading module|load the kernel|nvidia-peermem|mellanox ofed"
    )


def hear(text: str) -> Said | None:
    """The first row whose form a line has; None if it has none."""
    if not _any().search(text):
        return None
    for row, pattern in _compiled():
        found = pattern.search(text)
        if found is not None:
            named = canonical(found["module"]) if "module" in pattern.groupindex else row.module
            return Said(row, named)
    return None
