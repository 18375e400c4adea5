"""`gdr prove`: the path that known bytes took between two processes, shown by counters and a memory
search.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from gdrkit.cli import bench
from gdrkit.cli.arguments import Parser, status, write_json, write_lines
from gdrkit.cli.exit import NO_INPUT

if TYPE_CHECKING:
    from gdrkit.transport.measure.job import MeasureEnd
    from gdrkit.transport.path_names import PathName
    from gdrkit.transport.proof.document import PathRun, ProveDocument
    from gdrkit.transport.proof.evidence import Trial
    from gdrkit.transport.proof.log import LogProof

_MOST_REPEATS = 1000
_FOR_LOGS = {"--log", "--require", "--all", "--quiet", "--json", "--debug"}
"""The options that also apply where only logs are judged."""


def parser() -> Parser:
    parser = Parser(
        "prove",
        "Move known bytes between two processes on each path, and show which path they took. The evidence "
        "is counters of NVLink, PCIe, TCP and the NIC, memory registrations, a search of the receiver's "
        "host memory, and a control run with host memory; not the requested path, and not speed. If the "
        "readings fit more than one path, the result is inconclusive.",
        "  gdr prove pair                         two GPUs of this machine, each path\n"
        "  gdr prove pair --path peer --require direct\n"
        "                                         exit code 2 if the bytes went through host memory\n"
        "  gdr prove pair --host node-b --device mlx5_0\n"
        "  gdr prove host --path tcp              host memory only, a control run\n"
        "  gdr prove log --log nccl.log           what a log of NCCL, UCX or perftest shows\n"
        "  gdr prove pair --json                  with every reading\n\n"
        "exit codes: 0 proven, 2 proven not direct (with --require direct), 3 inconclusive, 64 and above "
        "usage and internal errors",
    )
    add = parser.add_argument
    add("kind", choices=("pair", "loopback", "host", "log"), help="the two ends, or only logs")
    add(
        "--path",
        metavar="P",
        type=bench.path_names,
        dest="paths",
        help="verbs, peer, shared, tcp (all that are possible)",
    )
    add("--size", metavar="SIZE", type=bench.one_size, default=256 << 20, help="size of a message (256M)")
    add("--repeats", metavar="N", type=_repeats, default=4, help="messages in the first round (4)")
    add("--require", choices=("direct",), default="", help="exit with 2 if bytes went through host memory")
    add("--log", metavar="FILE", action="append", default=[], help="also judge a log of NCCL or perftest")
    bench.add_ends(parser)
    add("--all", action="store_true", help="print every reading, also for proven paths")
    add("-q", "--quiet", action="store_true", help="do not show progress")
    parser.output()
    parser.one_output("--json", "--all")
    return parser


def main(arguments: list[str]) -> int:
    options = parser().parse(arguments)
    bench.check_ends(parser(), options)
    if options.kind == "log":
        if not options.log:
            parser().error("log needs --log FILE")
        parser().refuse(options, options.given - _FOR_LOGS, "on log: nothing is moved")
    from gdrkit.transport.proof import document as prove

    logs = []
    for name in options.log:
        judged = _log(name)
        if judged is None:
            return NO_INPUT
        logs.append(judged)
    document = _proven(options, tuple(logs))
    if options.json:
        write_json(document)
    else:
        write_lines(prove.as_text(document, every=options.all), hanging=18)
    return int(prove.exit_code(document, options.require))


def _log(name: str) -> LogProof | None:
    from gdrkit.formats.errors import FormatError
    from gdrkit.transport.proof.log import judge_log

    try:
        with open(name, encoding="utf-8", errors="replace") as file:
            return judge_log(file.read(), name)
    except (OSError, FormatError) as error:
        sys.stderr.write(f"gdr prove: {name}: {error}\n")
        return None


def _proven(options: argparse.Namespace, logs: tuple[LogProof, ...]) -> ProveDocument:
    from gdrkit.transport.measure.job import MeasureEnd
    from gdrkit.transport.proof.document import ProveDocument

    here, there = (MeasureEnd(), MeasureEnd()) if options.kind == "log" else bench.ends(options)
    runs: list[PathRun] = []
    control = None
    if options.kind != "log":
        paths = options.paths or bench.possible(here, options.host is not None)
        kept: Trial | None = None
        if here.gpu is not None and there.gpu is not None and not options.host:
            control = _run(
                "shared", MeasureEnd(), MeasureEnd(), options, None, watched=(here.gpu, there.gpu)
            )
            kept = control.trial
        runs = [_run(path, here, there, options, kept) for path in paths]
    return ProveDocument(
        kind=options.kind,
        here=bench.describe_end(here, None),
        there=bench.describe_end(there, options.host),
        size_bytes=options.size,
        repeats=options.repeats,
        runs=tuple(runs),
        control=control,
        logs=logs,
    )


def _run(
    path: PathName,
    here: MeasureEnd,
    there: MeasureEnd,
    options: argparse.Namespace,
    control: Trial | None,
    watched: tuple[int, int] | None = None,
) -> PathRun:
    from gdrkit.transport import TransportError
    from gdrkit.transport.measure.prove import trial
    from gdrkit.transport.native.cuda import CudaError, CudaNotAvailable
    from gdrkit.transport.proof.document import PathRun
    from gdrkit.transport.proof.proof import judge

    if not options.quiet:
        what = "control run, host memory" if watched else path
        status(f"{what}: moving {3 * options.repeats * options.size / 1e9:.1f} GB")
    try:
        made = trial(
            path, here, there, options.size, options.repeats,
            host=None if watched else options.host, address=options.address, watched=watched,
        )  # fmt: skip
    except (TransportError, CudaNotAvailable, CudaError) as error:
        return PathRun(path, unavailable=str(error), asked=bool(options.paths) and not watched)
    finally:
        if not options.quiet:
            status("")
    return PathRun(path, judge(made, control), made, asked=bool(options.paths) and not watched)


def _repeats(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 0 < int(text) <= _MOST_REPEATS:
        raise argparse.ArgumentTypeError(f"not a number from 1 to {_MOST_REPEATS}: {text}")
    return int(text)
