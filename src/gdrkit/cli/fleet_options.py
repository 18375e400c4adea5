"""The options that name the nodes of `gdr fleet`, and the types of their values."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable

from gdrkit.cli.arguments import Parser, number
from gdrkit.formats.regex import regex

LIMIT_S = 86_400
TIMEOUT_S = 600
WORD = regex(r"[\w\[!][\w.:/@=!,()\[\] +-]*", re.ASCII)
"""An address, a selector, a context or an image: what kubectl and URLs have, and nothing that begins a path
or an option."""
EXIT_CODES = (
    "exit codes: 0 nothing to fix, 1 works with warnings, 2 at least one node is blocked, 3 a node gave no "
    "answer or evidence is missing; 64 and above usage and internal errors"
)


def nodes(parser: Parser, what: str) -> None:
    """Add TARGET, --hosts, --timeout, --slurm and --partition: nodes to `judge` or to `measure`."""
    parser.add_argument(
        "targets", nargs="*", metavar="TARGET", help="a list of nodes, such as gpu[001-016]" + what
    )
    parser.add_argument(
        "--hosts", metavar="FILE", help="ask the nodes that a file lists; - is standard input"
    )
    parser.add_argument(
        "--slurm", action="store_true", help="ask Slurm's nodes, all or the TARGETs, by srun"
    )
    parser.add_argument("--partition", metavar="NAME", type=name, help="only the nodes of a partition")
    parser.only_with("--partition", "--slurm")
    parser.add_argument(
        "--timeout",
        metavar="S",
        type=number(1, LIMIT_S),
        default=TIMEOUT_S,
        help=f"deadline of the run in seconds ({TIMEOUT_S})",
    )


def clusters(parser: Parser) -> None:
    """Add the options of Ray and Kubernetes."""
    parser.add_argument(
        "--ray",
        metavar="ADDRESS",
        nargs="?",
        const=False,
        type=word("an address of Ray"),
        help="ask the nodes of a Ray cluster by a job; default: the address in RAY_API_SERVER_ADDRESS",
    )
    parser.add_argument(
        "--kubernetes",
        action="store_true",
        help="ask Kubernetes' nodes, all or the TARGETs, by a Pod on each",
    )
    parser.add_argument("--namespace", metavar="NAME", type=name, help="namespace of the Pods")
    parser.add_argument(
        "--selector", metavar="LABELS", type=word("a selector"), help="only the nodes with these labels"
    )
    parser.add_argument("--context", metavar="NAME", type=word("a context"), help="context of kubectl")
    parser.add_argument(
        "--image",
        metavar="IMAGE",
        type=word("an image"),
        help="container image of the Pods; it needs python3",
    )
    parser.add_argument("--print-manifest", action="store_true", help="print the Pods, and ask no node")
    for option in ("--namespace", "--selector", "--context", "--image", "--print-manifest"):
        parser.only_with(option, "--kubernetes")
    parser.never_with("--slurm", "--ray", "--kubernetes")
    parser.never_with("--ray", "--kubernetes")


def comparisons(parser: Parser) -> None:
    """Add --run, --since and --expect: what is shown, and what it is compared with."""
    parser.add_argument("--run", metavar="RUN", help="show a run that was kept; nothing is judged again")
    parser.add_argument(
        "--since",
        metavar="RUN",
        help="show what changed since a run; `last` is the newest one of the same targets",
    )
    parser.add_argument(
        "--expect",
        metavar="FILE",
        nargs="?",
        const="",
        help="compare nodes with a file of gdr expect, or without one with most nodes of their kind",
    )


def name(text: str) -> str:
    """A type for add_argument(): the name of a node."""
    from gdrkit.fleet.hostlist import is_name

    if not is_name(text):
        raise argparse.ArgumentTypeError(f"not a name: {text!r}")
    return text


def word(what: str) -> Callable[[str], str]:
    """A type for add_argument(): a word for another program, which takes it for no option and no file."""

    def check(text: str) -> str:
        if not WORD.fullmatch(text):
            raise argparse.ArgumentTypeError(f"not {what}: {text!r}")
        return text

    return check
