import re

import pytest

from gdrkit import catalogue
from gdrkit.formats.required_literals import required_literals


@pytest.mark.parametrize(
    ("pattern", "literals"),
    [
        ("ibv_reg_mr failed", ("ibv_reg_mr failed",)),
        (r"\d+ of [a-z]+ legs", (" legs",)),
        ("(?:could not|cannot) open", (" open",)),
        (r"\w+(?:refused|unreachable)", ("refused", "unreachable")),
        ("(?:maybe)?", ()),
        (r"(?i:error)\d", ()),
        (r"[Cc]onnect", ("onnect",)),
        ("(?=peek)done", ("done",)),
        (r"(?:again){2}", ("again",)),
        (r"refused|\d+", ()),
    ],
)
def test_each_match_has_one_of_the_literals(pattern, literals):
    assert required_literals(pattern) == literals


def test_what_may_be_absent_or_in_another_case_is_no_literal():
    assert required_literals("x(?:abcdef)*") == ("x",)
    assert re.search(r"(?i:ERROR)", "error")
    assert required_literals(r"(?i:ERROR) in") == (" in",)


def test_every_message_without_a_rare_word_is_found_by_its_literals():
    matcher = catalogue.matcher()
    assert matcher._others
    assert all(literal for literal, _ in matcher._others)
