"""What dynamic debug says of a query that a module is loaded with.

Source: Linux lib/dynamic_debug.c, ddebug_exec_queries(), ddebug_parse_flags() and ddebug_parse_query(), at
6.1 and 6.12. A query that it takes is silent.
"""

from __future__ import annotations

import functools
import re

from gdrkit.formats.regex import regex
from gdrkit.messages import kernel

_FLAGS = "pmfsltd_"  # the letters of all versions; those that came later are not told apart
_OLD_FLAGS = "pmflt_"
_QUOTING = regex(r"[\"'\\]")
QUERY_CHARACTERS = 4096
"""Longer ones are not known. No more may be written to the control file: USER_BUF_PAGE of that source."""
_KEYS = ("func", "file", "module", "format")


def answer(query: str) -> tuple[str, ...] | None:
    """The lines that a query logs; None where they are not known."""
    if len(query) > QUERY_CHARACTERS:
        return None
    lines: list[str] = []
    for part in re.split(r"[;\n]", query):
        words = part.split()
        if not words or words[0].startswith("#"):
            continue
        said = None if _QUOTING.search(part) else _of_one(words)
        if said is None:
            return None
        lines += said
    return tuple(lines)


def _of_one(words: list[str]) -> tuple[str, ...] | None:
    *specification, flags = words
    if flags[0] not in "+-=":
        return _bad_operator(flags)
    for letter in flags[1:]:
        if letter not in _FLAGS:
            return kernel.UNKNOWN_FLAG.say(letter=letter), kernel.BAD_FLAGS.say()
        if letter not in _OLD_FLAGS:
            return None
    keys = specification[::2]
    known = len(specification) % 2 == 0 and len({*keys}) == len(keys) and all(key in _KEYS for key in keys)
    return () if known else None


@functools.lru_cache(maxsize=64)
def _bad_operator(flags: str) -> tuple[str, ...]:
    return kernel.BAD_FLAG_OPERATOR.say(letter=flags[0], flags=flags), kernel.BAD_FLAGS.say()
