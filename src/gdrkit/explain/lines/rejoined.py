"""Messages that a terminal, a mail or an editor wrapped over several lines, each in one line again."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from gdrkit import catalogue
from gdrkit.explain.lines.line import is_fence, is_machine
from gdrkit.explain.lines.novel_lines import SHORT_LINES
from gdrkit.messages.strerror import in_english

WRAPPED_FROM, WRAPPED_TO = 36, 400
"""Length of a line that goes on in the next one, at least and at most: nobody wraps at fewer columns, and no
terminal has more."""
MOST_PARTS = 3
"""Lines of one message at most."""


def rejoined(raw: Sequence[str]) -> tuple[list[str], frozenset[int]]:
    """The lines with every wrapped message whole in its first line, and the indices of its other lines.

    Lines are joined only if a message of the catalogue is in them together, and in none of them alone."""
    whole, moved = list(raw), set[int]()
    if len(whole) > SHORT_LINES:
        return whole, frozenset()
    for index in range(len(raw)):
        if index not in moved and (found := _joined(raw[index : index + MOST_PARTS])) is not None:
            whole[index], parts = found
            moved.update(range(index + 1, index + parts))
    return whole, frozenset(moved)


def _joined(lines: Sequence[str]) -> tuple[str, int] | None:
    """A message that begins in the first line and ends in a later one, and how many lines it has."""
    texts = [lines[0].rstrip()]  # a terminal wraps within a word, an editor between words
    for count, (before, after) in enumerate(pairwise(lines), start=2):
        if not _may_go_on(before, after):
            return None
        texts = [text + blank + after.strip() for text in texts for blank in (" ", "")]
        for text in texts:
            if _ends_in_last(text, lines[0], after):
                return text, count
    return None


def _may_go_on(before: str, after: str) -> bool:
    return (
        WRAPPED_FROM <= len(before) <= WRAPPED_TO
        and bool(after.strip())
        and not is_fence(after)
        and not is_fence(before)
        and not is_machine(after)
    )


def _ends_in_last(text: str, first: str, last: str) -> bool:
    """Whether the causes of a text are known by a message in all its lines, and not those of one line."""
    words = _message(text)
    if not words or _message(first) or _message(last):
        return False
    begins = in_english(text).find(words)
    return begins < len(first.rstrip()) and begins + len(words) > len(text) - len(last.strip())


def _message(text: str) -> str:
    """The words of a message whose causes are known; "" if a text has none."""
    found = catalogue.match(in_english(text))
    return found.words if found is not None and found.causes else ""
