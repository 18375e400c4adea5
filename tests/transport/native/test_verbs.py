"""libibverbs, as a machine may lack it."""

from __future__ import annotations

import subprocess
import sys

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
