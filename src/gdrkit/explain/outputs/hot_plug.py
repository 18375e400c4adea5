"""Cables of a DGX Spark that are moved: its NIC leaves the PCIe bus without one, and returns with one.

Sources: NVIDIA/NV-Kernels pull request 175, the driver cx7-pcie-hotplug; graham33/nixos-dgx-spark issue 165,
the package dgx-spark-mlnx-hotplug of DGX OS, whose rule removes the four functions. That a NIC to which a
cable came back stays near 13 Gb/s until both machines are started again with it: NVIDIA/dgx-spark-playbooks
pull request 108; forums.developer.nvidia.com, topic 363461.
"""

from __future__ import annotations

from collections.abc import Iterable

from gdrkit.formats.regex import regex
from gdrkit.messages.message import Meaning

_EVENT = regex(r"\bcx7-pcie-hotplug \S{1,40}: Cable (?P<what>removal|plugin)\b")
_BACK = regex(r"\bmlx5_core [0-9a-f:.]{7,16} \w{1,31}: (?:Link up|Port: \d Link ACTIVE)")
_OF_NIC = regex(r"\b(?:AER|PCIe Bus Error|mlx5_core)\b")
START_AGAIN = (
    "Restart both Sparks with the cable in place: a device whose cable was moved in operation is reported to"
    " stay near 13 Gb/s until then; `ib_write_bw` shows whether it does"
)
_RETURNED = Meaning(
    "A cable was moved: the NIC of the DGX Spark left the PCIe bus and came back. Errors of its links in"
    " between, and Cable unplugged of the port without a cable, belong to that",
    START_AGAIN,
    "state",
    brings=("port-down",),
)
_GONE = Meaning(
    "The kernel sees no cable at this DGX Spark. DGX OS takes the NIC off the PCIe bus then, to save power,"
    " so that no program lists it",
    f"Plug a cable in, and the NIC returns. {START_AGAIN}",
    "state",
    brings=("no-rdma-device", "rdma-device-not-in-container", "port-down"),
)


def moves(lines: Iterable[tuple[int, str]]) -> tuple[tuple[int, Meaning] | None, frozenset[int]]:
    """What the last line about a cable means, with its number; and the lines from a removal until a link is
    up again, which report nothing else."""
    last: tuple[int, Meaning] | None = None
    inside: set[int] = set()
    away = False
    for number, text in lines:
        if found := _EVENT.search(text):
            last = number, _GONE if found["what"] == "removal" else _RETURNED
            away = True
        elif away and last is not None and last[1] is _RETURNED and _BACK.search(text):
            away = False
        if away and _OF_NIC.search(text):
            inside.add(number)
    return last, frozenset(inside)
