"""Pings of which the small ones are answered, and the large ones are not: the way drops jumbo frames.

Source of the lines: iputils ping/ping_common.c, finish(); ping/ping.c, ping4_receive_error_msg().
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gdrkit.formats.regex import regex
from gdrkit.messages.message import Meaning

_BEGIN = regex(
    r"\s*PING \S{1,255}? ?\((?P<address>[^)\s]{1,64})\)[^(]{0,80}?\b(?P<size>\d{1,5})"
    r"(?:\(\d{1,5}\)| data) bytes"
)
_END = regex(r"\s*\d{1,6} packets transmitted, (?P<answers>\d{1,6}) received\b")
_TOO_LONG = regex(
    r"\s*(?:(?P<hop>From .{1,80} Frag needed)|ping: (?:local error|sendmsg): [Mm]essage too long)"
)
_PACKET = regex(r"\s*Mtu\s{1,20}: (?P<size>\d{3,4})\[B\]")
STANDARD = 1472
"""What a ping carries in a frame of 1500 bytes: its headers have 28."""
SMALL_PACKET = 1024
"""What RDMA sends at a time with an Ethernet MTU of 1500: Linux include/rdma/ib_addr.h, iboe_get_mtu()."""

_SEEN = "Small pings to {} are answered, those of {} bytes are not: "
_DROPS = (
    f"{_SEEN}something on the way drops large frames. Packets of RDMA, of 4096 bytes where the ports' MTU is"
    " above that, are lost in the same way"
)
_RAISE = (
    "Set MTU 9000 on all of the way, at both ends and on each port of a switch between them (jumbo frames,"
    " l2mtu), until the large ping is answered. Or set 1500 on the interfaces of both ends: RDMA then sends"
    " 1024 bytes at a time. `gdr codes MTU` prints how"
)
_OWN = f"{_SEEN}this host's own interface sends no larger frames. RDMA then sends 1024 bytes at a time"
_UNREACHED = "rail-unreachable"


def ping_meanings(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, Meaning]]:
    """What a large ping without an answer means to an address that answers small ones. It explains no
    failure where packets of RDMA are small, as a frame of 1500 bytes holds them."""
    answered: set[str] = set()
    lost: dict[str, tuple[int, int, bool]] = {}
    address, size, own, hop, small = "", 0, False, False, False
    for number, text in lines:
        if begin := _BEGIN.match(text):
            address, size, own, hop = begin["address"], int(begin["size"]), False, False
        elif too_long := _TOO_LONG.match(text):
            hop = hop or too_long["hop"] is not None  # then the own host remembers it
            own = not hop
        elif packet := _PACKET.match(text):
            small = small or int(packet["size"]) <= SMALL_PACKET
        elif end := _END.match(text):
            if end["answers"] == "0" and size > STANDARD:
                lost.setdefault(address, (number, size, own))
            elif end["answers"] != "0" and size <= STANDARD:
                answered.add(address)
    for address, (number, size, own) in lost.items():
        if address in answered:
            words = (_OWN if own else _DROPS).format(address, size)
            aside = own or small
            brings = (_UNREACHED,) if aside else (_UNREACHED, "retry-exceeded")
            yield number, Meaning(words, _RAISE, effect="aside" if aside else "failure", brings=brings)
