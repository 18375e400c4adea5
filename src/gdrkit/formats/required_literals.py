"""Strings of which one is in every text that a regular expression matches.

To look for a few constant strings is many times faster than to search for an expression that may begin
anywhere. The tree is that of the standard library's own parser of expressions.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from re import _constants, _parser  # type: ignore[attr-defined]
from typing import Any

_REPEATS = (_constants.MAX_REPEAT, _constants.MIN_REPEAT, _constants.POSSESSIVE_REPEAT)


@functools.lru_cache(maxsize=1024)
def required_literals(pattern: str) -> tuple[str, ...]:
    """The longest such strings, one for each alternative; () if no string is certain."""
    return tuple(sorted(_of_sequence(_parser.parse(pattern))))


def _of_sequence(sequence: Iterable[Any]) -> frozenset[str]:
    """Of parts that follow one another, all of which match: those of the part that says most."""
    return max(_candidates(sequence), key=_weight, default=frozenset())


def _weight(literals: frozenset[str]) -> tuple[int, int]:
    return min(map(len, literals), default=0), -len(literals)


def _candidates(sequence: Iterable[Any]) -> Iterator[frozenset[str]]:
    run = ""
    for kind, value in sequence:
        if kind is _constants.LITERAL:
            run += chr(value)
            continue
        if run:
            yield frozenset((run,))
        run = ""
        yield _of_part(kind, value)
    if run:
        yield frozenset((run,))


def _of_part(kind: Any, value: Any) -> frozenset[str]:
    if kind is _constants.SUBPATTERN:
        _, added, _, inside = value
        return frozenset() if added & re.IGNORECASE else _of_sequence(inside)
    if kind is _constants.ATOMIC_GROUP:
        return _of_sequence(value)
    if kind is _constants.BRANCH:
        branches = [_of_sequence(branch) for branch in value[1]]
        return frozenset().union(*branches) if all(branches) else frozenset()
    if kind in _REPEATS and value[0] > 0:
        return _of_sequence(value[2])
    return frozenset()  # a class, a position, an assertion, or what may be absent
