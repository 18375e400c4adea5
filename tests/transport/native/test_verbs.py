"""libibverbs, as a machine may lack it."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from gdrkit.transport.native import verbs

WITHOUT = """
from gdrkit.agent.native import verbs
verbs.LIBRARY = "libibverbs-that-nobody-has.so.1"
from gdrkit.transport.native import verbs
try:
    verbs._function("ibv_get_device_list")
except verbs.VerbsNotAvailable as error:
    print(error)
"""


def test_a_machine_without_the_library_says_which_one():
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True)
    assert "libibverbs-that-nobody-has.so.1" in done.stdout


def test_a_library_without_a_function_is_told_apart_from_no_library(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(verbs, "_library", lambda: SimpleNamespace(here=len))
    assert verbs._function("here") is len
    with pytest.raises(verbs.VerbsError, match=r"absent \(not in this libibverbs\)"):
        verbs._function("absent")
