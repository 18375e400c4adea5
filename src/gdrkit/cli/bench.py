"""`gdr bench`: the speed of each path between two processes, compared with its limit."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from gdrkit.agent.launch import is_destination
from gdrkit.cli.arguments import Parser, number, status, text_width, write_json, write_lines
from gdrkit.cli.exit import OK, UNKNOWN, WARNING
from gdrkit.formats.regex import regex

if TYPE_CHECKING:
    from gdrkit.transport.bench.document import BenchDocument, PathBound, PathRun
    from gdrkit.transport.measure.job import MeasureEnd
    from gdrkit.transport.measure.sweep import SweepPoint
    from gdrkit.transport.path_names import PathName

SIZES = "64K,1M,16M,256M"
NARROW = 80
"""In fewer columns the table has a narrower first one."""
_SIZE = regex(r"(\d+)([KMG]?)i?B?", re.IGNORECASE)
_LARGEST = 1 << 34


def parser() -> Parser:
    parser = Parser(
        "bench",
        "Move messages between two processes on each path, check the bytes, and report bandwidth and "
        "latency with the limit of each path. Allocates GPU memory for the largest message; best run on "
        "an idle machine.",
        "  gdr bench pair                         two GPUs of this machine\n"
        "  gdr bench pair --host node-b --device mlx5_0\n"
        "                                         this machine and another over ssh; leaves no files there\n"
        "  gdr bench loopback                     one GPU, two processes\n"
        "  gdr bench host                         host memory, the control run\n"
        "  gdr bench loopback --device mlx5_0 --tools    with perftest too, if installed\n"
        "  gdr bench pair --paths shared --sizes 1M,256M --json --plot pair.svg\n\n"
        "exit codes: 0 measured, 1 a path is below 90 % of its limit at the largest size, 3 no path could "
        "be measured, 64 and above usage and internal errors",
    )
    add = parser.add_argument
    add("kind", choices=("pair", "loopback", "host"), help="the two ends")
    add_ends(parser)
    add("--paths", metavar="A,B", type=path_names, help="verbs, peer, shared, tcp (all that are possible)")
    add("--sizes", metavar="A,B", type=sizes_of, default=sizes_of(SIZES), help=f"message sizes ({SIZES})")
    add(
        "--tools",
        action="store_true",
        help="also run ib_write_bw, ib_read_lat and sendrecv_perf, if installed; perftest listens on a port "
        "without authentication while it runs",
    )
    add("--csv", metavar="FILE", help="also write the results as CSV")
    add("--plot", metavar="FILE.svg", help="also plot bandwidth over message size")
    parser.force("--csv", "--plot")
    add("-q", "--quiet", action="store_true", help="do not show progress")
    parser.output()
    return parser


def add_ends(parser: Parser) -> None:
    """Add the options that name the two ends; `ends` reads them."""
    add = parser.add_argument
    add("--host", type=_host, metavar="[USER@]NODE", help="node of the other end (ssh, Python 3.9 or newer)")
    add(
        "--address", type=_host, help="this machine's address for the other node (the one ssh connects from)"
    )
    ordinal = number(0, 255)
    add("--gpu", type=ordinal, default=0, metavar="N", help="CUDA ordinal of this end's GPU (0)")
    add("--peer-gpu", type=ordinal, metavar="N", help="CUDA ordinal of the other end's GPU (the next one)")
    add(
        "--device",
        type=device_name,
        metavar="NAME[:PORT]",
        help="this end's RDMA device, for the path verbs",
    )
    add("--peer-device", type=device_name, metavar="NAME[:PORT]", help="the other end's (the same name)")
    parser.only_with("--peer-device", "--device")


def check_ends(parser: Parser, options: argparse.Namespace) -> None:
    """Exit with USAGE if a GPU is named that these two ends do not use."""
    unused = {"host": ("--gpu", "--peer-gpu"), "loopback": ("--peer-gpu",)}
    parser.refuse(options, unused.get(options.kind, ()), f"on {options.kind}; it is for pair")


def _host(text: str) -> str:
    if not is_destination(text):
        raise argparse.ArgumentTypeError(f"not a host: {text!r}")
    return text


def device_name(text: str) -> str:
    """An RDMA device, perhaps with a port. Raises ArgumentTypeError."""
    if not re.fullmatch(r"[\w.][\w.-]{0,62}(:0*[1-9]\d{0,2})?", text, re.ASCII):
        raise argparse.ArgumentTypeError(f"not an RDMA device: {text!r}")
    return text


def main(arguments: list[str]) -> int:
    options = parser().parse(arguments)
    check_ends(parser(), options)
    if options.paths and "verbs" not in options.paths and not options.tools:
        parser().refuse(options, ("--device",), "on these paths; it is for verbs, or --tools")
    from gdrkit.cli.files import check_output, write_output
    from gdrkit.transport.bench import document as bench

    for name in (options.csv, options.plot):
        if name:
            check_output(name, force=options.force)  # before minutes of measuring
    document = _measured(options)
    for name, text in ((options.csv, bench.csv(document)), (options.plot, bench.svg(document))):
        if name and text:
            write_output(name, text.encode(), force=options.force)
        elif name:
            sys.stderr.write(f"note: {name} was not written: no bandwidth was measured\n")
    if options.json:
        write_json(document, indent=2)
    else:
        narrow = text_width() < NARROW
        write_lines(bench.as_text(document, first=10 if narrow else 24), hanging=2)
    return _exit_code(document)


def _measured(options: argparse.Namespace) -> BenchDocument:
    from gdrkit.transport.bench.document import BenchDocument

    here, there = ends(options)
    paths = options.paths or possible(here, options.host is not None)
    runs = tuple(_run(path, here, there, options) for path in paths)
    if options.tools:
        from gdrkit.cli.bench_tools import tool_runs

        runs += tool_runs(
            here,
            there,
            options.sizes,
            options.host,
            options.address,
            lambda text: _show_progress(options, text),
        )
        _show_progress(options, "")
    return BenchDocument(
        kind=options.kind,
        here=describe_end(here, None),
        there=describe_end(there, options.host),
        runs=runs,
        limits=tuple(_limits(here, there, paths, options)),
    )


def possible(end: MeasureEnd, remote: bool) -> tuple[PathName, ...]:
    """The paths whose requirements this end meets, best first."""
    paths: tuple[PathName, ...] = ("tcp",) if remote else ("shared", "tcp")
    if end.gpu is not None and not remote:
        paths = ("peer", *paths)
    return ("verbs", *paths) if end.device else paths


def ends(options: argparse.Namespace) -> tuple[MeasureEnd, MeasureEnd]:
    """This end and the other end, as the options name them."""
    from gdrkit.transport.measure.job import MeasureEnd

    peer_device = options.peer_device or options.device
    if options.kind == "host":
        return MeasureEnd(None, options.device), MeasureEnd(None, peer_device)
    if options.kind == "loopback":
        return MeasureEnd(options.gpu, options.device), MeasureEnd(options.gpu, peer_device)
    other = options.peer_gpu
    if other is None:
        other = options.gpu if options.host else _next_gpu(options.gpu)
    return MeasureEnd(options.gpu, options.device), MeasureEnd(other, peer_device)


def _next_gpu(gpu: int) -> int:
    """The GPU after this one, or the same if there is only one."""
    from gdrkit.transport.native.cuda import CudaError, CudaNotAvailable, cuda

    try:
        return (gpu + 1) % max(1, cuda().device_count())
    except (CudaNotAvailable, CudaError):
        return gpu


def _run(path: PathName, here: MeasureEnd, there: MeasureEnd, options: argparse.Namespace) -> PathRun:
    from gdrkit.transport import TransportError
    from gdrkit.transport.bench.document import PathRun, SizePoint
    from gdrkit.transport.measure.job import measure
    from gdrkit.transport.native.cuda import CudaError, CudaNotAvailable, cuda

    def progress(point: SweepPoint) -> None:
        _show_progress(options, f"{path}: {point.size_bytes} bytes, {point.gb_per_s:.2f} GB/s ")

    try:
        if here.gpu is not None:
            cuda()
        points = measure(
            path, here, there, options.sizes, host=options.host, address=options.address, on_point=progress
        )
    except (TransportError, CudaNotAvailable, CudaError) as error:
        return PathRun(path, unavailable=str(error))
    finally:
        _show_progress(options, "")
    return PathRun(path, tuple(SizePoint(*point) for point in points))


def _show_progress(options: argparse.Namespace, text: str) -> None:
    """Overwrite the progress line, if standard error is a terminal."""
    if not options.quiet:
        status(text)


def _limits(
    here: MeasureEnd, there: MeasureEnd, paths: tuple[PathName, ...], options: argparse.Namespace
) -> list[PathBound]:
    """The limits of the paths: for `verbs` the rate of links and port, for the others the rate of copies,
    which is measured now.
    """
    from gdrkit.cli.bench_tools import estimated

    limits = list(estimated(here)) if "verbs" in paths or (options.tools and here.device) else []
    if here.gpu is None:
        return limits
    gpus = (here.gpu, here.gpu if options.host or there.gpu is None else there.gpu)
    return limits + _copy_limits(gpus, paths)


def _copy_limits(gpus: tuple[int, int], paths: tuple[PathName, ...]) -> list[PathBound]:
    from gdrkit.transport.bench.document import PathBound
    from gdrkit.transport.measure.copies import slower_copy, slower_peer_copy
    from gdrkit.transport.native.cuda import CudaError, CudaNotAvailable

    measures: tuple[tuple[str, tuple[PathName, ...], Callable[[], float]], ...] = (
        ("copy from GPU to GPU", ("peer",), lambda: slower_peer_copy(*gpus)),
        ("copy between GPU and pinned memory", ("shared", "tcp"), lambda: min(map(slower_copy, gpus))),
    )
    source, found = "measured in this run, 256 MiB, the slower direction", []
    for name, limited, measured in measures:
        if chosen := tuple(path for path in paths if path in limited):
            with suppress(CudaNotAvailable, CudaError):
                bound = measured()
                found.append(PathBound(name, chosen, bound, bound, source))
    return found


def describe_end(end: MeasureEnd, host: str | None) -> str:
    """An end as text."""
    what = "host memory" if end.gpu is None else f"GPU {end.gpu}"
    return f"{host}, {what}" if host else what


def _exit_code(document: BenchDocument) -> int:
    from gdrkit.formats.typical_rate import ENOUGH
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
    """The paths of a comma-separated list. Raises ArgumentTypeError."""
    from gdrkit.transport import PATHS

    names, known = text.split(","), {str(path): path for path in PATHS}
    if unknown := [name for name in names if name not in known]:
        raise argparse.ArgumentTypeError(f"no such path: {unknown[0]} (of {', '.join(PATHS)})")
    return tuple(known[name] for name in dict.fromkeys(names))


def sizes_of(text: str) -> tuple[int, ...]:
    """The sizes of a comma-separated list, in bytes, smallest first. Raises ArgumentTypeError."""
    sizes = []
    for word in text.split(","):
        if not (found := _SIZE.fullmatch(word)):
            raise argparse.ArgumentTypeError(f"not a valid size: {word!r} (examples: 64K, 1M, 4096)")
        size = int(found[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[found[2].upper()]
        if not 0 < size <= _LARGEST:
            raise argparse.ArgumentTypeError(f"size out of range: {word} (1 byte to 16G)")
        sizes.append(size)
    return tuple(sorted(set(sizes)))


def one_size(text: str) -> int:
    """A single size in bytes. Raises ArgumentTypeError."""
    sizes = sizes_of(text)
    if len(sizes) != 1:
        raise argparse.ArgumentTypeError(f"not a single size: {text}")
    return sizes[0]
