"""The interfaces by which NCCL's processes find each other, and why one of them reaches no other host.

Sources: NCCL src/bootstrap.cc, bootstrapNetInit(), and src/misc/socket.cc; Docker names its default bridge
docker0, and others br- and twelve digits of their network's id: moby daemon/libnetwork/drivers/bridge.
"""

from __future__ import annotations

from collections.abc import Mapping

from gdrkit.formats.regex import regex
from gdrkit.messages.message import Meaning

_UNREACHED = regex(r"[Cc]onnect(?: to|ing to address) (?P<address>[\d.]{7,15})<\d{1,5}> (?:failed|returned)")
_BRIDGE = regex(r"docker\d{1,3}|br-[0-9a-f]{12}")

Interfaces = Mapping[str, Mapping[str, str]]
"""By address, the hosts that NCCL lets others connect to by it, and the interface that has it there."""


def unreached(words: str) -> str:
    """The address to which a process does not connect, by its line; "" of another line."""
    found = _UNREACHED.search(words)
    return "" if found is None else found["address"]


def why_unreached(address: str, interfaces: Interfaces) -> Meaning | None:
    """Why no other host has a way to an address, and what to set; None if lines do not show it."""
    of = interfaces.get(address, {})
    name = next(iter(of.values()), "")
    hosts = list(of)
    if len(hosts) > 1:
        some = f"{hosts[0]} and {len(hosts) - 1} more"
        return Meaning(
            f"NCCL connects its hosts by {name}, which has the address {address} on each of {some}: none"
            " reaches another one by it",
            "Set NCCL_SOCKET_IFNAME to the interface whose address differs from host to host, which"
            " `ip -br address` shows",
        )
    if not of or _BRIDGE.fullmatch(name) is None:
        return None
    others = {one for other in interfaces.values() for host, one in other.items() if host not in of}
    usable = [one for one in others if _BRIDGE.fullmatch(one) is None]
    step = "NCCL_SOCKET_IFNAME=^docker,br-,lo, which leaves bridges out"
    if len(usable) == 1:
        step = f"NCCL_SOCKET_IFNAME={usable[0]}, the interface of the other hosts; or {step}"
    return Meaning(
        f"{hosts[0]} offers {address}, the address of its Docker bridge {name}, which no other host reaches",
        f"Set on all ranks {step}",
    )
