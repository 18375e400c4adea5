"""modprobe's side: which modules it would load, in which order, for a name. PURE.

Source: kmod libkmod-module.c, kmod_module_new_from_lookup(), kmod_module_get_probe_list().
"""

from __future__ import annotations

from msgspec import Struct

from gdrkit.evidence import Absent, Lacks
from gdrkit.facts.modprobe_config import configuration
from gdrkit.facts.modules import aliases, builtin, canonical, dependencies, module_path
from gdrkit.node import Node


class Target(Struct, frozen=True):
    """A module that a name stands for."""

    name: str
    by_alias: bool = False
    builtin: bool = False


class Step(Struct, frozen=True):
    """A module to load on the way, and how."""

    name: str
    required: bool  # the target or a dependency of it; what fails else is passed over
    ignore_install: bool


def targets(node: Node, name: str) -> tuple[Target, ...]:
    """What a name stands for; () if nothing. The first of several places that knows it decides."""
    config = configuration(node)
    wanted = canonical(name)
    entries = config.modules_of_alias(wanted)
    if entries:
        return tuple(Target(entry.value, by_alias=True) for entry in entries)
    try:
        module_path(node, wanted)
    except Absent:
        pass
    else:
        return (Target(wanted),)
    if any(entry.name == wanted for entry in (*config.install, *config.remove)):
        return (Target(wanted),)
    found = aliases(node, wanted)
    if found:
        return tuple(Target(module, by_alias=True) for module in found)
    try:
        return (Target(wanted, builtin=True),) if builtin(node, wanted) else ()
    except Absent:
        return ()


def probe_list(node: Node, name: str, ignore_install: bool) -> tuple[Step, ...]:
    """The modules that modprobe loads for a module, in order, the module among them."""
    required = {name, *_dependencies(node, name)}
    order: dict[str, bool] = {}
    visited: set[str] = set()
    _visit(node, name, ignore_install, order, visited)
    return tuple(Step(module, module in required, ignore) for module, ignore in order.items())


def _visit(node: Node, name: str, ignore_install: bool, order: dict[str, bool], visited: set[str]) -> None:
    if name in visited:
        return
    visited.add(name)
    for needed in _dependencies(node, name):
        _with_soft_dependencies(node, needed, order, visited)
    if ignore_install:
        order[name] = True
    else:
        _with_soft_dependencies(node, name, order, visited)


def _with_soft_dependencies(node: Node, name: str, order: dict[str, bool], visited: set[str]) -> None:
    """A module with soft dependencies ignores its install line: __kmod_module_fill_softdep()."""
    soft = configuration(node).soft_dependencies(name)
    pre = [target.name for wish in (soft.pre if soft else ()) for target in _known(node, wish)]
    post = [target.name for wish in (soft.post if soft else ()) for target in _known(node, wish)]
    for other in pre:
        _visit(node, other, False, order, visited)
    order.setdefault(name, bool(pre or post))
    for other in post:
        _visit(node, other, False, order, visited)


def _known(node: Node, name: str) -> tuple[Target, ...]:
    try:
        return targets(node, name)
    except Lacks:  # what fails of soft dependencies fails silently
        return ()


def _dependencies(node: Node, name: str) -> tuple[str, ...]:
    try:
        return dependencies(node, name)
    except Absent:
        return ()
