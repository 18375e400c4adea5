"""NCCL's RAS: its words as NCCL has them, on a socket of loopback; what is silent or something else."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from gdrkit.agent.running import ras
from gdrkit.agent.running.options import RAS_DIAGNOSTICS_S

JSON = b'{"nccl_version": "2.28.9", "communicators": []}\n'


def asked(*answers: bytes, last: bytes = JSON, deadline_s: float = 30.0) -> tuple[list[dict], list[bytes]]:
    """The rows, and the lines that the other side got. It answers each line by the next of `answers`, and
    the question after the third by `last`, then closes the connection, as NCCL does."""
    lines: list[bytes] = []

    def serve() -> None:
        end = listening.accept()[0]
        with end, end.makefile("rb") as words:
            for answer in answers:
                lines.append(words.readline())
                end.sendall(answer)
            if len(answers) == 3:
                lines.append(words.readline())
                end.sendall(last)

    rows: list[dict] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = threading.Thread(target=serve)
        server.start()
        try:
            ras.read(rows.append, time.monotonic() + deadline_s, [listening.getsockname()])
        finally:
            server.join()
    return rows, lines


def test_the_status_is_asked_once_and_in_json():
    rows, lines = asked(b"SERVER PROTOCOL 2\n", b"OK\n", b"OK\n")

    assert rows == [{"format": "json", "text": JSON.decode(), "truncated": False}]
    assert lines[0] == b"client protocol 2\n" and lines[1].startswith(b"timeout ")
    assert lines[2:] == [b"set format json\n", b"verbose status\n"]


def test_an_older_nccl_answers_in_text():
    """2.24 to 2.28.3 know no format."""
    (row,), _ = asked(b"SERVER PROTOCOL 2\n", b"OK\n", b"ERROR: Unknown command\n", last=b"Job summary\n")

    assert row == {"format": "text", "text": "Job summary\n", "truncated": False}


def test_what_is_not_nccl_is_not_asked_more():
    with pytest.raises(ValueError, match="not NCCL"):
        asked(b"HTTP/1.1 400 Bad Request\n")


def test_a_connection_that_is_closed_early_is_an_error():
    with pytest.raises(OSError, match="closed"):
        asked(b"SERVER PROTOCOL 2\n")


def test_an_answer_without_end_is_cut_off():
    (row,), _ = asked(b"SERVER PROTOCOL 2\n", b"OK\n", b"OK\n", last=bytes(ras.ANSWER_BYTES + (1 << 16)))

    assert row["truncated"] and len(row["text"]) == ras.ANSWER_BYTES


def test_nobody_listens():
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = free.getsockname()

    with pytest.raises(FileNotFoundError, match="no NCCL listens"):
        ras.read(pytest.fail, time.monotonic() + 5, [address])


def test_silence_ends_at_the_deadline():
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(TimeoutError, match="not answer"):
        ras.read(pytest.fail, time.monotonic() + 0.3, [silent.getsockname()])


@pytest.mark.parametrize("left_s", [-1.0, 0.0, 0.05])
def test_a_deadline_that_has_passed_is_no_error_of_another_kind(left_s):
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(TimeoutError, match="not answer"):
        ras.read(pytest.fail, time.monotonic() + left_s, [silent.getsockname()])


# -- diagnostics -----------------------------------------------------------------------------------------

REPORT = (
    b"n1:7 NCCL DIAG === RAS Diagnostics ===\n"
    b"n1:7 NCCL DIAG [OK]   ECC: no uncorrected volatile errors across 2 ranks in comm 0x1\n"
    b"n1:7 NCCL DIAG RAS diagnostics completed in 12.5 ms across 2 RAS peers\n"
)


def diagnosed(
    *blocks: bytes, closes: bool = True, deadline_s: float = 30.0
) -> tuple[list[dict], list[bytes]]:
    """The rows, and the lines on the second connection, whose last question is answered by blocks."""
    lines: list[bytes] = []
    done = threading.Event()

    def serve() -> None:
        status, _ = listening.accept()
        with status, status.makefile("rb") as words:
            for answer in (b"SERVER PROTOCOL 2\n", b"OK\n", b"OK\n", JSON):
                words.readline()
                status.sendall(answer)
        report, _ = listening.accept()
        with report, report.makefile("rb") as words:
            for answer in (b"SERVER PROTOCOL 2\n", b"OK\n"):
                lines.append(words.readline())
                report.sendall(answer)
            lines.append(words.readline())
            for block in blocks:
                report.sendall(block)
            if not closes:
                done.wait(60)

    rows: list[dict] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = threading.Thread(target=serve)
        server.start()
        try:
            end = time.monotonic() + deadline_s
            ras.read(rows.append, end, [listening.getsockname()], diagnostics_deadline=end)
        finally:
            done.set()
            server.join()
    return rows, lines


def test_diagnostics_have_a_connection_of_their_own_without_json():
    """NCCL refuses them after `set format json`, and takes longer than a status."""
    rows, lines = diagnosed(REPORT[:40], REPORT[40:])

    assert [row["format"] for row in rows] == ["json", "diagnostics"]
    assert rows[1]["text"] == REPORT.decode()
    assert lines[0] == b"client protocol 2\n"
    assert lines[2] == b"diagnostics\n"
    assert int(lines[1].split()[1]) >= RAS_DIAGNOSTICS_S


@pytest.mark.parametrize(
    "answer",
    [b"ERROR: Unknown command diagnostics\n", b"BUSY: diagnostics already in progress\n", REPORT],
)
def test_an_answer_is_complete_though_the_connection_stays_open(answer: bytes):
    """An unknown command, which it is up to 2.30.7, does not close it."""
    began = time.monotonic()
    rows, _ = diagnosed(answer, closes=False)

    assert rows[1]["text"] == answer.decode()
    assert time.monotonic() - began < 10


def test_what_came_before_the_deadline_counts():
    rows, _ = diagnosed(REPORT[:110], closes=False, deadline_s=1.0)

    assert rows[1]["text"] == REPORT[:110].decode() + "ERROR: it does not answer\n"


def test_the_second_address_is_tried_where_the_first_has_no_listener():
    """`localhost` is ::1 where /etc/hosts says so."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        nobody = free.getsockname()
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(TimeoutError):
        ras.read(pytest.fail, time.monotonic() + 0.3, [nobody, silent.getsockname()])


@pytest.mark.parametrize(
    ("value", "addresses"),
    [
        ("localhost:4711", [("127.0.0.1", 4711)]),
        ("127.0.0.1:4711", [("127.0.0.1", 4711)]),
        ("192.0.2.1:4711", []),  # of another machine, or of none
        ("example.org:4711", []),
        ("127.0.0.1:0", []),
        ("127.0.0.1:99999999", []),
        ("127.0.0.1", []),
        ("", []),
    ],
)
def test_only_addresses_of_this_machine_are_taken_from_processes(tmp_path, value: str, addresses):
    """Any user may start a process with any environment, and root may look."""
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "environ").write_bytes(b"A=1\0NCCL_RAS_ADDR=" + value.encode() + b"\0")
    (tmp_path / "8").mkdir()

    found = ras.addresses_of_processes(str(tmp_path))

    assert [one for one in found if one[0] != "::1"] == addresses
