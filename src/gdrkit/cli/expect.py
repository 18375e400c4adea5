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
        "Write down what a good node has: GPUs, NICs, rails, firmware, versions. `gdr doctor --expect` "
        "compares other nodes with the file. It is TOML: delete the lines that do not matter.",
        "  gdr expect -o node.toml                     what this machine has\n"
        "  gdr expect bundle.tar.gz                    what the machine of a bundle has\n"
        "  gdr expect bundles/ -o node.toml            what most nodes have whose bundles are in a folder\n"
        "  gdr doctor bundle.tar.gz --expect node.toml    compare a node with the file",
    )
    parser.target()
    parser.add_argument("-o", "--output", metavar="FILE", help="write to a file instead of standard output")
    parser.force("--output")
    return parser


def main(arguments: list[str]) -> int:
    options = parser().parse(arguments)
    from gdrkit.cli.files import check_output, write_output

    if options.output:
        check_output(options.output, force=options.force)
    several = options.target and _is_fleet(options.target)
    text = _of_nodes(options.target) if several else _of_node(options.target)
    if options.output:
        inputs = () if several else (options.target,)
        write_output(options.output, text.encode(), force=options.force, inputs=inputs)
    else:
        write(text)
    return OK


def _of_node(target: str | None) -> str:
    """The file of what a node has."""
    from gdrkit.evidence.target import open_host
    from gdrkit.facts.observed import Observer
    from gdrkit.formats.expectation import write as as_toml
    from gdrkit.node import Node

    host = open_host(target)
    print_notes(host)
    node = Node(host)
    observer = Observer(node)
    _warn(node)
    return as_toml(observer.expectation(), (*_head(node), *(f"not known: {x}" for x in observer.unknown)))


def _is_fleet(target: str) -> bool:
    """Whether a target is a folder with the evidence of many nodes."""
    import os

    from gdrkit.fleet.folder import is_tree

    return os.path.isdir(target) and not is_tree(target)


LEGEND = 'Delete what does not matter. rate and width are minimums; a version may be ">= 570.86".'


def _of_nodes(folder: str) -> str:
    """The file of what most nodes in a folder have. Raises TargetError if none of them can be read."""
    from gdrkit.cli.arguments import status
    from gdrkit.evidence.errors import TargetError
    from gdrkit.evidence.target import open_host
    from gdrkit.facts.observed import Observer
    from gdrkit.fleet.folder import targets_in
    from gdrkit.fleet.majority import MajorityExpectation, by_kind
    from gdrkit.formats.expectation import write as as_toml
    from gdrkit.node import Node

    found, paths = [], targets_in(folder)
    for number, path in enumerate(paths, 1):
        status(f"{number} of {len(paths)} nodes")
        try:
            found.append(Observer(Node(open_host(path))).expectation())
        except TargetError as error:
            status("")
            sys.stderr.write(f"note: left out: {error}\n")
    status("")
    if not found:
        raise TargetError(f"{folder}: no node can be read", "gdr collect writes a bundle")
    alike, *others = by_kind(found)
    for other in others:
        models = " and ".join(sorted(other[0].gpu_models)) or "no GPU"
        sys.stderr.write(f"note: {len(other)} nodes of another kind are left out: {models}\n")
    norm = MajorityExpectation(alike)
    head = (
        f"What most of {norm.count} nodes have; written by gdr expect, read by gdr fleet doctor --expect.",
        LEGEND,
    )
    return as_toml(norm.expectation, (*head, *(f"no majority: {words}" for words in norm.open)))


def _head(node: Node) -> tuple[str, ...]:
    from gdrkit.facts.kernel import hostname
    from gdrkit.node import if_missing

    name = if_missing("", hostname, node)
    return (
        f"What a machine like {name or 'this one'} has; written by gdr expect, read by gdr doctor --expect.",
        LEGEND,
    )  # fmt: skip


def _warn(node: Node) -> None:
    """A note on standard error if the node is not a good example."""
    from gdrkit.programs.names import NAMES
    from gdrkit.report.summary import summary
    from gdrkit.verdict import judge_node

    state = judge_node(node).of(NAMES[0])
    if state.state not in GOOD:
        sys.stderr.write(
            f"note: this node is {state.state} ({summary(state)}); check the file before you use it\n"
        )
