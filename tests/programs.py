"""Programs that tests run and that a machine may lack: without one a test is skipped, or fails in CI."""

from __future__ import annotations

import os
import shutil

import pytest

IN_CI = os.environ.get("CI") == "true"


def program(name: str, how: str) -> str:
    """The path of a program. Without it the test is skipped, or fails in CI."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin:/usr/bin")
    if found is None:
        if IN_CI:
            pytest.fail(f"{name} is not installed: {how}")
        pytest.skip(how)
    return found
