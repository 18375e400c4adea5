"""How long to sleep between two checks of an operation in flight."""

import sys
import threading

from hypothesis import given
from hypothesis import strategies as st

from gdrkit.transport.operation import back_off, pause


def test_there_is_no_sleep_during_the_first_milliseconds():
    assert pause(0.0) == pause(0.001) == 0.0


@given(st.floats(0.002, 1e6))
def test_a_later_sleep_is_at_most_a_hundredth_of_the_wait_and_a_millisecond(waited):
    assert 50e-6 <= pause(waited) <= 1e-3
    assert pause(waited) <= max(50e-6, waited / 100)


def test_waiting_without_a_sleep_lets_other_threads_run():
    interval, ran = sys.getswitchinterval(), threading.Event()
    sys.setswitchinterval(1000)  # other threads run only if this one yields
    try:
        threading.Thread(target=ran.set).start()
        for _ in range(10_000):
            back_off(0.0)
            if ran.is_set():
                break
    finally:
        sys.setswitchinterval(interval)
    assert ran.is_set()
