"""Logs in a pasted text: their lines by line number."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from msgspec import Struct

from gdrkit.explain.lines.blocks import EVIDENCE, Block
from gdrkit.explain.lines.line import is_kernel_line
from gdrkit.explain.lines.transcript import TextLine
from gdrkit.explain.outputs.settings import as_line, settings
from gdrkit.facts import kubernetes
from gdrkit.formats.regex import regex
from gdrkit.programs.nccl import log as nccl_log
from gdrkit.programs.verbs import perftest_log

WHOLE_LOG = (
    ("dmesg",),
    ("dmesg", "-T"),
    ("journalctl", "-k"),
    ("journalctl", "-k", "-b"),
    ("journalctl", "-b", "-k"),
)
"""Commands whose unfiltered output is the whole kernel log."""

OMISSION_MARKS = ("...", "[...]", "(...)", "<snip>", "[snip]", "--More--", "\u2026")
"""What people write in place of lines that they left out."""

OPERATOR_CONTAINER_LINES: tuple[str, ...] = (
    "nvidia-peermem module",
    "waiting for mellanox ofed and nvidia drivers",
    "reload_nvidia_peermem",
    "nvidia-peermem-ctr",
    "chroot /run/nvidia/driver modprobe",
)
"""What only nvidia-peermem-ctr of the GPU Operator prints: gpu-driver-container, nvidia-driver. An error of
modprobe alone can come from any machine."""

OPERATOR_COMMANDS: tuple[str, ...] = ("nvidia-peermem-ctr", "chroot /run/nvidia/driver modprobe")

_PERFTEST = regex(
    r"\bib_(?:write|read|send|atomic)_(?:bw|lat)\b|initializing CUDA|CUDA device|creating CUDA Ctx"
    r"|device name = \["
    r"|allocat\w+ (?:of a )?.*GPU buffer|Couldn't allocate MR|[Ff]ailed to create [mM][rR]|#bytes +#iter"
    r"|RDMA_\w+ (?:BW|Latency) Test|DMA-?BUF|^ ?\d+ +\d+ +[\d.]+ +[\d.]+"
)


def kernel_log(blocks: Iterable[Block], lines: Iterable[TextLine]) -> tuple[Mapping[int, str], bool]:
    """The kernel messages by line number, and whether they are the whole log.

    A log that starts with the banner counts as whole in `facts`, so an excerpt is returned without it."""
    own_lines = tuple(lines)
    whole = _is_whole(tuple(blocks), own_lines)
    found = {
        line.number: line.text.strip()
        for line in own_lines
        if line.kind in EVIDENCE and is_kernel_line(line.text)
        if whole or "Linux version " not in line.text
    }
    return found, whole


def _is_whole(blocks: tuple[Block, ...], lines: tuple[TextLine, ...]) -> bool:
    """Whether the text has the whole output of dmesg, from the banner to the next prompt, unfiltered,
    or consists of nothing else. An excerpt is never whole, however long."""
    log = [line for line in lines if line.kind in EVIDENCE and is_kernel_line(line.text)]
    if not log or not re.search(r"[\]:] Linux version ", log[0].text) or any(line.cut for line in log):
        return False
    if any(line.text.strip() in OMISSION_MARKS for line in lines):
        return False
    for block in blocks:
        if block.lines[:1] == (log[0],):
            alone = block.argv in WHOLE_LOG and not block.filtered and block.ended
            return alone and log[-1].typed_at == block.number
    return len(log) == len(lines)


class TextLog(Struct, frozen=True):
    """The log of a program."""

    path: str  # its path in a bundle
    title: str  # what to call it
    lines: Mapping[int, str]
    numbered: bool = True  # a quotation needs the line number: the log is assembled from many parts


def log_files(blocks: Iterable[Block], lines: Iterable[TextLine]) -> tuple[TextLog, ...]:
    """The logs of NCCL, the GPU Operator and perftest."""
    everything, shown = tuple(lines), tuple(blocks)
    evidence = [line for line in everything if line.kind in EVIDENCE]
    found = [
        TextLog(
            f"{nccl_log.FOLDER}/pasted.log",
            "nccl log",
            {**_lines_with(evidence, "NCCL", "NET/"), **_job_environment(shown, everything, evidence)},
        )
    ]
    if _of_operator(everything):
        container = _lines_with(evidence, "peermem", "mellanox ofed")
        found.append(TextLog(f"{kubernetes.FOLDER}/pasted.log", "kubernetes log", container))
    for number, run in _perftest_runs(shown, evidence).items():
        path = f"{perftest_log.FOLDER}/line-{number}.log"
        found.append(TextLog(path, f"perftest at line {number}", run, numbered=False))
    return tuple(log for log in found if log.lines)


def _of_operator(lines: Iterable[TextLine]) -> bool:
    """Whether a container of the GPU Operator loads the module: by what it prints, or by a command that
    prints its log, or that runs modprobe in the driver's container."""
    for line in lines:
        words = OPERATOR_COMMANDS if line.kind == "typed" else OPERATOR_CONTAINER_LINES
        if line.kind in ("typed", *EVIDENCE) and any(word in line.text for word in words):
            return True
    return False


def _lines_with(lines: Iterable[TextLine], *words: str) -> dict[int, str]:
    return {line.number: line.text.strip() for line in lines if any(word in line.text for word in words)}


_OF_JOB = regex(r"NCCL (?:INFO|WARN|version)|Out of bounds values|Avg bus bandwidth|vLLM is using nccl")
"""What only a job with NCCL prints: NCCL src/debug.cc; nccl-tests src/common.cu; vLLM pynccl.py."""


def _job_environment(
    blocks: tuple[Block, ...], lines: tuple[TextLine, ...], evidence: list[TextLine]
) -> Mapping[int, str]:
    """The lines that set NCCL variables of a job. Without a sign of a job, the result is empty: a tutorial
    sets variables, too.

    A job has lines of NCCL or of its tests, or is a command with variables that printed something."""
    found = {
        number: as_line(given)
        for number, given in settings(lines).items()
        if any("NCCL_" in name for name, _ in given)
    }
    ran = any(
        block.lines and block.number in found and "NCCL_" in block.command.partition(" ")[2]
        for block in blocks
    )
    return found if ran or any(_OF_JOB.search(line.text) for line in evidence) else {}


_MAX_GAP = 6
"""Unrecognized lines between two lines of one run at most: perftest's banners have four."""
_MAX_RUN = 400
"""Lines of one run at most: `-a` prints 23 sizes, and a listing of GPUs has 16."""


def _perftest_runs(blocks: tuple[Block, ...], lines: list[TextLine]) -> dict[int, dict[int, str]]:
    """Each run of perftest by its first line: a command with its output, or adjacent lines of output."""
    found: dict[int, dict[int, str]] = {}
    for block in blocks:
        if block.argv and re.fullmatch(r"ib_\w+_(?:bw|lat)", block.argv[0]):
            own = {line.number: line.text for line in block.lines}
            if not any(_PERFTEST.search(text) for text in own.values()):
                continue  # the text has the command without its output
            found[block.number] = {block.number: " ".join(block.argv), **own}
    start = last = 0
    for line in lines:
        if line.typed_at or not _PERFTEST.search(line.text):
            continue
        if not start or line.number - last > _MAX_GAP:
            start = line.number
            found[start] = {}
        if len(found[start]) < _MAX_RUN:
            found[start][line.number] = line.text
        last = line.number
    return {
        number: run for number, run in found.items() if any(_PERFTEST.search(text) for text in run.values())
    }
