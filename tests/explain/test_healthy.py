"""What a text shows to be in use, where nothing fails."""

from __future__ import annotations

import pytest

from tests.explain.explaining import explained

REGISTERED = "efa: Acquired peer memory using P2P\n"
ACCEPTED = "NIXL INFO Using provider with FI_HMEM support for rail 0\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [(REGISTERED + ACCEPTED, 1), (ACCEPTED + REGISTERED, 2), (ACCEPTED * 2 + REGISTERED, 3)],
)
def test_a_line_that_proves_the_path_is_quoted_before_one_that_only_names_it(text: str, line: int):
    answer = explained(text).answer

    assert (answer.kind, [one.line for one in answer.lines]) == ("working", [line])


def test_a_line_that_only_names_a_part_proves_nothing():
    answer = explained(ACCEPTED).answer

    assert (answer.kind, answer.lines) == ("nothing", ())
