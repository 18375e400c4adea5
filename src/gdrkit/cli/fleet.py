"""`gdr fleet`: judge many nodes, group them by cause, and find the odd ones; or measure between them."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable

from gdrkit.cli.arguments import Parser, number
from gdrkit.cli.bench import device_name, one_size

LIMIT_S = 86_400
ROUNDS = 3
"""With two pairs, a good node that meets one slow peer has as many slow pairs as fast ones."""
WORD = re.compile(r"[\w\[!][\w.:/@=!,()\[\] +-]*", re.ASCII)
"""An address, a selector, a context or an image: what kubectl and URLs have, and nothing that begins a path
or an option."""
_BOTH = {
    "--hosts", "--slurm", "--partition", "--nodelist", "--timeout", "--fanout", "--json", "--debug",
}  # fmt: skip
"""The options that doctor and bench share."""
_PRINTED = {
    "--json", "--csv", "--junit", "--ctrf", "--nodes-only", "--group", "--node", "--compare",
    "--print-manifest",
}  # fmt: skip
"""What doctor can print instead of its text."""
_OF_REPORT = {"--output", "--force", "--racks", "--anonymize"}
_OF_BENCH = {"--rounds", "--gpu", "--device", "--size", "--network"}


def parser() -> Parser:
    parser = Parser(
        "fleet",
        "Judge many nodes: how many are ready, which ones are not and why, what to fix first, and which "
        "nodes differ from their peers. Each run is kept as a file. Or measure how fast pairs of nodes "
        "are, and which nodes are slow. Nodes are asked over ssh; nothing is installed there.",
        "  gdr fleet doctor bundles/                      a folder of bundles, sosreports and bug reports\n"
        "  gdr fleet doctor 'gpu[001-016],login1' --sudo  nodes over ssh, as root\n"
        "  gdr fleet doctor --hosts hosts.txt             the nodes that a file lists\n"
        "  gdr fleet doctor --slurm --partition h100      Slurm's nodes, by srun\n"
        "  gdr fleet doctor --ray http://head:8265        the nodes of a Ray cluster\n"
        "  gdr fleet doctor --kubernetes --print-manifest    the Pods that would be created\n"
        "  gdr fleet doctor --resume                      ask again the nodes that gave no answer\n"
        "  gdr fleet doctor bundles/ --since last         also say what changed since the last run\n"
        "  gdr fleet doctor bundles/ --expect             also list every node that differs from most\n"
        "  gdr fleet doctor --run last --group 2          the nodes of a group of the last run\n"
        "  gdr fleet doctor --run last --compare gpu1 gpu2    what differs between two nodes\n"
        "  gdr fleet doctor bundles/ --nodes-only         a list of nodes: blocked, unknown, silent\n"
        "  gdr fleet report bundles/ -o fleet.html        the same as one HTML file, to look at\n"
        "  gdr fleet bench 'gpu[1-4]'                     which nodes are slow, over TCP\n"
        "  gdr fleet bench 'gpu[1-4]' --gpu 0 --device mlx5_0    GPU memory through an RDMA device\n"
        "  gdr fleet bench --slurm --rounds 5             five pairs of each of Slurm's nodes\n\n"
        "exit codes: 0 nothing to fix, 1 works with warnings or slow, 2 at least one node is blocked, 3 a "
        "node gave no answer; 64 and above usage and internal errors",
    )
    parser.add_argument(
        "action",
        choices=("doctor", "bench", "report"),
        help="judge the nodes, measure between pairs of them, or judge them and write one HTML file",
    )
    parser.add_argument(
        "targets", nargs="*", metavar="TARGET", help="files and folders of evidence, or a list of nodes"
    )
    _source_options(parser)
    _cluster_options(parser)
    _bench_options(parser)
    _output_options(parser)
    return parser


def _source_options(parser: Parser) -> None:
    parser.add_argument(
        "--hosts", metavar="FILE", help="ask the nodes that a file lists; - is standard input"
    )
    parser.add_argument("--sudo", action="store_true", help="collect as root with sudo -n, which never asks")
    parser.add_argument(
        "--timeout", metavar="S", type=number(1, LIMIT_S), default=600, help="deadline of the run in seconds"
    )
    parser.add_argument(
        "--fanout",
        metavar="N",
        type=number(1, 1000),
        help="nodes that are asked at once; default: 32, with --ray 1000",
    )
    parser.add_argument("--run", metavar="RUN", help="show a run that was kept; nothing is judged again")
    parser.add_argument(
        "--resume", metavar="RUN", nargs="?", const="last", help="ask again the nodes without an answer"
    )
    parser.add_argument("--since", metavar="RUN", help="say what changed since a run; `last` is the newest")
    parser.add_argument(
        "--expect",
        metavar="FILE",
        nargs="?",
        const="",
        help="compare nodes with a file of gdr expect, or without one with most nodes of their kind",
    )
    parser.never_with("--run", "--resume", "--hosts", "--slurm", "--ray", "--kubernetes", "--sudo")


def _cluster_options(parser: Parser) -> None:
    parser.add_argument(
        "--slurm", action="store_true", help="ask Slurm's nodes, all or the TARGETs, by srun"
    )
    parser.add_argument("--partition", metavar="NAME", type=_name, help="only the nodes of a partition")
    parser.add_argument("--nodelist", metavar="LIST", help="only these nodes, as srun takes them")
    parser.only_with("--partition", "--slurm")
    parser.only_with("--nodelist", "--slurm")
    parser.add_argument(
        "--ray",
        metavar="ADDRESS",
        nargs="?",
        const=False,
        type=_word("an address of Ray"),
        help="ask the nodes of a Ray cluster by a job; default: the address in RAY_API_SERVER_ADDRESS",
    )
    parser.add_argument(
        "--kubernetes",
        action="store_true",
        help="ask Kubernetes' nodes, all or the TARGETs, by a Pod on each",
    )
    parser.add_argument("--namespace", metavar="NAME", type=_name, help="namespace of the Pods")
    parser.add_argument(
        "--selector", metavar="LABELS", type=_word("a selector"), help="only the nodes with these labels"
    )
    parser.add_argument("--context", metavar="NAME", type=_word("a context"), help="context of kubectl")
    parser.add_argument(
        "--image",
        metavar="IMAGE",
        type=_word("an image"),
        help="container image of the Pods; it needs python3",
    )
    parser.add_argument("--print-manifest", action="store_true", help="print the Pods, and ask no node")
    for option in ("--namespace", "--selector", "--context", "--image", "--print-manifest"):
        parser.only_with(option, "--kubernetes")
    parser.never_with("--slurm", "--ray", "--kubernetes")
    parser.never_with("--ray", "--kubernetes")
    parser.never_with("--print-manifest", "--resume", "--since", "--expect", "--selector", "--context")


def _bench_options(parser: Parser) -> None:
    parser.add_argument(
        "--rounds",
        metavar="N",
        type=number(1, LIMIT_S),
        default=ROUNDS,
        help=f"bench: pairs of each node, all at once in a round ({ROUNDS})",
    )
    parser.add_argument(
        "--gpu",
        metavar="N",
        type=number(0, 255),
        help="bench: CUDA ordinal of the GPU at both ends (host memory)",
    )
    parser.add_argument(
        "--device", metavar="NAME[:PORT]", type=device_name, help="bench: RDMA device at both ends (TCP)"
    )
    parser.add_argument(
        "--size", metavar="SIZE", type=one_size, default=16 << 20, help="bench: size of a message (16M)"
    )
    parser.add_argument(
        "--network",
        metavar="CIDR",
        type=_network,
        help="bench: connect the nodes in this network (the addresses of ssh or Slurm)",
    )


def _output_options(parser: Parser) -> None:
    parser.output()
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="report: the file to write (gdr-fleet-report.html)"
    )
    parser.force("--output")
    parser.add_argument(
        "--racks",
        metavar="FILE",
        help="report: which rack a node is in: lines such as `r01 gpu[1-8]`, or Slurm's topology.conf",
    )
    parser.add_argument(
        "--anonymize", action="store_true", help="report: replace names of nodes and users, addresses, GUIDs"
    )
    parser.add_argument("--csv", action="store_true", help="write one line of CSV for each node")
    parser.add_argument("--junit", action="store_true", help="write JUnit XML, one test case for each node")
    parser.add_argument("--ctrf", action="store_true", help="write CTRF's JSON, one test for each node")
    parser.add_argument(
        "--nodes-only",
        action="store_true",
        help="print a hostlist of the nodes that are blocked, unknown, or gave no answer",
    )
    parser.add_argument("--group", metavar="N", type=number(1, 99_999), help="show the nodes of a group")
    parser.add_argument(
        "--node", metavar="NAME", type=_name, help="show the page of gdr doctor about a node"
    )
    parser.add_argument(
        "--compare", nargs=2, type=_name, metavar=("A", "B"), help="show what differs between two nodes"
    )
    parser.add_argument(
        "--max-blocked",
        metavar="N",
        type=number(0, 99_999),
        default=0,
        help="up to N blocked nodes do not make the exit code 2",
    )
    parser.one_output(
        "--json", "--csv", "--junit", "--ctrf", "--nodes-only", "--group", "--node", "--compare"
    )
    parser.one_output("--print-manifest", "--json", "--csv", "--junit", "--ctrf", "--nodes-only")


def _network(text: str) -> str:
    """A type for add_argument(): a network, which a node's address is in."""
    from ipaddress import ip_network

    try:
        return str(ip_network(text, strict=False))
    except ValueError:
        raise argparse.ArgumentTypeError(f"not a network: {text!r} (example: 192.168.100.0/24)") from None


