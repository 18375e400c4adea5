"""Bytes that each TCP connection of this network namespace moved, over netlink. Anyone may ask.

Sources: Linux include/uapi/linux/inet_diag.h, struct inet_diag_msg; include/uapi/linux/tcp.h, struct
tcp_info: tcpi_bytes_acked at 120, tcpi_bytes_received at 128.
"""

from __future__ import annotations

import ipaddress
import socket
import struct
import time
from typing import Any, Callable, Dict, Iterator, Mapping, NamedTuple, Set, Tuple

from .netlink import Link, attributes

Emit = Callable[[Mapping[str, Any]], None]

_SOCK_DIAG, _BY_FAMILY, _INFO, _ESTABLISHED = 4, 20, 2, 1
_MESSAGE_BYTES = 72
_COUNTS = struct.Struct("=QQ")
_COUNTS_AT = 120


class Connection(NamedTuple):
    """An established connection, with the bytes that it has moved."""

    inode: int
    local: bytes
    ends: Tuple[bytes, bytes]  # peer's address, both ports
    sent: int
    received: int


def read(emit: Emit, deadline: float, interval_s: float) -> None:
    """Emit what each connection moved in the interval, by the inode of its socket."""
    before = {(one.inode, one.ends): one for one in _connections(deadline)}
    began = time.monotonic()
    time.sleep(interval_s)
    after = list(_connections(deadline))
    seconds = time.monotonic() - began
    here = {one.local for one in after}
    for one in after:
        old = before.get((one.inode, one.ends))
        if old is not None and one.sent + one.received > old.sent + old.received:
            emit({
                "inode": one.inode, "sent": one.sent - old.sent, "received": one.received - old.received,
                "here": is_here(one.ends[0], here), "seconds": round(seconds, 4),
            })  # fmt: skip


def is_here(peer: bytes, here: Set[bytes]) -> bool:
    """Whether a peer is on this node: a loopback address, or one that this node's connections have."""
    return peer in here or ipaddress.ip_address(peer).is_loopback


def _connections(deadline: float) -> Iterator[Connection]:
    for family in (socket.AF_INET, socket.AF_INET6):
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as sock:
            sock.bind((0, 0))
            wanted = struct.pack("=BBBxI", family, socket.IPPROTO_TCP, 1 << (_INFO - 1), 1 << _ESTABLISHED)
            for data in Link(sock, deadline).ask(_BY_FAMILY, wanted + bytes(48), dump=True):
                found = connection(data)
                if found is not None:
                    yield found


def connection(data: bytes) -> "Connection | None":
    """A connection from an answer; None if the kernel gives no counts. Raises ValueError."""
    if len(data) < _MESSAGE_BYTES:
        raise ValueError("an answer of %d bytes" % len(data))
    size = 4 if data[0] == socket.AF_INET else 16
    inode = struct.unpack_from("=I", data, 68)[0]
    for number, value in attributes(data[_MESSAGE_BYTES:]):
        if number == _INFO and len(value) >= _COUNTS_AT + _COUNTS.size:
            sent, received = _COUNTS.unpack_from(value, _COUNTS_AT)
            return Connection(
                inode, _plain(data[8 : 8 + size]), (_plain(data[24 : 24 + size]), data[4:8]), sent, received
            )
    return None


def _plain(address: bytes) -> bytes:
    """An address; an IPv4 address in IPv6 (RFC 4291, 2.5.5.2) as IPv4."""
    return address[12:] if address[:12] == bytes(10) + b"\xff\xff" else address


def by_inode(rows: "list[Dict[str, Any]]") -> Dict[int, Dict[str, Any]]:
    """The rows of `read` by inode."""
    return {int(row["inode"]): row for row in rows}
