"""Finds the lines of modprobe's configuration that keep nvidia-peermem from loading."""

from __future__ import annotations

from fnmatch import fnmatchcase

from gdrkit.facts.driver_files import peermem_path
from gdrkit.facts.install_command import Effect, effect
from gdrkit.facts.modprobe_config import Directive, configuration
from gdrkit.facts.module_arguments import reading
from gdrkit.facts.module_index import name_of
from gdrkit.facts.module_init import refused_argument
from gdrkit.facts.modules import PEERMEM
from gdrkit.node import Node, if_missing


def conflicting_config(node: Node) -> tuple[Directive, ...]:
    """Blacklist lines, install lines that do not load it (Debian's load a renamed file), invalid options."""
    found = configuration(node)
    names = {PEERMEM, name_of(peermem_path(node))}
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
