"""A time in words."""

from __future__ import annotations

import pytest

from gdrkit.formats.duration import duration


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.4, "0 s"), (99, "99 s"), (100, "2 min"), (180, "3 min"), (7200, "120 min")]
)
def test_a_time_is_in_seconds_until_a_hundred_then_in_minutes(seconds: float, words: str):
    assert duration(seconds) == words
