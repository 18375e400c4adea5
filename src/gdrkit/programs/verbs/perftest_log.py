"""Outputs of perftest's bandwidth and latency tests, as far as rules need them.

They are supplied in `sos_commands/perftest/` and are optional.
"""

from __future__ import annotations

from msgspec import Struct

from gdrkit.facts.supplied import supplied_files
from gdrkit.node import Node, fact

FOLDER = "sos_commands/perftest"


class PerftestRun(Struct, frozen=True, kw_only=True):
    """One run. None: the text does not show it."""

    path: str
    command: str = ""  # the command line, where the text shows it
    uses_gpu: bool = False
    uses_dmabuf: bool | None = None
    memory: str = ""  # "managed" or "host": what --cuda_mem_type chose instead of the GPU's own memory
    integrated_gpu: bool = False  # then --use_cuda allocated host memory
    integrated_line: int = 0  # the line that shows it
    registration_errno: int | None = None  # Couldn't allocate MR with error=N
    refused_line: int = 0
    bandwidth_shown: bool = False  # a result line: the run worked


@fact
def runs(node: Node) -> tuple[str, ...]:
    """Outputs of perftest supplied with this node; () if there are none."""
    return supplied_files(node, FOLDER)


@fact
def perftest_run(node: Node, path: str) -> PerftestRun:
    """One output. Raises EvidenceMissing if it does not exist or is not perftest's."""
    return parse(node.text(path), path)


def parse(text: str, path: str = "") -> PerftestRun:
    """The first run in an output, with or without the command above it. Raises FormatError."""
    from gdrkit.formats.perftest import parse_perftest  # few nodes come with such an output

    run = parse_perftest(text)[0]
    return PerftestRun(
        path=path,
        command=run.command,
        uses_gpu=run.uses_gpu,
        uses_dmabuf=run.uses_dmabuf,
        memory=run.memory,
        integrated_gpu=run.integrated_gpu,
        integrated_line=run.integrated_line,
        registration_errno=run.registration_errno,
        refused_line=run.refused_line,
        bandwidth_shown=run.result_shown,
    )
