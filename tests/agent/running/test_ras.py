"""NCCL's RAS: its words as NCCL has them, on a socket of loopback; what is silent or something else."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from gdrkit.agent.running import ras

JSON = b'{"nccl_version": "2.28.9", "communicators": []}\n'


def asked(*answers: bytes, last: bytes = JSON, deadline_s: float = 30.0) -> tuple[list[dict], list[bytes]]:
    """The rows, and the lines that the other side got. It answers each line by the next of `answers`, and
    `status` by `last`, then closes the connection, as NCCL does."""
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
            ras.read(rows.append, time.monotonic() + deadline_s, listening.getsockname())
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
        ras.read(pytest.fail, time.monotonic() + 5, address)


def test_silence_ends_at_the_deadline():
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(TimeoutError, match="not answer"):
        ras.read(pytest.fail, time.monotonic() + 0.3, silent.getsockname())
