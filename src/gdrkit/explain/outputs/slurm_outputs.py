"""What Slurm's states of nodes and jobs mean for GPU memory and the network: most decide nothing about it.

Sources: SchedMD/slurm src/slurmctld/ping_nodes.c and node_mgr.c, src/interfaces/gres.c and
src/slurmd/slurmstepd/mgr.c for the reasons that Slurm itself gives; signal(7); bash(1), EXIT STATUS.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from gdrkit.catalogue import CODES
from gdrkit.formats.slurm_tables import JobEnd, NodeState, slurm_states
from gdrkit.messages.message import DECIDES_NOTHING, Meaning
from gdrkit.messages.process_ends import OF_SIGNAL
from gdrkit.messages.terminations import JOB_TIME, NODE_FAILED, SLURM_MEMORY

_OWN = "gdrkit: "
"""How the reasons begin that a nightly run of gdrkit gives: docs/nightly.md."""
_REASONS = {
    _OWN: (
        "a check by gdrkit named what keeps GPU memory from the network there",
        "`gdr codes NAME` explains the name in the reason",
    ),
    "gres/gpu count": (
        "slurmd finds fewer GPUs than slurm.conf promises: one is gone, its driver is not loaded, or"
        " gres.conf does not name it",
        "if `nvidia-smi -L` lists all GPUs there, mend gres.conf; else `sudo dmesg -T | gdr explain`",
    ),
    "Not resp": (
        "the controller does not reach it: it is off or hangs, or its network or slurmd is down",
        "look at its console or BMC, and then `journalctl -k -b -1 | gdr explain`",
    ),
    "Kill task fail": (
        "a task could not be killed: it waits in the kernel, such as in the driver of a GPU, a NIC or a file"
        " system",
        "`sudo dmesg -T | gdr explain` there: if a GPU or a NIC hangs, the kernel log names it",
    ),
    "Node unexp": (
        "it started again while it ran a job",
        "`journalctl -k -b -1 | gdr explain` reads the kernel log of the boot before",
    ),
    "Prolog": ("a script that runs before each job failed", "read slurmd's log there"),
    "Epilog": ("a script that runs after each job failed", "read slurmd's log there"),
}
"""By how a reason begins, of which `sinfo -R` prints 20 characters: what it means, and what to do. The first
are about GPUs."""
_OWN_REASON = "a person, a script or a check of the site wrote the reason"
MOST_REASONS, MOST_NODES, MOST_LINES = 5, 8, 20_000
_SIGNAL_NAMES = {7: "SIGBUS", 9: "SIGKILL", 11: "SIGSEGV"}
"""Those whose meaning is known. Source: signal(7), Linux on x86 and Arm."""
_OUT_OF_MEMORY, _SIGNALS = 125, 128
"""The signal by which slurmstepd reports memory that was used up, slurm.h, SIG_OOM; and the number to which
a shell adds that of a signal."""


def slurm_meanings(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, Meaning]]:
    """What the states of nodes in numbered lines mean together, and the worst end of a job."""
    states = tuple(slurm_states(islice(lines, MOST_LINES)))
    nodes = [one for one in states if isinstance(one, NodeState)]
    if nodes:
        yield _of_nodes(nodes)
    ends = [(one.line, _of_job(one)) for one in states if isinstance(one, JobEnd)]
    yield from sorted(ends, key=lambda one: _SERIOUS.index(one[1].effect))[:1]


_SERIOUS = ("failure", "follows", "aside")


def _of_nodes(nodes: list[NodeState]) -> tuple[int, Meaning]:
    """The reasons of nodes without jobs, that about GPUs first; of nodes that all get jobs, that they do."""
    reasons = [one for one in nodes if one.reason]
    barred = reasons or [one for one in nodes if not one.works]
    names = [one.nodes for one in barred or nodes]
    listed = ",".join(dict.fromkeys(names[:MOST_NODES]))
    judge = f"gdr fleet doctor '{listed}'" if {"[", ","} & set(listed) else f"gdr doctor ssh://{listed}"
    judges = f"`{judge}` judges the path between GPU memory and the network"
    if not reasons:
        words = f"Slurm gives {listed} {'no ' if barred else ''}jobs; that {DECIDES_NOTHING}"
        todo = f"`sinfo -R` prints why. {judges}" if barred else judges
        return (barred or nodes)[0].line, Meaning(words, todo, "aside")
    reasons.sort(key=_rank)
    return reasons[0].line, Meaning(*_by_reason(reasons, judges), "aside")


def _by_reason(nodes: list[NodeState], judges: str) -> tuple[str, str]:
    """What the reasons of nodes mean, each once, and what to do about them."""
    kinds: dict[str, list[str]] = {}
    for one in nodes:
        kinds.setdefault(_begin(one) or one.reason, []).append(one.nodes)
    alone = "" if _OWN in kinds else f"; that alone {DECIDES_NOTHING}"
    words, todo = [], []
    for begin, names in list(kinds.items())[:MOST_REASONS]:
        where = ",".join(dict.fromkeys(names[:MOST_NODES]))
        means, step = _REASONS.get(begin, (_OWN_REASON, ""))
        words.append(f"{where}: {means}")
        if begin == _OWN:
            step = step.replace("NAME", _named(nodes), 1)
        todo += [f"For {where}, {step}"] if step else []
    return (
        f"Slurm gives nodes no jobs{alone}. {'. '.join(words)}",
        ". ".join((*todo, f"Where they answer, {judges}" if todo else judges)),
    )


def _named(nodes: list[NodeState]) -> str:
    """The code that the reasons of gdrkit name first; NAME if `sinfo` cut all of them."""
    own = (one.reason.removeprefix(_OWN) for one in nodes if _begin(one) == _OWN)
    names = (reason.partition(":")[0].strip() for reason in own)
    return next((name for name in names if name in CODES), "NAME")


def _begin(one: NodeState) -> str:
    """How the reason of a node begins, if it is one of those that Slurm gives itself; else ""."""
    return next((begin for begin in _REASONS if one.reason.startswith(begin)), "")


def _rank(one: NodeState) -> int:
    return [*_REASONS, ""].index(_begin(one))


def _of_job(found: JobEnd) -> Meaning:
    number = found.signal or max(found.code - _SIGNALS, 0)
    if found.state.startswith(("NODE_FAIL", "BOOT_FAIL")):
        return NODE_FAILED
    if found.state.startswith("OUT_OF_ME") or number == _OUT_OF_MEMORY:
        return SLURM_MEMORY
    if found.state.startswith("TIMEOUT"):
        return JOB_TIME
    log = "`gdr nccl LOG` reads in the job's log what carried its data, and what failed first"
    if (todo := OF_SIGNAL.get(str(number))) is not None:
        words = f"A task was ended by signal {number} ({_SIGNAL_NAMES[number]}); that {DECIDES_NOTHING}"
        return Meaning(words, f"{todo}. {log}", "follows")
    if found.code or number:
        what = f"signal {number}" if number else f"exit code {found.code}"
        words = f"A task ended with {what}; that {DECIDES_NOTHING}: why, only its output says"
        return Meaning(words, f"Paste the output of the task into `gdr explain`. {log}", "aside")
    return Meaning(f"Slurm reports no failure of this job; that {DECIDES_NOTHING}", log, "aside")
