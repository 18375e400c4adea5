"""Parser of NCCL's log lines, from 2.4.2 to 2.32: the process that printed a line, and its contents.

Lines of an unknown form are ignored, and so are lines that another line interrupts. The known forms are in
messages.py and network_messages.py.

Sources of the frames: NCCL src/debug.cc, and src/ras/diagnostics.cc since 2.31.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from gdrkit.facts.assignments import assigned, is_filled_in
from gdrkit.messages.message import MessageMatcher
from gdrkit.programs.nccl import diagnostic_messages as diagnostics
from gdrkit.programs.nccl import messages as nccl
from gdrkit.programs.nccl import network_messages as nccl_networks
from gdrkit.programs.nccl.log_records import Frame, NcclRecord, Variable

HEAD_CHARACTERS = 400
"""How far before the mark a frame can begin: host names have at most 255 characters, hostname(7)."""
LINE_CHARACTERS = 4096
"""How much of a line is parsed. NCCL cuts its lines at 1024 or 4096: src/debug.cc."""


WITHOUT_DEVICE = ("CALL", "DIAG")
"""Levels whose frame has no device: host:pid:tid NCCL CALL, and host:pid NCCL DIAG since 2.31."""


def frame(line: str) -> Frame:
    """The process that printed a line, and the message. A line without a frame is a message of no
    process."""
    line = _without_comment(line[:LINE_CHARACTERS])
    mark = _mark().search(line) if "NCCL" in line else None
    if mark is None:
        return Frame("", None, line.strip().lstrip("#>|* "))
    message = line[mark.end() :].rstrip().removesuffix(" |").rstrip()  # the side of a table or a box
    cut = _mark().search(message) is not None
    head = line[max(0, mark.start() - HEAD_CHARACTERS) : mark.start()]
    found = (_frame_of_process() if mark["level"] in WITHOUT_DEVICE else _frame()).search(head)
    if found is None:
        alone = re.search(r"\[(-?\d{1,4})\](?:\s+\S+){0,3}\s*$", head)
        return Frame(_tag(head), int(alone[1]) if alone else None, message, cut)
    before = head[: found.start()]
    message = _unquoted(message, before[-1:])
    cut = cut or re.search(r"[\w.-]:(?:\d+|X+):$", before) is not None
    parts = found.groupdict()
    host = parts.get("name") or parts["host"] or _tag(before)
    process = f"{host}:{parts.get('process') or parts['pid']}"
    device = parts.get("device")
    return Frame(process, None if device is None else int(device), message, cut)


def _unquoted(message: str, mark: str) -> str:
    """A message without what follows the end of the quotation in which its line stands."""
    if mark == '"':
        return _closing().split(message, 1)[0]
    return message.removesuffix(mark) if mark == "'" else message


@functools.cache
def _closing() -> re.Pattern[str]:
    return re.compile(r'(?<!\\)"')


def is_framed(line: str) -> bool:
    """Whether NCCL printed a line, with or without the process in front."""
    return "NCCL" in line and _mark().search(line[:LINE_CHARACTERS]) is not None


def is_failed_call(line: str) -> bool:
    """Whether a program reports that a call of NCCL failed."""
    return (
        "NCCL" in line and not is_framed(line) and _failed_call().search(line[:LINE_CHARACTERS]) is not None
    )


@functools.cache
def _failed_call() -> re.Pattern[str]:
    # src/init.cc, ncclGetErrorString(): PyTorch, nccl-tests, XLA and others print what it returns
    return re.compile(
        r"\b(?:unhandled (?:cuda|system) error|internal error - please report|invalid (?:argument|usage)\b"
        r"|remote process exited or there was a network error)"
    )


def _without_comment(line: str) -> str:
    """A line without what people write behind it: `# <- here`, at least two blanks after the message."""
    if "  #" not in line and "  <-" not in line and "  \u2190" not in line:
        return line
    return _comment().split(line, 1)[0]


@functools.cache
def _comment() -> re.Pattern[str]:
    return re.compile("(?<=\\S) {2,}(?:# ?|<-|\u2190)")


@functools.cache
def _mark() -> re.Pattern[str]:
    # At the beginning of a line too: people remove the frame before they paste. ATTN exists since 2.32.
    return re.compile(r"(?<!\S)NCCL (?P<level>INFO|WARN|ATTN|TRACE|CALL|DIAG) ")


@functools.cache
def _frame() -> re.Pattern[str]:
    # Words between device and mark: file and line of a warning, and since 2.30 a function. NCCL 2.3 prints
    # no thread.
    return re.compile(
        r"(?:(?<![^\s:\[\]\"'])(?P<host>[^\s:\[\]\"']*+):(?P<pid>\d{1,10}|X+):(?:\d{1,10}|X+)"
        r"|(?<![A-Za-z])(?P<name>[A-Za-z][^\s:\[\]]*+):(?P<process>\d{1,10}|X+))"
        r"\s+\[(?P<device>-?\d{1,4})\](?:\s+\S+){0,3}\s*$"
    )


@functools.cache
def _frame_of_process() -> re.Pattern[str]:
    return re.compile(
        r"(?<![^\s:\[\]\"'])(?P<host>[^\s:\[\]\"']*+):(?P<pid>\d{1,10}|X+)(?::(?:\d{1,10}|X+))?\s*$"
    )


@functools.cache
def _tags() -> re.Pattern[str]:
    # mpirun --tag-output, torchrun, srun -l, Ray.
    return re.compile(
        r"\[\d+,(?P<mpi>\d+)\]<|\[(?:default|rank)(?P<torch>\d+)\]|^\s*(?P<srun>\d+): "
        r"|pid=(?P<ray>\d+(?:, ip=[\d.]+)?)"
    )


def _tag(lead: str) -> str:
    """The launcher's name of the process; "" if there is none."""
    found = _tags().search(lead)
    if found is None:
        return ""
    name = found.lastgroup or ""
    return f"{name} {found[name]}"


def record(message: str) -> NcclRecord | None:
    """The record that a message contains; None if its form is not known."""
    found = _records().match(message)
    return found.message.make(found) if found and found.message.make else None


@functools.cache
def _records() -> MessageMatcher:
    return MessageMatcher(row for row in (*nccl.ROWS, *nccl_networks.ROWS, *diagnostics.ROWS) if row.make)


def given(line: str) -> Iterator[Variable]:
    """Variables set in a line that NCCL did not print: `export`, `mpirun -x`, `docker -e`, output of env."""
    if "NCCL_" in line and "NCCL DIAG " not in line:
        for name, value in assigned(line):
            if name.startswith(("NCCL_", "OFI_NCCL_")) and not is_filled_in(value):
                yield Variable(name, value, resolved=False)
