"""What `gdr watch` marks: new, changed and ended processes."""

from __future__ import annotations

import re

import pytest

from gdrkit.jobs.running.changes import changes, lines, looks, screen
from tests.jobs.running.records import NIC, bufinfo, device, held, judged, process, record

MIB = 1 << 20


def node(*processes, packets: int = 0, regions: int = 1, table: str = "", **changed):
    moves = {"qp": 100, "index": 0, "sent_packets": packets, "received_packets": 0, "seconds": 0.4}
    return judged(record(
        *processes, rdma=[device(*held(1, 701, *[8 * MIB] * regions, pairs=1)), moves],
        buffers=[{"text": table or bufinfo(), "truncated": False}], **changed,
    ))  # fmt: skip


def marks(before, after) -> list[tuple[str, int, str]]:
    return [(look.mark, look.process.pid, look.what) for look in looks(before, after)]


FIRST = node(process(701))


def test_at_the_first_look_each_process_is_new_and_then_none_is():
    assert marks(None, FIRST) == [("+", 701, "")]
    assert marks(FIRST, FIRST) == [(" ", 701, "")]


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (node(process(701), packets=9), ("!", 701, "was idle")),
        (node(process(701), regions=2), ("!", 701, "had 1 region")),
        (node(process(701), table=bufinfo((8 * MIB, "nv_dmabuf", NIC))), ("!", 701, "was staged")),
        (node(process(701, tcp={"sockets": 3})), (" ", 701, "")),
    ],
)
def test_what_changed_is_said_with_what_it_was(after, expected):
    assert marks(FIRST, after) == [expected]


def test_a_pid_that_belongs_to_another_process_now_is_an_end_and_a_start():
    assert marks(FIRST, node(process(701, started=999))) == [("+", 701, "new"), ("-", 701, "ended")]


def test_only_changes_have_a_line():
    after = node(process(701), process(702), packets=9)

    assert [*lines(looks(FIRST, FIRST), "12:00:00")] == []
    found = [*lines(looks(FIRST, after), "12:00:01")]
    assert [line[:11] for line in found] == ["12:00:01 ! ", "12:00:01 + "]
    assert found[0].endswith("(was idle)") and all("\n" not in line for line in found)


def test_the_screen_shows_a_change_in_reverse_and_the_rest_in_the_colour_of_its_way():
    """SGR of ECMA-48: 1 bold, 2 faint, 7 reverse, 31 red."""
    after = node(process(701), process(702), packets=9)
    before = node(process(701), process(703))
    shown = screen(after, looks(before, after), clock="", colour=True, width=82).splitlines()
    same = screen(FIRST, looks(FIRST, FIRST), clock="", colour=True, width=82).splitlines()
    styles = {
        pid: {part for part in re.findall(r"\x1b\[([\d;]+)m", line) if part != "0"}
        for lines in (shown, [line.replace("701", "700") for line in same])
        for line in lines
        for pid in re.findall(r" (70\d) python3", line)
    }

    assert styles == {"701": {"1;7"}, "702": {"1"}, "703": {"2"}, "700": {"31"}}


def test_the_last_changes_stay_on_the_screen_when_nothing_changes_any_more():
    after = node(process(702), process(701), packets=9)
    said = [*changes(looks(FIRST, after), "12:00:01")]
    kept = screen(
        after, looks(after, after), clock="", colour=False, width=82, changed=said * 9
    ).splitlines()

    assert said == [
        "12:00:01 ! 701 python3: host memory, moves (was idle)", "12:00:01 + 702 python3: unknown (new)",
    ]  # fmt: skip
    at = kept.index("Changes, the last first")
    assert kept[at + 1 : at + 7] == [f"  {line}" for line in said * 3] and len(kept) == at + 7
    assert "Changes" not in screen(after, looks(after, after), clock="", colour=False, width=82)


def test_a_screen_that_is_too_low_has_first_what_changed_and_then_what_to_act_on():
    idle = [process(pid, libraries=[]) for pid in range(710, 740)]
    before, after = node(*idle, process(701)), node(*idle, process(701), process(702))
    rows = screen(after, looks(before, after), clock="", colour=False, width=82, height=12).splitlines()

    assert len(rows) <= 12
    assert [row.split()[:2] for row in rows[2:4]] == [["+", "702"], ["701", "python3"]]
    assert rows[-1] == "  and 24 more"


def test_the_screen_marks_changes_and_has_the_ports():
    ports = [{"device": "mlx5_0", "port": "1", "sent": 10**9, "received": 0, "seconds": 0.5}]
    after = node(process(701), process(702), packets=9, ports=ports)
    shown = screen(after, looks(FIRST, after), clock="12:00:00", colour=False, width=82)

    rows = shown.splitlines()
    assert [row[:2] for row in rows[2:4]] == ["! ", "+ "]
    assert "Ports, of all processes" in rows
    assert "  mlx5_0:1  sends 2 GB/s, receives 0 bytes/s" in rows
