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
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Set, Tuple

from .children import Emit
from .netlink import Link, attributes

NAMESPACES = 64
"""Most network namespaces that are entered."""
_NEW_NET = 0x40000000
"""CLONE_NEWNET: Linux include/uapi/linux/sched.h."""
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


def read(emit: Emit, deadline: float, interval_s: float, proc: str = "/proc") -> None:
    """Emit {"namespace"} for each network namespace that was asked, then what each connection moved in the
    interval, by the inode of its socket: a number of the whole node.

    It enters the network namespaces of other processes, so it must run in a child process of its own."""
    places = others(proc)
    before = {(one.inode, one.ends): one for _, found in _everywhere(places, deadline) for one in found}
    began = time.monotonic()
    time.sleep(interval_s)
    asked = dict(_everywhere(places, deadline))
    seconds = time.monotonic() - began
    after = [one for found in asked.values() for one in found]
    here = {one.local for one in after}
    for name in asked:
        emit({"namespace": name})
    for one in after:
        old = before.get((one.inode, one.ends))
        if old is not None and one.sent + one.received > old.sent + old.received:
            emit({
                "inode": one.inode, "sent": one.sent - old.sent, "received": one.received - old.received,
                "here": is_here(one.ends[0], here), "seconds": round(seconds, 4),
            })  # fmt: skip


def others(proc: str = "/proc") -> Dict[str, int]:
    """A process of each other network namespace in which a process has a GPU open, by the namespace's name.
    Those of other users are not visible without root.

    `processes` reads all descriptors, too. To wait for that would start the interval later: this look ends
    at the first GPU of each namespace, and hangs for itself alone."""
    found: Dict[str, int] = {}
    own = _namespace(proc, "self")
    for pid in filter(str.isdigit, os.listdir(proc)):
        name = _namespace(proc, pid)
        if name and name != own and name not in found and len(found) < NAMESPACES and _has_gpu(proc, pid):
            found[name] = int(pid)
    return found


def _has_gpu(proc: str, pid: str) -> bool:
    folder = "%s/%s/fd" % (proc, pid)
    try:
        for name in os.listdir(folder):
            if os.readlink("%s/%s" % (folder, name)).startswith("/dev/nvidia"):
                return True
    except OSError:  # it has ended, or this user may not look: the source of processes says so
        return False
    return False


def _namespace(proc: str, pid: str) -> str:
    try:
        return os.readlink("%s/%s/ns/net" % (proc, pid))
    except OSError:
        return ""


def _everywhere(places: Mapping[str, int], deadline: float) -> Iterator[Tuple[str, List[Connection]]]:
    """The connections of this network namespace and of those of some processes that can be entered."""
    yield _namespace("/proc", "self"), list(_connections(deadline))
    own = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC) if places else -1
    try:
        for name, pid in places.items():
            if _entered("/proc/%d/ns/net" % pid):
                yield name, list(_connections(deadline))
    finally:
        if places:
            _setns(own)
            os.close(own)


def _entered(path: str) -> bool:
    """Whether this process is in a network namespace now. Without CAP_SYS_ADMIN it may not: setns(2)."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return _setns(descriptor)
    finally:
        os.close(descriptor)


def _setns(descriptor: int) -> bool:
    return bool(ctypes.CDLL(None).setns(descriptor, _NEW_NET) == 0)


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
    """The rows of `read` about connections, by inode."""
    return {int(row["inode"]): row for row in rows if "inode" in row}
