"""Lines that stand for several: Ray drops lines that differ only in words with a digit, as a path has.

Source: Ray python/ray/_private/ray_logging, LogDeduplicator; the lines have the form of vllm#15769."""

from __future__ import annotations

import re
from collections import defaultdict

import pytest

from gdrkit.explain.lines.line import clean
from gdrkit.jobs.document import document, exit_code
from gdrkit.jobs.runtime_prefixes import without_repeats
from gdrkit.jobs.text import text
from tests.jobs.samples import info
from tests.jobs.test_samples import analysed

ONCE = (
    " (Ray deduplicates logs by default. Set RAY_DEDUP_LOGS=0 to disable log deduplication, or see the"
    " documentation for more options.)"
)
DIRECT = "/GDRDMA"


def rank_lines(rank: int, end: str) -> list[str]:
    process = f"node-{'ab'[rank // 2]}:{730 + rank}"
    channel = "{} -> {} [{}] via NET/IB/{}" + end
    ends = channel.format("3[1]", "0[0]", "receive", 0) if rank == 0 else ""
    ends = ends or channel.format(f"{rank}[{rank % 2}]", f"{(rank + 1) % 4}[0]", "send", rank % 2)
    if rank == 2:
        ends = channel.format("1[1]", "2[0]", "receive", 0)
    return [
        f"(RayWorkerWrapper pid={730 + rank}) " + info(process, rank % 2, words).strip("\n")
        for words in (
            "Using network IB",
            f"ncclCommInitRank comm 0x{rank + 1} rank {rank} nranks 4 cudaDev {rank % 2} busId 7e000 "
            "commId 0x898b - Init START",
            *(f"Channel 0{channel}/0 : {ends}" for channel in (0, 1)),
        )
    ]


def deduplicated(lines: list[str]) -> str:
    """What Ray makes of lines: of those alike, the first and, after all others, the last with a count."""
    alike: dict[str, list[str]] = defaultdict(list)
    shown = []
    for line in lines:
        message = line.partition(") ")[2]
        key = " ".join(word for word in message.split() if not re.search(r"\d", word))
        known = alike[key]
        if not known or known[0].partition(") ")[0] == line.partition(") ")[0]:
            shown.append(line)
        known.append(line)
    late = [some for some in alike.values() if some[-1] not in shown]
    for number, some in enumerate(late):
        times = sum(line not in shown for line in some)
        shown.append(f"{some[-1]} [repeated {times}x across cluster]" + ONCE * (number == 0))
    return "\n".join((*shown, ""))


def log(*, slow: int = 4) -> list[str]:
    """The lines of four ranks, of which the ranks from `slow` on are not direct."""
    return [line for rank in range(4) for line in rank_lines(rank, DIRECT if rank < slow else "")]


@pytest.mark.parametrize(
    "form",
    [
        "{} [repeated 3x across cluster]",
        "{} [repeated 12x across cluster]" + ONCE,
        "message repeated 2 times: [ {}]",
    ],
)
def test_a_line_that_stands_for_several_is_read_as_it_was_printed(form):
    line = info("node-a:734", 0, "Using network IB").strip("\n")
    assert without_repeats(f"x\n{form.format(line)}\ny\n".encode())[0] == f"x\n{line}\ny\n".encode()
    assert clean(form.format(line)) == line


@pytest.mark.parametrize("line", ["step 3 [repeated 3x]", "[repeated 3x across cluster] is what Ray adds",
                                  "the message repeated 2 times"])  # fmt: skip
def test_words_that_only_look_like_that_stay(line):
    assert without_repeats(f"{line}\n".encode()) == (f"{line}\n".encode(), 0)
    assert clean(line) == line


def test_the_path_of_a_line_that_ray_kept_counts_and_its_network_is_no_plugin():
    found = document(analysed(deduplicated(log(slow=2))))
    assert (found.verdict.state, found.damaged_lines, found.findings) == ("blocked", 0, ())
    assert found.hidden_lines > 0
    assert "run with RAY_DEDUP_LOGS=0" in text(found, width=200)


def test_a_job_of_which_ray_dropped_lines_is_not_known_to_be_direct():
    whole = document(analysed("\n".join((*log(), ""))))
    assert (whole.verdict.state, exit_code(whole), whole.hidden_lines) == ("active", 0, 0)
    part = document(analysed(deduplicated(log())))
    assert (part.verdict.state, exit_code(part)) == ("unknown", 3)


def test_a_rank_without_a_channel_line_is_not_counted_as_direct_nor_as_missing():
    lines = [line for line in log() if not ("Channel" in line and "pid=733" in line)]
    found = document(analysed("\n".join((*lines, ""))))
    assert (found.verdict.state, found.verdict.summary) == (
        "unknown", "3 of 4 ranks direct; 1 has no channel line",
    )  # fmt: skip
    lines = [line for line in lines if "pid=732" not in line]
    summary = document(analysed("\n".join((*lines, "")))).verdict.summary
    assert summary == "2 of 4 ranks direct; 1 has no channel line, 1 is not in the log"
