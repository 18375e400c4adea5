"""Mooncake's variable that chooses how it registers GPU memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from msgspec.structs import replace

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.facts.wheels import LibraryCopy
from gdrkit.node import Node, Supposition, if_absent
from gdrkit.programs.environment import SYSTEM, ProgramSetting, environment
from gdrkit.programs.mooncake.consumer import MOONCAKE, NEWEST_READ, SWITCH, has_switch
from gdrkit.repair.platforms.action import Action, AskPerson
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.platform import Planner, Platform
from gdrkit.rules.capabilities import Path


def _value(path: Path) -> str:
    return str(int(path is Path.PEERMEM))


def registers_by(path: Path) -> Callable[[Node], Iterable[Supposition]]:
    """The effect: Mooncake registers memory for this path only. It is not possible with releases that have
    no switch: they have to be built anew."""

    def effect(node: Node) -> Iterable[Supposition]:
        copies = if_absent((LibraryCopy(NEWEST_READ, ""),), MOONCAKE.copies, node)
        if not all(has_switch(copy.version) for copy in copies):
            raise EvidenceMissing(
                Missing(f"a Mooncake with {SWITCH}", MissingReason.ABSENT, "pip list | grep -i mooncake")
            )
        found = environment(node, SYSTEM)
        others = (setting for setting in found.settings if setting.name != SWITCH)
        chosen = ProgramSetting(SWITCH, _value(path), SYSTEM, 0)
        yield environment.becomes(replace(found, settings=(*others, chosen)), SYSTEM)

    return effect


def set_switch(path: Path) -> Planner:
    """The procedure: a variable of jobs, since /etc/environment does not reach services and containers."""

    def procedure(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
        del node, platform, choices
        yield AskPerson(
            what="set the variable where the job starts: in its script, its unit, or the env of its "
            "container",
            commands=(f"export {SWITCH}={_value(path)}",),
        )

    return procedure
