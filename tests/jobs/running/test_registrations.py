"""Registrations as they happen, summed by process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gdrkit.formats.errors import FormatError
from gdrkit.jobs.running.registrations import Registrations


def sums(*rows: dict) -> Registrations:
    found = Registrations()
    for row in rows:
        found.add(json.dumps(row).encode())
    return found


def test_what_a_process_registers_is_summed_by_kind():
    """As in a guest: 17 regions of addresses, one of a dma-buf."""
    found = sums(
        {"probes": ["rxe_reg_user_mr"]},
        {"pid": 701, "kind": "address", "count": 16, "bytes": 2_700_000},
        {"pid": 701, "kind": "address", "count": 1, "bytes": 19_744},
        {"pid": 702, "kind": "dmabuf", "count": 1, "bytes": 8 << 20},
        {"pid": 701, "kind": "deregistered", "count": 17, "bytes": 0},
        {"lost": 2},
    )

    assert [*found.lines()] == [
        "process 701: 17 regions of addresses (host memory, or peermem), 2.72 MB",
        "process 701: 17 regions ended",
        "process 702: 1 region of dma-bufs, 8.39 MB",
        "2 registrations lost: they came too fast",
    ]
    assert found.probes == ("rxe_reg_user_mr",)


def test_why_nothing_is_followed_is_said():
    assert [*sums({"error": "this kernel has no kprobes"}).lines()] == [
        "registrations are not followed: this kernel has no kprobes"
    ]
    assert [*sums({"probes": []}).lines()] == []


HOME = Path(__file__).parents[2] / "lab/live"
TRACED = sorted(path.parent.name for path in HOME.glob("*/trace.txt"))


@pytest.mark.parametrize("kernel", TRACED)
def test_in_a_guest_the_regions_of_a_process_were_followed_and_nothing_was_left(kernel):
    """lab/live.py: a process registers three regions while the probe runs, which is then killed: SIGKILL."""
    *lines, name, running, killed = (HOME / kernel / "trace.txt").read_text().splitlines()
    found = Registrations()
    for line in lines:
        found.add(line.encode())
    pid = int(name.split()[1])

    assert dict(found.counts) == {
        (pid, "address"): [3, 65536 + (1 << 20) + (4 << 20)], (pid, "deregistered"): [3, 0]
    }  # fmt: skip
    assert "rxe_reg_user_mr" in found.probes and found.lost == 0
    assert (running, killed) == ("running 1", "killed 0")


@pytest.mark.parametrize("kernel", TRACED)
def test_in_a_guest_another_user_is_refused(kernel):
    refused = json.loads((HOME / kernel / "trace_nobody.txt").read_text())

    assert refused == {"error": "Permission denied"}


@pytest.mark.parametrize(
    "line", [b"", b"[]", b'{"pid": -1}', b'{"pid": 1, "kind": "\x1b[2J"}', b'{"pid": "1"}']
)
def test_another_line_is_refused(line):
    with pytest.raises(FormatError):
        Registrations().add(line)
