"""Slurm: nodes from sinfo, and one srun for each node that is asked."""

from __future__ import annotations

import contextlib
import math
import os
import re
import secrets
import time
from collections.abc import Sequence
from typing import NamedTuple

from gdrkit.evidence.errors import TargetError
from gdrkit.evidence.ssh import COLLECTOR, NO_SUCH_COMMAND, failure
from gdrkit.fleet.client import call, last_line
from gdrkit.fleet.hostlist import expand, is_name
from gdrkit.fleet.launcher import SLURM
from gdrkit.fleet.processes import PerPair
from gdrkit.formats.errors import FormatError
from gdrkit.formats.regex import regex

LIST_TIMEOUT_S, CANCEL_TIMEOUT_S = 30.0, 10.0
QUEUE_LIMIT_S = 60
"""How long a job may wait for its node, which may be full, before the row says so."""
JOB_LIMIT_MIN = 10
"""A job ends by then even if gdr is killed."""
_OUT = ("down", "drain", "fail", "maint", "power", "reboot", "unk", "future", "inval")
"""Beginnings of states in which no job step starts: sinfo(1), NODE STATE CODES. A flag may follow."""
_OUT_FLAGS = {"*": "not responding", "~": "powered off", "%": "powering down"}
"""A job would wait for such a node, or start it."""
_STEP = regex(r"\d[\w+.]*\Z", re.ASCII)
"""The number of a step, as 1234.5 or 1234_7.0: squeue(1). No option of scancel."""
_SLURM_SAYS = regex(r"(?:srun|slurmstepd[^:]*|slurmd\S*): ")
_EXITED = regex(r"srun: error: \S+ tasks? \S+ Exited with exit code")
"""The program ended by itself: its own last line says why."""


class Slurm(PerPair):
    """The nodes of a cluster, of a partition, or of the allocation that this runs in.

    In an allocation (salloc, sbatch) the steps share its resources (--overlap); elsewhere each node gets a
    job of its own that asks for no GPU, so that nodes in use can answer where Slurm shares them."""

    def __init__(self, names: Sequence[str] = (), partition: str = "", deadline: float = math.inf) -> None:
        """The nodes are listed until a time of time.monotonic()."""
        self._names, self._partition, self._deadline = names, partition, deadline
        self._states: dict[str, NodeState] | None = None
        self._addresses: dict[str, str] | None = None
        self.allocation = os.environ.get("SLURM_JOB_ID", "")
        self._job_name = f"gdr-fleet-{secrets.token_hex(4)}"

    def nodes(self) -> Sequence[str]:
        """The nodes that were named, those of the allocation, or all of the partition."""
        if self.allocation and self._partition:
            raise TargetError(
                "an allocation has nodes of its own", "leave --partition out, or run outside it"
            )
        if self._names:
            return list(dict.fromkeys(self._names))
        if allocated := os.environ.get("SLURM_JOB_NODELIST", ""):
            try:
                return expand(allocated)
            except FormatError as error:
                raise TargetError(f"SLURM_JOB_NODELIST: {error}") from None
        return list(self._node_states())

    def down(self) -> dict[str, str]:
        """The nodes on which Slurm would start nothing."""
        return {node: why for node, state in self._node_states().items() if (why := state.out())}

    def _node_states(self) -> dict[str, NodeState]:
        if self._states is None:
            words = ["sinfo", "--noheader", "--Node", "--format=%N %T %E"]
            words += [f"--partition={self._partition}"] if self._partition else []
            self._states = parse_states(self._listed(words))
        return self._states

    def _listed(self, words: list[str]) -> str:
        return _output(words, min(LIST_TIMEOUT_S, max(1.0, self._deadline - time.monotonic())))

    def command(self, node: str, program: str) -> list[str]:
        # Without --unbuffered, which connects the program to a terminal: srun(1).
        words = ["srun", "--nodes=1", "--ntasks=1", f"--nodelist={node}", f"--job-name={self._job_name}"]
        words += ["--chdir=/", "--mpi=none"]
        if self.allocation:
            words += ["--overlap"]
        else:
            words += ["--gres=none", f"--immediate={QUEUE_LIMIT_S}", f"--time={JOB_LIMIT_MIN}"]
        words += [f"--partition={self._partition}"] if self._partition else []
        return [*words, "sh", "-c", program]

    def target(self, node: str) -> str:
        return f"{SLURM}://{node}"

    def address(self, node: str) -> str:
        """Where Slurm reaches the node, an address or a name: NodeAddr of slurm.conf(5)."""
        if self._addresses is None:
            words = ["sinfo", "--noheader", "--Node", "--format=%N %o"]
            self._addresses = parse_addresses(self._listed(words))
        return self._addresses.get(node, node)

    def failure(self, node: str, code: int, lines: Sequence[str], program: str = COLLECTOR) -> TargetError:
        if code == NO_SUCH_COMMAND:
            return failure(self.target(node), code, lines, program)
        own = [line for line in lines if not _SLURM_SAYS.match(line)]
        errors = [line for line in lines if line.startswith("srun: error: ")]
        if own and any(_EXITED.match(line) for line in lines):
            return failure(self.target(node), code, own, program)
        why = errors[0] if errors else lines[-1] if lines else f"exit code {code}"
        return TargetError(f"srun failed: {why}", f"try: srun --nodelist={node} hostname")

    def clean(self) -> None:
        """Cancel the jobs of this run, or its steps in the allocation. Best effort: Slurm may not answer."""
        with contextlib.suppress(TargetError):
            if not self.allocation:
                _output(["scancel", "--quiet", f"--jobname={self._job_name}"], CANCEL_TIMEOUT_S)
                return
            listed = ["squeue", "--steps", "--noheader", "--format=%i %j", f"--jobs={self.allocation}"]
            steps = (line.split() for line in _output(listed, CANCEL_TIMEOUT_S).splitlines())
            if left := [
                words[0] for words in steps if words[1:] == [self._job_name] and _STEP.match(words[0])
            ]:
                _output(["scancel", "--quiet", *left], CANCEL_TIMEOUT_S)


