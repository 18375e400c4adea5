"""What NCCL says of its communicators, asked once: its RAS listens on loopback (NCCL 2.24 and later).

It shows ranks, their hosts and processes and which are missing; it does not show networks. One question
makes all processes of the job answer. Of several jobs on a node the kernel chooses one. Sources: NCCL
src/ras/client.cc for the words, src/ras/client_support.cc for the answers; JSON since 2.28.7.
"""

from __future__ import annotations

import socket
import time

from .children import Emit

ADDRESS = ("127.0.0.1", 28028)
ANSWER_BYTES = 4 << 20
"""A rank takes 400 bytes of JSON: 10,000 ranks."""
_LINE_BYTES = 1024
_MOST_S = 3


def read(emit: Emit, deadline: float, address: "tuple[str, int]" = ADDRESS) -> None:
    """Emit {"format", "text"}. Raises OSError, with ENOENT if nothing listens, and ValueError if it is not
    NCCL."""
    try:
        sock = socket.create_connection(address, max(0.1, deadline - time.monotonic()))
    except ConnectionRefusedError:
        raise FileNotFoundError(2, "no NCCL listens on %s:%d" % address) from None
    try:
        with sock:
            answer, as_json = _answer(sock, deadline, address[1])
    except (BrokenPipeError, ConnectionResetError):
        raise ConnectionResetError(104, "it closed the connection") from None
    text = answer[:ANSWER_BYTES].decode("utf-8", "replace")
    emit({"format": "json" if as_json else "text", "text": text, "truncated": len(answer) >= ANSWER_BYTES})


def _answer(sock: socket.socket, deadline: float, port: int) -> "tuple[bytes, bool]":
    """What the server says of all communicators, and whether as JSON."""
    if not _asked(sock, "client protocol 2", deadline).startswith("SERVER PROTOCOL"):
        raise ValueError("what listens on port %d is not NCCL" % port)
    wait_s = max(1, min(_MOST_S, int(deadline - time.monotonic()) - 1))
    _asked(sock, "timeout %d" % wait_s, deadline)
    as_json = _asked(sock, "set format json", deadline) == "OK"
    sock.sendall(b"verbose status\n")
    answer = b""
    while len(answer) < ANSWER_BYTES:
        block = _received(sock, 1 << 16, deadline)
        if not block:
            break
        answer += block
    return answer, as_json


def _asked(sock: socket.socket, words: str, deadline: float) -> str:
    """The line that answers a line. Byte by byte: what follows it belongs to the next question."""
    sock.sendall(words.encode() + b"\n")
    line = b""
    while not line.endswith(b"\n") and len(line) < _LINE_BYTES:
        byte = _received(sock, 1, deadline)
        if not byte:
            raise ConnectionResetError(104, "it closed the connection")
        line += byte
    return line.decode("utf-8", "replace").strip()


def _received(sock: socket.socket, size: int, deadline: float) -> bytes:
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        raise TimeoutError("it does not answer")
    sock.settimeout(left_s)
    try:
        return sock.recv(size)
    except socket.timeout:
        raise TimeoutError("it does not answer") from None
