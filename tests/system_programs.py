"""Programs that tests run. A machine may lack one: without it a test is skipped, or fails in CI."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

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


def has_ended(pid: int) -> bool:
    """Whether a process has ended, if its parent has waited for it or not: proc_pid_stat(5)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True
