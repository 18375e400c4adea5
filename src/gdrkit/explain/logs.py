"""Logs in a pasted text: their lines, by the numbers that they have in the text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from msgspec import Struct

from gdrkit.explain.blocks import EVIDENCE, Block
from gdrkit.explain.lines import is_kernel_line
from gdrkit.explain.transcript import TextLine
from gdrkit.facts import kubernetes, nccl_log, perftest_log

WHOLE_LOG = (
    ("dmesg",),
    ("dmesg", "-T"),
    ("journalctl", "-k"),
    ("journalctl", "-k", "-b"),
    ("journalctl", "-b", "-k"),
)
"""Commands whose output is all of the kernel's log, if nothing is taken out of it."""

LEFT_OUT = ("...", "[...]", "(...)", "<snip>", "[snip]", "--More--", "\u2026")
"""What people write where they left lines out."""

OF_THE_CONTAINER = (
    "nvidia-peermem module",
    "waiting for mellanox ofed and nvidia drivers",
    "reload_nvidia_peermem",
    "nvidia-peermem-ctr",
)
"""What only the GPU Operator's nvidia-peermem-ctr prints: gpu-driver-container, nvidia-driver. modprobe's
error alone is that of any machine."""

_PERFTEST = re.compile(
    r"\bib_(?:write|read|send|atomic)_(?:bw|lat)\b|initializing CUDA|CUDA device|creating CUDA Ctx"
    r"|device name = \["
    r"|allocat\w+ (?:of a )?.*GPU buffer|Couldn't allocate MR|[Ff]ailed to create [mM][rR]|#bytes +#iter"
    r"|RDMA_\w+ (?:BW|Latency) Test|DMA-?BUF|^ ?\d+ +\d+ +[\d.]+ +[\d.]+"
)


def kernel_log(blocks: Iterable[Block], lines: Iterable[TextLine]) -> tuple[Mapping[int, str], bool]:
    """The kernel's lines by number, and whether they are all of its log.

    The banner makes a log look whole to whoever reads it, so it stays out of one that is a part."""
    mine = tuple(lines)
    whole = _is_whole(tuple(blocks), mine)
    found = {
        line.number: line.text.strip()
        for line in mine
        if line.kind in EVIDENCE and is_kernel_line(line.text)
        if whole or "Linux version " not in line.text
    }
    return found, whole


def _is_whole(blocks: tuple[Block, ...], lines: tuple[TextLine, ...]) -> bool:
    """Whether the text has the output of dmesg alone, from the banner to the next prompt, unfiltered.

    Or nothing else. An excerpt is never whole, however long."""
    log = [line for line in lines if line.kind in EVIDENCE and is_kernel_line(line.text)]
    if not log or not re.search(r"[\]:] Linux version ", log[0].text) or any(line.cut for line in log):
        return False
    if any(line.text.strip() in LEFT_OUT for line in lines):
        return False
    for block in blocks:
        if block.lines[:1] == (log[0],):
            alone = block.argv in WHOLE_LOG and not block.filtered and block.ended
            return alone and log[-1].asked == block.number
    return len(log) == len(lines)


class TextLog(Struct, frozen=True):
    """A log of a program."""

    path: str  # where a bundle would hold it
    title: str  # how to speak of it
    lines: Mapping[int, str]
    numbered: bool = True  # all that the text has of the program, so that only a line's number says where


def log_files(blocks: Iterable[Block], lines: Iterable[TextLine]) -> tuple[TextLog, ...]:
    """The logs of programs."""
    everything = tuple(lines)
    evidence = [line for line in everything if line.kind in EVIDENCE]
    found = [
        TextLog(
            f"{nccl_log.FOLDER}/pasted.log",
            "nccl log",
            {**_having(evidence, "NCCL", "NET/"), **_given_beside(everything, evidence)},
        )
    ]
    if any(words in line.text for line in evidence for words in OF_THE_CONTAINER):
        said = _having(evidence, "peermem", "mellanox ofed")
        found.append(TextLog(f"{kubernetes.FOLDER}/pasted.log", "kubernetes log", said))
    for number, run in _perftest_runs(tuple(blocks), evidence).items():
        path = f"{perftest_log.FOLDER}/line-{number}.log"
        found.append(TextLog(path, f"perftest at line {number}", run, numbered=False))
    return tuple(log for log in found if log.lines)


def _having(lines: Iterable[TextLine], *words: str) -> dict[int, str]:
    return {line.number: line.text.strip() for line in lines if any(word in line.text for word in words)}


def _given_beside(lines: tuple[TextLine, ...], evidence: list[TextLine]) -> dict[int, str]:
    """Commands and `export` lines beside a log of NCCL's that give variables to the job which wrote it.

    A person's words that set no variable by a line of their own are left out, and all of them where NCCL
    itself says nothing: then nobody knows of a job."""
    from gdrkit.facts import nccl_lines

    if not any(nccl_lines.frame(line.text).device is not None for line in evidence if "NCCL" in line.text):
        return {}
    return {
        line.number: line.text.strip()
        for line in lines
        if line.kind in ("typed", "prose")
        and "NCCL_" in line.text
        and (line.kind == "typed" or line.text.lstrip().startswith("export "))
        and any(nccl_lines.given(line.text))
    }


def _perftest_runs(blocks: tuple[Block, ...], lines: list[TextLine]) -> dict[int, dict[int, str]]:
    """Each run by its first line: with the command above it, or what stands together without one."""
    found: dict[int, dict[int, str]] = {}
    for block in blocks:
        if block.argv and re.fullmatch(r"ib_\w+_(?:bw|lat)", block.argv[0]):
            own = {line.number: line.text for line in block.lines}
            if not any(_PERFTEST.search(text) for text in own.values()):
                continue  # a command of which nobody shows what it printed
            found[block.number] = {block.number: " ".join(block.argv), **own}
    start = last = 0
    for line in lines:
        if line.asked or not _PERFTEST.search(line.text):
            continue
        if not start or line.number - last > _GAP:
            start = line.number
            found[start] = {}
        if len(found[start]) < _RUN:
            found[start][line.number] = line.text
        last = line.number
    return {
        number: run for number, run in found.items() if any(_PERFTEST.search(text) for text in run.values())
    }


_GAP = 6
"""Lines of no form that is known between two lines of one run, at most: perftest's banners have four."""
_RUN = 400
"""Lines of one run, at most: `-a` prints 23 sizes, and a listing of GPUs has 16."""
