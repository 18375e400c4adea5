"""Lines of NCCL's diagnostics, and what gdrkit reads in them."""

from __future__ import annotations

from pathlib import Path

from gdrkit.formats.errors import FormatError
from gdrkit.programs.nccl.diagnostic_statements import Diagnostics, Effect, Statement
from gdrkit.programs.nccl.diagnostics import diagnostics
from gdrkit.programs.nccl.log import parse

LOGS = Path(__file__).parent / "diagnostic_logs"
COMMUNICATOR = "in comm 0x9d41c07be2a6f318"


def report(*lines: str, process: str = "n1:7") -> str:
    """Lines at the level DIAG of one process."""
    return "".join(f"{process} NCCL DIAG {line}\n" for line in lines)


def read(text: str) -> Diagnostics:
    found = diagnostics(parse(text).records)
    assert found is not None
    return found


def read_log(name: str) -> Diagnostics:
    return read((LOGS / name).read_text())


def any_text(text: str) -> Diagnostics | None:
    """What any text shows; None if it has no line of NCCL."""
    try:
        return diagnostics(parse(text).records)
    except FormatError:
        return None


def only(text: str, *effects: Effect) -> Statement:
    """The only statement of a report with these effects."""
    (found,) = read(text).of(*effects)
    return found
