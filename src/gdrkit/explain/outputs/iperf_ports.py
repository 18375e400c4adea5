"""Which port a run of iperf used: names resolve to addresses of a slower one as easily as of the cable.

Sources of the lines: iperf3 and iperf2 as in formats/iperf.py; iproute2 ip/ipaddress.c and ip/iproute.c;
ibdev2netdev of mlnx-tools; ethtool.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gdrkit.explain.explanation import KnownFact
from gdrkit.explain.lines.transcript import TextLine
from gdrkit.facts.cable_halves import DEVICES, interface_of, names_a_spark
from gdrkit.formats.regex import regex

OTHER_PORT, AS_A_PORT = "the port of iperf", "; that is the rate of a port of "
SLOW_PORTS_GBIT = (1.0, 2.5, 5.0, 10.0)
SHARE_OF_TCP = (0.9, 0.995)
"""TCP carries 94 % of the rate in frames of 1500 bytes, 99 % in those of 9000, by its headers."""

_RUN = regex(r"\s*\[ *\d{1,4}\] local (?P<own>[\d.]{7,15}) port \d{1,5} connected (?:to|with) ")
_BRIEF = regex(
    r"\s*(?P<name>[\w.-]{1,15})(?:@[\w.-]{1,15})?\s+UP(?:\s+(?P<own>[\d.]{7,15})/\d{1,2}\b.{0,400}|\s*|\s+fe80.{0,80})$"
)
_LONG = regex(r"\s*inet (?P<own>[\d.]{7,15})/\d{1,2} .{0,80}?(?P<name>[\w.-]{1,15})$")
_ROUTE = regex(r".{0,80}\bdev (?P<name>[\w.-]{1,15}) .{0,80}\bsrc (?P<own>[\d.]{7,15})\b")
_RDMA = regex(r"\s*[\w.-]{1,40} port \d{1,3} ==> (?P<name>[\w.-]{1,15}) \(Up\)")
_ASKED, _SPEED = regex(r".*\bethtool (?P<name>[\w.-]{1,15})$"), regex(r"\s*Speed: (?P<mbit>\d{1,7})Mb/s$")


def slow_port(gbit_per_s: float) -> str:
    """The port whose rate a run has, as words behind its rate; "" for none."""
    low, high = SHARE_OF_TCP
    ports = (port for port in SLOW_PORTS_GBIT if low * port <= gbit_per_s <= high * port)
    return next((f"{AS_A_PORT}{port:g} Gb/s" for port in ports), "")


def other_port(shown: Sequence[TextLine], rate: KnownFact, gbit_per_s: float) -> Iterator[KnownFact]:
    """That a run went over another interface than a faster one, or one with RDMA, as the text shows both."""
    above = (one for one in reversed(shown) if one.number < (rate.line or 0))
    run = next((found for one in above if (found := _RUN.match(one.text))), None)
    own: dict[str, str] = {}
    fast: dict[str, bool] = {}
    for one in shown:
        found = _BRIEF.match(one.text) or _LONG.match(one.text) or _ROUTE.match(one.text)
        if found is not None:
            own.setdefault(found["name"], found["own"] or "")
        if (rdma := _RDMA.match(one.text)) is not None:
            fast[rdma["name"]] = True
        asked, speed = _ASKED.match(one.command), _SPEED.match(one.text)
        if asked is not None and speed is not None:
            fast[asked["name"]] = int(speed["mbit"]) / 1000 > 1.5 * gbit_per_s
    if names_a_spark("\n".join(one.text for one in shown)):
        fast |= dict.fromkeys(map(interface_of, DEVICES), True)
    used = [name for name, address in own.items() if run is not None and address == run["own"]]
    unused = [f"{name} ({own[name] or 'no IPv4 address'})" for name in own if fast.get(name)]
    if run is not None and used and unused and not fast.get(used[0]):
        value = f"{gbit_per_s:.4g} Gb/s over {used[0]} ({run['own']}), and not over {' or '.join(unused)}"
        yield KnownFact(OTHER_PORT, value, rate.line, rate.text)
