"""`gdr bench --tools`: rows from perftest and nccl-tests, and limits from `gdr estimate`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gdrkit.transport.bench.document import PathBound, PathRun, SizePoint
    from gdrkit.transport.measure.job import MeasureEnd

OnProgress = Callable[[str], None]


def tool_runs(
    here: MeasureEnd,
    there: MeasureEnd,
    sizes: tuple[int, ...],
    host: str | None,
    address: str | None,
    on_progress: OnProgress,
) -> tuple[PathRun, ...]:
    """The results of every tool that applies to these two ends, or the reason why it failed."""
    from gdrkit.transport.bench.document import PathRun
    from gdrkit.transport.measure.tools import PERFTEST

    runs: list[PathRun] = []
    if here.device and there.device:
        for program in PERFTEST:
            on_progress(program)
            runs.append(_perftest(program, here, there, sizes, host, address))
    if host is None and here.gpu is not None and there.gpu is not None and here.gpu != there.gpu:
        on_progress("sendrecv_perf")
        runs.append(_sendrecv((here.gpu, there.gpu), sizes))
    return tuple(runs) or (PathRun("verbs", unavailable="no RDMA device given", tool="perftest"),)


def _perftest(
    program: str,
    here: MeasureEnd,
    there: MeasureEnd,
    sizes: tuple[int, ...],
    host: str | None,
    address: str | None,
) -> PathRun:
    """All sizes with one program, with the first option set for GPU memory that works."""
    from gdrkit.transport.bench.document import PathRun
    from gdrkit.transport.measure.tools import ToolFailed, cuda_flags

    on_gpu = here.gpu is not None or there.gpu is not None
    try:
        choices = cuda_flags(program) if on_gpu else ((),)
    except ToolFailed as error:
        return PathRun("verbs", unavailable=str(error), tool=program)
    if not choices:
        return PathRun("verbs", unavailable="built without CUDA", tool=program)
    refused: list[str] = []
    for flags in choices:
        name = " ".join((program, *(flag.partition("=")[0] for flag in flags)))
        try:
            points, note = _sizes(program, here, there, sizes, flags, host, address)
        except ToolFailed as error:
            refused.append(f"{name}: {error}")
            continue
        return PathRun("verbs", points, tool=name + note)
    return PathRun("verbs", unavailable="; ".join(refused), tool=program)


def _sizes(
    program: str, here: MeasureEnd, there: MeasureEnd, sizes: tuple[int, ...], flags: tuple[str, ...],
    host: str | None, address: str | None,
) -> tuple[tuple[SizePoint, ...], str]:  # fmt: skip
    """A point for each size, and a note if the memory was not the GPU's. Raises ToolFailed."""
    from gdrkit.formats.errors import FormatError
    from gdrkit.formats.perftest import parse_perftest
    from gdrkit.transport.bench.document import SizePoint
    from gdrkit.transport.measure.tools import ToolFailed, perftest

    points, note = [], ""
    for size in sizes:
        text = perftest(
            program, here, there, size,
            flags=flags, host=host, address=address, gid_index=None if host else _gid_index(here),
        )  # fmt: skip
        try:
            runs = parse_perftest(text)
        except FormatError as error:
            raise ToolFailed(str(error)) from None
        rows = [row for run in runs for row in run.rows if row.size_bytes == size]
        if not rows:
            last = next((line.strip() for line in reversed(text.splitlines()) if line.strip(" -")), "none")
            raise ToolFailed(f"no row for {size} bytes in its output; its last line: {last[:200]}")
        if any(run.integrated_gpu for run in runs):
            note = " (host memory: the GPU is integrated)"
        row = rows[-1]
        points.append(
            SizePoint(size, row.iterations or 0, row.typical_us, None, None, row.average_gb_per_s, None)
        )
    return tuple(points), note


def _gid_index(end: MeasureEnd) -> int | None:
    """The GID index that our own connections use on Ethernet, so that both measure the same."""
    from gdrkit.transport import PathUnavailable
    from gdrkit.transport.rdma import roce_gid

    name, _, port = (end.device or "").partition(":")
    try:
        with open(f"/sys/class/infiniband/{name}/ports/{port or 1}/link_layer", encoding="ascii") as file:
            return roce_gid(name, int(port or 1)) if file.read().strip() == "Ethernet" else None
    except (OSError, PathUnavailable):  # perftest reports what is wrong with the device
        return None


def _sendrecv(gpus: tuple[int, int], sizes: tuple[int, ...]) -> PathRun:
    """The results of nccl-tests' sendrecv, which sends both ways at once; the rate is one way."""
    from gdrkit.formats.errors import FormatError
    from gdrkit.formats.nccl_tests import parse_nccl_tests
    from gdrkit.transport.bench.document import PathRun, SizePoint
    from gdrkit.transport.measure.tools import SENDRECV, ToolFailed, sendrecv

    try:
        runs = parse_nccl_tests(sendrecv(gpus, sizes[0], sizes[-1]))
    except (ToolFailed, FormatError) as error:
        return PathRun("nccl", unavailable=str(error), tool=SENDRECV)
    best = {row.size_bytes: row.best for run in runs for row in run.rows}
    points = tuple(
        SizePoint(size, 0, timing.time_us, None, timing.algorithm_gb_per_s, None, None)
        for size in sizes
        if (timing := best.get(size)) is not None
    )
    return PathRun("nccl", points, "" if points else "none of these sizes in its output", SENDRECV)


def estimated(here: MeasureEnd) -> tuple[PathBound, ...]:
    """The limits of `verbs` at this end, as computed by `gdr estimate`; none if evidence is missing."""
    from gdrkit.evidence import EvidenceMissing
    from gdrkit.evidence.live import LiveHost
    from gdrkit.fabric.ceilings.from_node import node_links
    from gdrkit.fabric.ceilings.paths import chain, network_chain, possible
    from gdrkit.node import Node
    from gdrkit.transport.bench.document import PathBound
    from gdrkit.transport.native.cuda import CudaError, CudaNotAvailable, cuda

    device = (here.device or "").partition(":")[0]
    try:
        found = node_links(Node(LiveHost()))
        gpu = None if here.gpu is None else cuda().address(here.gpu)
    except (EvidenceMissing, CudaNotAvailable, CudaError):
        return ()
    if gpu is None:
        chains = [network_chain(found, f) for f in found.functions if f.name == device]
    else:
        chains = [
            chain(found, pair, possible(pair)[0])
            for pair in found.pairs
            if (pair.gpu.address, pair.function.name) == (gpu, device)
        ]
    return tuple(
        PathBound(
            f"{limits.tightest.name} of {limits.tightest.subject}", ("verbs",),
            limits.rate.low_gb_per_s, limits.rate.high_gb_per_s, "gdr estimate, this end",
        )
        for limits in chains
        if limits.rate is not None and limits.tightest is not None
    )  # fmt: skip
