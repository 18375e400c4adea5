"""Ranked enumerations compare by declaration order, and are written as words."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from gdrkit.evidence import Confidence
from gdrkit.evidence.ranked import Ranked
from gdrkit.rules.rule import Layer

GROUND_UP = ["hardware", "firmware", "kernel", "driver", "rdma", "pcie", "library", "application"]
ORDERS = [(Confidence, ["assumed", "likely", "certain"]), (Layer, GROUND_UP)]
each_order = pytest.mark.parametrize(("words", "order"), ORDERS)


@each_order
def test_sorting_follows_the_declaration_not_the_alphabet(words: type[Ranked], order):
    assert sorted(words(word) for word in sorted(order)) == order
    assert (min(words), max(words)) == (order[0], order[-1])
    assert sorted((word, 0) for word in reversed(list(words))) == [(word, 0) for word in order]


@each_order
def test_every_comparison_follows_the_rank(words: type[Ranked], order):
    for one, other in itertools.product(words, repeat=2):
        here, there = order.index(one), order.index(other)
        assert (one < other, one <= other) == (here < there, here <= there)
        assert (one > other, one >= other) == (here > there, here >= there)
        assert (one == other) == (here == there)


def test_comparing_with_a_plain_string_raises():
    with pytest.raises(AttributeError):
        assert Confidence.CERTAIN > "assumed"


@each_order
def test_json_contains_the_word(words: type[Ranked], order):
    assert msgspec.json.encode(list(words)) == msgspec.json.encode(order)
    assert msgspec.json.decode(msgspec.json.encode(order), type=list[words]) == list(words)  # type: ignore[valid-type]
    assert [f"{word:>12}" for word in words] == [f"{word:>12}" for word in order]
