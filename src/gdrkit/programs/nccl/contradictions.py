"""Settings of NCCL that contradict each other: one takes the effect from another, and NCCL prints no line.

Source: NCCL src/transport/net_ib/init.cc, NCCL_IB_DISABLE; src/graph/paths.cc, ncclGetLevel(),
ncclTopoCheckGdr(); src/misc/utils.cc, parseStringList(); src/mnnvl.cc. None of these was run on GPUs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

from gdrkit.programs.nccl.settings import gdr_level

LISTS = ("NCCL_IB_HCA", "NCCL_SOCKET_IFNAME")
PLUGINS = ("NCCL_NET_PLUGIN", "NCCL_NET")
"""What selects another network than NCCL's own: it may read variables of NCCL_IB_ itself."""


class Contradiction(Struct, frozen=True):
    """A variable that has no effect, or another than it says, and why."""

    name: str
    why: str


def contradictions(settings: Mapping[str, str]) -> Iterator[Contradiction]:
    """The contradictions among the variables of one program: names and values."""
    yield from _no_verbs(settings)
    if gdr_level(settings.get("NCCL_NET_GDR_LEVEL", ""), "") == "LOC":
        for name in ("NCCL_NET_GDR_READ", "NCCL_DMABUF_ENABLE"):
            if settings.get(name) == "1":
                yield Contradiction(name, "NCCL_NET_GDR_LEVEL allows the direct path for no NIC")
    if settings.get("NCCL_P2P_DISABLE") == "1" and settings.get("NCCL_P2P_LEVEL", "LOC") not in ("LOC", "0"):
        yield Contradiction("NCCL_P2P_LEVEL", "NCCL_P2P_DISABLE=1 is read first")
    if settings.get("NCCL_MNNVL_ENABLE") == "1" and settings.get("NCCL_CUMEM_ENABLE") == "0":
        yield Contradiction("NCCL_MNNVL_ENABLE", "MNNVL needs the memory that NCCL_CUMEM_ENABLE=0 turns off")
    for name in LISTS:
        if name in settings and (sign := _late_sign(settings[name])):
            yield Contradiction(name, f"{sign} counts only before the whole list; here it begins a name")


def _no_verbs(settings: Mapping[str, str]) -> Iterator[Contradiction]:
    """Variables of NCCL's own InfiniBand and RoCE transport, where it is off."""
    if settings.get("NCCL_IB_DISABLE") == "1":
        if any(settings.get(name, "none").lower() not in ("none", "ib") for name in PLUGINS):
            return
        why = "NCCL_IB_DISABLE=1 turns its transport off"
    elif settings.get("NCCL_NET", "").lower() == "socket":
        why = "NCCL_NET=Socket selects another transport"
    else:
        return
    for name in settings:
        if name.startswith("NCCL_IB_") and name != "NCCL_IB_DISABLE":
            yield Contradiction(name, why)


def _late_sign(value: str) -> str:
    """The `^` or `=` that begins a later name of a list; "" without one."""
    found = re.search(r",\s*([\^=])", value)
    return found[1] if found else ""
