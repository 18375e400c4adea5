"""Users and the services that start jobs may lock any amount of memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gdrkit.facts.libraries import memlock_limit_bytes, unlimited_logins
from gdrkit.node import Node, Supposition, if_missing
from gdrkit.repair.platforms import file_contents
from gdrkit.repair.platforms.action import Action, AskPerson, RunCommand, WriteFile
from gdrkit.repair.platforms.change import Change
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.platform import Platform
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.rules.remedy_names import RemedyName

STARTERS = ("slurmd", "containerd", "docker", "kubelet", "pbs")
"""Units that start jobs, which inherit the unit's limits."""


def _effect(node: Node) -> Iterable[Supposition]:
    yield memlock_limit_bytes.becomes(None)


def _procedure(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Raise the limits of logins, of systemd's units, and of the units that start jobs. A process keeps the
    limit with which it started, and passes it on (getrlimit(2)), so all of these must start anew."""
    del platform, choices
    lifted = if_missing(frozenset(), unlimited_logins, node)
    if logins := [who for who in ("*", "root") if who not in lifted]:
        yield WriteFile(
            path=file_contents.LIMITS, content=file_contents.memlock_limits(logins), why="for logins"
        )
    yield WriteFile(
        path=file_contents.SYSTEMD_LIMITS,
        content=file_contents.manager_limits(),
        why="for all that systemd starts",
    )
    units = [unit for unit in STARTERS if _has_unit(node, unit)]
    for unit in units:
        path = f"/etc/systemd/system/{unit}.service.d/90-gdrkit-memlock.conf"
        yield WriteFile(path=path, content=file_contents.unit_limits(), why=f"for jobs of {unit}")
    yield RunCommand(
        argv=("systemctl", "daemon-reexec"),
        why="make systemd read the new limits",
        again=True,
        never_executed=True,
    )
    which = "the services that start jobs" if units else "the services that start jobs, such as slurmd"
    yield AskPerson(
        what=f"log in again and, once no job runs, restart {which}: what runs keeps its limit",
        commands=tuple(f"sudo systemctl restart {unit}" for unit in units),
    )


def _has_unit(node: Node, unit: str) -> bool:
    return if_missing(
        False,
        lambda: any(
            node.exists(f"{folder}/{unit}.service")
            for folder in ("usr/lib/systemd/system", "lib/systemd/system", "etc/systemd/system")
        ),
    )


RAISE_MEMLOCK = Remedy(
    name=RemedyName.RAISE_MEMLOCK,
    title="remove the limit on locked memory",
    effect=_effect,
    changes=Change.LIMIT,
    becomes="RLIMIT_MEMLOCK is unlimited for users and for the services that start jobs",
    risk="one process can lock all memory of the machine",
    undo="remove the lines from /etc/security/limits.d and the units",
    procedure=_procedure,
    commands=("systemctl daemon-reexec",),
)
