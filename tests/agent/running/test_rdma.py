"""Tables of RDMA objects: rows of real kernels, what is not told, and threads of processes."""

from __future__ import annotations

import errno
import os
import struct
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gdrkit.agent.running import files, rdma
from gdrkit.agent.running.netlink import Link
from tests.agent.running.kernel import (
    COUNTS,
    DEVICE,
    RECORDED,
    SYSTEM,
    Kernel,
    attribute,
    nested,
    row,
)


class Guest:
    """A guest with one rxe device; QPs go on by `step` packets with each look."""

    def __init__(self, step: int = 0, unknown: frozenset[str] = frozenset(), tables=RECORDED) -> None:
        self.step, self.unknown, self.tables, self.looks = step, unknown, tables, 0

    def __call__(self, command: int, body: bytes) -> list[bytes] | int:
        if command == SYSTEM:
            return [attribute(66, b"\1")]
        if command == DEVICE:
            return [attribute(1, bytes(4)) + attribute(2, b"rxe0\0") + attribute(67, b"roce\0")]
        if command == COUNTS:
            entry = nested(16, attribute(17, b"mr\0"), attribute(18, struct.pack("=Q", 5)))
            return [nested(15, entry)]
        name = next(name for name, table in rdma.TABLES.items() if table.command == command)
        if name in self.unknown:
            return errno.EINVAL
        rows = self.tables[name]
        if name == "qp":
            self.looks += 1
            rows = [{**one, "sq_psn": (one["sq_psn"] + self.step * self.looks) & 0xFFFFFF} for one in rows]
        return [nested(rdma.TABLES[name].nest, *(row(name, one) for one in rows))]


def told(guest: Guest, proc: str = "/proc", pairs: bool = True) -> list[dict]:
    kernel = Kernel(guest)
    found: list[dict] = []
    try:
        link = Link(kernel.link, time.monotonic() + 20)
        rdma.emit_tables(link, found.append, 0.0, proc, every_pair=pairs)
    finally:
        kernel.close()
    return found


def device(found: list[dict]) -> dict:
    return next(one for one in found if "device" in one)


def test_the_rows_are_those_that_a_real_kernel_gave():
    found = told(Guest())

    assert found[0] == {"system": {"shared": 1}}
    assert device(found)["device"] == {"index": 0, "device_name": "rxe0", "protocol_name": "roce"}
    assert device(found)["counts"] == {"mr": 5}
    assert device(found)["tables"]["mr"] == {"rows": RECORDED["mr"], "error": ""}
    assert device(found)["tables"]["ctx"]["rows"] == RECORDED["ctx"]


def test_entries_of_another_nest_are_no_rows_of_the_table():
    """A newer kernel may add one. Entries have the number after that of their table."""

    class Newer(Guest):
        def __call__(self, command: int, body: bytes) -> list[bytes] | int:
            found = super().__call__(command, body)
            if command != rdma.TABLES["mr"].command or not isinstance(found, list):
                return found
            nest = rdma.TABLES["mr"].nest
            other = nested(nest, attribute(nest + 2, attribute(1, b"other")))
            return [nested(999, row("mr", RECORDED["mr"][0])) + other + one for one in found]

    assert device(told(Newer()))["tables"]["mr"]["rows"] == RECORDED["mr"]


def test_objects_of_the_kernel_are_left_out():
    assert [one["lqpn"] for one in device(told(Guest()))["tables"]["qp"]["rows"]] == [17]


def test_a_table_that_the_kernel_does_not_know_is_not_told_and_not_empty():
    tables = device(told(Guest(unknown=frozenset({"ctx"}))))["tables"]

    assert tables["ctx"] == {"rows": [], "error": "EINVAL"}
    assert tables["mr"]["error"] == ""


def test_a_refusal_is_no_table_that_is_unknown():
    class Refusing(Guest):
        def __call__(self, command: int, body: bytes) -> list[bytes] | int:
            return errno.EPERM if command == 13 else super().__call__(command, body)

    with pytest.raises(PermissionError):
        told(Refusing())


def test_more_rows_than_the_limit_are_cut_off_and_that_is_said(monkeypatch):
    monkeypatch.setattr(rdma, "ROWS_LIMIT", 2)

    class Many(Guest):
        def __call__(self, command: int, body: bytes) -> list[bytes] | int:
            found = super().__call__(command, body)
            return found * 3 if command == 13 and isinstance(found, list) else found

    table = device(told(Many()))["tables"]["mr"]
    assert (len(table["rows"]), table["error"]) == (2, "more than 2 rows")


def test_a_qp_that_went_on_is_told_with_its_packets():
    moved = [one for one in told(Guest(step=1124)) if "qp" in one]

    assert [(one["qp"], one["sent_packets"], one["received_packets"]) for one in moved] == [(17, 1124, 0)]


