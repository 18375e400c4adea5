"""Bytes that each TCP connection moved, over netlink. Anyone may ask in his own network namespace.

Sources: Linux include/uapi/linux/inet_diag.h, struct inet_diag_msg; include/uapi/linux/tcp.h, struct
tcp_info: tcpi_bytes_acked at 120, tcpi_bytes_received at 128.
"""

from __future__ import annotations

import ctypes
import ipaddress
import os
import socket
import struct
import time
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Sequence, Set, Tuple

from .children import Emit, Place
from .files import namespace
from .netlink import Link, attributes

_NEW_NET = 0x40000000
"""CLONE_NEWNET: Linux include/uapi/linux/sched.h."""
_SOCK_DIAG, _BY_FAMILY, _INFO, _ESTABLISHED = 4, 20, 2, 1
_MESSAGE_BYTES = 72
_COUNTS = struct.Struct("=QQ")
_COUNTS_AT = 120


class TcpConnection(NamedTuple):
    """An established connection, with the bytes that it has moved."""

    inode: int
    local: bytes
    ends: Tuple[bytes, bytes]  # peer's address, both ports
    sent: int
    received: int


def read(emit: Emit, deadline: float, interval_s: float, others: Iterable[Place] = ()) -> None:
    """Emit {"namespace"} for each network namespace that was asked, this one and `others`, then what each
    connection moved in the interval, by the inode of its socket: a number of the whole node. A namespace
    that comes late is observed for the rest of the interval, and for half of it at least.

    It enters the network namespaces of other processes, so it must run in a child process of its own."""
    places: List[Place] = []
    before = {_key(one): (one, began) for _, found, began in _everywhere((), deadline) for one in found}
    end = time.monotonic() + interval_s
    for place in others:
        for _, found, began in _everywhere([place], deadline, own=False):
            places.append(place)
            before.update((_key(one), (one, began)) for one in found)
    time.sleep(max(interval_s / 2 if places else 0.0, end - time.monotonic()))
    asked = [*_everywhere(places, deadline)]
    here = {one.local for _, after, _ in asked for one in after}
    for name, _, _ in asked:
        emit({"namespace": name})
    for _, after, ended in asked:
        for one in after:
            old, began = before.get(_key(one), (one, 0.0))
            if one.sent + one.received > old.sent + old.received:
                emit({
                    "inode": one.inode, "sent": one.sent - old.sent, "received": one.received - old.received,
                    "here": is_here(one.ends[0], here), "seconds": round(ended - began, 4),
                })  # fmt: skip


def _key(one: TcpConnection) -> Tuple[int, Tuple[bytes, bytes]]:
    return one.inode, one.ends


def _everywhere(
    places: Sequence[Place], deadline: float, *, own: bool = True
) -> Iterator[Tuple[str, List[TcpConnection], float]]:
    """The connections of this network namespace, if `own`, and of those of some processes that can be
    entered; and when they were asked."""
    if own:
        yield namespace("self"), list(_connections(deadline)), time.monotonic()
    if not places:
        return
    back = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        for name, pid in places:
            if _entered("/proc/%d/ns/net" % pid, name):
                yield name, list(_connections(deadline)), time.monotonic()
    finally:
        _setns(back)
        os.close(back)


def _entered(path: str, name: str) -> bool:
    """Whether this process is in the network namespace of this name now. Without CAP_SYS_ADMIN it may not:
    setns(2). The process of the path may meanwhile be another one, in another namespace."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return name == "net:[%d]" % os.fstat(descriptor).st_ino and _setns(descriptor)
    finally:
        os.close(descriptor)


def _setns(descriptor: int) -> bool:
    return bool(ctypes.CDLL(None).setns(descriptor, _NEW_NET) == 0)


def is_here(peer: bytes, here: Set[bytes]) -> bool:
    """Whether a peer is on this node: a loopback address, or one that this node's connections have."""
    return peer in here or ipaddress.ip_address(peer).is_loopback


def _connections(deadline: float) -> Iterator[TcpConnection]:
    for family in (socket.AF_INET, socket.AF_INET6):
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as sock:
            sock.bind((0, 0))
            wanted = struct.pack("=BBBxI", family, socket.IPPROTO_TCP, 1 << (_INFO - 1), 1 << _ESTABLISHED)
            for data in Link(sock, deadline).ask(_BY_FAMILY, wanted + bytes(48), dump=True):
                found = connection(data)
                if found is not None:
                    yield found


def connection(data: bytes) -> "TcpConnection | None":
    """A connection from an answer; None if the kernel gives no counts. Raises ValueError."""
    if len(data) < _MESSAGE_BYTES:
        raise ValueError("an answer of %d bytes" % len(data))
    size = 4 if data[0] == socket.AF_INET else 16
    inode = struct.unpack_from("=I", data, 68)[0]
    for number, value in attributes(data[_MESSAGE_BYTES:]):
        if number == _INFO and len(value) >= _COUNTS_AT + _COUNTS.size:
            sent, received = _COUNTS.unpack_from(value, _COUNTS_AT)
            return TcpConnection(
                inode, _plain(data[8 : 8 + size]), (_plain(data[24 : 24 + size]), data[4:8]), sent, received
            )
    return None


def _plain(address: bytes) -> bytes:
    """An address; an IPv4 address in IPv6 (RFC 4291, 2.5.5.2) as IPv4."""
    return address[12:] if address[:12] == bytes(10) + b"\xff\xff" else address


def by_inode(rows: "list[Dict[str, Any]]") -> Dict[int, Dict[str, Any]]:
    """The rows of `read` about connections, by inode."""
    return {int(row["inode"]): row for row in rows if "inode" in row}
