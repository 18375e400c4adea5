"""The rates that NCCL's diagnostics measured with ib_write_bw, compared with the ceilings of a node.

NCCL compares ranks with one another, so ranks that are slow alike get its [OK]; only the node shows that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gdrkit.fabric.ceilings import paths
from gdrkit.fabric.ceilings.chain import Chain
from gdrkit.fabric.ceilings.interval import BITS
from gdrkit.fabric.ceilings.measured_rate import MeasuredRate, judged
from gdrkit.fabric.ceilings.node_links import NodeLinks, in_use
from gdrkit.formats.errors import FormatError
from gdrkit.programs.nccl.diagnostic_network import OUTLIER_SHARE, SHARED
from gdrkit.programs.nccl.diagnostic_statements import Diagnostics
from gdrkit.programs.nccl.diagnostics import diagnostics
from gdrkit.programs.nccl.log import parse

MARK = " NCCL DIAG "
"""What only lines of NCCL's diagnostics have."""


class Rates(Protocol):
    """A summary of ib_write_bw, in a log or in the document of a job."""

    @property
    def mode(self) -> str: ...
    @property
    def ranks(self) -> int: ...
    @property
    def lowest_gbit_per_s(self) -> float: ...
    @property
    def median_gbit_per_s(self) -> float: ...


class Statement(Protocol):
    """What a report says, in words."""

    @property
    def text(self) -> str: ...


class MeasuredReport(Protocol):
    """The reports of NCCL's diagnostics, of a log or of the document of a job."""

    @property
    def bandwidths(self) -> Sequence[Rates]: ...
    @property
    def statements(self) -> Sequence[Statement]: ...
    @property
    def tested_memory(self) -> tuple[str, ...]: ...


def parse_diagnostics(text: str) -> Diagnostics:
    """The report in a log of NCCL. Raises FormatError if it has no rate."""
    found = diagnostics(parse(text).records)
    if found is None or not found.bandwidths:
        raise FormatError("the report of NCCL's diagnostics has no rate of ib_write_bw (net bw)")
    return found


def compare(machine: NodeLinks, report: MeasuredReport) -> list[MeasuredRate]:
    """The median of each kind of pairs and, where that is much lower, the slowest rank.

    A summary names neither NIC nor memory: the ceiling is that of the fastest NIC, to host memory, which no
    path to GPU memory exceeds."""
    chain, notes = _ceiling(machine)
    if any(one.text == SHARED for one in report.statements):
        notes += ("Ranks share NICs, so each rank's rate is a share of its NIC's.",)
    if report.tested_memory:
        notes += (f"Lines name the memory of some pairs: {', '.join(report.tested_memory)}.",)
    else:
        notes += ("No line names the memory: ib_write_bw may have used host memory.",)
    return [reading for rate in report.bandwidths for reading in _readings(rate, chain, notes)]


def _readings(rate: Rates, chain: Chain | None, notes: tuple[str, ...]) -> list[MeasuredRate]:
    about = f"ib_write_bw of NCCL's diagnostics, {rate.mode} pairs of {rate.ranks} ranks"
    rates = {"median": rate.median_gbit_per_s}
    if rate.lowest_gbit_per_s < OUTLIER_SHARE * rate.median_gbit_per_s:
        rates["slowest"] = rate.lowest_gbit_per_s
    ceiling, tightest = (chain.rate, chain.tightest) if chain is not None else (None, None)
    return [
        judged(f"{about}, {kind}", value / BITS, ceiling, tightest, notes) for kind, value in rates.items()
    ]


def _ceiling(machine: NodeLinks) -> tuple[Chain | None, tuple[str, ...]]:
    """The limits of the fastest NIC with a port in use, and a note if another one's differ."""
    chains = {one.name: paths.network_chain(machine, one) for one in in_use(machine.functions)}
    known = {name: chain.rate.high_gb_per_s for name, chain in chains.items() if chain.rate is not None}
    if not known:
        return None, ()
    fastest = max(known, key=known.__getitem__)
    others = sorted(name for name, high in known.items() if high < known[fastest])
    if not others:
        return chains[fastest], ()
    return chains[fastest], (
        f"NICs of this node have different ceilings: compared with {fastest}, the fastest; slower: "
        f"{', '.join(others)}.",
    )
