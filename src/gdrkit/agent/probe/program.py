"""A probe as one program, for a Python that has nothing of ours: `python3 -I -c`, or on standard input."""

from __future__ import annotations

import ast
import os
from typing import Dict

_HEAD = """\
import sys, types
for name, text in MODULES:
    module = sys.modules[name] = types.ModuleType(name)
    module.__package__ = name.rpartition(".")[0]
    exec(compile(text, name, "exec", dont_inherit=True), vars(module))
sys.exit(module.main())
"""
"""The probe comes last: all that a module imports stands before it."""


def program(script: str) -> str:
    """The text of `cuda_probe` and so on, with the modules that it imports. Raises OSError if there is none
    of that name."""
    texts: Dict[str, str] = {}
    _gather(f"probe.{script}", texts)
    modules = tuple((f"gdrkit.agent.{name}", text) for name, text in texts.items())
    return _HEAD.replace("MODULES", ascii(modules))


def _gather(name: str, texts: Dict[str, str]) -> None:
    """Add a module of gdrkit.agent, after those that it imports."""
    text = _text(name)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.level:
            imported = ".".join([*name.split(".")[: -node.level], node.module or ""])
            if imported not in texts:
                _gather(imported, texts)
    texts[name] = text


def _text(name: str) -> str:
    """A module's text, from beside this package: in a folder, or in the archive that this runs from."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    loader = globals()["__loader__"]
    data: bytes = loader.get_data(os.path.join(here, *name.split(".")) + ".py")
    return data.decode("utf-8")
