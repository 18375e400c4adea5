"""How long to sleep between two looks at what is under way."""

import sys
import threading

from hypothesis import given
from hypothesis import strategies as st

from gdrkit.transport.operation import pause, rest


def test_what_is_over_at_once_is_not_slept_through():
    assert pause(0.0) == pause(0.001) == 0.0


@given(st.floats(0.002, 1e6))
def test_what_takes_longer_is_noticed_within_a_hundredth_or_a_millisecond(waited):
    assert 50e-6 <= pause(waited) <= 1e-3
    assert pause(waited) <= max(50e-6, waited / 100)


def test_who_looks_without_a_pause_still_lets_other_threads_run():
    every, went = sys.getswitchinterval(), threading.Event()
    sys.setswitchinterval(1000)  # nobody else's turn comes, except by being let
    try:
        threading.Thread(target=went.set).start()
        for _ in range(10_000):
            rest(0.0)
            if went.is_set():
                break
    finally:
        sys.setswitchinterval(every)
    assert went.is_set()
