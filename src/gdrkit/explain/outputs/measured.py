"""What outputs of benchmarks measured, and what listings show where nothing is wrong."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from gdrkit.explain.explanation import KnownFact
from gdrkit.explain.lines.blocks import EVIDENCE
from gdrkit.explain.lines.transcript import TextLine
from gdrkit.explain.outputs.flow_control import flow_control_facts
from gdrkit.explain.outputs.iperf_ports import other_port, slow_port
from gdrkit.explain.outputs.kubernetes_states import kubernetes_facts
from gdrkit.explain.outputs.readings import UNNAMED, PortState, port_states
from gdrkit.facts.cable_halves import CABLES, NCCL_TEST_GB_PER_S, interface_of
from gdrkit.formats import nccl_tests, perftest
from gdrkit.formats.errors import FormatError
from gdrkit.formats.iperf import parse_iperf
from gdrkit.formats.nccl_tests import NcclRow, NcclTest
from gdrkit.formats.perftest import PerftestRow
from gdrkit.formats.plural import plural
from gdrkit.formats.regex import regex

NCCL_TESTS, PERFTEST = "nccl-tests result", "perftest result"
PORTS, DOWN, WAITING = "ports", "ports without a link", "ports that are not set up"
RATES, SLOW = "rates of active ports", "a slower port"
ONE_CABLE = ", which are both halves of one cable of a DGX Spark"
UNLIKE = "; whether they are meant to differ, the text does not show"
"""How the rates end of ports that may be of one type."""
OF_A_GPU = " from GPU memory"
"""In the result of a run that sent the memory of a GPU that has memory of its own."""
HOST_MEMORY, SLOW_GPU = "host memory", "GPU memory beside host memory"
OF_ANOTHER = " of an accelerator of"
"""In the result of a run that sent the memory of another maker's accelerator."""
ESTIMATED = (NCCL_TESTS, PERFTEST)
"""What `gdr estimate --measured` reads."""
NVBANDWIDTH, UCX_PERFTEST = "nvbandwidth result", "ucx_perftest result"
NIXLBENCH, IPERF = "nixlbench result", "iperf result"
BENCHMARKS = (*ESTIMATED, NVBANDWIDTH, UCX_PERFTEST, NIXLBENCH, IPERF)
SLOW_HOST = "a slower machine"
DCGM, RAS = "DCGM diag", "NCCL RAS"
STOPPED, DIRECT_ALL_THE_SAME = "nccl-tests", ", although NCCL set up channels to GPU memory"
"""A run without a result, and whether a hang of the direct path would look like that."""
PEERS = "access from GPU to GPU"
PACKETS = "RoCE packets"
CONTIGUOUS, RULED_OUT = "contiguous memory", "ruled out"
MOST_PORTS = 16
MOST_LINES = 20_000
"""Lines that are searched for tables: those of a whole cluster's runs are fewer."""


def measured(lines: tuple[TextLine, ...]) -> Iterator[KnownFact]:
    """The best rate of each benchmark in a text, and the ports that listings show as active."""
    shown = _shown(lines)
    yield from _of_nccl_tests(shown)
    runs = tuple(_perftest_rates(shown))
    yield from (rate.fact for rate in runs)
    yield from _beside_host_memory(runs)
    by_iperf = tuple(_iperf_rates(shown))
    yield from (rate.fact for rate in by_iperf)
    for rate in by_iperf[-1:]:
        yield from other_port(shown, rate.fact, rate.gb_per_s * 8)
    yield from _of_last(NVBANDWIDTH, _SUM, "{1} GB/s in all by {0}", shown)
    yield from _of_last(UCX_PERFTEST, _FINAL, "{0} MB/s over all iterations", shown)
    if any("B/W (GB/Sec)   " in line.text for line in shown):
        yield from _of_last(NIXLBENCH, _ROW, "{1} GB/s in blocks of {0} bytes", shown)
    yield from _of_dcgm(shown)
    yield from _of_ras(shown)
    yield from flow_control_facts(shown)
    yield from _of_packets(shown)
    yield from _of_peers(shown)
    yield from kubernetes_facts(shown)
    yield from _of_ports(lines)


_TESTED = regex(r"\| (?P<test>[A-Z][\w ./]{2,25}?) +\| (?P<result>Pass|Fail)\b")
"""A row of `dcgmi diag`. Source: NVIDIA/DCGM dcgmi/Diag.cpp."""


def _of_dcgm(shown: list[TextLine]) -> Iterator[KnownFact]:
    """That every test of `dcgmi diag` passed that is shown."""
    rows = [(line, found) for line in shown if (found := _TESTED.match(line.text))]
    if rows and all(found["result"] == "Pass" for _, found in rows):
        tests = plural(len(rows), "test")
        value = f"{tests} of the GPUs passed; none is about the way to the network"
        yield KnownFact(DCGM, value, rows[0][0].number, rows[0][0].text.strip())


