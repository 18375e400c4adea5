"""Tables of UCX_PROTO_INFO in the logs of a job, alone and beside lines of NCCL."""

from __future__ import annotations

from pathlib import Path

import pytest

from gdrkit.jobs.analyse import analyse
from gdrkit.jobs.document import document, exit_code
from gdrkit.jobs.job import LogPosition
from gdrkit.jobs.line_counts import Tally
from gdrkit.jobs.text import text
from gdrkit.jobs.ucx_tables import MOST_LINES
from tests.jobs.samples import info
from tests.jobs.test_samples import analysed

TABLES = Path(__file__).parents[1] / "programs" / "ucx" / "tables"
DIRECT = "".join(
    info(process, 0, f"Channel 00/0 : 0[0] -> 1[0] [{direction}] via NET/IB/0/GDRDMA")
    for process, direction in (("n1:7", "send"), ("n2:7", "receive"))
)


def table(name: str) -> str:
    return (TABLES / f"{name}.txt").read_text()


@pytest.mark.parametrize(
    ("name", "state", "code", "path"),
    [
        ("direct", "active", 0, "direct"),
        ("staged", "blocked", 2, "staged"),
        ("tcp", "blocked", 2, "tcp"),
        ("no-gpu", "unknown", 3, None),
    ],
)
def test_a_job_of_ucx_is_judged_by_its_tables(name: str, state: str, code: int, path: str | None):
    found = document(analysed(table(name)))

    assert (found.verdict.state, exit_code(found)) == (state, code)
    assert found.ucx is not None and {leg.path.value for leg in found.ucx.legs} == (
        {path} if path else set()
    )
    assert "no channel line" not in text(found)


def test_a_row_is_quoted_by_its_line_in_its_file():
    found = analysed("a line of another program\n", "\n\n" + table("tcp")).ucx
    assert found is not None
    (leg,) = found.legs
    lines = ("\n\n" + table("tcp")).splitlines()

    assert leg.line.file == "log1"
    assert leg.description in lines[leg.line.line - 1]


@pytest.mark.parametrize(("name", "state"), [("direct", "active"), ("tcp", "blocked"), ("no-gpu", "active")])
def test_with_channels_of_nccl_the_worse_of_both_counts(name: str, state: str):
    found = analysed(DIRECT + table(name))

    assert (found.state, found.counts.direct) == (state, 2)
    assert analysed(DIRECT.replace("/GDRDMA", "") + table("direct")).state == "blocked"


def test_a_log_without_a_table_has_none():
    noise = "a | b\n0..12 | zero-copy | rc_mlx5/mlx5_0:1\n"

    assert analysed(DIRECT + noise).ucx is None
    assert analysed(DIRECT + "cfg\n" + noise).ucx is None


@pytest.mark.parametrize("cut", range(1, 12, 3))
def test_a_table_that_two_chunks_hold_is_whole(cut: int):
    lines = table("tcp").splitlines(keepends=True)
    tally = Tally()
    for part in (lines[:cut], lines[cut:]):
        tally.feed("".join(part).encode(), 0)
    found = analyse(tally, lambda position: LogPosition("log", position)).ucx

    whole = analysed(table("tcp")).ucx
    assert found is not None and whole is not None and found.claim == whole.claim


def test_what_two_processes_counted_is_added():
    one, other = Tally(), Tally()
    one.feed(DIRECT.encode(), 0)
    other.feed(table("tcp").encode(), 1)
    one.add(other)

    assert analyse(one, lambda position: LogPosition("log", position)).ucx is not None


def test_the_lines_that_are_kept_are_bounded():
    tally = Tally()
    tally.feed(b"cfg\n" + b"| |\n" * (2 * MOST_LINES), 0)

    assert len(tally.tables.lines) == MOST_LINES


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("tcp", "`env | grep UCX_` in the job"),
        ("staged", "on a host of the job, or in its pod: "),
    ],
)
def test_a_job_of_ucx_that_copies_has_next_steps(name: str, first: str):
    assert f"\nNext\n  {first}" in text(document(analysed(table(name))), width=200)


@pytest.mark.parametrize("name", ["direct", "no-gpu"])
def test_a_job_of_ucx_that_is_direct_or_open_has_none(name: str):
    assert "\nNext\n" not in text(document(analysed(table(name))))
