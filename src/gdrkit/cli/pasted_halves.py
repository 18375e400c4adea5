"""Rates in a text that one of the two RDMA devices of a cable carries, on a DGX Spark."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs

from gdrkit import catalogue
from gdrkit.cli.pasted_rates import ethtool_speed
from gdrkit.explain.chains import needs_no_module
from gdrkit.explain.explanation import (
    NO_FAILURE_SHOWN,
    Answer,
    AnswerKind,
    Explanation,
    QuotedLine,
    Sureness,
    plain,
)
from gdrkit.explain.outputs.measured import (
    BELOW_SPARKS,
    DOWN,
    IPERF,
    MachineRate,
    machine_rates,
    rates_below_sparks,
)
from gdrkit.explain.outputs.pasted_host import PastedHost
from gdrkit.explain.outputs.port_rates import port_rates
from gdrkit.explain.products import SPARK
from gdrkit.fabric.ceilings.interval import Interval, least
from gdrkit.fabric.ceilings.links import PcieLink, both_ways
from gdrkit.fabric.ceilings.ports import NetworkPort, payload
from gdrkit.facts.cable_halves import CABLES, NCCL_TEST_GBIT_PER_S, other_half
from gdrkit.facts.modules import PEERMEM
from gdrkit.node import Node

ONE = both_ways(PcieLink(gt_per_s=32.0, width=4))
"""DGX Spark User Guide, hardware overview: each of the two links of the NIC has four lanes."""
PORT = NetworkPort(rate_gbit_per_s=NCCL_TEST_GBIT_PER_S, link_layer="Ethernet", mtu_bytes=4096)
BOTH = least((ONE.scaled(2.0), payload(PORT)))
FINE = (AnswerKind.NO_PROBLEM, AnswerKind.WORKING, AnswerKind.HARMLESS)
LARGE_BYTES = 65536
"""What perftest sends by default (perftest_parameters.h, DEF_SIZE_BW)."""


def with_half(explanation: Explanation, text: PastedHost) -> Explanation:
    """The explanation of a text without a failure that somebody can mend; if it names a DGX Spark, and a
    rate in it is what half of a cable carries, with that as its answer."""
    answer = explanation.answer
    known = (fact for machine in explanation.machines for fact in machine.known)
    of_ports = any(fact.name == DOWN and fact.value in answer.sentence for fact in known)
    low = of_ports or BELOW_SPARKS in answer.sentence
    if not (low or answer.kind in FINE or _is_aside(answer) or _is_lasting(explanation)):
        return explanation
    if not any(SPARK.search(f"{line.host} {line.text}") for line in text.lines):
        return explanation
    found = ((host.machine, rate) for host in text.machines() for rate in _halves(host))
    answer = next((_answer(machine, rate) for machine, rate in found), answer)
    return structs.replace(explanation, answer=answer)


def _is_aside(answer: Answer) -> bool:
    """Whether the answer is a message that decides nothing, such as of the power at a Spark's slot."""
    lines = answer.lines if answer.kind is AnswerKind.ELSEWHERE else ()
    messages = (found.message for line in lines if (found := catalogue.match(line.text)) is not None)
    return any(one.meaning is not None and one.meaning.effect == "aside" for one in messages)


def _is_lasting(explanation: Explanation) -> bool:
    """Whether the answer is hardware that nobody can change, by which nothing fails."""
    cause = explanation.answer.cause
    fails = any(line.fails for machine in explanation.machines for line in machine.open)
    return cause is not None and needs_no_module(cause, PEERMEM) and not fails


def _halves(host: PastedHost) -> Iterator[MachineRate]:
    """The rates of a machine that are those of one device, as far as the text shows a port that is faster,
    or no port."""
    ports = port_rates(Node(host), host)
    yield from (rate for rate in rates_below_sparks(host.own_lines) if rate.gb_per_s in ONE)
    rates = list(machine_rates(host.own_lines))
    for rate in rates:
        names = (rate.device,) if rate.device else tuple(ports)
        shown = [ports[name].gbit_per_s if name in ports else ethtool_speed(host, name) for name in names]
        slow = 0 < max(shown, default=0) < NCCL_TEST_GBIT_PER_S
        named = other_half(rate.device) or rate.test == (IPERF,)
        one_way = "Bidirectional" not in rate.test[-1] and (
            rate.size_bytes >= LARGE_BYTES or not rate.device
        )
        if named and one_way and not slow and rate.gb_per_s in ONE:
            yield rate


def _answer(machine: str, rate: MachineRate) -> Answer:
    first, second = next((pair for pair in CABLES if rate.device in pair), CABLES[0])
    return plain(
        AnswerKind.SEVERAL,
        (
            f"{NO_FAILURE_SHOWN}: half of a cable. {rate.gb_per_s * 8:.4g} Gb/s is what one of the two RDMA"
            f" devices of a cable carries on a DGX Spark ({_gbit(ONE)}), as each has a PCIe link of x4; both"
            f" devices together carry {_gbit(BOTH)}, at 200 Gb/s and MTU 9000. A second cable adds almost"
            " nothing: it has the same two PCIe links."
        ),
        machine=machine,
        sureness=Sureness.LIKELY,
        lines=(QuotedLine(rate.fact.line or 1, rate.fact.text),),
        now=(
            f"Use both devices of the cable at the same time, such as {first} and {second}: give the"
            " interface of each an address in a network of its own, and MTU 9000, on both nodes. iperf3 and"
            " ib_write_bw use one device each: run one for each at the same time, and add up. For NCCL,"
            f" `NCCL_IB_HCA={first},{second}`; `gdr config nccl-env` writes it.",
        ),
    )


def _gbit(rate: Interval) -> str:
    return f"{rate.low_gbit_per_s:.0f} to {rate.high_gbit_per_s:.0f} Gb/s"
