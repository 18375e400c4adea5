"""Ask the kernel over netlink, within limits: an answer may have any length and no end.

Sources: Linux include/uapi/linux/netlink.h; Documentation/userspace-api/netlink/intro.rst.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
import time
from typing import Any, Dict, Iterator, List, Mapping, Tuple

_HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")
_TYPE = 0x3FFF
"""Without NLA_F_NESTED and NLA_F_NET_BYTEORDER."""
REQUEST, ACK, DUMP, INTERRUPTED = 1, 4, 0x300, 0x10
ERROR, DONE = 2, 3
PACKET_BYTES = 1 << 18
"""A dump fills at most 32 KiB at a time: af_netlink.c, netlink_dump()."""
LARGEST = (1 << 63) - 1
"""Of 64 bits with a sign, as readers of JSON have. A region on demand of all memory is longer."""
LIMIT_BYTES = 64 << 20
"""A row has about 100 bytes, so this is some hundred thousand rows."""


class Link:
    """A netlink socket with its sequence number. `sock` is closed by its owner."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._sock, self._deadline = sock, deadline
        self._sequence = 0
        self._left = LIMIT_BYTES

    def ask(self, kind: int, body: bytes, dump: bool) -> Iterator[bytes]:
        """The payload of every answer. Raises OSError with the kernel's errno, ValueError if an answer is
        malformed or larger than the limit, TimeoutError at the deadline."""
        self._sequence += 1
        flags = REQUEST | (DUMP if dump else ACK)
        self._sock.send(_HEADER.pack(_HEADER.size + len(body), kind, flags, self._sequence, 0) + body)
        while True:
            for found, data in self._packet():
                if found in (ERROR, DONE):
                    _check(data, found == ERROR)
                    return
                yield data

    def _packet(self) -> List[Tuple[int, bytes]]:
        """Kind and payload of the messages in the next packet that answer the last question."""
        left_s = self._deadline - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("the kernel's answer does not end")
        self._sock.settimeout(left_s)
        try:
            packet = self._sock.recv(PACKET_BYTES)
        except socket.timeout:  # not a TimeoutError before Python 3.10
            raise TimeoutError("the kernel does not answer") from None
        self._left -= len(packet)
        if self._left < 0 or not packet:
            raise ValueError("an answer without end" if packet else "an empty answer")
        return [(kind, data) for kind, sequence, data in messages(packet) if sequence == self._sequence]


def messages(packet: bytes) -> Iterator[Tuple[int, int, bytes]]:
    """Kind, sequence number and payload of each message. Raises ValueError if one is cut off."""
    at = 0
    while at < len(packet):
        if len(packet) - at < _HEADER.size:
            raise ValueError("a message without a header")
        length, kind, _, sequence, _ = _HEADER.unpack_from(packet, at)
        if not _HEADER.size <= length <= len(packet) - at:
            raise ValueError("a message of %d bytes in %d" % (length, len(packet) - at))
        yield kind, sequence, packet[at + _HEADER.size : at + length]
        at += (length + 3) & ~3


def attributes(data: bytes) -> Iterator[Tuple[int, bytes]]:
    """Number and value of each attribute. Raises ValueError if one is cut off."""
    at = 0
    while len(data) - at >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        if not _ATTRIBUTE.size <= length <= len(data) - at:
            raise ValueError("an attribute of %d bytes in %d" % (length, len(data) - at))
        yield kind & _TYPE, data[at + _ATTRIBUTE.size : at + length]
        at += (length + 3) & ~3


def row(data: bytes, names: Mapping[int, str]) -> Dict[str, Any]:
    """The named attributes: numbers, and text for names that end in `_name`. Others are left out."""
    found: Dict[str, Any] = {}
    for number, value in attributes(data):
        name = names.get(number, "")
        if name.endswith("_name"):
            found[name] = value[:256].split(b"\0", 1)[0].decode("utf-8", "replace")
        elif name and 0 < len(value) <= 8:
            found[name] = min(int.from_bytes(value, sys.byteorder), LARGEST)
    return found


def attribute(number: int, value: int) -> bytes:
    """A 32-bit attribute."""
    return _ATTRIBUTE.pack(8, number) + struct.pack("=I", value)


def _check(data: bytes, must: bool) -> None:
    """Raises OSError for the negative errno that begins an acknowledgement or the end of a dump."""
    if len(data) < 4:
        if must:
            raise ValueError("an error without a number")
        return
    code = -int(struct.unpack_from("=i", data)[0])
    if code > 0:
        raise OSError(code, os.strerror(code))
