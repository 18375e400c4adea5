"""What a benchmark measured, beside what the node could do."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from gdrkit.fabric.ceilings import paths
from gdrkit.fabric.ceilings.chain import Chain
from gdrkit.fabric.ceilings.interval import between
from gdrkit.fabric.ceilings.links import TUNED_SHARE, PcieLink
from gdrkit.fabric.ceilings.measured_rate import MeasuredRate, judged, plateau, reading
from gdrkit.fabric.ceilings.node_links import Attachment, NicFunction, NodeLinks
from gdrkit.fabric.cost import collectives
from gdrkit.formats.dmon import DmonTraffic, parse_dmon
from gdrkit.formats.errors import FormatError
from gdrkit.formats.nccl_tests import NcclTest, parse_nccl_tests
from gdrkit.formats.perftest import Perftest, parse_perftest


class Measured(Struct, frozen=True):
    """What a file holds. One of the three is not empty."""

    perftest: tuple[Perftest, ...] = ()
    nccl: tuple[NcclTest, ...] = ()
    traffic: tuple[DmonTraffic, ...] = ()


def sniff(text: str) -> Measured:
    """Whose output a text is, by what only that program prints. Raises FormatError for none's."""
    if '"test_info"' in text:
        return Measured(perftest=parse_perftest(text))
    if "busbw" in text or '"bus_bw"' in text:
        return Measured(nccl=parse_nccl_tests(text))
    if "rxpci" in text:
        return Measured(traffic=parse_dmon(text))
    try:
        return Measured(perftest=parse_perftest(text))
    except FormatError:
        raise FormatError(
            "none of perftest's, of nccl-tests' or of nvidia-smi dmon's outputs is known in it"
        ) from None


def readings(machine: NodeLinks, measured: Measured) -> tuple[MeasuredRate, ...]:
    """Each run beside its ceiling on this node."""
    return (
        *(_perftest(machine, run) for run in measured.perftest),
        *(collectives.compare(machine, run) for run in measured.nccl),
        *_traffic(machine, measured.traffic),
    )


# -- perftest --------------------------------------------------------------------------------------


def _perftest(machine: NodeLinks, run: Perftest) -> MeasuredRate:
    program = run.command.split(" ")[0] or run.test or "perftest"
    what = f"{program} on {run.device or 'a device that is not shown'}"
    if run.refused:
        return reading(what, sentences=("Memory could not be registered: nothing was measured.",))
    rates = {r.size_bytes: r.average_gb_per_s for r in run.rows if r.average_gb_per_s}
    gb_per_s, notes = plateau({size: rate for size, rate in rates.items() if rate is not None})
    if gb_per_s is None:
        latency = any(row.typical_us is not None or row.average_us is not None for row in run.rows)
        said = "A run of latencies: no ceiling here is about those." if latency else notes[0]
        return reading(what, sentences=(said,))
    in_host = not run.uses_gpu or _is_integrated(machine, run)
    notes += _memory(machine, run)
    function = next((f for f in machine.functions if f.name == run.device), None)
    if function is None:
        missing = f"Of an RDMA device {run.device} nothing is known on this node." if run.device else ""
        return judged(what, gb_per_s, None, None, (*notes, *filter(None, (missing,))))
    chain = _with_mtu(machine, function, run, in_host=in_host)
    bounds = chain.rate
    if bounds is not None and run.bidirectional:
        bounds = bounds.scaled(2.0)
        notes += ("Both directions at once: the ceiling is that of both.",)
    return judged(what, gb_per_s, bounds, chain.tightest, notes)


def _is_integrated(machine: NodeLinks, run: Perftest) -> bool:
    return run.integrated_gpu or any(gpu.attachment is Attachment.INTEGRATED for gpu in machine.gpus)


def _memory(machine: NodeLinks, run: Perftest) -> tuple[str, ...]:
    """What the memory of the run says. perftest allocates host memory on an integrated GPU:
    src/cuda_memory.c, cuda_memory_allocate_buffer()."""
    if not run.uses_gpu:
        return (
            "No line of CUDA in it, so a run in host memory: it says what the network does, and nothing of "
            "GPU memory.",
        )
    if _is_integrated(machine, run):
        return (
            "You measured a host-memory run: perftest allocates host memory where the GPU is integrated, "
            "whatever --use_cuda says. It proves nothing of GPUDirect.",
        )
    return ()


def _with_mtu(machine: NodeLinks, function: NicFunction, run: Perftest, *, in_host: bool) -> Chain:
    """The chain of the run's device, whose port has the MTU that the run printed."""
    if function.port is not None and run.mtu_bytes:
        function = replace(function, port=replace(function.port, mtu_bytes=run.mtu_bytes))
    if run.dual_port:
        others = tuple(f for f in machine.cards[function.card] if f.name != function.name)
        return paths.card_chain((function, *others))
    if in_host:
        return paths.network_chain(machine, function)
    routes = [replace(r, function=function) for r in machine.routes if r.function.name == function.name]
    if run.gpu_bus:
        routes = [route for route in routes if route.gpu.address[5:10] == run.gpu_bus] or routes
    chains = [paths.chain(machine, route, "direct") for route in routes]
    known = [chain for chain in chains if chain.rate is not None]
    if not known:
        return paths.network_chain(machine, function)
    # where the text does not say which GPU it was: the one that can do most
    return max(known, key=lambda chain: chain.rate.high_gb_per_s if chain.rate else 0.0)


# -- nvidia-smi dmon -------------------------------------------------------------------------------

BUSY = TUNED_SHARE
"""From this share on, packets fill a link as well as tuned runs do."""


def _traffic(machine: NodeLinks, lines: tuple[DmonTraffic, ...]) -> list[MeasuredRate]:
    """The most that each GPU took in and gave out, beside its link. NVML counts GPUs by address."""
    gpus = sorted(machine.gpus, key=lambda gpu: gpu.address)
    found = []
    for index in sorted({line.gpu for line in lines}):
        mine = [line for line in lines if line.gpu == index]
        link = gpus[index].wires[0].link if index < len(gpus) and gpus[index].wires else None
        found.append(_one_way(f"GPU {index} received", [line.rx_mb_per_s for line in mine], link))
        found.append(_one_way(f"GPU {index} sent", [line.tx_mb_per_s for line in mine], link))
    return found


def _one_way(who: str, rates: list[float | None], link: PcieLink | None) -> MeasuredRate:
    """Beside the raw rate of the link, for packets are counted with their headers."""
    what = f"{who} over PCIe, at most"
    known = [rate for rate in rates if rate is not None]
    if not known:
        return reading(what, sentences=("This GPU does not count its PCIe traffic.",))
    gb_per_s = max(known) / 1e3
    note = "Packets are counted with their headers, requests for reading too."
    if link is None:
        return reading(what, gb_per_s, sentences=(note, "How fast its link is, is not known here."))
    raw = link.raw_gbit_per_s / 8
    share = gb_per_s / raw
    verdict = "the link is the limit" if share >= BUSY else "the link is not the limit"
    busy = f"The link, PCIe {link}, was busy to {share * 100:.0f} % of {raw:.2f} GB/s: {verdict}."
    bounds = between(raw * BUSY, raw)
    return reading(what, gb_per_s, ceiling=bounds, share=share, sentences=(note, busy))