_TEST = f"the {NCCL_TEST_GB_PER_S:.1f} GB/s that NVIDIA's test of two DGX Sparks asks for over one cable"
BELOW_SPARKS, LIKE_SPARKS = f", less than {_TEST}", f", not less than {_TEST}"
LARGE_BYTES = 1 << 28
"""The size of a message from which runs reach what links carry."""

IN_CHANNEL = "/GDRDMA"
"""In NCCL's line about a channel that accesses GPU memory directly: transport/net.cc, sendSetup()."""


def _of_nccl_tests(shown: list[TextLine]) -> Iterator[KnownFact]:
    title = next((line for line in shown if "busbw" in line.text), None)
    if title is None and not any(nccl_tests.BARE_ROW.match(line.text) for line in shown):
        return
    runs = _nccl_runs(shown)
    if title is not None and not any(run.rows for run in runs):
        direct = any(IN_CHANNEL in line.text for line in shown)
        value = f"with a table without a row{DIRECT_ALL_THE_SAME * direct}"
        yield KnownFact(STOPPED, value, title.number, title.text.strip())
    yield from (rate.fact for rate in _nccl_rates(runs, shown))


def _nccl_rates(runs: tuple[NcclTest, ...], shown: list[TextLine]) -> Iterator[MachineRate]:
    for run, lines in zip(runs, _lines_of((run.rows for run in runs), shown), strict=True):
        rows = zip(run.rows, lines, strict=True)
        rates = [(row.best.bus_gb_per_s or 0.0, row, line) for row, line in rows if row.best is not None]
        if not rates:
            continue
        rate, row, line = max(rates, key=lambda one: one[0])
        whole = len({rank.rank for rank in run.ranks}) > max((rank.rank for rank in run.ranks), default=0)
        where = f", {plural(len(run.ranks), 'GPU')} on {plural(len(run.hosts), 'host')}" if whole else ""
        program = f"{run.program} " if run.program else ""
        value = f"{program}{rate:g} GB/s of bus bandwidth at {row.size_bytes} bytes{where}"
        if whole and _of_two_sparks(run) and row.size_bytes >= LARGE_BYTES:
            value += LIKE_SPARKS if rate >= NCCL_TEST_GB_PER_S else BELOW_SPARKS
        fact = KnownFact(NCCL_TESTS, value, line.number, line.text.strip())
        yield MachineRate((NCCL_TESTS,), "", "GPU memory", row.size_bytes, rate, fact)


def rates_below_sparks(lines: tuple[TextLine, ...]) -> Iterator[MachineRate]:
    """The rates of nccl-tests between two DGX Sparks that are lower than NVIDIA's test asks for."""
    shown = _shown(lines)
    rates = _nccl_rates(_nccl_runs(shown), shown)
    yield from (rate for rate in rates if rate.fact.value.endswith(BELOW_SPARKS))


def _nccl_runs(shown: list[TextLine]) -> tuple[NcclTest, ...]:
    try:
        return tuple(nccl_tests.parse_nccl_tests("\n".join(line.text for line in shown)))
    except FormatError:
        return ()


def _of_two_sparks(run: NcclTest) -> bool:
    return len(run.hosts) == 2 and {rank.product for rank in run.ranks} == {"NVIDIA GB10"}


class MachineRate(Struct, frozen=True):
    """What a run of one machine measured at best."""

    test: tuple[str, ...]  # what it has in common with runs that it can be compared with
    device: str  # "" where the text does not show it
    memory: str
    size_bytes: int  # 0 for iperf
    gb_per_s: float
    fact: KnownFact


def machine_rates(lines: tuple[TextLine, ...]) -> Iterator[MachineRate]:
    """The rates of perftest and iperf in the lines of a machine, in order."""
    shown = _shown(lines)
    yield from _perftest_rates(shown)
    yield from _iperf_rates(shown)


def _shown(lines: tuple[TextLine, ...]) -> list[TextLine]:
    return [line for line in lines if line.kind in EVIDENCE or line.kind == "typed"][:MOST_LINES]


def _perftest_rates(shown: list[TextLine]) -> Iterator[MachineRate]:
    if not any("#iterations" in line.text or perftest.bare_row(line.text) for line in shown):
        return
    try:
        runs = perftest.parse_perftest("\n".join(line.text for line in shown))
    except FormatError:
        return
    for run, lines in zip(runs, _lines_of((run.rows for run in runs), shown), strict=True):
        rows = [one for one in zip(run.rows, lines, strict=True) if one[0].average_gb_per_s]
        if not rows:
            continue
        row, line = max(rows, key=lambda one: one[0].average_gb_per_s or 0.0)
        memory, rate = _memory(run), row.average_gb_per_s or 0.0
        device = f" on {run.device}" if run.device else ""
        value = f"{rate:.4g} GB/s at {row.size_bytes} bytes from {memory}{device}"
        fact = KnownFact(PERFTEST, value, line.number, line.text.strip())
        yield MachineRate((PERFTEST, run.test), run.device, memory, row.size_bytes, rate, fact)


