"""One template by itself: where a message begins, what its placeholders take, and what its search costs."""

from __future__ import annotations

import pytest

from gdrkit.messages.message import MessageTemplate
from tests.messages.test_pattern_cost import SECONDS, seconds


@pytest.mark.parametrize("template", ["loading failed", r"{module:nvidia\w*} failed"])
@pytest.mark.parametrize(
    ("before", "begins"), [("", True), (" ", True), ("(", True), ("x", False), ("-", False), ("_", False)]
)
def test_a_message_that_begins_with_a_word_does_not_begin_inside_another(template, before, begins):
    text = before + template.replace(r"{module:nvidia\w*}", "nvidia_peermem")
    assert bool(MessageTemplate("x", template).match(text)) is begins


def test_a_message_that_begins_with_punctuation_follows_anything():
    found = MessageTemplate("x", "/dev/shm is full").match("open of/dev/shm is full")
    assert found is not None and found.words == "/dev/shm is full"


def test_a_module_of_a_form_of_its_own_may_end_before_the_last_place_where_it_could():
    """A plain {module} is one word; one that says what it takes is tried at each length."""
    found = MessageTemplate("x", r"{module:[\w-]+}a{rest:.*}b").match("xab-xa")
    assert found is not None
    assert (found.values, found.words) == ({"module": "x", "rest": ""}, "xab")


def test_a_line_made_of_beginnings_is_searched_once():
    """Also after a word's beginning, which is checked and no text."""
    assert seconds(MessageTemplate("x", "mount {path:.*} on {place:.*} failed"), "mount ") < SECONDS
    between = MessageTemplate("x", "mount {path:.*?} on {place:.*?} at {time:.*} failed")
    assert seconds(between, "mount a on b at ") < SECONDS
