"""What rules about settings share: where settings come from, and to whom they apply."""

from __future__ import annotations

from collections.abc import Callable

from gdrkit.evidence import EvidenceMissing
from gdrkit.node import Node
from gdrkit.programs.consumer import Switch
from gdrkit.programs.environment import Environment, ProgramSetting, environment, nccl_sources
from gdrkit.programs.nccl.log import FOLDER
from gdrkit.rules.capabilities import Need
from gdrkit.rules.rule import Failed, NotApplicable, Outcome, Passed


def settings_of(node: Node, source: str) -> Environment:
    """What a source sets. A given log that is not an NCCL log sets nothing.

    Raises EvidenceMissing for a file of the node that was not collected.
    """
    try:
        return environment(node, source)
    except EvidenceMissing:
        if source.startswith(FOLDER):
            return Environment(source, "job", ())
        raise


def taken_by(found: Environment, takes: tuple[Need, ...] | None = None) -> tuple[Need, ...] | None:
    """What a setting takes away on this node: nothing if it applies to one user only."""
    return () if found.scope == "user" else takes


def turned_off(node: Node, source: str, switch: Switch) -> Outcome:
    """Failed if a source turns a switch of NCCL off, which is on without a setting."""
    found = settings_of(node, source)
    setting = found.get(switch.name)
    if setting is None:
        return NotApplicable(f"{source} does not set it")
    seen = f"{switch.name}={setting.value}"
    if not switch.off(setting.value):
        return Passed(seen)
    where = node.describe_line(setting.source, setting.line)
    return Failed(seen=seen, expected="unset, or 1", subject=where, takes=taken_by(found))


def first_wrong(
    node: Node, name: str, wrong: Callable[[Environment, ProgramSetting], Failed | None]
) -> Failed | None:
    """The failure for the first of NCCL's sources in which this setting is wrong; None if it never is.

    Sources of the node come before those of a user or a job. Raises EvidenceMissing if the setting is not
    wrong in any source that was read, and a file of the node was not collected.
    """
    unread: EvidenceMissing | None = None
    for source in nccl_sources(node):
        try:
            found = settings_of(node, source)
        except EvidenceMissing as error:
            unread = unread or error.fresh()
            continue
        setting = found.get(name)
        failed = wrong(found, setting) if setting else None
        if failed is not None:
            return failed
    if unread is not None:
        raise unread.fresh()
    return None
