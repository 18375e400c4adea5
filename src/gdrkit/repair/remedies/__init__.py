"""The remedies. Each has a file of its own, which is loaded when the remedy is first asked for.

The names are in rules/remedy_names.py, since rules refer to them.
"""

from __future__ import annotations

import functools
from importlib import import_module

from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.rules.remedy_names import RemedyName


@functools.cache
def remedy_of(name: str) -> Remedy:
    """The remedy of that name. Raises ValueError for an unknown one."""
    known = RemedyName(name)
    module = import_module(f"gdrkit.repair.remedies.{known.replace('-', '_')}")
    remedy: Remedy = getattr(module, known.name)
    return remedy


@functools.cache
def every_remedy() -> tuple[Remedy, ...]:
    """All remedies, in the order of their names."""
    return tuple(map(remedy_of, RemedyName))