class NodeState(NamedTuple):
    """A node as sinfo shows it."""

    state: str
    reason: str = ""  # what the administrator or Slurm gave for it

    def out(self) -> str:
        """Why no job starts on it; "" if one would."""
        why = self.reason or _OUT_FLAGS.get(self.state[-1], "")
        out = self.state.lower().startswith(_OUT) or self.state[-1] in _OUT_FLAGS
        return f"Slurm has it as {self.state}" + (f": {why}" if why else "") if out else ""


def parse_addresses(text: str) -> dict[str, str]:
    """The address of each node in the output of `sinfo --format="%N %o"`; lines that cannot be a node and an
    address are left out."""
    words = (line.split() for line in text.splitlines())
    return {line[0]: line[1] for line in words if len(line) == 2 and all(map(is_name, line))}


def parse_states(text: str) -> dict[str, NodeState]:
    """The nodes in the output of `sinfo --Node --format='%N %T %E'`: `gpu001 down* cable`.

    A node of several partitions has several lines; without a reason the last word is `none`.
    Lines that do not begin with a possible node name are skipped."""
    states: dict[str, NodeState] = {}
    for line in text.splitlines():
        node, _, rest = line.strip().partition(" ")
        state, _, reason = rest.strip().partition(" ")
        if is_name(node) and state:
            states.setdefault(node, NodeState(state, "" if reason == "none" else reason))
    return states


def _output(words: list[str], timeout_s: float) -> str:
    """What a program prints. Raises TargetError."""
    try:
        code, output, errors = call(words, words[0], timeout_s)
    except FileNotFoundError:
        raise TargetError(f"{words[0]} is not installed here", "run it on a node of the cluster") from None
    if code:
        raise TargetError(f"{words[0]} failed: {last_line(errors) or f'exit code {code}'}")
    return output.decode("utf-8", "replace")
