"""The shell of install lines, sh, and what it says of a command that is not there."""

from __future__ import annotations

import posixpath

from gdrkit.evidence import Confidence
from gdrkit.facts.kernel import distribution
from gdrkit.node import Node, fact, if_missing

_SHELL = "bin/sh"
_WORDS = {  # with the number of the line, observed with dash 0.5.12, bash 5.2 and busybox 1.35
    "dash": "sh: 1: {command}: not found",
    "busybox": "sh: {command}: not found",
    "bash": "sh: line 1: {command}: No such file or directory",
}
COMMAND_NOT_FOUND = 127  # POSIX.1-2017, 2.8.2


@fact
def shell(node: Node) -> str:
    """The program that /bin/sh is a link to; else what the distribution installs."""
    real = posixpath.basename(if_missing("", node.resolve, _SHELL))
    if real in _WORDS:
        return real
    family = if_missing(frozenset[str](), lambda: distribution(node).family)
    node.cite(_SHELL, text="what it links to is not known", confidence=Confidence.LIKELY)
    return "dash" if not family.isdisjoint(("debian", "ubuntu")) else "bash"


def not_found(node: Node, command: str) -> str:
    """What the shell prints about a command that is not there."""
    return _WORDS[shell(node)].format(command=command)
