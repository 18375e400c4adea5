"""How long to sleep between two looks at what is under way."""

from hypothesis import given
from hypothesis import strategies as st

from gdrkit.transport.operation import pause


def test_what_is_over_at_once_is_not_slept_through():
    assert pause(0.0) == pause(0.001) == 0.0


@given(st.floats(0.002, 1e6))
def test_what_takes_longer_is_noticed_within_a_hundredth_or_a_millisecond(waited):
    assert 50e-6 <= pause(waited) <= 1e-3
    assert pause(waited) <= max(50e-6, waited / 100)
