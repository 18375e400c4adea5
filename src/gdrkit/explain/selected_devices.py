"""Selectors of a Kubernetes device plugin that match none of the network cards which the text lists.

Sources: Mellanox/k8s-rdma-shared-dev-plugin README, deviceIDs, and the loaded config in its log;
k8snetworkplumbingwg/sriov-network-device-plugin docs/configuration.md; lspci(8), -nn.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from gdrkit.explain.explanation import Answer
from gdrkit.explain.lines.blocks import EVIDENCE
from gdrkit.explain.lines.transcript import TextLine
from gdrkit.facts.nic_health import MELLANOX
from gdrkit.formats.regex import regex

_SELECTED = regex(r'.*\b[Dd]evice(?:IDs|s)"?: ?\[(?P<ids>(?:"?[\da-fA-F]{4}"?[, ]*){1,40})\]')
_IDENTIFIER = regex(r"[\da-fA-F]{4}")
_CARD = regex(rf".*\[02(?:00|07)\]: .{{1,160}}\[{MELLANOX}:(?P<id>[\da-f]{{4}})\]")
"""A network controller of NVIDIA: Ethernet 0200, InfiniBand 0207 (pci.ids)."""
VIRTUAL = frozenset(("1014", "1016", "1018", "101a", "101c", "101e"))
"""Virtual functions of ConnectX, which SR-IOV makes and have IDs of their own (pci.ids)."""
SELECTORS = "selectors of the resource"


def of_selectors(answer: Answer, lines: Iterable[TextLine]) -> Answer:
    """An answer that asks to compare selectors with the cards of a node, with the result, if the text shows
    both and none of the cards is selected."""
    if not answer.now or SELECTORS not in answer.now[0]:
        return answer
    shown = [line for line in lines if line.kind in EVIDENCE]
    selected = {
        one.lower(): line.number
        for line in shown
        if (found := _SELECTED.match(line.text))
        for one in _IDENTIFIER.findall(found["ids"])
    }
    cards = {found["id"]: line.number for line in shown if (found := _CARD.match(line.text))}
    if not selected or not cards or selected.keys() & {*cards, *VIRTUAL}:
        return answer
    has = ", ".join(f"{MELLANOX}:{one} (line {at})" for one, at in cards.items())
    step = (
        f"deviceIDs selects {', '.join(selected)} (line {min(selected.values())}), but the node has {has}:"
        f" set deviceIDs to {', '.join(cards)}, in NicClusterPolicy or the plugin's ConfigMap, and restart"
        " the plugin's pods."
    )
    return replace(answer, now=(step, *answer.now))
