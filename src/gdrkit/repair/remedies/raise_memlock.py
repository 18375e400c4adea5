"""Users and the services that start jobs may lock any amount of memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gdrkit.facts.libraries import memlock_limit_bytes
from gdrkit.node import Node, Supposition, if_missing
from gdrkit.repair.platforms import file_contents
from gdrkit.repair.platforms.action import Action, RunCommand, WriteFile
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
    """Raise the limits of logins, of systemd's units, and of the units that start jobs."""
    del platform, choices
    yield WriteFile(path=file_contents.LIMITS, content=file_contents.memlock_limits(), why="for logins")
    yield WriteFile(
        path=file_contents.SYSTEMD_LIMITS,
        content=file_contents.manager_limits(),
        why="for all that systemd starts",
    )
    for unit in STARTERS:
        if _has_unit(node, unit):
            path = f"/etc/systemd/system/{unit}.service.d/90-gdrkit-memlock.conf"
            yield WriteFile(path=path, content=file_contents.unit_limits(), why=f"for jobs of {unit}")
    yield RunCommand(
        argv=("systemctl", "daemon-reexec"),
        why="make systemd read the new limits",
        again=True,
        never_executed=True,
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