def _iperf_rates(shown: list[TextLine]) -> Iterator[MachineRate]:
    for run in parse_iperf(line.text for line in shown):
        line, rate = shown[run.at], run.gbit_per_s / 8
        value = f"{rate:.4g} GB/s ({run.gbit_per_s:.4g} Gb/s) over sockets, which do not use RDMA"
        value += slow_port(run.gbit_per_s)
        fact = KnownFact(IPERF, value, line.number, line.text.strip())
        yield MachineRate((IPERF,), "", HOST_MEMORY, 0, rate, fact)


LOW_SHARE = 0.5
"""Below this share of what host memory reaches, GPU memory is slow: runs of one setup differ by far less,
8.4 % at most in docs/measurements.md."""


def _beside_host_memory(runs: Sequence[MachineRate]) -> Iterator[KnownFact]:
    """A run from GPU memory that is far slower than the same one from host memory."""
    host = {(run.test, run.device, run.size_bytes): run for run in runs if run.memory == HOST_MEMORY}
    for run in runs:
        other = host.get((run.test, run.device, run.size_bytes))
        if other is None or not run.device or f" from {run.memory}" != OF_A_GPU:
            continue
        own, most = run.gb_per_s, other.gb_per_s
        if own < LOW_SHARE * most:
            value = f"{own:.4g} GB/s from GPU memory on {run.device}, {own / most:.0%} of the"
            value += f" {most:.4g} GB/s from host memory on the same NIC"
            yield KnownFact(SLOW_GPU, value, run.fact.line, run.fact.text)


_SUM = regex(r"\s*SUM (\w{6,60}) (\d{1,7}(?:\.\d{1,3})?)\s*$")
"""The sum over a matrix of GPUs. Source: NVIDIA/nvbandwidth output.cpp, whose unit is 10^9 bytes."""
_FINAL = regex(r"\s*Final:\s+\d+(?:\s+\d+\.\d{1,3}){4}\s+(\d{1,9}\.\d\d)\s+\d+\s+\d+\s*$")
"""Three latencies, two bandwidths, of which the second is over all iterations, and two rates of messages.
Source: openucx/ucx src/tools/perf/perftest.c, print_progress()."""

_ROW = regex(r"\s*(\d{1,12}) +\d{1,9} +(\d{1,6}\.\d{1,9})(?: +\d{1,12}\.\d{1,9}){7,9}\s*$")
"""Sizes of a block and a batch, the bandwidth of one worker, and times; between several workers also the sum
of bandwidths. Source: ai-dynamo/nixl benchmark/nixlbench, its guide's section about reading the output."""


def _of_last(name: str, row: re.Pattern[str], words: str, shown: list[TextLine]) -> Iterator[KnownFact]:
    """The last result of a benchmark whose results are one line each."""
    found = [(line, match) for line in shown if (match := row.match(line.text))]
    for line, match in found[-1:]:
        yield KnownFact(name, words.format(*match.groups()), line.number, line.text.strip())


def _memory(run: perftest.Perftest) -> str:
    """Whose memory a run used: that of an integrated GPU is the host's."""
    if run.other_maker:
        return f"the memory{OF_ANOTHER} {run.other_maker}"
    if run.uses_gpu:
        return HOST_MEMORY if run.integrated_gpu else f"{run.memory or 'GPU'} memory"
    return HOST_MEMORY if run.command else "memory that is not shown"


def _lines_of(
    tables: Iterable[Sequence[NcclRow | PerftestRow]], shown: list[TextLine]
) -> Iterator[list[TextLine]]:
    """The line of each row, by table: it begins with the row's size, behind those of the rows before."""
    begins = [line.text.split()[:1] for line in shown]
    after = 0
    for rows in tables:
        lines = []
        for row in rows:
            size = [str(row.size_bytes)]
            after = begins.index(size, after) + 1 if size in begins[after:] else after
            lines.append(shown[max(after - 1, 0)])
        yield lines


RAS_GROUP = regex(r" +\d+(?: +\d+(?:-\d+)?){5} +(?P<status>[A-Z_]+) +(?P<errors>[A-Z_]+)$")
"""A group of communicators in the report of ncclras. Source: NCCL user guide, Troubleshooting, RAS."""


def _of_ras(shown: list[TextLine]) -> Iterator[KnownFact]:
    """That NCCL's RAS found nothing wrong with any communicator."""
    rows = [(line, found) for line in shown if (found := RAS_GROUP.match(line.text))]
    if rows and all(found.group("status", "errors") == ("RUNNING", "OK") for _, found in rows):
        value = f"{plural(len(rows), 'group')} of communicators running, without errors"
        yield KnownFact(RAS, value, rows[0][0].number, rows[0][0].text.strip())


