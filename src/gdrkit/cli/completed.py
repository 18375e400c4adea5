"""What completes the value of each option and argument: words that gdrkit knows, files, nodes, runs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from gdrkit.cli.described import Taken


class Values(NamedTuple):
    """What a shell offers for a value."""

    words: tuple[str, ...] = ()
    list: str = ""
    """A key of LISTS."""
    files: bool = False
    folders: bool = False


_NAME = '| grep "^[[:alnum:]][[:alnum:]._-]*$"'
"""Only names that a shell takes as plain words are offered."""
_HOSTS = (
    r'{ sed -n "s/^[[:space:]]*[Hh]ost[[:space:]]//p" ~/.ssh/config 2>/dev/null; sed "s/#.*//" /etc/hosts; }'
)
_NODES = f'{_HOSTS} | tr -s "[:space:]" "[\\n*]" | grep "^[[:alpha:]]" {_NAME} | sort -u'
_RUNS = '"${XDG_STATE_HOME:-$HOME/.local/state}/gdrkit/fleet"'
LISTS = {
    "node": _NODES,
    "target": f'{_NODES} | sed "s|^|ssh://|"',
    "run": f'{{ echo last; ls {_RUNS} 2>/dev/null | sed -n "s/[.]json$//p"; }} {_NAME}',
    "device": f"ls /sys/class/infiniband 2>/dev/null {_NAME}",
    "interface": f"ls /sys/class/net {_NAME}",
}
"""Commands of sh that list what changes from machine to machine. They have no single quotes."""
TARGET, FILE, FREE = Values(list="target", files=True), Values(files=True), Values()
BY_METAVAR = {
    "FILE": FILE, "FILE.svg": FILE, "LOG": FILE, "PATH": FILE, "DIR": Values(folders=True),
    "TARGET": TARGET, "OTHER": TARGET, "TARGET | FILE": TARGET, "TARGET | PARAMETER=VALUE": TARGET,
    "RUN": Values(list="run"), "NAME[:PORT]": Values(list="device"), "[USER@]NODE": Values(list="node"),
    "N": FREE, "S": FREE, "SIZE": FREE, "FD": FREE, "V": FREE, "CIDR": FREE, "LABELS": FREE, "IMAGE": FREE,
    "ADDRESS": FREE, "NAME=VALUE": FREE, "MODULE:NAME=VALUE": FREE, "PID": FREE, "ID": FREE,
}  # fmt: skip
"""By the metavar in the help; FREE is a text that nothing completes."""


def _codes() -> Values:
    from gdrkit.catalogue import CODES
    from gdrkit.report.glossary import GLOSSARY

    names = {*CODES, *(entry.name for entry in GLOSSARY)}
    return Values(tuple(sorted(name for name in names if re.fullmatch(r"[\w.-]+", name))))


def _code() -> Values:
    from gdrkit.catalogue import CODES

    return Values(tuple(sorted(CODES)))


def _which_nodes() -> Values:
    from gdrkit.catalogue import CODES
    from gdrkit.cli.fleet_doctor import CHOICES

    return Values((*CHOICES, *sorted(CODES)))


def _kinds() -> Values:
    from gdrkit.repair.config import KINDS

    return Values((*KINDS, "check"))


def _forms() -> Values:
    from gdrkit.repair.config import KINDS

    return Values(tuple(sorted({form for kind in KINDS.values() for form in kind.forms})))


def _models() -> Values:
    from gdrkit.fabric.cost.models import MODELS

    return Values(tuple(model.name for model in MODELS), files=True)


def _steps() -> Values:
    from gdrkit.rules.remedy_names import RemedyName

    return Values(tuple(RemedyName))


def _releases() -> Values:
    from gdrkit.programs.nccl.releases import FROM_SOURCE

    return Values(FROM_SOURCE)


def _paths() -> Values:
    from gdrkit.transport import PATHS

    return Values(tuple(map(str, PATHS)))


OWN: dict[tuple[str, str], Values | Callable[[], Values]] = {
    ("codes", "word"): _codes,
    ("config", "kind"): _kinds,
    ("config", "drain_on"): _code,
    ("config", "form"): _forms,
    ("config", "role"): FREE,
    ("config", "interface"): Values(list="interface"),
    ("doctor", "fail_on"): _code,
    ("estimate", "model"): _models,
    ("fix", "steps"): _steps,
    ("fix", "undo"): Values(("last",)),
    ("topo", "nccl"): _releases,
    ("bench", "paths"): _paths,
    ("bench", "sizes"): FREE,
    ("bench", "address"): FREE,
    ("prove", "paths"): _paths,
    ("prove", "address"): FREE,
    ("modprobe", "module"): Values(
        ("nvidia", "nvidia-peermem", "nvidia-uvm", "nvidia-fs", "gdrdrv", "mlx5_ib")
    ),
    ("collect", "module"): FREE,
    ("fleet doctor", "targets"): Values(list="node", files=True),
    ("fleet doctor", "nodes_only"): _which_nodes,
    ("fleet doctor", "compare"): Values(list="node"),
    ("fleet doctor", "partition"): FREE,
    ("fleet doctor", "namespace"): FREE,
    ("fleet doctor", "context"): FREE,
    ("fleet report", "targets"): Values(list="node", files=True),
    ("fleet bench", "targets"): Values(list="node"),
    ("fleet bench", "partition"): FREE,
}
"""By command and option, where the metavar does not decide it."""


def values_of(command: str, taken: Taken) -> Values:
    """What completes a value. Raises KeyError for one that is in none of the tables."""
    if taken.choices:
        return Values(taken.choices)
    found = OWN.get((command, taken.dest))
    if found is None:
        return BY_METAVAR[taken.value]
    return found() if callable(found) else found
