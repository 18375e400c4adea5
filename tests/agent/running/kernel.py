"""A model of the kernel's end of a netlink socket: it answers with rows that real kernels gave.

The rows are those of a guest with Debian 6.12.95 and rdma_rxe; the framing follows
Documentation/userspace-api/netlink/intro.rst. The lab asks real kernels.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable

from gdrkit.agent.running.rdma import TABLES

DEVICE, SYSTEM, COUNTS = 1, 6, 9
NUMBERS = {
    "ctx": {"ctxn": 64, "pid": 28, "kernel_name": 29},
    "pd": {"pdn": 60, "ctxn": 64, "pid": 28, "kernel_name": 29},
    "cq": {"cqn": 61, "ctxn": 64, "pid": 28, "kernel_name": 29},
    "mr": {"mrn": 62, "bytes": 45, "pdn": 60, "pid": 28, "rkey": 42},
    "qp": {"port": 3, "lqpn": 21, "rqpn": 22, "rq_psn": 23, "sq_psn": 24, "type": 26, "state": 27, "pdn": 60,
           "pid": 28, "kernel_name": 29},
}  # fmt: skip
WIDE = {"bytes": "=Q", "type": "=B", "state": "=B"}


def attribute(number: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), number) + value + bytes(-len(value) % 4)


def nested(number: int, *values: bytes) -> bytes:
    return attribute(number | 0x8000, b"".join(values))


def message(kind: int, sequence: int, data: bytes, flags: int = 2) -> bytes:
    padded = data + bytes(-len(data) % 4)
    return struct.pack("=IHHII", 16 + len(data), kind, flags, sequence, 0) + padded


def row(table: str, values: dict[str, int | str]) -> bytes:
    """An entry, as fill_res_mr_entry() and the like write it."""
    made = b""
    for name, value in values.items():
        if isinstance(value, str):
            content = value.encode() + b"\0"
        else:
            content = struct.pack(WIDE.get(name, "=I"), value)
        made += attribute(NUMBERS[table][name], content)
    return nested(TABLES[table].nest + 1, made)


class Kernel:
    """Answers what is asked over `link`, from a thread, until that end is closed."""

    def __init__(self, answers: Callable[[int, bytes], list[bytes] | int]) -> None:
        self.link, self._own = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._answers = answers
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.link.close()
        self._thread.join(5)
        self._own.close()

    def _serve(self) -> None:
        while asked := self._question():
            _, kind, flags, sequence, _ = struct.unpack_from("=IHHII", asked)
            found = self._answers(kind & 0x3FF, asked[16:])
            try:
                if isinstance(found, int):
                    self._own.send(message(2, sequence, struct.pack("=i", -found)))
                    continue
                for data in found:
                    self._own.send(message(kind, sequence, data))
                end = 3 if flags & 0x300 else 2
                self._own.send(message(end, sequence, struct.pack("=i", 0)))
            except ConnectionError:
                return

    def _question(self) -> bytes:
        """What is asked next; nothing if the other end is closed, perhaps with answers unread."""
        try:
            return self._own.recv(1 << 16)
        except ConnectionResetError:
            return b""


RECORDED = {
    "ctx": [{"ctxn": 0, "pid": 169}, {"ctxn": 1}, {"ctxn": 2, "pid": 170}],
    "pd": [{"pdn": 0, "kernel_name": "ib_core"}, {"pdn": 1, "ctxn": 0, "pid": 169}, {"pdn": 2, "ctxn": 1},
           {"pdn": 3, "ctxn": 2, "pid": 170}],
    "cq": [{"cqn": 0, "kernel_name": "ib_core"}, {"cqn": 1, "ctxn": 0, "pid": 169}],
    "mr": [{"mrn": 0, "bytes": 65536, "pdn": 1, "pid": 169},
           {"mrn": 1, "bytes": 1048576, "pdn": 1, "pid": 169},
           {"mrn": 2, "bytes": 4194304, "pdn": 1, "pid": 169}, {"mrn": 3, "bytes": 2097152, "pdn": 2},
           {"mrn": 4, "bytes": 2097152, "pdn": 3, "pid": 170}],
    "qp": [{"port": 1, "lqpn": 17, "pdn": 1, "pid": 169, "rqpn": 19, "rq_psn": 0, "sq_psn": 11008, "type": 2,
            "state": 3},
           {"port": 1, "lqpn": 1, "kernel_name": "ib_core", "sq_psn": 0, "type": 1, "state": 3}],
}  # fmt: skip
"""Shared facts of the guest: processes 169 and 170, and one whose parent opened, forked and ended."""