def test_a_sequence_number_that_goes_round_is_no_step_back():
    """The number has 24 bits: InfiniBand specification, 9.2."""
    qps = [{**RECORDED["qp"][0], "sq_psn": 0xFFFFF0}]
    moved = [one for one in told(Guest(step=0x20, tables={**RECORDED, "qp": qps})) if "qp" in one]

    assert moved[0]["sent_packets"] == 0x20


def test_many_qps_are_read_once(monkeypatch):
    """Each row is a firmware command on mlx5."""
    monkeypatch.setattr(rdma, "SAMPLED_QPS", 0)
    guest = Guest(step=1)

    assert not [one for one in told(guest) if "qp" in one] and guest.looks == 1


@pytest.mark.parametrize(("pairs", "limit", "asked"), [(True, 0, 1), (False, 0, 0), (False, 9, 2)])
def test_many_qps_are_not_listed_where_they_are_not_wanted(monkeypatch, pairs, limit, asked):
    """As `gdr watch` asks: only one of its looks in a minute lists them. Two looks are for rates."""
    monkeypatch.setattr(rdma, "SAMPLED_QPS", limit)

    class Counting(Guest):
        def __call__(self, command: int, body: bytes) -> list[bytes] | int:
            if command != COUNTS:
                return super().__call__(command, body)
            entry = nested(16, attribute(17, b"qp\0"), attribute(18, struct.pack("=Q", 7)))
            return [nested(15, entry)]

    guest = Counting()
    table = device(told(guest, pairs=pairs))["tables"]["qp"]
    assert guest.looks == asked
    assert table["error"] == ("" if asked else "not asked: 7 rows")


def test_the_process_of_a_thread_is_found_in_proc():
    seen: list[int] = []
    stop = threading.Event()
    started = threading.Event()

    def live() -> None:
        seen.append(threading.get_native_id())
        started.set()
        stop.wait(20)

    thread = threading.Thread(target=live)
    thread.start()
    started.wait(20)
    try:
        assert rdma.thread_group(seen[0]) == os.getpid() != seen[0]
        assert rdma.thread_group(os.getpid()) == os.getpid()
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("text", [b"", b"Tgid:\n", b"Tgid:\tx\n", b"Tgid:\t-4\n", b"Tgid:\t" + b"9" * 5000])
def test_a_thread_that_has_ended_or_a_file_of_other_form_has_no_process(tmp_path, text):
    (tmp_path / "7").mkdir()
    (tmp_path / "7/status").write_bytes(text)

    assert rdma.thread_group(7, str(tmp_path)) == 0
    assert rdma.thread_group(8, str(tmp_path)) == 0


def test_threads_whose_status_cannot_be_read_are_not_said_to_have_ended(tmp_path):
    """Here it is a folder: any error but that the file is gone. Each of them has a row."""
    tables = device(told(Guest()))["tables"].values()
    pids = sorted({one["pid"] for table in tables for one in table["rows"] if "pid" in one})
    for pid in pids:
        (tmp_path / str(pid) / "status").mkdir(parents=True)

    rows = [one for one in told(Guest(), str(tmp_path)) if "thread" in one]
    assert len(pids) > 1
    assert rows == [{"thread": pid, "process": 0, "why": "Is a directory"} for pid in pids]


def test_a_thread_that_starts_after_the_tables_were_asked_for_made_none_of_their_objects(tmp_path):
    tables = device(told(Guest()))["tables"].values()
    pids = sorted({one["pid"] for table in tables for one in table["rows"] if "pid" in one})
    later = files.ticks_after_boot() + 10**6
    for pid in pids:
        (tmp_path / str(pid)).mkdir()
        (tmp_path / f"{pid}/status").write_text("Tgid:\t77\n")
        started = later if pid == pids[0] else 5
        (tmp_path / f"{pid}/stat").write_text(f"{pid} (x) S " + "1 " * 18 + f"{started} 0\n")

    rows = {one["thread"]: one["process"] for one in told(Guest(), str(tmp_path)) if "thread" in one}
    assert rows == {pid: 0 if pid == pids[0] else 77 for pid in pids}


@settings(max_examples=60)
@given(st.lists(st.binary(max_size=120), max_size=4))
def test_any_answer_of_a_kernel_is_told_or_refused(answers):
    class Hostile(Guest):
        def __call__(self, command: int, body: bytes) -> list[bytes] | int:
            return super().__call__(command, body) if command in (SYSTEM, DEVICE) else answers

    try:
        found = told(Hostile())
    except ValueError:
        return
    assert device(found)["tables"].keys() == rdma.TABLES.keys()
