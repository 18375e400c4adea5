"""What an action of a journal must not be."""

from __future__ import annotations

import pytest

from gdrkit.repair.platforms.action import EnrolKey
from gdrkit.repair.platforms.command_shapes import fault


@pytest.mark.parametrize(
    ("certificate", "found"),
    [("--reset", "not a file: --reset"), ("-k.der", "not a file: -k.der"), ("/keys/-k.der", "")],
)
def test_a_certificate_is_no_option_of_mokutil(certificate, found):
    assert fault(EnrolKey(certificate=certificate, why="x")) == found
