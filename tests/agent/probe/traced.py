"""A simulated library whose every call is written down, in order, with what it was given."""

from __future__ import annotations

import ctypes
from typing import Any


def shown(value: Any) -> str:
    """A number as it is, a buffer by its size, a pointer to a result as &."""
    if isinstance(value, ctypes.Array):
        return f"[{len(value)}]"
    if hasattr(value, "_obj"):
        return "&"
    return str(getattr(value, "value", value))


class Traced:
    """The library, with `lines`: a line for each call."""

    def __init__(self, library: Any, lines: list[str]) -> None:
        self._library, self._lines = library, lines

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._library, name)
        if function is None:
            raise AttributeError(name)

        def call(*arguments: Any) -> Any:
            self._lines.append(f"{name}({', '.join(map(shown, arguments))})")
            return function(*arguments)

        return call
