"""How a reply takes what an earlier post names: "Thank you, it works" confirms it, "no change" refutes it.

A thread is pasted with its bylines ("alice commented two days ago"), or without: then a paragraph counts as
a post. What is confirmed was found to be the cause, also if it was only asked or advised.
"""

from __future__ import annotations

import functools
import re

from gdrkit.explain import cues
from gdrkit.explain.sentences import Sentence

MOST_WORDS = 14
"""Words of a sentence that only takes what was said before, at most."""

OPENING = 2
"""Sentences at the start of a reply that can do so: "Thank you very much. Problem solved!" """

_PATTERNS = {
    "confirms": (
        r"\b(?:that|this|it)(?:'s| was| is| were)? (?:indeed |exactly |actually )?(?:it\b|the (?:\w+ )?"
        r"(?:problem|issue|cause|reason|fix|solution|case)|works?\b|worked\b|fixed\b|fixes\b|solved\b|solves\b"
        r"|resolved\b|helped\b|did\b)"
        r"|\b(?:problem|issue)s? (?:is |was )?(?:now )?(?:solved|fixed|resolved|gone)\b"
        r"|^\W*(?:solved|fixed|resolved|works)\b|\bworks (?:now|fine|perfectly|well|great|like a charm)\b"
        r"|\u89e3\u51b3\u4e86|\u597d\u4e86"
    ),
    "thanks": (
        r"^\W*(?:yes|yep|yeah|ok(?:ay)?|thanks?|thank you|thx|great|indeed|correct|right|perfect|cool|wow"
        r"|ah|oh|nice|awesome|you(?:'re| are) right|sure|many thanks|hi|hello|hey|@\S+|\u8c22\u8c22"
        r"|\u611f\u8c22)\b"
    ),
    "doubts": r"\b(?:not|n't|no|never|but|still|however|unfortunately|only)\b|\?",
}


@functools.cache
def _compiled(name: str) -> re.Pattern[str]:
    return re.compile(_PATTERNS[name], re.IGNORECASE)


def is_confirmed(found: tuple[Sentence, ...], index: int) -> bool:
    """Whether the next post begins with a confirmation of what a post says."""
    return any(_confirms(sentence) for sentence in _opening(found, index))


def is_refuted(found: tuple[Sentence, ...], index: int) -> bool:
    """Whether the next post begins with the remark that it had no effect."""
    return any(
        len(sentence.text.split()) <= MOST_WORDS and cues.is_futile(sentence.text)
        for sentence in _opening(found, index)
    )


def _confirms(sentence: Sentence) -> bool:
    text = sentence.text
    if len(text.split()) > MOST_WORDS or _compiled("doubts").search(text) or cues.is_futile(text):
        return False
    return _compiled("confirms").search(text) is not None


def _opening(found: tuple[Sentence, ...], index: int) -> tuple[Sentence, ...]:
    """The first sentences of the post after that of a sentence, up to one that says more."""
    own = found[index]
    after = [sentence for sentence in found[index + 1 :] if _is_next(own, sentence)]
    opening = []
    for sentence in after[:OPENING]:
        opening.append(sentence)
        if not _compiled("thanks").search(sentence.text):
            break
    return tuple(opening)


def _is_next(own: Sentence, other: Sentence) -> bool:
    """Whether a sentence is in the post after another one's."""
    if other.post != own.post:
        return other.post == own.post + 1
    return not own.post and other.paragraph == own.paragraph + 1
