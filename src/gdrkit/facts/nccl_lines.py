"""Parser of NCCL's log lines, from 2.4.2 to 2.30.7: the process that printed a line, and its contents.

Lines of an unknown form are ignored, and so are lines that another line interrupts. The known forms are in
messages/nccl.py.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from gdrkit.messages import nccl
from gdrkit.messages.message import MessageMatcher
from gdrkit.messages.nccl_records import Frame, NcclRecord, Variable

MARKS = (" NCCL INFO ", " NCCL WARN ", " NCCL TRACE ")
HEAD_CHARACTERS = 400
"""How far before the mark a frame can begin: host names have at most 255 characters, hostname(7)."""
LINE_CHARACTERS = 4096
COMMAND_CHARACTERS = 8192
"""How much of a line is parsed. NCCL cuts its lines at 1024 or 4096: src/debug.cc."""


def frame(line: str) -> Frame:
    """The process that printed a line, and the message. A line without a frame is a message of no
    process."""
    line = line[:LINE_CHARACTERS]
    at, mark = _first_mark(line)
    if at < 0:
        return Frame("", None, line.strip())
    message = line[at + len(mark) :]
    cut = _first_mark(message)[0] >= 0
    head = line[max(0, at - HEAD_CHARACTERS) : at]
    found = _frame().search(head)
    if found is None:
        device = re.search(r"\[(-?\d{1,4})\](?:\s+\S+){0,3}$", head)
        return Frame(_tag(head), int(device[1]) if device else None, message.rstrip(), cut)
    before = head[: found.start()]
    cut = cut or re.search(r"[\w.-]:(?:\d+|X+):$", before) is not None
    host = found["host"] or _tag(before)
    process = f"{host}:{found['pid']}"
    return Frame(process, int(found["device"]), message.rstrip(), cut)


def _first_mark(line: str) -> tuple[int, str]:
    if "NCCL" not in line:
        return -1, ""
    found = [(at, mark) for mark in MARKS if (at := line.find(mark)) >= 0]
    return min(found, default=(-1, ""))


@functools.cache
def _frame() -> re.Pattern[str]:
    # Words between device and mark: file and line of a warning, and since 2.30 a function.
    return re.compile(
        r"(?P<host>[^\s:\[\]]*):(?P<pid>\d{1,10}|X+):(?:\d{1,10}|X+)\s+\[(?P<device>-?\d{1,4})\]"
        r"(?:\s+\S+){0,3}$"
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
    return MessageMatcher(row for row in nccl.ROWS if row.make)


def given(line: str) -> Iterator[Variable]:
    """Variables set in a line that NCCL did not print: `export`, `mpirun -x`, `docker -e`, output of env."""
    if "NCCL_" not in line:
        return
    line = line[:COMMAND_CHARACTERS]
    whole = _listed().match(line)
    if whole is not None:
        yield Variable(whole["name"], whole["value"].strip("\"'"), resolved=False)
        return
    for found in _passed().finditer(line):
        yield Variable(found["name"], found["value"].strip("\"'"), resolved=False)


@functools.cache
def _listed() -> re.Pattern[str]:
    return re.compile(
        rf"^\s*(?:\+ )?(?:export |declare -x |setenv )?(?P<name>{_NAME})[= ](?P<value>{_VALUE})\s*$"
    )


@functools.cache
def _passed() -> re.Pattern[str]:
    # mpirun -x, docker -e and --env, mpiexec -genv (with a blank), srun --export=ALL,NAME=VALUE, export of
    # several, and assignments before a command.
    return re.compile(
        rf"(?:\s(?:-x|-e|--env|-genv|export)[ =]|--export=\S*?|^(?:[$#+] )?(?:export |env )?"
        rf"(?=(?:\w+=\S* +)+{_COMMAND})|(?<=\S) (?={_NAME}=)(?=(?:\w+=\S* +)*{_COMMAND}))"
        rf"(?P<name>{_NAME})[= ](?P<value>{_VALUE})(?=[\s;,&]|$)"
    )


_NAME = r"(?:OFI_)?NCCL_[A-Z0-9_]+"
_VALUE = r"\"[^\"]*\"|'[^']*'|[^\s;&\"']*"
_COMMAND = (
    r"(?:(?:timeout|numactl|nohup|sudo|time) (?:-?\S+ )?)?(?:\S*/)?"
    r"(?:mpirun|mpiexec|srun|torchrun|python\d?|deepspeed|accelerate|ray|vllm|\w+_perf)\b"
)
"""Programs that start NCCL jobs: launchers, frameworks and NCCL's own tests."""
