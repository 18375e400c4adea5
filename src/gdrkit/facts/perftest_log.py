"""What a run of perftest's bandwidth and latency tests prints, as far as rules ask.

Runs are handed over with a node, under `sos_commands/perftest/`; a node without one was given none.
Source of the lines: linux-rdma/perftest src/cuda_memory.c, perftest_resources.c and perftest_parameters.c.
"""

from __future__ import annotations

import re

from msgspec import Struct

from gdrkit.evidence import FormatError
from gdrkit.facts.looked import handed_over
from gdrkit.node import Node, fact

FOLDER = "sos_commands/perftest"


class PerftestRun(Struct, frozen=True, kw_only=True):
    """One run. None: the text does not show it."""

    path: str
    command: str = ""  # the command line, where the text shows it
    uses_gpu: bool = False
    uses_dmabuf: bool | None = None
    integrated_gpu: bool = False  # then --use_cuda allocated host memory
    registration_errno: int | None = None  # Couldn't allocate MR with error=N
    bandwidth_shown: bool = False  # a result line: the run worked


@fact
def runs(node: Node) -> tuple[str, ...]:
    """Outputs of perftest that came with this node; () if none was handed over."""
    return handed_over(node, FOLDER)


@fact
def perftest_run(node: Node, path: str) -> PerftestRun:
    """One output. Raises Lacks if it is not there, or is none of perftest's."""
    return parse(node.text(path), path)


def parse(text: str, path: str = "") -> PerftestRun:
    """The output of one run, with or without the command above it. Raises FormatError."""
    command = re.search(r"^.*?\b(ib_(?:write|read|send|atomic)_(?:bw|lat)\b.*)$", text, re.MULTILINE)
    error = re.search(r"Couldn't allocate MR(?: with error=(\d+))?", text)
    result = re.search(r"^ ?\d+ +\d+ +[\d.]+ +[\d.]+(?: +[\d.]+)*\s*$", text, re.MULTILINE)
    integrated = re.search(r"CUDA device integrated: 1\b", text)
    gpu = re.search(r"initializing CUDA|CUDA device|creating CUDA Ctx|making it the current CUDA Ctx", text)
    dmabuf = re.search(r"using DMA-BUF for GPU buffer|DMA-?BUF", text)
    if not (command or error or result or gpu):
        raise FormatError("no line of perftest's")
    line = command[1].strip() if command else ""
    return PerftestRun(
        path=path,
        command=line,
        uses_gpu=bool(gpu) or "--use_cuda" in line,
        uses_dmabuf="--use_cuda_dmabuf" in line if line else (True if dmabuf else None),
        integrated_gpu=integrated is not None,
        registration_errno=int(error[1]) if error and error[1] else None,
        bandwidth_shown=result is not None,
    )
