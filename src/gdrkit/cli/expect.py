"""`gdr expect`: write down what a good node has, for `gdr doctor --expect`."""

from __future__ import annotations

import sys

from gdrkit.cli.arguments import Parser, print_notes, write
from gdrkit.cli.exit import OK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gdrkit.node import Node

GOOD = ("active", "ready", "impossible")


def parser() -> Parser:
    parser = Parser(
        "expect",
        "Write down what a good node has: GPUs, NICs, rails, firmware, versions. `gdr doctor --expect`\n"
        "compares other nodes with the file. It is TOML: delete the lines that do not matter.",
        "  gdr expect -o node.toml                     what this machine has\n"
        "  gdr expect bundle.tar.gz                    what the machine of a bundle has\n"
        "  gdr doctor bundle.tar.gz --expect node.toml    compare a node with the file",
    )
    parser.target()
    parser.add_argument("-o", "--output", metavar="FILE", help="write to a file instead of standard output")
    parser.force("--output")
    return parser


def main(arguments: list[str]) -> int:
    options = parser().parse(arguments)
    from gdrkit.cli.files import check_output, write_output
    from gdrkit.evidence.target import open_host
    from gdrkit.facts.observed import Observer
    from gdrkit.formats.expectation import write as as_toml
    from gdrkit.node import Node

    if options.output:
        check_output(options.output, force=options.force)
    host = open_host(options.target)
    print_notes(host)
    node = Node(host)
    observer = Observer(node)
    text = as_toml(observer.expectation(), (*_head(node), *(f"not known: {x}" for x in observer.unknown)))
    if options.output:
        write_output(options.output, text.encode(), force=options.force, inputs=(options.target,))
    else:
        write(text)
    _warn(node)
    return OK


def _head(node: Node) -> tuple[str, ...]:
    from gdrkit.facts.kernel import hostname
    from gdrkit.node import if_missing

    name = if_missing("", hostname, node)
    return (
        f"What a machine like {name or 'this one'} has; written by gdr expect, read by gdr doctor --expect.",
        "Delete what does not matter. rate and width are minimums; a version may be \">= 570.86\".",
    )  # fmt: skip


def _warn(node: Node) -> None:
    """A note on standard error if the node is not a good example."""
    from gdrkit.consumers.names import NAMES
    from gdrkit.report.summary import summary
    from gdrkit.verdict import judge_node

    state = judge_node(node).of(NAMES[0])
    if state.state not in GOOD:
        sys.stderr.write(
            f"note: this node is {state.state} ({summary(state)}); check the file before you use it\n"
        )