_MTU = regex(
    r"\s*(?:\d{1,4}: (?P<port>en\w{1,12}np\d{1,2})(?:@\w{1,15})?: <(?P<flags>[A-Z_,0-9-]{1,120})>"
    r" mtu (?P<frame>\d{3,5})\b"
    r"|Mtu\s{1,20}: (?P<packet>\d{3,4})\[B\])"
)
"""The MTU of the interface of an RDMA NIC, as iproute2 prints it, and that of a connection, as perftest
does."""
LARGE_PACKET = 4096
"""The largest packet of RDMA. An Ethernet MTU below it, with headers, leads to smaller ones: Linux
include/rdma/ib_addr.h, iboe_get_mtu()."""


def _of_packets(shown: list[TextLine]) -> Iterator[KnownFact]:
    """That packets of RoCE are smaller than they could be: NICs need more of them for the same rate."""
    ethernet = any("Link type" in line.text and line.text.endswith(": Ethernet") for line in shown)
    for line in shown:
        found = _MTU.match(line.text)
        if found is None or int(found["frame"] or found["packet"]) > LARGE_PACKET:
            continue
        if found["port"] and "LOWER_UP" not in found["flags"].split(","):
            continue  # without a link, it sends no packets
        if found["port"]:
            value = f"smaller than 4096 bytes, by the Ethernet MTU of {found['frame']} of {found['port']}"
        elif ethernet and int(found["packet"]) < LARGE_PACKET:
            value = f"of {found['packet']} bytes in this run, where 4096 are possible"
        else:
            continue
        told = f"{value}; `gdr codes MTU` prints how to raise it"
        yield KnownFact(PACKETS, told, line.number, line.text.strip())
        return


_PEER = regex(
    r"\s{0,4}(?:Device=\d{1,3} (?P<can>CAN|CANNOT) Access Peer Device=\d"
    r"|> Peer access from .{1,80} -> .{1,80} : (?P<answer>Yes|No)\b)"
)
"""What CUDA says of two GPUs. Source: NVIDIA/cuda-samples p2pBandwidthLatencyTest, simpleP2P."""


def _of_peers(shown: list[TextLine]) -> Iterator[KnownFact]:
    """Whether GPUs access each other's memory, which shows nothing of a NIC."""
    pairs = [(line, found) for line in shown if (found := _PEER.match(line.text))]
    if not pairs:
        return
    can = sum((found["can"] or found["answer"]) in ("CAN", "Yes") for _, found in pairs)
    value = (
        f"CUDA lets GPUs access each other for {can} of {plural(len(pairs), 'pair')}; that shows nothing of"
    )
    value += " the way to a NIC"
    yield KnownFact(PEERS, value, pairs[0][0].number, pairs[0][0].text.strip())


def _of_ports(lines: tuple[TextLine, ...]) -> Iterator[KnownFact]:
    shown = tuple(port_states(lines))
    states = [port for port in shown if port.state == "active"]
    if states:
        names = ", ".join(dict.fromkeys(port.device for port in states[:MOST_PORTS]))
        line = lines[states[0].position]
        active = {port.device for port in states} - {UNNAMED}
        rest = [port for port in shown if port.state != "active" and port.device not in active]
        value = f"active ports of {names}"
        if _is_one_cable(active, {port.device for port in rest}):
            value, rest = f"{value}{ONE_CABLE}", []
        yield KnownFact(PORTS, value, line.number, line.text.strip())
        waiting = [port for port in rest if port.state in LINKED]
        yield from _of_some(WAITING, "a link, but no active port, of {}", waiting, lines)
        yield from _of_some(
            DOWN, "no active port of {}", [port for port in rest if port not in waiting], lines
        )


def _is_one_cable(active: set[str], rest: set[str]) -> bool:
    """Whether ports, by device or interface, are those of a Spark with one cable, and both halves active."""
    known = {interface_of(one): one for cable in CABLES for one in cable}
    active, rest = ({known.get(name, name) for name in some} for some in (active, rest))
    return any(active == set(cable) and rest <= set(other) for cable, other in (CABLES, CABLES[::-1]))


LINKED = ("init", "armed")
"""States of a port that has a link: InfiniBand specification, 14.2.5.6, PortState."""


def _of_some(
    name: str, value: str, ports: list[PortState], lines: tuple[TextLine, ...]
) -> Iterator[KnownFact]:
    """What is known of some ports, if there are any."""
    if ports:
        names = ", ".join(dict.fromkeys(port.device for port in ports[:MOST_PORTS]))
        line = lines[ports[0].position]
        yield KnownFact(name, value.format(names), line.number, line.text.strip())
