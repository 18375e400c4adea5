"""Numbers with their nouns."""

from __future__ import annotations

import pytest

from gdrkit.formats.plural import plural


@pytest.mark.parametrize(
    ("number", "noun", "words"),
    [
        (0, "node", "0 nodes"), (1, "node", "1 node"), (2, "more value", "2 more values"),
        (1, "switch", "1 switch"), (3, "switch", "3 switches"), (2, "process", "2 processes"),
    ],
)  # fmt: skip
def test_a_noun_has_its_plural_ending(number, noun, words):
    assert plural(number, noun) == words
