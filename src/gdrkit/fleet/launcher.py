"""How the nodes of a fleet are asked for a bundle: ssh, Slurm, Ray, Kubernetes.

A launcher names the nodes and asks them; the bundles come back as files. Most start one process for each
node (gdrkit.fleet.processes). Some can also run a program on both nodes of a pair.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from gdrkit.evidence.errors import TargetError
from gdrkit.fleet.hostlist import expand
from gdrkit.formats.errors import FormatError
from gdrkit.formats.regex import regex

SSH = "ssh"
"""The scheme of the targets that `gdr doctor` asks itself."""
SLURM = "slurm"
"""The scheme of the targets of Slurm's nodes."""
KUBERNETES = "kubernetes"
BY_ENGINE = (SLURM, "ray", KUBERNETES)
"""Schemes of targets that `gdr doctor` cannot open: their bundles came through a cluster's engine."""
TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess

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
    """Nodes asked at once unless the user sets another number."""

    def nodes(self) -> Sequence[str]:
        """The nodes, by name. Raises TargetError if they cannot be listed."""

    def down(self) -> Mapping[str, str]:
        """Nodes that need not be asked, with the reason."""

    def target(self, node: str) -> str:
        """How the row of a node names it: for `gdr doctor`, where that can reach it."""

    def ask(self, request: Request, answered: Answered) -> Asking:
        """Begin to ask the nodes of a request. Returns at once; each node is answered until the deadline."""


Pair = tuple[str, str]
"""Two nodes, the first of which listens."""
Started = Callable[["subprocess.Popen[bytes]"], None]


class PairEnd(NamedTuple):
    """One node of a pair."""

    command: Sequence[str]  # the words that run the program on it
    address: Callable[[], str]  # where the other node reaches it; "" if ssh tells the program


class PairRate(NamedTuple):
    """What a pair of nodes reaches, in 10**9 bytes per second."""

    gb_per_s: float  # of messages to and fro, so in both directions
    streaming_gb_per_s: float  # of messages one after another, to the node that connects


class EndLost(Exception):
    """A node of a pair did not take part: `end` is 0 or 1, `code` the exit code of its command, None while
    that still ran, and `lines` the last ones of its errors."""

    def __init__(self, end: int, code: int | None, lines: Sequence[str]) -> None:
        super().__init__(lines[-1] if lines else f"exit code {code}")
        self.end, self.code, self.lines = end, code, lines


class NodeFailed(TargetError):
    """A pair has no rate because of one of its nodes."""

    def __init__(self, node: str, why: str) -> None:
        super().__init__(why)
        self.node = node


Meet = Callable[[PairEnd, PairEnd, float, Started], PairRate]
"""Starts the program on both nodes, and measures until a time of time.monotonic(). Raises EndLost,
TargetError and OSError."""
PairAnswered = Callable[[Pair, "PairRate | BaseException"], None]
"""Called from any thread, once for a pair: its rate, or why there is none."""


class PairRequest(NamedTuple):
    """Pairs to measure at once; no node is in two of them."""

    pairs: Sequence[Pair]
    program: str  # the shell command for each node
    meet: Meet
    deadline: float  # of time.monotonic()
    fanout: int  # nodes


class PairLauncher(Launcher, Protocol):
    """A launcher that can run a program on both nodes of a pair."""

    def ask_pairs(self, request: PairRequest, answered: PairAnswered) -> Asking:
        """Begin to measure pairs. Returns at once; each pair is answered until the deadline."""


def target_of(scheme: str, node: str) -> str:
    """The target of a node that is asked, by the scheme of its launcher."""
    user, at, host = node.rpartition("@")
    bracketed = scheme == SSH and ":" in host
    return f"{scheme}://{user}{at}{f'[{host}]' if bracketed else host}"


def is_target_of(target: str, node: str) -> bool:
    """Whether a target names this node, and is not a path."""
    return any(target == target_of(scheme, node) for scheme in (SSH, *BY_ENGINE))


def hosts_in(text: str) -> list[str]:
    """The nodes in a file of --hosts: hostlists, one or more in a line; # starts a comment.

    Raises FormatError with the line and, of a file that Slurm or Ansible has, what lists its nodes."""
    lines = [line.partition("#")[0] for line in text.splitlines()]
    try:
        return expand(" ".join(lines))
    except FormatError:
        for number, line in enumerate(lines, 1):
            try:
                expand(line)
            except FormatError as error:
                other = next((f": {words}" for form, words in _OTHER_FORMS if form.search(text)), "")
                raise FormatError(f"line {number}: {error}{other}") from None
        raise


_OTHER_FORMS = (
    (regex(r"(?m)^(?:ClusterName|NodeName|PartitionName)="), "of slurm.conf, `--slurm` asks the nodes"),
    (regex(r"(?m)^NODELIST\s"), "`sinfo -hN -o %N` prints the names alone, and `--slurm` asks the nodes"),
    (regex(r"(?m)^\[[\w:-]+\]\s*$"), "what Ansible calls gpu[001:003] is gpu[001-003] here"),
)
"""Lists of nodes of other programs, and what gives their names. Sources: slurm.conf(5), sinfo(1);
Ansible's guide, how to build your inventory."""


def named(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Words of a command line as paths that exist, and nodes. Raises TargetError for what is neither."""
    paths, nodes = [], []
    for word in words:
        if os.path.lexists(word):
            paths.append(word)
            continue
        if "/" in word and not word.startswith("ssh://"):
            raise TargetError(f"{word}: no such file or directory", "write nodes as gpu[001-016]")
        try:
            nodes += expand(word.removeprefix("ssh://"))
        except FormatError as error:
            raise TargetError(
                f"neither a file nor a list of nodes: {word!r} ({error})", "write nodes as gpu[001-016]"
            ) from None
    return paths, list(dict.fromkeys(nodes))
