"""Channel lines of NCCL, from 2.4.2 to 2.32: what carries the bytes between two ranks.

Sources: NCCL src/transport/{net,coll_net,p2p,shm}.cc at the tags from v2.4.2-1 to v2.30.7-1, and of 2.31.2.
"""

from __future__ import annotations

import functools
import re

from gdrkit.messages.message import Match
from gdrkit.messages.nccl_records import Leg, Via

CHANNEL = (
    # Only at the beginning of a message: lines that are cut or mixed from two processes are ignored.
    r"{:(?:\A|(?<=NCCL INFO ))(?:Channel|Ring|CollNet|Coll)} {channel:\d{1,4}}{:(?:/\d{1,4})?}"
    r" : {source:\d{1,7}}{:(?:\[(?P<source_gpu>-?[0-9a-f]{1,12})\])?}"
    r"{:(?: -> (?P<target>\d{1,7})(?:\[(?P<target_gpu>-?[0-9a-f]{1,12})\])?)?}"
    r"{:(?: \[(?P<direction>send|receive)\])? {1,8}}via {via:.+$}"
)
# RCCL ends channel lines with `comm 0x... nRanks 16`.
_END = r"(?: comm 0x[0-9a-f]+ nRanks \d+)?\s*$"
_NET = (
    r"(?P<kind>NET|COLLNET)/(?P<network>[A-Za-z][\w .+-]{0,40})/(?P<index>\d{1,4})"
    r"(?:\((?P<proxy>\d{1,7})\))?"
    # What follows GDRDMA does not revoke it, so fields of newer releases are skipped: 2.31 adds /flush=.
    rf"(?:(?P<gdr>/GDRDMA)(?P<pci>\(PCI\))?(?P<fields>(?:/\w[\w=.-]{{0,40}}){{0,8}})|(?P<shared>/Shared))?{_END}"
)
_INSIDE = (
    r"(?:P2P/(?P<p2p>(?:direct pointer|IPC|CUMEM|MNNVL|common device|indirect/\d+\[[0-9a-f]+\])"
    rf"(?:/read|/CE)*)|(?P<shm>direct shared memory|SHM/[A-Za-z]+(?:/[A-Za-z]+)?)){_END}"
)


@functools.cache
def _via_patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    return re.compile(_NET), re.compile(_INSIDE)


def via(text: str) -> Via | None:
    """The transport after `via` in a channel line; None if it is cut or not recognised."""
    net, inside = _via_patterns()
    if found := net.match(text):
        fields = (found["fields"] or found["shared"] or "").split("/")
        return Via(
            found["kind"].lower(), found["network"], int(found["index"]),
            gdr=found["gdr"] is not None, pci=found["pci"] is not None,
            proxy=int(found["proxy"]) if found["proxy"] else None, shared="Shared" in fields,
        )  # fmt: skip
    if found := inside.match(text):
        return Via("p2p", how=found["p2p"]) if found["p2p"] else Via("shm", how=found["shm"])
    return None


def leg(found: Match) -> Leg | None:
    """The record of a channel line; None if its transport is cut or not recognised."""
    values = found.values
    transport = via(values["via"])
    if transport is None:
        return None
    direction, target = values.get("direction", ""), values.get("target")
    own = values.get("target_gpu" if direction == "receive" else "source_gpu", "")
    return Leg(
        int(values["channel"]),
        int(values["source"]),
        int(target) if target else None,
        direction,
        transport,
        own,
    )
