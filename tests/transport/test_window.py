"""Windows, memory that two processes map: one writes and the other reads, and nothing is left behind."""

from __future__ import annotations

import pytest

from gdrkit.transport import TransportError, buffer
from tests.transport.peer import left_behind, names, peer

SIZE = 1 << 20


def test_one_process_reads_what_the_other_writes_without_a_transfer() -> None:
    program = f"""
w = c.window({SIZE})
w[:5] = b"hello"
c.send(b"!").wait(20)
c.recv(bytearray(1)).wait(20)
assert w[-5:] == b"there", w[-5:]
c.send(b"!").wait(20)
w.close()
"""
    with peer(program, "shared") as other, other.connection.window(SIZE) as window:
        other.connection.recv(bytearray(1)).wait(20)
        assert window[:5] == b"hello"
        window[-5:] = b"there"
        other.connection.send(b"!").wait(20)
        other.connection.recv(bytearray(1)).wait(20)
        assert other.finish() == 0


def test_its_file_has_no_name_once_both_have_it_and_a_second_window_can_be_opened() -> None:
    before = names()
    program = "a, b = c.window(4096), c.window(100); c.send(b'!').wait(20); sys.stdin.read()"
    with peer(program, "shared") as other:
        first, second = other.connection.window(4096), other.connection.window(100)
        other.connection.recv(bytearray(1)).wait(20)
        assert not left_behind(before)
        assert (len(first), len(second)) == (4096, 100)


@pytest.mark.parametrize("size_bytes", [0, -1])
def test_a_window_has_a_size(size_bytes: int) -> None:
    with (
        peer("sys.stdin.read()", "shared") as other,
        pytest.raises(TransportError, match=f"not a valid size: {size_bytes} bytes"),
    ):
        other.connection.window(size_bytes)


def test_it_outlives_the_connection() -> None:
    with peer("w = c.window(4096); c.send(b'!').wait(20); c.close()", "shared") as other:
        window = other.connection.window(4096)
        other.connection.recv(bytearray(1)).wait(20)
    window[:3] = b"yes"
    assert window[:3] == b"yes"


@pytest.mark.parametrize("path", ["shared"])
def test_it_is_sent_and_received_in_place(path: str) -> None:
    program = f"w = c.window({SIZE}); c.recv(w).wait(20); c.send(b'!').wait(20); sys.stdin.read()"
    with peer(program, path) as other:
        window = other.connection.window(SIZE)
        other.connection.send(bytes(range(256)) * (SIZE // 256)).wait(20)
        other.connection.recv(bytearray(1)).wait(20)
        assert window[:] == bytes(range(256)) * (SIZE // 256)


def test_different_sizes_are_an_error_on_both_sides_and_leave_no_file() -> None:
    program = """
try: c.window(100)
except TransportError as error: c.send(str(error).encode()).wait(20)
sys.stdin.read()
"""
    before = names()
    with peer(program, "shared") as other:
        why = "window sizes differ: 200 bytes on one side, 100 on the other"
        with pytest.raises(TransportError, match=why):
            other.connection.window(200)
        message = bytearray(len(why))
        other.connection.recv(message).wait(20)
        assert message == why.encode()
        assert not left_behind(before)


def test_without_space_both_sides_get_an_error() -> None:
    program = """
try: c.window(1 << 60)
except TransportError as error: c.send(str(error).encode()[:22]).wait(20)
sys.stdin.read()
"""
    with peer(program, "shared") as other:
        with pytest.raises(TransportError, match="cannot create a window"):
            other.connection.window(1 << 60)
        message = bytearray(22)
        other.connection.recv(message).wait(20)
        assert message == b"cannot create a window"


def test_other_paths_have_no_window() -> None:
    with (
        peer("sys.stdin.read()", "tcp") as other,
        pytest.raises(TransportError, match="needs the path shared; this connection uses tcp"),
    ):
        other.connection.window(4096)


def test_a_closed_window_cannot_be_used_and_one_in_use_cannot_be_closed() -> None:
    with peer("w = c.window(4096); c.send(b'!').wait(20); sys.stdin.read()", "shared") as other:
        window = other.connection.window(4096)
        other.connection.recv(bytearray(1)).wait(20)
        view = memoryview(window)
        with pytest.raises(BufferError):
            window.close()
        view.release()
        window.close()
        window.close()
        with pytest.raises(TransportError, match="closed"):
            buffer(window)
