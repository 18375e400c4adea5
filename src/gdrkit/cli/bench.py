"""`gdr bench`: how fast each path between two processes is, beside what bounds it."""

from __future__ import annotations

import argparse
import re
import sys
from typing import TYPE_CHECKING

from gdrkit.cli.arguments import Parser, write
from gdrkit.cli.exit import OK, UNKNOWN, WARNING

if TYPE_CHECKING:
    from gdrkit.transport.bench.document import BenchDocument, PathBound, PathRun
    from gdrkit.transport.measure.job import MeasureEnd
    from gdrkit.transport.measure.sweep import SweepPoint
    from gdrkit.transport.path_names import PathName

SIZES = "64K,1M,16M,256M"
_SIZE = re.compile(r"(\d+)([KMG]?)i?B?", re.IGNORECASE)
_LARGEST = 1 << 34
ENOUGH = 0.9
"""Of the limit: below that at the largest size, the exit code is 1."""


def parser() -> Parser:
    parser = Parser(
        "bench",
        "Move messages between two processes on each path, check that the bytes are right, and tell "
        "bandwidth and latency beside what bounds them. Takes GPU memory for the largest message; best run "
        "on an idle machine.",
        "  gdr bench pair                         two GPUs of this machine\n"
        "  gdr bench pair --host node-b --device mlx5_0\n"
        "                                         this machine and another over ssh; leaves nothing there\n"
        "  gdr bench loopback                     one GPU, two processes\n"
        "  gdr bench host                         CPU memory, the control run\n"
        "  gdr bench loopback --device mlx5_0 --tools    perftest beside it, where it is installed\n"
        "  gdr bench pair --paths shared --sizes 1M,256M --json --plot pair.svg\n\n"
        "exit codes: 0 measured, 1 a path is below 90 % of its limit at the largest size, 3 nothing could\n"
        "be measured, 64 and above usage and internal errors",
    )
    add = parser.add_argument
    add("kind", choices=("pair", "loopback", "host"), help="which two ends")
    add_ends(parser)
    add("--paths", metavar="A,B", type=path_names, help="of verbs, peer, shared, tcp; else all that can be")
    add("--sizes", metavar="A,B", type=sizes_of, default=sizes_of(SIZES), help=f"({SIZES})")
    add(
        "--tools",
        action="store_true",
        help="ib_write_bw, ib_read_lat and sendrecv_perf as well, where installed; perftest listens on a "
        "port without a key while it runs",
    )
    add("--csv", metavar="FILE", help="write the points there, too")
    add("--plot", metavar="FILE.svg", help="draw bandwidth over message size there")
    add("-q", "--quiet", action="store_true", help="no progress")
    parser.output()
    return parser


def add_ends(parser: Parser) -> None:
    """The options that name the two ends; `ends` reads them."""
    add = parser.add_argument
    add("--host", metavar="[USER@]NODE", help="the other end is there (ssh, Python 3.9 or newer)")
    add("--address", help="this machine's address for the other node; else the one it sees")
    add("--gpu", type=int, default=0, metavar="N", help="this end's GPU, as CUDA counts (0)")
    add("--peer-gpu", type=int, metavar="N", help="the other end's; else the next one")
    add("--device", metavar="NAME[:PORT]", help="this end's RDMA device, for the path verbs")
    add("--peer-device", metavar="NAME[:PORT]", help="the other end's; else the same name")


