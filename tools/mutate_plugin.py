"""The part of `python -m tools.mutate` that runs inside pytest, loaded with `-p tools.mutate_plugin`.

GDRKIT_MUTATE_RECORD=FOLDER records which test reaches which line, with coverage.py and one context for each
test, children included; FOLDER/tests-PID.jsonl gets a line for each test: its id, seconds, and outcome.
GDRKIT_MUTATE_RUN=FILE runs the tests whose ids FILE lists, in that order; a line that ends in .py stands for
all tests of that file, and one with a leading - leaves a test out. Ids that no longer exist are ignored. The
id of each test that fails is added to FILE.failed.
GDRKIT_MUTATE_SNAPSHOTS=off lets every comparison with a snapshot pass.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

CONTEXT = "GDRKIT_MUTATE_CONTEXT"
RECORD = os.environ.get("GDRKIT_MUTATE_RECORD")
RUN = os.environ.get("GDRKIT_MUTATE_RUN")
SNAPSHOTS = os.environ.get("GDRKIT_MUTATE_SNAPSHOTS")
MEMORY_BYTES = 8 << 30
"""A change may make a loop endless; the machine must survive that."""
PR_SET_PDEATHSIG = 1
"""Linux include/uapi/linux/prctl.h: end with the program that started us."""


class Recorder:
    """Switches the context of coverage.py with each test, for this process and for its children."""

    def __init__(self, folder: Path) -> None:
        import coverage

        started = coverage.Coverage.current()  # by COVERAGE_PROCESS_START, before gdrkit is imported
        assert started is not None
        self.coverage = started
        self.log = folder / f"tests-{os.getpid()}.jsonl"
        self.failed: set[str] = set()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        os.environ[CONTEXT] = item.nodeid
        self.coverage.switch_context(item.nodeid)
        start = sum(os.times()[:4])  # of the processor, children included: other load does not count
        result = yield
        seconds = round(sum(os.times()[:4]) - start, 3)
        row = {"id": item.nodeid, "seconds": seconds, "passed": item.nodeid not in self.failed}
        with self.log.open("a") as log:
            log.write(json.dumps(row) + "\n")
        self.coverage.switch_context("")
        os.environ[CONTEXT] = ""
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self.failed.add(report.nodeid)


class Chooser:
    """Keeps the wanted tests, in the wanted order."""

    def __init__(self, wanted: list[str], failed: Path) -> None:
        self.rank = {name: number for number, name in enumerate(wanted)}
        self.failed = failed
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

    def _rank(self, item: pytest.Item) -> int | None:
        if f"-{item.nodeid}" in self.rank:
            return None
        whole_file = self.rank.get(item.nodeid.partition("::")[0])
        return self.rank.get(item.nodeid, whole_file)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        ranked = [(rank, item) for item in items if (rank := self._rank(item)) is not None]
        ranked.sort(key=lambda row: row[0])
        items[:] = [item for _, item in ranked]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            with self.failed.open("a") as log:
                log.write(f"{report.nodeid}\n")


def pytest_configure(config: pytest.Config) -> None:
    if SNAPSHOTS == "off":
        from syrupy.assertion import SnapshotAssertion

        SnapshotAssertion.__eq__ = lambda self, other: True  # type: ignore[method-assign]
    if RECORD:
        config.pluginmanager.register(Recorder(Path(RECORD)))
    if RUN:
        config.pluginmanager.register(Chooser(Path(RUN).read_text().splitlines(), Path(f"{RUN}.failed")))