def _name(text: str) -> str:
    """A type for add_argument(): the name of a node."""
    from gdrkit.fleet.hostlist import is_name

    if not is_name(text):
        raise argparse.ArgumentTypeError(f"not a name: {text!r}")
    return text


def _word(what: str) -> Callable[[str], str]:
    """A type for add_argument(): a word for another program, which takes it for no option and no file."""

    def check(text: str) -> str:
        if not WORD.fullmatch(text):
            raise argparse.ArgumentTypeError(f"not {what}: {text!r}")
        return text

    return check


def main(arguments: list[str]) -> int:
    options = parser().parse(arguments)
    if options.action == "bench":
        parser().refuse(options, options.given - _BOTH - _OF_BENCH, "on bench")
        from gdrkit.cli.fleet_bench import bench

        return bench(options)
    parser().refuse(options, _OF_BENCH, f"on {options.action}; it is for bench")
    if options.action == "report":
        parser().refuse(options, _PRINTED, "on report, which writes a file")
        from gdrkit.cli.fleet_report import write_report

        return write_report(options)
    parser().refuse(options, _OF_REPORT, "on doctor; it is for report")
    if options.print_manifest:
        from gdrkit.cli.fleet_run import print_manifest

        return print_manifest(options)
    from gdrkit.cli.fleet_run import report_of
    from gdrkit.cli.fleet_show import no_page, show

    engines = {"slurm": options.slurm, "ray": options.ray is not None, "kubernetes": options.kubernetes}
    if options.node and any(engines.values()):  # before the nodes are asked
        return no_page(options.node, next(name for name, chosen in engines.items() if chosen))

    return show(report_of(options), options)
