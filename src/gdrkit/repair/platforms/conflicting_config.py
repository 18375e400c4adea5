"""Lines of modprobe's configuration that keep nvidia-peermem from loading; others stay."""

from __future__ import annotations

from fnmatch import fnmatchcase

from gdrkit.facts.driver_files import peermem_path
from gdrkit.facts.install_command import Effect, effect
from gdrkit.facts.modprobe_config import Directive, configuration
from gdrkit.facts.module_arguments import reading
from gdrkit.facts.module_index import name_of
from gdrkit.facts.modules import PEERMEM
from gdrkit.node import Node, if_missing


def conflicting_config(node: Node) -> tuple[Directive, ...]:
    """Blacklists, install lines that load nothing (Debian's load a renamed module), unreadable options."""
    found = configuration(node)
    names = {PEERMEM, name_of(peermem_path(node))}
    return (
        *(entry for entry in found.blacklist if entry.name in names),
        *(entry for entry in found.install if _stops(entry, names)),
        *(entry for entry in found.options if entry.name in names and _is_bad(node, entry)),
    )


def _stops(entry: Directive, names: set[str]) -> bool:
    return any(fnmatchcase(name, entry.name) for name in names) and effect(entry.value) is not Effect.LOADS


def _is_bad(node: Node, entry: Directive) -> bool:
    return if_missing(False, lambda: bool(reading(node, entry.name, entry.value).bad))
