"""Each source has a child of its own, and none holds the answer up."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import pytest

from gdrkit.agent.running import children


def gathered(**sources):
    """The results, with a deadline that is near only if a source never ends."""
    wait_s = 2 if any(one.__name__.startswith("hangs") for one in sources.values()) else 30
    return children.gather(sources, time.monotonic() + wait_s)


def hangs_after_a_row(emit):
    emit({"row": os.getpid()})
    while True:
        time.sleep(100)


def tells(emit):
    emit({"row": 1})
    emit({"row": "\x1b[2J\n\udcff"})


def fails_with(code):
    def source(emit):
        emit({"row": 1})
        raise OSError(code, os.strerror(code))

    return source


def test_a_source_that_hangs_keeps_what_it_told_and_holds_no_other_up():
    found = gathered(slow=hangs_after_a_row, quick=tells)

    assert (found["slow"].status, len(found["slow"].rows)) == ("timed-out", 1)
    assert (found["quick"].status, found["quick"].rows[1]) == ("found", {"row": "\x1b[2J\n\udcff"})


def test_a_child_that_hangs_is_ended():
    child = gathered(slow=hangs_after_a_row)["slow"].rows[0]["row"]

    for _ in range(1000):
        try:
            if os.waitpid(child, 0)[0] == child:
                break
        except ChildProcessError:
            break
    assert not Path(f"/proc/{child}/fd/0").exists()


def test_an_error_has_its_meaning():
    codes = {"denied": errno.EACCES, "absent": errno.EPROTONOSUPPORT, "failed": errno.EIO}
    found = gathered(**{name: fails_with(code) for name, code in codes.items()})

    assert {name: result.status for name, result in found.items()} == {name: name for name in codes}
    assert found["failed"].rows == [{"row": 1}]


def test_a_fault_of_a_source_is_told_and_is_no_fault_of_the_others():
    def broken(emit):
        emit({"row": {}["x"]})

    found = gathered(broken=broken, quick=tells)
    assert (found["broken"].status, found["broken"].why) == ("failed", "KeyError: 'x'")
    assert found["quick"].status == "found"


def test_a_child_that_dies_without_a_word_is_not_found():
    def dies(emit):
        os._exit(3)

    assert gathered(dies=dies)["dies"].status == "timed-out"


def test_a_source_that_tells_without_end_is_cut_off(monkeypatch):
    monkeypatch.setattr(children, "LIMIT_BYTES", 1 << 17)

    def endless(emit):
        while True:
            emit({"row": "x" * 1000})

    found = gathered(endless=endless)["endless"]
    assert found.status == "truncated" and len(found.rows) < 300


@pytest.fixture
def relay():
    made = children.Relay()
    yield made
    made.close()


def test_one_source_tells_another_what_it_finds_while_both_run(relay):
    def finds(emit):
        for pid in (7, 8):
            relay.put((f"net:[{pid}]", pid))
        relay.end()

    def asks(emit):
        for name, pid in relay.places(time.monotonic() + 30):
            emit({"name": name, "pid": pid})

    assert gathered(asks=asks, finds=finds)["asks"].rows == [
        {"name": "net:[7]", "pid": 7}, {"name": "net:[8]", "pid": 8},
    ]  # fmt: skip


def test_a_source_that_finds_no_end_or_that_nobody_reads_holds_up_none(relay):
    for pid in range(100_000):
        relay.put(("net:[4294967295]", pid))

    found = [*relay.places(time.monotonic() + 0.05)]
    assert found == [("net:[4294967295]", pid) for pid in range(children.PLACES)]


def test_no_descriptor_is_left_open():
    before = len([*Path("/proc/self/fd").iterdir()])
    gathered(slow=hangs_after_a_row, quick=tells)
    children.Relay().close()

    assert len([*Path("/proc/self/fd").iterdir()]) == before
