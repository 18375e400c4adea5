"""modprobe's side: the modules that it loads for a name, in order.

Source: kmod libkmod-module.c, kmod_module_new_from_lookup(), kmod_module_get_probe_list().
"""

from __future__ import annotations

from msgspec import Struct

from gdrkit.facts.modprobe_config import ModprobeConfig
from gdrkit.facts.module_lookup import aliases, builtin_aliases, symbol_provider, taken_for_builtin
from gdrkit.facts.modules import dependencies, missing_dependency, module_path
from gdrkit.formats.module_name import canonical
from gdrkit.loader.effort import STEPS_LIMIT, Effort
from gdrkit.node import Node, each_known, if_absent


class LoadTarget(Struct, frozen=True):
    """A module that a name resolves to."""

    name: str
    by_alias: bool = False
    builtin: bool = False
    alias: str = ""  # as the source has it: a pattern of modprobe.d, or the name that was looked up


class LoadStep(Struct, frozen=True):
    """A module to load, and how."""

    name: str
    required: bool  # the target or one of its dependencies; failures of others are ignored
    ignore_install: bool


def targets(node: Node, config: ModprobeConfig, name: str) -> tuple[LoadTarget, ...]:
    """The modules that a name resolves to; () if none. The first source that has the name decides."""
    wanted = canonical(name)
    entries = config.modules_of_alias(wanted)
    if entries:
        return tuple(LoadTarget(entry.value, by_alias=True, alias=entry.name) for entry in entries)
    if if_absent(None, module_path, node, wanted) is not None:
        return (LoadTarget(wanted),)
    owners = symbol_provider(node, wanted)
    if owners:
        return tuple(LoadTarget(owner, by_alias=True, alias=wanted) for owner in owners)
    if any(entry.name == wanted for entry in (*config.install, *config.remove)):
        return (LoadTarget(wanted),)
    found = aliases(node, wanted)
    if found:
        return tuple(LoadTarget(module, by_alias=True, alias=wanted) for module in found)
    if taken_for_builtin(node, wanted):
        return (LoadTarget(wanted, builtin=True),)
    parts = builtin_aliases(node, wanted)
    return tuple(LoadTarget(part, by_alias=True, builtin=True, alias=wanted) for part in parts)


MODULES_LIMIT = 200
"""The most modules that are followed for one. A graphics driver with all its dependencies needs about 40."""


def probe_list(
    node: Node, config: ModprobeConfig, name: str, ignore_install: bool, effort: Effort
) -> tuple[LoadStep, ...]:
    """The modules that modprobe loads for a module, in order, including that module.

    Raises EvidenceMissing for more than any module needs."""
    required = {name, *_dependencies(node, name)}
    walk = _Walk(node, config, effort)
    walk.visit(name, ignore_install)
    return tuple(LoadStep(module, module in required, ignore) for module, ignore in walk.order.items())


class _Walk:
    """Walks from a module to all modules that are loaded with it."""

    def __init__(self, node: Node, config: ModprobeConfig, effort: Effort) -> None:
        self.node, self.config, self.effort = node, config, effort
        self.order: dict[str, bool] = {}  # module -> whether its install line is ignored
        self.visited: set[str] = set()

    def visit(self, name: str, ignore_install: bool = False) -> None:
        """__kmod_module_get_probe_list()."""
        if name in self.visited:
            return
        self.visited.add(name)
        self.effort.spend(1 if len(self.visited) <= MODULES_LIMIT else STEPS_LIMIT + 1)
        for needed in _dependencies(self.node, name):
            self._with_soft_dependencies(needed)
        if ignore_install:
            self.order[name] = True
        else:
            self._with_soft_dependencies(name)

    def _with_soft_dependencies(self, name: str) -> None:
        """A module with soft dependencies ignores its install line: __kmod_module_fill_softdep()."""
        self.effort.spend()
        soft = self.config.soft_dependencies(name)
        pre = self._known(soft.pre if soft else ())
        post = self._known(soft.post if soft else ())
        for other in pre:
            self.visit(other)
        self.order.setdefault(name, bool(pre or post))
        for other in post:
            self.visit(other)

    def _known(self, names: tuple[str, ...]) -> list[str]:
        """The modules that soft dependencies resolve to. Unknown ones are ignored."""
        self.effort.spend(len(names))
        known = each_known(lambda name: targets(self.node, self.config, name), names)
        return [target.name for found in known for target in found]


def _dependencies(node: Node, name: str) -> tuple[str, ...]:
    """The dependencies of a module; () if a file of one is missing, as in kmod."""
    return if_absent((), lambda: () if missing_dependency(node, name) else dependencies(node, name))
