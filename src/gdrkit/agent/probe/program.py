"""A probe as one program for a Python without gdrkit: `python3 -I -c`, or on standard input."""

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
"""The imports of a module precede it; the probe is last."""


def program(script: str) -> str:
    """The text of a probe, such as `cuda_probe`, with the modules that it imports. Raises OSError if the
    probe does not exist."""
    texts: Dict[str, str] = {}
    _gather(f"probe.{script}", texts)
    modules = tuple((f"gdrkit.agent.{name}", text) for name, text in texts.items())
    return _HEAD.replace("MODULES", ascii(modules))


def _gather(name: str, texts: Dict[str, str]) -> None:
    """Add a module of gdrkit.agent after those that it imports."""
    text = _text(name)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.level:
            imported = ".".join([*name.split(".")[: -node.level], str(node.module)])
            if imported not in texts:
                _gather(imported, texts)
    texts[name] = text


def _text(name: str) -> str:
    """The text of a module in gdrkit.agent, from a folder or from the archive that this runs from."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    loader = globals()["__loader__"]
    data: bytes = loader.get_data(os.path.join(here, *name.split(".")) + ".py")
    return data.decode("utf-8")
