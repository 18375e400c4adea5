"""The effect of an install line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.facts.install_command import COMMANDS_LIMIT, Effect, effect


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("/bin/true", Effect.NOTHING),
        ("true", Effect.NOTHING),
        (":", Effect.NOTHING),
        ("/bin/false", Effect.FAILS),
        ("exit 7", Effect.FAILS),
        ("exit", Effect.NOTHING),
        ("/sbin/modprobe --ignore-install nvidia $CMDLINE_OPTS", Effect.LOADS),
        ("modprobe nvidia ; modprobe -i nvidia-current-peermem $CMDLINE_OPTS", Effect.LOADS),
        ("modprobe -i x && { modprobe y; true; }", Effect.UNKNOWN),
        ("/bin/false || modprobe -i x", Effect.LOADS),
        ("/bin/false && modprobe -i x", Effect.FAILS),
        ("/bin/sh -c something", Effect.UNKNOWN),
        ("modprobe $OTHER", Effect.UNKNOWN),
        ("/bin/true > /dev/null", Effect.NOTHING),
        ("/bin/true > /dev/sda", Effect.UNKNOWN),
        ("X=1 modprobe y", Effect.UNKNOWN),
    ],
)
def test_lists_of_supported_commands_are_parsed(line: str, expected: Effect) -> None:
    assert effect(line) is expected


def test_a_line_of_more_commands_than_are_read_has_an_unknown_effect():
    """A MiB of `99;` took more than a second, before any of it was judged."""
    assert effect("true;" * COMMANDS_LIMIT) is Effect.NOTHING
    assert effect("true;" * (COMMANDS_LIMIT + 1)) is Effect.UNKNOWN


@given(st.text())
def test_any_line_has_some_effect(line: str) -> None:
    assert effect(line) in Effect
