"""What a completion with an error in perftest means, and whether a client CPU of Intel may be its cause.

NVIDIA, in open-gpu-kernel-modules issue 1253: Intel's client CPUs support PCIe peer-to-peer writes alone. By
the report there, NICs of two desktops write GPU memory and fail to read it, with vendor error 0x89, and that
of a workstation does both. sbates130272/io_peer_mem issue 1 says the same of other desktops.
"""

from __future__ import annotations

from msgspec.structs import replace

from gdrkit.explain.explanation import Answer, AnswerKind, RankedCause, Sureness
from gdrkit.explain.lines.blocks import EVIDENCE
from gdrkit.explain.lines.transcript import TextLine
from gdrkit.formats.regex import regex
from gdrkit.messages.verbs_failures import failing
from gdrkit.programs.nccl.unacknowledged import steps
from gdrkit.programs.ucx.unacknowledged import ucx_steps
from gdrkit.report.pages import code_page

_STATUS = regex(r"Failed status (?P<status>4|10|11): wr_id")
_TEST = regex(r"\b(?:RDMA_|ib_)(?P<test>[Rr]ead|[Ww]rite)[ _](?:BW|Lat|bw|lat)|\b(?P<send>Send|ib_send)[ _]")
_GPU_MEMORY = regex(r"--use_cuda|GPU buffer|CUDA_MEM_DEVICE")
_CLIENT_CPU = regex(
    r"(?i)\s*model name\s*:.{0,40}?(?P<name>Intel\(R\) Core\(TM\) (?!i[79]-\d{4,5}XE?\b)[\w-][\w -]{0,40})"
)
"""Processors for desktops and laptops, as /proc/cpuinfo and lscpu print them. The i7 and i9 with an X at the
end are built as those of servers."""

RETRIES = "retry-exceeded"
SOURCE = "github.com/NVIDIA/open-gpu-kernel-modules/issues/1253"


def of_completion(answer: Answer, lines: tuple[TextLine, ...]) -> Answer:
    """An answer about a completion with an error, with the host to look at, and with its CPU as the likely
    cause where the text shows one that forwards no reads."""
    if answer.cause == RETRIES and answer.lines:
        if of_ucx := ucx_steps(answer.lines[0].text, (line.text for line in lines)):
            return replace(answer, now=of_ucx)
        others = (line.text for line in lines if line.kind in EVIDENCE)
        return replace(answer, now=(*steps(answer.lines[0].text, answer.machine, others), *answer.now))
    found = _STATUS.search(answer.lines[0].text) if answer.lines else None
    shown = [line for line in lines if line.kind in (*EVIDENCE, "typed")]
    if found is None or not any(_GPU_MEMORY.search(line.text) for line in shown):
        return answer
    status = int(found["status"])
    means = f"Status {status}: {failing('completion', status, routable=False).meaning}."
    if status != 4:
        means = f"{means} So look at the other host: its checks and its log decide."
    if not _reads(status, shown):
        return replace(answer, now=(f"{means} {' '.join(answer.now[:1])}".strip(), *answer.now[1:]))
    cpu = next((one["name"].strip() for line in shown if (one := _CLIENT_CPU.match(line.text))), "")
    if not cpu:
        means += (
            f" If its CPU is one of Intel for desktops, NICs may write GPU memory alone there: {SOURCE}."
        )
        return replace(answer, now=(f"{means} {' '.join(answer.now[:1])}".strip(), *answer.now[1:]))
    cause = answer.cause
    before = () if cause is None else (RankedCause(cause, code_page(cause)[0], answer.lines[0].line),)
    whose = "of the text" if status == 4 else "of the text, if the other host has it too"
    return replace(
        answer,
        kind=AnswerKind.ELSEWHERE,
        cause=None,
        sureness=Sureness.LIKELY,
        sentence=f"{cpu}, the CPU {whose}, may be the cause: NVIDIA says that Intel's client CPUs support"
        f" PCIe peer-to-peer writes alone ({SOURCE}), and here a NIC was to read GPU memory.",
        others=(*before, *answer.others),
        now=(
            f"{means} A write into that memory that works, and a read that fails, confirm it. Then put GPU"
            " and NIC below one PCIe switch, take a CPU for workstations or servers, or go through host"
            " memory.",
        ),
    )


def _reads(status: int, shown: list[TextLine]) -> bool:
    """Whether the NIC that failed was to read memory: the peer's in a test that reads, its own in others."""
    tests = [found for line in shown if (found := _TEST.search(line.text))]
    of_peer = any((one["test"] or "").lower() == "read" for one in tests)
    return bool(tests) and of_peer == (status != 4)
