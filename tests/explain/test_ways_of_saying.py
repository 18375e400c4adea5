"""How posts say what the cause is: each way in ways_of_saying.txt is answered with its code.

The file has posts in the words of this project. `== CODE` starts a post whose cause is CODE, `== -` one that
must get no cause.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.explain.explaining import explained


def posts() -> Iterator[tuple[str, str]]:
    """Each post with its code; "" if it has none."""
    text = Path(__file__).with_name("ways_of_saying.txt").read_text(encoding="utf-8")
    for block in ("\n" + text).split("\n== ")[1:]:
        code, _, post = block.partition("\n")
        yield code.removeprefix("-"), post


@pytest.mark.parametrize(("code", "post"), list(posts()))
def test_a_way_of_saying_a_cause_is_understood(code, post):
    assert (explained(post).answer.cause or "") == code
