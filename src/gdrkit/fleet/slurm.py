"""Slurm: nodes from sinfo, and one srun for each node that is asked."""

from __future__ import annotations

import os
from collections.abc import Sequence

from gdrkit.evidence.errors import TargetError
from gdrkit.fleet.hostlist import expand
from gdrkit.fleet.processes import PerNode
from gdrkit.formats.errors import FormatError

LIST_TIMEOUT_S = 30.0
_OUT = ("down", "drain", "fail", "maint", "power", "reboot", "unk", "future", "inval")
"""Beginnings of states in which no job step starts: sinfo(1), NODE STATE CODES. A flag such as * follows."""


class Slurm(PerNode):
    """The nodes of a cluster, of a partition, or of the allocation that this runs in.

    In an allocation (salloc, sbatch) the steps share its resources (--overlap); elsewhere each node gets a
    job of its own that asks for no GPU, so that nodes in use can answer where Slurm shares them."""

    def __init__(self, names: Sequence[str] = (), partition: str = "") -> None:
        self._names, self._partition = names, partition
        self._states: dict[str, str] | None = None

    def nodes(self) -> Sequence[str]:
        """The nodes that were named, those of the allocation, or all of the partition."""
        if self._names:
            return list(dict.fromkeys(self._names))
        if (allocated := os.environ.get("SLURM_JOB_NODELIST", "")) and not self._partition:
            try:
                return expand(allocated)
            except FormatError as error:
                raise TargetError(f"SLURM_JOB_NODELIST: {error}") from None
        return list(self._node_states())

    def down(self) -> dict[str, str]:
        """The nodes on which Slurm would start nothing."""
        states = self._node_states()
        return {
            node: f"Slurm has it as {state}"
            for node, state in states.items()
            if state.lower().startswith(_OUT)
        }

    def _node_states(self) -> dict[str, str]:
        if self._states is None:
            words = ["sinfo", "--noheader", "--Node", "--format=%N %T"]
            words += [f"--partition={self._partition}"] if self._partition else []
            self._states = parse_states(_output(words))
        return self._states

    def command(self, node: str, program: str) -> list[str]:
        words = ["srun", "--nodes=1", "--ntasks=1", f"--nodelist={node}", "--quiet", "--unbuffered"]
        words += ["--overlap"] if os.environ.get("SLURM_JOB_ID") else ["--gres=none", "--job-name=gdr-fleet"]
        words += [f"--partition={self._partition}"] if self._partition else []
        return [*words, "sh", "-c", program]

    def target(self, node: str) -> str:
        return f"slurm://{node}"

    def failure(self, node: str, code: int, last_line: str) -> TargetError:
        return TargetError(
            f"srun failed: {last_line or f'exit code {code}'}", "try: srun --nodelist=" + node
        )


def parse_states(text: str) -> dict[str, str]:
    """The state of each node in the output of `sinfo --Node --format='%N %T'`: `gpu001 idle*`.

    A node of several partitions has several lines."""
    states: dict[str, str] = {}
    for line in text.splitlines():
        node, _, state = line.strip().partition(" ")
        if node and state:
            states.setdefault(node, state.strip())
    return states


def _output(words: list[str]) -> str:
    """What a program prints. Raises TargetError."""
    import subprocess

    try:
        ran = subprocess.run(
            words, capture_output=True, timeout=LIST_TIMEOUT_S, check=False, stdin=subprocess.DEVNULL
        )
    except FileNotFoundError:
        raise TargetError(f"{words[0]} is not installed here", "run it on a node of the cluster") from None
    except subprocess.TimeoutExpired:
        raise TargetError(f"{words[0]} did not answer within {LIST_TIMEOUT_S:g} s") from None
    if ran.returncode:
        why = ran.stderr.decode("utf-8", "replace").strip().splitlines()
        raise TargetError(f"{words[0]} failed: {why[-1] if why else f'exit code {ran.returncode}'}")
    return ran.stdout.decode("utf-8", "replace")
