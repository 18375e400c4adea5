"""The variables that a shell script gives a literal value, and its here-documents with these values in them.

Only what the script alone decides counts: one assignment in all of it, not indented as in a block.
Source: POSIX.1-2017, Shell Command Language, 2.6.2 and 2.7.4.
"""

from __future__ import annotations

import re
from collections import Counter

from gdrkit.facts.assignments import is_filled_in
from gdrkit.formats.regex import regex

_LITERAL = regex(
    r"^(?:export |readonly |declare (?:-\w+ )?)?(?P<name>[A-Za-z_]\w*)="
    r"(?:\"(?P<double>[^\"`\\]*)\"|'(?P<single>[^'$]*)'|(?P<bare>[^\s;&|\"'`\\()]*))\s*(?:[;#].*)?$"
)
_SETS = regex(r"(?<![\w$.{-])([A-Za-z_]\w*)\+?=|\bfor ([A-Za-z_]\w*) in\b|\bread (?:-\w+ )*([A-Za-z_]\w*)")
_REFERENCE = regex(r"(?<!\\)\$(?:(?P<bare>[A-Za-z_]\w*)|\{(?P<braced>[A-Za-z_]\w*)(?::?-[^}]*)?\})")
_BEGINS = regex(r"(?<!<)<<(?P<tabs>-?)\s*(?P<quote>[\"'\\]?)(?P<word>[A-Za-z_]\w*)")


def assigned(text: str) -> dict[str, str]:
    """The variables that a script sets once, to a value that it shows."""
    lines = _setting_lines(text)
    times = Counter(name for found in _SETS.findall("\n".join(lines)) for name in found)
    values: dict[str, str] = {}
    for line in lines:
        found = _LITERAL.match(line)
        if found is not None and times[found["name"]] == 1:
            value = _filled(next(filter(None, found.group("double", "single", "bare")), ""), values)
            if value and not is_filled_in(value):
                values[found["name"]] = value
    return values


def _setting_lines(text: str) -> list[str]:
    """The lines that can set a variable."""
    lines = (line for line in text.split("\n") if "=" in line or "for " in line or "read " in line)
    return [line for line in lines if not line.lstrip().startswith("#")]


def _filled(text: str, values: dict[str, str]) -> str:
    return _REFERENCE.sub(lambda found: values.get(found["bare"] or found["braced"], found[0]), text)


def with_values(text: str) -> str:
    """A script whose here-documents have the values of its variables, line for line. In one whose word is
    quoted the shell fills in nothing."""
    values = assigned(text) if _BEGINS.search(text) else {}
    if not values:
        return text
    out, end = [], None
    for line in text.split("\n"):
        if end is None:
            begins = _BEGINS.search(line)
            end = re.compile(("\t*" if begins["tabs"] else "") + begins["word"]) if begins else None
            fills = begins is not None and not begins["quote"]
        elif end.fullmatch(line):
            end = None
        elif fills:
            line = _filled(line, values)
        out.append(line)
    return "\n".join(out)
