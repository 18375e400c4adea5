"""`gdr fleet bench`: measure between pairs of nodes, and say which nodes are slow."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

from gdrkit.cli import fleet_options
from gdrkit.cli.arguments import Parser, colours, number, text_width, write, write_json
from gdrkit.cli.bench import device_name, one_size
from gdrkit.cli.fleet_progress import FleetProgress
from gdrkit.cli.fleet_run import named_by
from gdrkit.evidence.errors import TargetError
from gdrkit.fleet import pair_document
from gdrkit.fleet.document import STARTED, NodeRow
from gdrkit.fleet.exit_code import bench_exit_code
from gdrkit.fleet.launcher import EndLost, PairEnd, PairLauncher, PairRate, Started
from gdrkit.fleet.pair_document import FleetBench, PairRow, What, build
from gdrkit.fleet.pair_run import PairRun
from gdrkit.fleet.processes import Ssh
from gdrkit.fleet.rounds import most_rounds

ROUNDS = 3
"""With two pairs, a good node that meets one slow peer has as many slow pairs as fast ones."""


def parser() -> Parser:
    parser = Parser(
        "fleet bench",
        "Measure between pairs of nodes, all pairs of a round at once, and say which nodes are slow. Nodes "
        "are asked over ssh, or by srun; nothing is installed there.",
        "  gdr fleet bench 'gpu[1-4]'                     which nodes are slow, over TCP\n"
        "  gdr fleet bench 'gpu[1-4]' --gpu 0 --device mlx5_0    GPU memory through an RDMA device\n"
        "  gdr fleet bench --slurm --rounds 5             five pairs of each of Slurm's nodes\n\n"
        "exit codes: 0 no pair is slow, 1 a node or a pair is slow, 3 a node or a pair gave no rate; 64 and "
        "above usage and internal errors",
    )
    fleet_options.nodes(parser, "")
    parser.add_argument(
        "--rounds",
        metavar="N",
        type=number(1, fleet_options.LIMIT_S),
        default=ROUNDS,
        help=f"pairs of each node, all at once in a round ({ROUNDS})",
    )
    parser.add_argument(
        "--gpu", metavar="N", type=number(0, 255), help="CUDA ordinal of the GPU at both ends (host memory)"
    )
    parser.add_argument(
        "--device", metavar="NAME[:PORT]", type=device_name, help="RDMA device at both ends (TCP)"
    )
    parser.add_argument(
        "--size", metavar="SIZE", type=one_size, default=16 << 20, help="size of a message (16M)"
    )
    parser.add_argument(
        "--network",
        metavar="CIDR",
        type=_network,
        help="connect the nodes in this network (the addresses of ssh or Slurm)",
    )
    parser.output()
    return parser


def _network(text: str) -> str:
    """A type for add_argument(): a network, which a node's address is in."""
    from ipaddress import ip_network

    try:
        return str(ip_network(text, strict=False))
    except ValueError:
        raise argparse.ArgumentTypeError(f"not a network: {text!r} (example: 192.168.100.0/24)") from None


def main(arguments: list[str]) -> int:
    """Measure and print; returns the exit code. Raises TargetError."""
    options = parser().parse(arguments)
    document = _measured(options)
    if options.json:
        write_json(document)
    else:
        from gdrkit.transport.bench.document import size

        colour = colours()
        words = pair_document.text(
            document,
            size=size(document.size_bytes),
            compare=f"gdr fleet doctor{' --slurm' if options.slurm else ''}",
            colour=colour,
            width=text_width(),
        )
        write(words, styled=colour)
    return bench_exit_code(document)


def _measured(options: argparse.Namespace) -> FleetBench:
    from gdrkit.transport.measure.remote import COMMAND

    begun, started = time.monotonic(), datetime.now(UTC).strftime(STARTED)
    launcher = _launcher(options, begun + options.timeout)
    nodes = list(launcher.nodes())
    if len(nodes) < 2:
        raise TargetError(f"a pair needs two nodes: there is {len(nodes) or 'none'}")
    what = What(
        "verbs" if options.device else "tcp",
        options.gpu,
        options.device or "",
        options.network or "",
        options.size,
    )
    rounds = min(options.rounds, most_rounds(len(nodes)))
    progress = FleetProgress(rounds * (len(nodes) // 2), "pairs")
    run = PairRun(
        launcher, COMMAND, partial(_meet, what), timeout_s=begun + options.timeout - time.monotonic()
    )
    complete = run.measure(nodes, rounds, _shown(progress))
    progress.end()
    return build(
        run.rows, run.silent, nodes, what,
        started=started, seconds=time.monotonic() - begun, complete=complete,
    )  # fmt: skip


def _launcher(options: argparse.Namespace, deadline: float) -> PairLauncher:
    paths, names = named_by(options)
    if paths:
        raise TargetError(f"not a node but a file: {paths[0]!r}", "name a node of that name as ssh://NODE")
    if options.slurm:
        from gdrkit.fleet.slurm import Slurm

        slurm = Slurm(names, options.partition or "", deadline)
        if options.gpu is not None and not slurm.allocation:
            raise TargetError(
                "outside an allocation, Slurm gives gdr no GPU",
                "run it in one: salloc --nodes=N --gpus-per-node=1 gdr fleet bench --slurm --gpu 0",
            )
        return slurm
    if not names:
        raise TargetError("no nodes to measure", "name nodes as gpu[001-016], --hosts FILE or --slurm")
    return Ssh(list(dict.fromkeys(names)))


def _shown(progress: FleetProgress) -> Callable[[PairRow | NodeRow], None]:
    """Rows as progress: a pair that fails with its node has the line of the node."""

    def arrived(row: PairRow | NodeRow) -> None:
        if isinstance(row, NodeRow):
            progress.say(f"{row.name}: {row.summary}")
        else:
            progress.step("" if row.node or not row.why else f"{' and '.join(row.nodes)}: {row.why}")

    return arrived


def _meet(
    what: What, listening: PairEnd, connecting: PairEnd, deadline: float, started: Started
) -> PairRate:
    """Measure a pair, in terms of the fleet. Raises EndLost, TargetError and OSError."""
    from gdrkit.transport import TransportError
    from gdrkit.transport.measure.job import MeasureEnd
    from gdrkit.transport.measure.pair import EndFailed, between

    try:
        point = between(
            (listening.command, connecting.command),
            what.path,
            MeasureEnd(what.gpu, what.device or None),
            what.size_bytes,
            address="" if what.network else listening.address(),
            network=what.network,
            timeout_s=deadline - time.monotonic(),
            started=started,
        )
    except EndFailed as error:
        raise EndLost(error.end, error.code, error.lines) from None
    except TransportError as error:
        raise TargetError(str(error)) from None
    return PairRate(point.gb_per_s, point.streaming_gb_per_s)
