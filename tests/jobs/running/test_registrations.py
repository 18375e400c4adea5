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
WATCHED = sorted(path.parent.name for path in HOME.glob("*/watched.txt"))


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
    "line", [b"", b"[]", b'{"pid": -1}', b'{"pid": 1, "kind": "user"}', b'{"pid": "1"}']
)
def test_another_line_is_refused(line):
    with pytest.raises(FormatError):
        Registrations().add(line)


@pytest.mark.parametrize("kernel", TRACED)
def test_by_tracefs_the_same_is_followed_and_what_was_killed_is_removed_by_the_next(kernel):
    """lab/live.py: where perf has no kprobes. SIGTERM leaves nothing; SIGKILL leaves all until then."""
    lines = (HOME / kernel / "trace_files.txt").read_text().splitlines()
    names = dict(line.split(maxsplit=1) for line in lines if not line.startswith("{"))
    found = Registrations()
    for line in lines:
        if line.startswith("{"):
            found.add(line.encode())

    assert found.counts[int(names["again"]), "address"] == [3, 65536 + (1 << 20) + (4 << 20)]
    assert (names["set"], names["ended"], names["killed"], names["next"]) == ("2", "0", "2", "0")
    assert len(found.removed) == 1 and "removed the probes of an earlier" in next(found.lines())


@pytest.mark.parametrize("kernel", WATCHED)
def test_gdr_watch_followed_a_process_and_left_nothing_when_it_was_killed(kernel):
    """lab/live.py: SIGKILL of gdr watch itself. No probe is left, no group, no instance and no child."""
    name, followed, *_, running, killed = (HOME / kernel / "watched.txt").read_text().splitlines()
    pid = name.split()[1]

    assert followed[9:] == f"r process {pid}: 3 regions of addresses (host memory, or peermem), 5.31 MB"
    assert (running, killed) == ("running 1", "killed 0 0")


@pytest.mark.parametrize("kernel", WATCHED)
def test_by_tracefs_gdr_watch_leaves_nothing_either_and_the_next_removes_what_was_killed_with_it(kernel):
    """Its child removes the probes. Where both are killed at once they stay until the next gdr watch."""
    begun, killed, both, removed, after = (HOME / kernel / "watched_files.txt").read_text().splitlines()

    assert (begun, killed, both, after) == ("set 2", "killed 0 0", "both 2", "next 0 0")
    assert removed[9:].startswith("r removed the probes of an earlier gdr watch: gdr_")


@pytest.mark.parametrize("kernel", TRACED)
def test_many_rounds_of_start_and_stop_leave_no_descriptor_and_no_probe(kernel):
    rounds = {}
    for line in (HOME / kernel / "rounds.txt").read_text().splitlines():
        name, number, rest = line.split(maxsplit=2)
        before, after = rest[rest.index("]") + 2 :].split("] [")
        rounds[name] = int(number)

        assert before.strip("[]") == after.strip("[]")
    assert rounds == {"Perf": 1000, "TraceFiles": 100}


@pytest.mark.parametrize(
    ("kernel", "who"), [*((one, "") for one in TRACED), *((one, "_nobody") for one in WATCHED)]
)
def test_lockdown_and_rights_decide_what_is_tried(kernel, who):
    integrity, confidentiality = (
        json.loads((HOME / kernel / f"{mode}{who}_trace.txt").read_text().splitlines()[0])
        for mode in ("integrity", "confidentiality")
    )

    if who:
        assert integrity == {"error": "Permission denied"}
    else:
        assert "rxe_reg_user_mr" in integrity["probes"]
    assert confidentiality == {"error": "the kernel is locked down to confidentiality"}
