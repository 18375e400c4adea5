"""What all tests of the lab share."""

from __future__ import annotations

import faulthandler

import pytest


@pytest.fixture(autouse=True)
def own_limit(request: pytest.FixtureRequest) -> None:
    """A guest has a limit of its own (lab/machine.py), which on a busy machine is above that of pytest's
    faulthandler: a boot with 257 cases may take 48 minutes."""
    if request.node.get_closest_marker("lab"):
        faulthandler.cancel_dump_traceback_later()