def main(arguments: list[str]) -> int:
    asked = parser().parse_args(arguments)
    from gdrkit.transport.bench import document as bench

    document = _measured(asked)
    for name, text in ((asked.csv, bench.csv(document)), (asked.plot, bench.svg(document))):
        if name:
            with open(name, "w", encoding="utf-8", newline="") as file:
                file.write(text)
    if asked.json:
        import msgspec

        write(msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n")
    else:
        write(bench.as_text(document))
    return _exit_code(document)


def _measured(asked: argparse.Namespace) -> BenchDocument:
    from gdrkit.transport.bench.document import BenchDocument

    here, there = ends(asked)
    paths = asked.paths or possible(here, asked.host is not None)
    runs = tuple(_run(path, here, there, asked) for path in paths)
    if asked.tools:
        from gdrkit.cli.bench_tools import tool_runs

        runs += tool_runs(
            here, there, asked.sizes, asked.host, asked.address, lambda text: _tell(asked, text)
        )
        _tell(asked, "")
    return BenchDocument(
        kind=asked.kind,
        here=describe_end(here, None),
        there=describe_end(there, asked.host),
        runs=runs,
        limits=tuple(_limits(here, there, paths, asked)),
    )


def possible(end: MeasureEnd, remote: bool) -> tuple[PathName, ...]:
    """The paths that this end has what it needs for."""
    paths: tuple[PathName, ...] = ("tcp",) if remote else ("shared", "tcp")
    if end.gpu is not None and not remote:
        paths = ("peer", *paths)
    return ("verbs", *paths) if end.device else paths


def ends(asked: argparse.Namespace) -> tuple[MeasureEnd, MeasureEnd]:
    """The two ends that the options name: this one, and the other."""
    from gdrkit.transport.measure.job import MeasureEnd

    peer_device = asked.peer_device or asked.device
    if asked.kind == "host":
        return MeasureEnd(None, asked.device), MeasureEnd(None, peer_device)
    if asked.kind == "loopback":
        return MeasureEnd(asked.gpu, asked.device), MeasureEnd(asked.gpu, peer_device)
    other = asked.peer_gpu
    if other is None:
        other = asked.gpu if asked.host else _next_gpu(asked.gpu)
    return MeasureEnd(asked.gpu, asked.device), MeasureEnd(other, peer_device)


def _next_gpu(gpu: int) -> int:
    """The GPU after this one; itself where there is one alone."""
    from gdrkit.transport.native.cuda import CudaError, CudaNotAvailable, cuda

    try:
        return (gpu + 1) % max(1, cuda().device_count())
    except (CudaNotAvailable, CudaError):
        return gpu


def _run(path: PathName, here: MeasureEnd, there: MeasureEnd, asked: argparse.Namespace) -> PathRun:
    from gdrkit.transport import TransportError
    from gdrkit.transport.bench.document import PathRun, SizePoint
    from gdrkit.transport.measure.job import measure
    from gdrkit.transport.native.cuda import CudaError, CudaNotAvailable, cuda

    def progress(point: SweepPoint) -> None:
        _tell(asked, f"{path}: {point.size_bytes} bytes, {point.gb_per_s:.2f} GB/s ")

    try:
        if here.gpu is not None:
            cuda()
        points = measure(
            path, here, there, asked.sizes, host=asked.host, address=asked.address, told=progress
        )
    except (TransportError, CudaNotAvailable, CudaError) as error:
        return PathRun(path, unavailable=str(error))
    finally:
        _tell(asked, "")
    return PathRun(path, tuple(SizePoint(*point) for point in points))


def _tell(asked: argparse.Namespace, text: str) -> None:
    """Progress, in the one line that it has."""
    if not asked.quiet and sys.stderr.isatty():
        sys.stderr.write(f"\r{text}\033[K")


def _limits(
    here: MeasureEnd, there: MeasureEnd, paths: tuple[PathName, ...], asked: argparse.Namespace
) -> list[PathBound]:
    """What bounds the paths: `verbs` what the links and the port carry, what is staged the copies between
    GPU and pinned memory, which are measured now.
    """
    from gdrkit.cli.bench_tools import estimated

    limits = list(estimated(here)) if "verbs" in paths or (asked.tools and here.device) else []
    return limits + _copy_limits(here, there, paths, asked)


def _copy_limits(
    here: MeasureEnd, there: MeasureEnd, paths: tuple[PathName, ...], asked: argparse.Namespace
) -> list[PathBound]:
    staged = tuple(path for path in paths if path in ("shared", "tcp"))
    if here.gpu is None or not staged:
        return []
    from gdrkit.transport.bench.document import PathBound
    from gdrkit.transport.measure.copies import slower_copy
    from gdrkit.transport.native.cuda import CudaError, CudaNotAvailable

    try:
        gpus = {here.gpu} if asked.host or there.gpu is None else {here.gpu, there.gpu}
        bound = min(slower_copy(gpu) for gpu in gpus)
    except (CudaNotAvailable, CudaError):
        return []
    source = "measured in this run, 256 MiB, the slower direction"
    return [PathBound("copy between GPU and pinned memory", staged, bound, bound, source)]


def describe_end(end: MeasureEnd, host: str | None) -> str:
    """An end, for people."""
    what = "host memory" if end.gpu is None else f"GPU {end.gpu}"
    return f"{host}, {what}" if host else what


def _exit_code(document: BenchDocument) -> int:
    from gdrkit.transport.bench.document import limit_of

    measured = [run for run in document.runs if run.points]
    if not measured:
        return UNKNOWN
    for run in measured:
        limit, best = limit_of(document, run.path), run.points[-1].best_gb_per_s
        if limit and run.tool == "gdrkit" and run.path != "tcp" and best < ENOUGH * limit.low_gb_per_s:
            return WARNING
    return OK


def path_names(text: str) -> tuple[PathName, ...]:
    """An option's list of paths. Raises ArgumentTypeError."""
    from gdrkit.transport import PATHS

    names, known = text.split(","), {str(path): path for path in PATHS}
    if unknown := [name for name in names if name not in known]:
        raise argparse.ArgumentTypeError(f"no such path: {unknown[0]} (of {', '.join(PATHS)})")
    return tuple(known[name] for name in names)


def sizes_of(text: str) -> tuple[int, ...]:
    """An option's list of sizes, in bytes, smallest first. Raises ArgumentTypeError."""
    sizes = []
    for word in text.split(","):
        if not (found := _SIZE.fullmatch(word)):
            raise argparse.ArgumentTypeError(f"{word!r} is no size such as 64K, 1M or 4096")
        size = int(found[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[found[2].upper()]
        if not 0 < size <= _LARGEST:
            raise argparse.ArgumentTypeError(f"{word}: between 1 byte and 16G")
        sizes.append(size)
    return tuple(sorted(set(sizes)))
