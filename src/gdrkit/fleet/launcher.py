"""How the nodes of a fleet are asked for a bundle: ssh, Slurm, Ray, Kubernetes.

A launcher names the nodes and asks them; the bundles come back as files. Most start one process for each
node (gdrkit.fleet.processes).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from gdrkit.evidence.errors import TargetError
from gdrkit.fleet.hostlist import expand
from gdrkit.formats.errors import FormatError

SLURM = "slurm"
"""The scheme of the targets of Slurm's nodes."""
Answered = Callable[[str, BaseException | None], None]
"""Called from any thread, once for a node: its bundle is complete, or why there is none."""


class Request(NamedTuple):
    """What a run wants of a launcher."""

    bundles: Mapping[str, str]  # node -> the file that its bundle goes to
    sudo: bool
    deadline: float  # of time.monotonic()
    fanout: int


class Asking(Protocol):
    """Nodes that are being asked."""

    def end(self) -> str:
        """Ask no further nodes, end what runs for those that were asked, and remove what was left there.

        Returns the command that removes what could not be removed, or ""."""


class Launcher(Protocol):
    """Asks nodes."""

    fanout: int
    """Nodes that are asked at once, unless the user says so."""

    def nodes(self) -> Sequence[str]:
        """The nodes, by name. Raises TargetError if they cannot be listed."""

    def down(self) -> Mapping[str, str]:
        """Nodes that need not be asked, with the reason."""

    def target(self, node: str) -> str:
        """How the row of a node names it: for `gdr doctor`, where that can reach it."""

    def ask(self, request: Request, answered: Answered) -> Asking:
        """Begin to ask the nodes of a request. Returns at once; each node is answered until the deadline."""


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
