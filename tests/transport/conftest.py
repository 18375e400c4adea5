"""Rings are small, so that short messages wrap around them. Each test on real GPUs runs in its own process.

Streams share hardware queues, in which a waiting copy blocks those behind it. Streams left by earlier
tests would change which of a test's streams share a queue.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

import pytest

from gdrkit.transport import negotiation
from tests.transport.mix import RING_BYTES

ALONE = "GDRKIT_TEST_ALONE"


@pytest.fixture(autouse=True)
def small_rings(monkeypatch):
    monkeypatch.setattr(negotiation, "RING_BYTES", RING_BYTES)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if pyfuncitem.funcargs.get("driver") != "gpu" or ALONE in os.environ:
        return None
    words = ["-m", "pytest", "-n0", "-q", "-rs", "-p", "no:cacheprovider", pyfuncitem.nodeid]
    with tempfile.TemporaryDirectory() as folder:  # by default it removes the files of older runs
        done = subprocess.run(
            [sys.executable, *words, f"--basetemp={folder}/pytest"],
            env={**os.environ, ALONE: "1"},
            cwd=pyfuncitem.config.rootpath,
            capture_output=True,
            text=True,
        )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-1000:]
    if "1 skipped" in done.stdout:
        pytest.skip("needs an NVIDIA GPU, and a second one")
    return True
