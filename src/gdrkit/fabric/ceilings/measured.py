"""The rates that a benchmark measured, compared with the ceilings of a node."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from gdrkit.fabric.ceilings import nccl_diagnostics, nccl_tests, paths
from gdrkit.fabric.ceilings.chain import Chain
from gdrkit.fabric.ceilings.interval import between
from gdrkit.fabric.ceilings.links import TUNED_SHARE, PcieLink
from gdrkit.fabric.ceilings.measured_rate import MeasuredRate, judged, plateau, reading
from gdrkit.fabric.ceilings.node_links import Attachment, NicFunction, NodeLinks
from gdrkit.facts.pci_path import raw_gbit_per_s
from gdrkit.formats.dmon import DmonTraffic, parse_dmon
from gdrkit.formats.errors import FormatError
from gdrkit.formats.nccl_tests import NcclTest, has_rows, parse_nccl_tests
from gdrkit.formats.perftest import Perftest, parse_perftest
from gdrkit.programs.nccl.diagnostic_statements import Diagnostics


class Measured(Struct, frozen=True):
    """The runs in a file. One of the first four is not empty."""

    perftest: tuple[Perftest, ...] = ()
    nccl: tuple[NcclTest, ...] = ()
    traffic: tuple[DmonTraffic, ...] = ()
    diagnostics: tuple[Diagnostics, ...] = ()
    log: str = ""  # what the NCCL log around a table of nccl-tests shows


def sniff(text: str) -> Measured:
    """The runs in the output of one of four programs, recognised by what only that program prints.

    Raises FormatError for any other text."""
    if nccl_diagnostics.MARK in text:
        return Measured(diagnostics=(nccl_diagnostics.parse_diagnostics(text),))
    if '"test_info"' in text:
        return Measured(perftest=parse_perftest(text))
    if "busbw" in text or '"bus_bw"' in text or has_rows(text):
        return Measured(nccl=parse_nccl_tests(text))
    if "rxpci" in text:
        return Measured(traffic=parse_dmon(text))
    try:
        return Measured(perftest=parse_perftest(text))
    except FormatError:
        log = ", but an NCCL log: `gdr nccl` reads it" if "NCCL INFO" in text else ""
        raise FormatError(
            "unrecognized output: not that of perftest, nccl-tests, NCCL's diagnostics or nvidia-smi dmon"
            + log
        ) from None


def readings(machine: NodeLinks, measured: Measured) -> tuple[MeasuredRate, ...]:
    """Each run compared with its ceiling on this node."""
    return (
        *(_perftest(machine, run) for run in measured.perftest),
        *(nccl_tests.compare(machine, run, measured.log) for run in measured.nccl),
        *(one for report in measured.diagnostics for one in nccl_diagnostics.compare(machine, report)),
        *_traffic(machine, measured.traffic),
    )


# -- perftest --------------------------------------------------------------------------------------


def _perftest(machine: NodeLinks, run: Perftest) -> MeasuredRate:
    program = run.command.split(" ")[0] or run.test or "perftest"
    what = f"{program} on {run.device or 'an unnamed device'}"
    if run.refused:
        return reading(what, sentences=("Memory registration failed: nothing was measured.",))
    rates = {r.size_bytes: r.average_gb_per_s for r in run.rows if r.average_gb_per_s}
    gb_per_s, notes = plateau({size: rate for size, rate in rates.items() if rate is not None})
    if gb_per_s is None:
        latency = any(row.typical_us is not None or row.average_us is not None for row in run.rows)
        sentence = "A latency run: ceilings apply to bandwidth only." if latency else notes[0]
        return reading(what, sentences=(sentence,))
    in_host = not run.uses_gpu or _is_integrated(machine, run)
    notes += _memory(machine, run)
    function = next((f for f in machine.functions if f.name == run.device), None)
    if function is None and len(machine.functions) == 1 and ":" in machine.functions[0].name:
        function = machine.functions[0]  # lspci shows addresses, and no name of an RDMA device
        notes += (f"{function.name} is the only NIC here: the run is taken to be its own.",)
    if function is None:
        missing = f"This node has no RDMA device {run.device}." if run.device else ""
        return judged(what, gb_per_s, None, None, (*notes, *filter(None, (missing,))))
    chain = _with_mtu(machine, function, run, in_host=in_host)
    bounds = chain.rate
    if bounds is not None and run.bidirectional:
        bounds = bounds.scaled(2.0)
        notes += ("The run is bidirectional: the ceiling is the sum of both directions.",)
    return judged(what, gb_per_s, bounds, chain.tightest, notes)


def _is_integrated(machine: NodeLinks, run: Perftest) -> bool:
    return run.integrated_gpu or any(gpu.attachment is Attachment.INTEGRATED for gpu in machine.gpus)


def _memory(machine: NodeLinks, run: Perftest) -> tuple[str, ...]:
    """Notes on a run that did not use GPU memory. perftest allocates host memory on an integrated GPU:
    src/cuda_memory.c, cuda_memory_allocate_buffer()."""
    if not run.uses_gpu:
        return (
            "The output shows no CUDA, so the run used host memory: it measures the network, not the path "
            "to GPU memory.",
        )
    if _is_integrated(machine, run):
        return (
            "You measured a host-memory run: perftest allocates host memory if the GPU is integrated, "
            "even with --use_cuda. It does not test GPUDirect.",
        )
    return ()


def _with_mtu(machine: NodeLinks, function: NicFunction, run: Perftest, *, in_host: bool) -> Chain:
    """The chain of the run's device, with the MTU that the run printed."""
    if function.port is not None and run.mtu_bytes:
        function = replace(function, port=replace(function.port, mtu_bytes=run.mtu_bytes))
    if run.dual_port:
        others = tuple(f for f in machine.cards[function.card] if f.name != function.name)
        return paths.card_chain((function, *others))
    if in_host:
        return paths.network_chain(machine, function)
    pairs = [replace(r, function=function) for r in machine.pairs if r.function.name == function.name]
    if run.gpu_bus:
        pairs = [pair for pair in pairs if pair.gpu.address[5:10] == run.gpu_bus] or pairs
    chains = [paths.chain(machine, pair, "direct") for pair in pairs]
    known = [chain for chain in chains if chain.rate is not None]
    if not known:
        return paths.network_chain(machine, function)
    # if the output does not show which GPU was used: the fastest one
    return max(known, key=lambda chain: chain.rate.high_gb_per_s if chain.rate else 0.0)


