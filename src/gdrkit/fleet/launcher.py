"""How a program is started on the nodes of a fleet: ssh, Slurm, Kubernetes.

A launcher names the nodes and gives the command that runs a program on one of them, with standard input and
output connected. Everything else is the same for all of them: the collector goes to the standard input of
Python there, and its bundle comes back.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Protocol

from gdrkit.agent.launch import ssh
from gdrkit.evidence.errors import TargetError
from gdrkit.evidence.ssh import failure
from gdrkit.fleet.hostlist import expand
from gdrkit.formats.errors import FormatError


class Launcher(Protocol):
    """Starts programs on nodes."""

    def nodes(self) -> Sequence[str]:
        """The nodes, by name. Raises TargetError if they cannot be listed."""

    def down(self) -> dict[str, str]:
        """Nodes that need not be asked, with the reason."""

    def command(self, node: str, program: str) -> list[str]:
        """The words that run a shell command on a node."""

    def target(self, node: str) -> str:
        """How the row of a node names it: for `gdr doctor`, where that can reach it."""

    def failure(self, node: str, code: int, last_line: str) -> TargetError:
        """Why a node sent no bundle, by the exit code of the command and the last line of its errors."""


class Ssh:
    """Nodes by name or address, through the system's OpenSSH with the user's own configuration."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def nodes(self) -> Sequence[str]:
        return self._names

    def down(self) -> dict[str, str]:
        return {}

    def command(self, node: str, program: str) -> list[str]:
        return ssh(node, program)

    def target(self, node: str) -> str:
        user, at, host = node.rpartition("@")
        return f"ssh://{user}{at}{f'[{host}]' if ':' in host else host}"

    def failure(self, node: str, code: int, last_line: str) -> TargetError:
        return failure(self.target(node), code, last_line)


def hosts_in(text: str) -> list[str]:
    """The nodes in a file of --hosts: hostlists, one or more in a line; # starts a comment.

    Raises FormatError."""
    return expand(" ".join(line.partition("#")[0] for line in text.splitlines()))


def named(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Words of a command line as paths that exist, and nodes. Raises TargetError for what is neither."""
    paths, nodes = [], []
    for word in words:
        if os.path.lexists(word):
            paths.append(word)
            continue
        try:
            nodes += expand(word.removeprefix("ssh://"))
        except FormatError as error:
            raise TargetError(
                f"neither a file nor a list of nodes: {word!r} ({error})", "write nodes as gpu[001-016]"
            ) from None
    return paths, list(dict.fromkeys(nodes))
