"""Shared set-up of the tests."""

from __future__ import annotations

import fcntl
import gc
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from machines.programs import ProgramMissingError
from syrupy.assertion import SnapshotAssertion

from tests import evidence_nodes
from tests.html.browser import Browser
from tests.paragraphs import Paragraphs
from tests.system_programs import IN_CI

settings.register_profile("no deadline", deadline=None)  # tests do not measure time
settings.load_profile("no deadline")
os.environ.pop("COLUMNS", None)  # xdist sets it; what is printed into a pipe has a width of its own
os.environ.pop("PYTEST_ADDOPTS", None)  # a pytest that a test starts would write its report over this run's

MEMORY, ENOUGH_BYTES = "/dev/shm", 4 << 30
if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK):
    # Tests lay down hundreds of thousands of files and folders, and on a disk a folder can take milliseconds
    # to make and to remove. pytest removes what a test that passed left in its tmp_path: pyproject.toml.
    place = os.statvfs(MEMORY)
    available = re.search(r"^MemAvailable: *(\d+)", Path("/proc/meminfo").read_text(), re.MULTILINE)
    free = min(place.f_bavail * place.f_frsize, int(available[1]) << 10 if available else 0)
    if free > ENOUGH_BYTES and not place.f_flag & os.ST_NOEXEC:
        os.environ["TMPDIR"] = MEMORY
        tempfile.tempdir = None  # which pytest had chosen for its own files before it read this

BYTECODE = None
"""The folder of this run's bytecode, in the process that made it."""
if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
    # Thousands of processes that tests start would each compile gdrkit anew: 0.2 s of 0.3. None is written
    # beside the sources, and other workers inherit the folder.
    BYTECODE = os.environ["PYTHONPYCACHEPREFIX"] = tempfile.mkdtemp(prefix="gdrkit-bytecode-")

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # A script that starts pytest with `&` makes it ignore SIGINT, and what tests start: bash(1), SIGNALS.
    signal.signal(signal.SIGINT, signal.default_int_handler)

if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    # Under nohup(1) tests would start programs that ignore a hang-up, too. A handler is not inherited by a
    # program that is started (signal(7)): this process outlives its terminal, and those do not.
    signal.signal(signal.SIGHUP, lambda number, frame: None)

MAY_SKIP_IN_CI = (
    r"not a bundle|this node has no modules\.dep",  # not a matter of the machine
    r"no Python 3\.8 here",  # distributions do not package it any more
    r"no python3\.\d+ here",  # what a distribution packages is one version
    r"needs user namespaces",  # a matter of the kernel and of who started the container
    r"no kernel log here|needs a readable /dev/kmsg",  # a container has none
    r"needs an NVIDIA GPU",
    r"set GDRKIT_SHARED",  # reference data outside the repository; no check of what gdr writes needs it
    r"set GDRKIT_LIBRARIES",  # libraries of other projects, from registries
    r"no dump beside this log",
    r"the checkout is in a folder that this test hides",
    r"the kernel lab has no headers in its cache",  # fetched later in the same run
)
"""Allowed reasons to skip a test with CI=true; every other skip is a failure, since .ci/run installs the
rest."""


def pytest_xdist_auto_num_workers() -> int | None:
    """One worker more than there are cores: hundreds of tests wait for a service, a guest or a time-out."""
    asked = "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ
    return None if asked else len(os.sched_getaffinity(0)) + 1


@pytest.fixture
def snapshot(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    """Snapshots are files of paragraphs."""
    return snapshot.use_extension(Paragraphs)


@pytest.fixture(scope="session")
def made_once(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, Callable[[Path], object]], Path]:
    """A function that fills a folder in one worker of this run; the others wait for it. No test may change
    what is in it."""
    below = tmp_path_factory.getbasetemp()
    if hasattr(request.config, "workerinput"):
        below = below.parent  # of all workers

    def made(name: str, fill: Callable[[Path], object]) -> Path:
        folder, filled = below / name, below / f"{name}.filled"
        with (below / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not filled.exists():
                shutil.rmtree(folder, ignore_errors=True)  # of a worker that failed
                folder.mkdir()
                fill(folder)
                filled.touch()
        return folder

    return made


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for the tests of a file. While it is open, Playwright's event loop runs in this thread,
    and no other can: asyncio.run(), in tests of another file, would raise an error."""
    with Browser.started() as started:
        yield started


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.excinfo and call.excinfo.errisinstance(ProgramMissingError) and not IN_CI:
        # A machine is composed anywhere in a test or a fixture, and machines/ does not import pytest.
        report.outcome = "skipped"
        report.longrepr = (str(item.path), item.location[1] or 0, f"Skipped: {call.excinfo.value}")
    if report.skipped and IN_CI and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2]
        if not hasattr(report, "wasxfail") and not any(re.search(row, reason) for row in MAY_SKIP_IN_CI):
            report.outcome = "failed"
            report.longrepr = f"{reason} (with CI=true nothing may be skipped)"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without looking for garbage: there is none, and a third of the time went into looking through
    all that stays. It is not looked through while tests run either."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the lab's tests first: they take longest, and one worker runs them all while others run the
    rest."""
    items.sort(key=lambda item: item.get_closest_marker("lab") is None)


def pytest_unconfigure() -> None:
    if evidence_nodes.laid_down_below.cache_info().currsize:
        evidence_nodes.laid_down_below().cleanup()
    if BYTECODE:
        shutil.rmtree(BYTECODE, ignore_errors=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, bool, bool]:
    """Run one test of the lab at a time, with its fixtures: they share a cache, and two guests at a time
    would exceed their time-outs.
    """
    if item.get_closest_marker("lab") is None:
        return (yield)
    with Path(tempfile.gettempdir(), f"gdrkit-lab-tests-{os.getuid()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return (yield)
