"""What NCCL says of its communicators: its RAS listens on loopback (NCCL 2.24 and later).

The status shows ranks, their hosts and processes and which are missing; since 2.31.2 `diagnostics`
compares the ranks' nodes. One question makes all processes of the job answer; for diagnostics each also runs
lspci, dmesg and rdma_topo. Of several jobs on a node the kernel chooses one. Sources: NCCL
src/ras/client.cc for the words, src/ras/client_support.cc for the answers, JSON since 2.28.7;
src/ras/diagnostics.cc for the end of a report. The diagnostics were never asked of a job on GPUs.
"""

from __future__ import annotations

import os
import socket
import time
from typing import Dict, List, Optional, Sequence, Tuple

from .children import Emit

Address = Tuple[str, int]
PORT = 28028
LOOPBACK = (("127.0.0.1", PORT), ("::1", PORT))
"""NCCL binds the first address of `localhost`, ::1 where /etc/hosts says so: src/ras/client_support.cc."""
ANSWER_BYTES = 4 << 20
"""A rank takes 400 bytes of JSON: 10,000 ranks."""
_LINE_BYTES = 1024
_MOST_S = 3
_LONGEST_S = 30
_LAST_WORDS = (b"RAS diagnostics completed", b"ERROR:", b"BUSY:", b"diagnostics summary failed")
"""What a report of diagnostics ends with. NCCL closes the connection then, but not after an unknown command,
which it is up to 2.30.7."""
_MOST_ADDRESSES = 8
_ENVIRONMENT_BYTES = 1 << 20


def read(
    emit: Emit, deadline: float, addresses: Optional[Sequence[Address]] = None,
    diagnostics_deadline: Optional[float] = None,
) -> None:  # fmt: skip
    """Emit {"format", "text"} of the status and, if asked for, of the diagnostics. Raises OSError, with
    ENOENT if nothing listens, and ValueError if it is not NCCL."""
    places = (*addresses_of_processes(), *LOOPBACK) if addresses is None else tuple(addresses)
    address, sock = _connected(places, deadline)
    try:
        with sock:
            answer, as_json = _status(sock, deadline, address[1])
    except (BrokenPipeError, ConnectionResetError):
        raise ConnectionResetError(104, "it closed the connection") from None
    _emit(emit, "json" if as_json else "text", answer)
    if diagnostics_deadline is not None:
        _emit(emit, "diagnostics", _report(address, diagnostics_deadline))


def _emit(emit: Emit, form: str, answer: bytes) -> None:
    text = answer[:ANSWER_BYTES].decode("utf-8", "replace")
    emit({"format": form, "text": text, "truncated": len(answer) >= ANSWER_BYTES})


# -- where NCCL listens ----------------------------------------------------------------------------------


def addresses_of_processes(proc: str = "/proc") -> List[Address]:
    """The addresses of this machine that processes name in NCCL_RAS_ADDR, as far as they are readable.

    Anybody may start a process, so no name is resolved, and no other machine is asked."""
    found: Dict[Address, None] = {}
    for name in os.listdir(proc):
        if not name.isdigit() or len(found) >= _MOST_ADDRESSES:
            continue
        try:
            with open("%s/%s/environ" % (proc, name), "rb") as file:
                environment = file.read(_ENVIRONMENT_BYTES)
        except OSError:
            continue
        for entry in environment.split(b"\0"):
            if entry.startswith(b"NCCL_RAS_ADDR="):
                found.update(dict.fromkeys(_own(entry[14:].decode("utf-8", "replace"))))
    return list(found)


def _own(text: str) -> List[Address]:
    """The addresses that a value names, if they belong to this machine."""
    host, _, port = text.rpartition(":")
    host = host.strip("[]")
    if not (port.isdigit() and port.isascii() and len(port) <= 5 and 0 < int(port) < 65536):
        return []
    hosts = ["127.0.0.1", "::1"] if host in ("localhost", "") else [host]
    return [(one, int(port)) for one in hosts if _is_own(one)]


def _is_own(host: str) -> bool:
    """Whether a numeric address is one of this machine: only those can be bound."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.inet_pton(family, host)
        with socket.socket(family, socket.SOCK_STREAM) as sock:
            sock.bind((host, 0))
    except (OSError, ValueError):
        return False
    return True


def _connected(places: Sequence[Address], deadline: float) -> "Tuple[Address, socket.socket]":
    for place in dict.fromkeys(places):
        try:
            return place, socket.create_connection(place, max(0.1, deadline - time.monotonic()))
        except socket.timeout:
            raise TimeoutError("it does not answer") from None
        except OSError:  # refused, or no IPv6 here
            continue
    tried = ", ".join("%s port %d" % place for place in dict.fromkeys(places))
    raise FileNotFoundError(2, "no NCCL listens on " + tried)


# -- what it is asked ------------------------------------------------------------------------------------


def _status(sock: socket.socket, deadline: float, port: int) -> "Tuple[bytes, bool]":
    """What the server says of all communicators, and whether as JSON."""
    _greet(sock, deadline, port)
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


def _report(address: Address, deadline: float) -> bytes:
    """The report of diagnostics, on a connection of its own: they are refused after `set format json`.

    What came before the deadline counts, or why nothing did."""
    answer = b""
    try:
        with _connected((address,), deadline)[1] as sock:
            _greet(sock, deadline, address[1])
            wait_s = max(1, min(_LONGEST_S, int(deadline - time.monotonic()) - 1))
            _asked(sock, "timeout %d" % wait_s, deadline)
            sock.sendall(b"diagnostics\n")
            while len(answer) < ANSWER_BYTES and not _has_ended(answer):
                block = _received(sock, 1 << 16, deadline)
                if not block:
                    break
                answer += block
    except (OSError, ValueError) as error:
        return answer + ("ERROR: %s\n" % error).encode()
    return answer


def _has_ended(answer: bytes) -> bool:
    last = answer[answer.rfind(b"\n", 0, -1) + 1 :]
    return answer.endswith(b"\n") and any(words in last for words in _LAST_WORDS)


def _greet(sock: socket.socket, deadline: float, port: int) -> None:
    if not _asked(sock, "client protocol 2", deadline).startswith("SERVER PROTOCOL"):
        raise ValueError("what listens on port %d is not NCCL" % port)


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