# -- nvidia-smi dmon -------------------------------------------------------------------------------

BUSY = TUNED_SHARE
"""From this share on, a link is as full as in tuned runs."""


def _traffic(machine: NodeLinks, lines: tuple[DmonTraffic, ...]) -> list[MeasuredRate]:
    """The highest rates that each GPU received and sent, compared with its link. NVML orders GPUs by
    address."""
    gpus = sorted(machine.gpus, key=lambda gpu: gpu.address)
    found = []
    for index in sorted({line.gpu for line in lines}):
        mine = [line for line in lines if line.gpu == index]
        link = gpus[index].links[0].pcie if index < len(gpus) and gpus[index].links else None
        found.append(_one_way(f"GPU {index} received", [line.rx_mb_per_s for line in mine], link))
        found.append(_one_way(f"GPU {index} sent", [line.tx_mb_per_s for line in mine], link))
    return found


def _one_way(direction: str, rates: list[float | None], link: PcieLink | None) -> MeasuredRate:
    """One direction, compared with the raw rate of the link, since packets are counted with their
    headers."""
    what = f"{direction} over PCIe, at most"
    known = [rate for rate in rates if rate is not None]
    if not known:
        return reading(what, sentences=("This GPU does not report its PCIe traffic.",))
    gb_per_s = max(known) / 1e3
    note = "Packets are counted with their headers, including read requests."
    if link is None:
        return reading(what, gb_per_s, sentences=(note, "The speed of its link is not known."))
    raw = raw_gbit_per_s(link.gt_per_s, link.width) / 8
    share = gb_per_s / raw
    verdict = "the link is the limit" if share >= BUSY else "the link is not the limit"
    busy = f"The link, PCIe {link}, was {share * 100:.0f} % busy (of {raw:.2f} GB/s): {verdict}."
    bounds = between(raw * BUSY, raw)
    return reading(what, gb_per_s, ceiling=bounds, share=share, sentences=(note, busy))
