"""modprobe.d does not keep nvidia-peermem, or a driver that a GPU waits for, from loading."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from msgspec.structs import replace

from gdrkit.facts.driver_files import DRIVER, peermem_path
from gdrkit.facts.install_command import Effect, effect
from gdrkit.facts.modprobe_config import Directive, configuration
from gdrkit.facts.module_arguments import reading
from gdrkit.facts.module_index import name_of
from gdrkit.facts.module_init import refused_argument
from gdrkit.facts.modules import PEERMEM
from gdrkit.node import Node, Supposition, if_missing
from gdrkit.repair.platforms.action import Action
from gdrkit.repair.platforms.change import Change
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.module_files import comment_out
from gdrkit.repair.platforms.platform import Platform
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.rules.module_subjects import modules_to_load
from gdrkit.rules.remedy_names import RemedyName

_LISTS = ("blacklist", "install", "options")


def _effect(node: Node) -> Iterable[Supposition]:
    """Without the conflicting lines, modprobe.d does not prevent loading."""
    known, lines = configuration(node), _conflicting_lines(node)
    remaining = {kind: tuple(e for e in getattr(known, kind) if e not in lines) for kind in _LISTS}
    yield configuration.becomes(replace(known, **remaining))


def _conflicting_lines(node: Node) -> tuple[Directive, ...]:
    """Blacklist lines, install lines that do not load it (Debian's load a renamed file), invalid options."""
    found = configuration(node)
    modules = set(modules_to_load(node))
    names = {PEERMEM, *(modules if DRIVER in modules else (name_of(peermem_path(node)),))}
    return (
        *(entry for entry in found.blacklist if entry.name in names),
        *(entry for entry in found.install if _stops(entry, names)),
        *(entry for entry in found.options if entry.name in names and _is_invalid(node, entry)),
    )


def _stops(entry: Directive, names: set[str]) -> bool:
    return any(fnmatchcase(name, entry.name) for name in names) and effect(entry.value) is not Effect.LOADS


def _is_invalid(node: Node, entry: Directive) -> bool:
    """Whether the kernel refuses an option, or the module's init function does."""
    return if_missing(
        False,
        lambda: bool(
            reading(node, entry.name, entry.value).bad or refused_argument(node, entry.name, entry.value)
        ),
    )


def _procedure(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Comment out the lines of modprobe.d that keep the module from loading."""
    del platform, choices
    lines = _conflicting_lines(node)
    blocked = DRIVER if any(line.name == DRIVER for line in lines) else "nvidia-peermem"
    yield from comment_out(node, lines, "/etc/modprobe.d", f"comment out what blocks {blocked}")


ALLOW_MODULE = Remedy(
    name=RemedyName.ALLOW_MODULE,
    title="remove the lines from modprobe.d that prevent the module from loading",
    effect=_effect,
    changes=Change.LOADING,
    becomes="modprobe.d does not prevent the module from loading",
    risk="the lines may be intentional; the finding names them",
    undo="restore the lines",
    procedure=_procedure,
)
