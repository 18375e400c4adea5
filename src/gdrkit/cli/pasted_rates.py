"""Rates that a text shows, judged by the port and the PCIe link that it shows as well, as `gdr estimate
--measured` judges them by those of a machine."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct, structs

from gdrkit.explain.explanation import (
    NO_FAILURE_SHOWN,
    Answer,
    AnswerKind,
    Explanation,
    KnownFact,
    QuotedLine,
)
from gdrkit.explain.lines.blocks import EVIDENCE
from gdrkit.explain.outputs.measured import PERFTEST
from gdrkit.explain.outputs.pasted_host import PastedHost
from gdrkit.explain.outputs.port_rates import port_rates
from gdrkit.fabric.ceilings.links import PcieLink
from gdrkit.fabric.ceilings.measured import Measured, readings
from gdrkit.fabric.ceilings.measured_rate import MeasuredRate, describe_limit
from gdrkit.fabric.ceilings.node_links import NicFunction, NodeLinks, UpstreamLink
from gdrkit.fabric.ceilings.ports import NetworkPort
from gdrkit.facts.rdma import nics
from gdrkit.formats.errors import FormatError
from gdrkit.formats.perftest import Perftest, parse_perftest
from gdrkit.formats.regex import regex
from gdrkit.node import Node, if_missing

LARGE_BYTES = 65536
"""The size from which a run is judged: what perftest sends by default
(perftest_parameters.h, DEF_SIZE_BW)."""

_NAMED = regex(
    r"(?:roce|ib)"
    r"(?P<place>(?:P(?P<domain>\d{1,5}))?p(?P<bus>\d{1,3})s(?P<slot>\d{1,2})f(?P<function>[0-7]))"
)
"""A device by its place, in decimal numbers. Source: rdma-core kernel-boot/rdma_rename.c, by_pci()."""
_SPEED = regex(r"\s*Speed: (\d{3,7})Mb/s$")
_ADDRESS = r"(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[01][0-9a-f]\.[0-7]"
_DEVICE = regex(rf"({_ADDRESS}) [A-Z]")
_ASKED = regex(rf"lspci .*-s ?({_ADDRESS})\b")
_LINK = regex(r"\s*LnkSta:\s*Speed ([\d.]{1,5})GT/s[^,]{0,20}, Width x(\d{1,2})\b")
_KERNEL = regex(
    r".*\bmlx5_core ([0-9a-f]{4}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]): [\d.]+ Gb/s available PCIe bandwidth"
    r",? (?:limited by |\()([\d.]{1,5}) GT/s PCIe x(\d{1,2}) link"
)
"""Source: Linux drivers/pci/pci.c, __pcie_print_link_status()."""


FIND_SLOW_END = (
    "`gdr doctor` on both machines judges ports, links and packet sizes. Where it finds nothing, repeat the"
    " run with a third machine. Switch the one off that is slow with both, and take its power away: that is"
    " reported to bring a NIC of a DGX Spark back that stays at 13 Gb/s."
)
"""Source: NVIDIA/dgx-spark-playbooks, pull request 108; forums.developer.nvidia.com, topic 363461."""


class LowRate(Struct, frozen=True):
    """A run below what its port and link let tuned runs reach."""

    share: float
    words: str
    fact: KnownFact
    machine: str
    is_whole: bool  # the text shows both the port and the link


def with_low_rate(explanation: Explanation, text: PastedHost) -> Explanation:
    """The explanation of a text without a failure; if a rate in it is low, with that rate as its answer."""
    answer = explanation.answer
    if answer.kind not in (AnswerKind.NO_PROBLEM, AnswerKind.WORKING):
        return explanation
    found = [low for host in text.machines() for low in _low(host, _facts(explanation, host.machine))]
    if not found:
        return explanation
    return structs.replace(explanation, answer=_answer(answer, min(found, key=lambda low: low.share)))


def _facts(explanation: Explanation, name: str) -> list[KnownFact]:
    known = (fact for one in explanation.machines if one.name == name for fact in one.known)
    return [fact for fact in known if fact.name == PERFTEST and fact.line is not None]


def _answer(answer: Answer, low: LowRate) -> Answer:
    """What was measured, with its share. That the direct path works stays true at a low rate."""
    if answer.kind is AnswerKind.WORKING:
        return structs.replace(answer, sentence=f"{answer.sentence} {low.words}")
    return structs.replace(
        answer,
        kind=AnswerKind.SEVERAL,
        sentence=f"{NO_FAILURE_SHOWN}: a low rate, {low.fact.value}. {low.words}",
        machine=low.machine,
        lines=(QuotedLine(low.fact.line or 1, low.fact.text),),
        now=(FIND_SLOW_END,) if low.is_whole else answer.now,
    )


def _low(host: PastedHost, facts: list[KnownFact]) -> Iterator[LowRate]:
    """The runs of a machine that are low."""
    shown = "\n".join(line.text for line in host.own_lines if line.kind in (*EVIDENCE, "typed"))
    try:
        runs = [run for run in parse_perftest(shown) if any(row.average_gb_per_s for row in run.rows)]
    except FormatError:
        return
    for run, fact in zip(runs, facts, strict=False):
        function = _function(host, run)
        if function is None or max(row.size_bytes for row in run.rows) < LARGE_BYTES:
            continue
        (rate,) = readings(NodeLinks(functions=(function,)), Measured(perftest=(run,)))
        if words := _words(rate, function):
            whole = bool(function.links) and function.port is not None
            yield LowRate(rate.share or 0.0, words, fact, host.machine, whole)


def _words(rate: MeasuredRate, function: NicFunction) -> str:
    """How low a rate is; "" if it is none, or if that is not known."""
    if rate.ceiling is None or rate.tightest is None or rate.share is None or rate.gb_per_s is None:
        return ""
    high = rate.ceiling.high_gb_per_s
    lowest = rate.tightest.rate.low_gb_per_s * high / rate.tightest.rate.high_gb_per_s  # of both directions
    if rate.gb_per_s >= lowest:
        return ""
    if function.links and function.port is not None:
        return rate.sentences[-1]
    hidden = "port" if function.links else "PCIe link"
    return (
        f"You are at {rate.share * 100:.0f} % of what {describe_limit(rate.tightest)} can do"
        f" ({high:.2f} GB/s; {rate.tightest.description}). Its {hidden} is not shown, and may carry less."
    )


def _function(host: PastedHost, run: Perftest) -> NicFunction | None:
    """The device of a run, with the port and the link that the text shows; None if it shows neither."""
    node = Node(host)
    known = port_rates(node, host).get(run.device)
    rate = known.gbit_per_s if known is not None else ethtool_speed(host, run.device)
    addresses = {device.name: device.pci_address for device in if_missing((), nics, node)}
    address = addresses.get(run.device) or _address(run.device)
    link = _links(host).get(address)
    if not run.device or not (rate or link):
        return None
    layer = run.link_layer or (known.kind[-1] if known is not None else "")
    return NicFunction(
        name=run.device,
        card=run.device,
        links=() if link is None else (UpstreamLink(address, link),),
        port=NetworkPort(rate_gbit_per_s=rate, link_layer=layer) if rate else None,
    )


def ethtool_speed(host: PastedHost, device: str) -> float:
    """What ethtool says of the interface at the same place as a device; 0 if the text does not show it."""
    named = _NAMED.fullmatch(device)
    if named is None:
        return 0.0
    interface = re.compile(rf"en{named['place']}(?:np\d{{1,2}})?(?!\w)")
    for line in host.own_lines:
        found = _SPEED.match(line.text) if line.kind in EVIDENCE else None
        if found is not None and "ethtool" in line.command and interface.search(line.command):
            return int(found[1]) / 1000
    return 0.0


def _address(device: str) -> str:
    """The PCI address that the name of a device tells; "" if it tells none."""
    named = _NAMED.fullmatch(device)
    if named is None:
        return ""
    domain, bus, slot = (int(named[key] or 0) for key in ("domain", "bus", "slot"))
    return f"{domain:04x}:{bus:02x}:{slot:02x}.{named['function']}"


def _links(host: PastedHost) -> dict[str, PcieLink]:
    """The links that lspci or the kernel shows, by the address of the device below."""
    found: dict[str, PcieLink] = {}
    title = ""
    for line in host.own_lines:
        if line.kind not in EVIDENCE:
            title = ""
        elif device := _DEVICE.match(line.text):
            title = device[1]
        elif link := _LINK.match(line.text):
            asked = _ASKED.search(line.command)
            if address := title or (asked[1] if asked else ""):
                found[_whole(address)] = _link(link[1], link[2])
        elif kernel := _KERNEL.match(line.text):
            found.setdefault(kernel[1], _link(kernel[2], kernel[3]))
    return found


def _link(gt_per_s: str, width: str) -> PcieLink:
    return PcieLink(gt_per_s=float(gt_per_s), width=int(width))


def _whole(address: str) -> str:
    return address if address.count(":") == 2 else f"0000:{address}"
