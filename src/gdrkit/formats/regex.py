"""Regular expressions of modules, each compiled when it is first used.

A command imports hundreds of expressions and matches with few. Compiling those of `gdr doctor` took as long
as the start of Python itself. A test keeps `re.compile` out of what an import runs."""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast

_PARTS = ("search", "match", "fullmatch", "finditer", "findall", "sub", "subn", "split")


class _Later:
    """What a compiled expression is, from its first use."""

    def __init__(self, text: Any, flags: int) -> None:
        self._source = text, flags

    def __getattr__(self, name: str) -> Any:
        compiled = re.compile(*self._source)
        self.__dict__.update((part, getattr(compiled, part)) for part in _PARTS)
        return getattr(compiled, name)


def regex(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """The expression, with the methods and attributes of a compiled one; no function of `re` takes it.

    Raises re.error at its first use if it is none."""
    return cast("re.Pattern[AnyStr]", _Later(text, flags))
