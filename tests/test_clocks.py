"""What is packed holds no time of this machine: a zip has none before 1980, a gzip none after 2106. No wait,
no deadline and no order of runs is by the time of day, which jumps while a command runs."""

from __future__ import annotations

import ast
import io
import json
import os
import re
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from gdrkit.agent.collect.bundle import Bundle
from gdrkit.fleet.ray import packed
from gdrkit.transport.measure import remote
from tests.cli.test_streams import GDR
from tests.fleet.programs import install
from tests.repair.apply.scratch import machine, needs_depmod, snapshot
from tests.system_programs import needs, program
from tests.test_linters import ROOT


@pytest.mark.parametrize("moment", [5, 1 << 32, 1 << 33], ids=["1970", "2106", "2242"])
def test_a_clock_that_is_wrong_by_decades_stops_no_package(monkeypatch, moment):
    monkeypatch.setattr(time, "time", lambda: float(moment))
    monkeypatch.setattr(time, "localtime", lambda seconds=moment, convert=time.gmtime: convert(seconds))
    stream = io.BytesIO()
    Bundle(stream, "top", None)
    assert stream.getvalue()[4:8] == bytes(4)  # MTIME: RFC 1952, 2.3.1
    for content in (packed({"name": "x"}, b"program"), remote._packed()):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            assert {member.date_time[0] for member in archive.infolist()} == {1980}
            assert archive.testzip() is None


def test_nothing_is_packed_with_the_time_of_the_clock_or_of_a_file():
    """Every call that would take it: ZipFile.write(), writestr() of a name, and gzip without mtime."""
    found = []
    for path in sorted((ROOT / "src").rglob("*.py")):
        text = path.read_text()
        for call in ast.walk(ast.parse(text)) if re.search(r"\b(?:gzip|archive|writestr)\b", text) else ():
            if not isinstance(call, ast.Call):
                continue
            name = ast.unparse(call.func)
            timeless = any(word.arg == "mtime" for word in call.keywords)
            if name in ("gzip.compress", "gzip.open", "gzip.GzipFile") and not timeless:
                found.append((path.name, ast.unparse(call)))
            if name.endswith(".writestr") and isinstance(call.args[0], (ast.Constant, ast.JoinedStr)):
                found.append((path.name, ast.unparse(call)))
            if name == "archive.write":
                found.append((path.name, ast.unparse(call)))
    assert found == [("unpack.py", "gzip.GzipFile(fileobj=io.BytesIO(data))")]  # it reads


STAMPS = {
    "agent/collect/bundle.py": "when it was collected, and the time of its members",
    "agent/collect/collector.py": "the name of a bundle, and the time of what a command printed",
    "cli/export.py": "when the metrics were made",
    "cli/fleet_bench.py": "when the run began",
    "cli/fleet_run.py": "when the run began",
    "cli/report.py": "when the page was made",
    "cli/watch.py": "the time beside a change",
    "repair/apply/runner.py": "the name and the beginning of a run",
    "repair/apply/signing.py": "from when to when a certificate is valid",
}
"""What reads the time of day, which may jump in either direction, and what it is printed as."""
ALWAYS = {
    "time.time", "time.time_ns", "time.ctime", "datetime.now", "datetime.utcnow", "datetime.today",
    "date.today",
}  # fmt: skip
WITH_ARGUMENTS = {"time.gmtime": 0, "time.localtime": 0, "time.asctime": 0, "time.strftime": 1}
"""With more they are given a moment."""


def reads_the_time_of_day(call: ast.Call) -> bool:
    name = ".".join(ast.unparse(call.func).split(".")[-2:])
    realtime = name.startswith("time.clock_gettime") and "REALTIME" in ast.unparse(call)
    return realtime or name in ALWAYS or WITH_ARGUMENTS.get(name) == len(call.args)


def test_nothing_that_takes_a_while_is_measured_by_the_time_of_day():
    """It is read for stamps alone; durations and deadlines are of time.monotonic(). A new place fails until
    it has a reason here."""
    found = set()
    for path in sorted((ROOT / "src/gdrkit").rglob("*.py")):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if re.search(r"\b(?:time|datetime)\b", text) else ():
            if isinstance(node, ast.ImportFrom) and node.module == "time":
                assert [name.name for name in node.names] == ["monotonic"], path
            if isinstance(node, ast.Call) and reads_the_time_of_day(node):
                found.add(str(path.relative_to(ROOT / "src/gdrkit")))
    assert found == STAMPS.keys()


# -- a clock that jumps every 50 ms, by decades, an hour, and back ---------------------------------------

JUMPING = r"""
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long moved(void) {
    static const long by[] = {0, 946080000, -600000000, 3600};
    struct timespec now;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    return by[(now.tv_sec * 20 + now.tv_nsec / 50000000) % 4];
}
int clock_gettime(clockid_t id, struct timespec *at) {
    long failed = syscall(SYS_clock_gettime, id, at);
    if (!failed && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
        at->tv_sec += moved();
    return failed;
}
int gettimeofday(struct timeval *at, void *zone) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}
time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at)
        *at = now.tv_sec;
    return now.tv_sec;
}
"""
"""The kernel's own waits, and the other clocks, are as ever."""
needs_compiler = needs("gcc")
LONGEST_S = 100


@pytest.fixture(scope="module")
def clock(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("clock")
    (folder / "jumping.c").write_text(JUMPING)
    built = folder / "jumping.so"
    subprocess.run([program("gcc"), "-shared", "-fPIC", "-o", built, folder / "jumping.c"], check=True)
    return str(built)


def under(clock: str, state: Path, *words: str) -> tuple[subprocess.CompletedProcess[str], float]:
    """A command under that clock, and how long it took."""
    began = time.monotonic()
    environment = {**os.environ, "LD_PRELOAD": clock, "XDG_STATE_HOME": str(state)}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=LONGEST_S)
    return done, time.monotonic() - began


@needs_compiler
def test_the_clock_of_these_tests_jumps(clock, tmp_path):
    code = "import time\nfor _ in range(300): print(int(time.time()) // 10**8); time.sleep(0.001)"
    done, _ = under(clock, tmp_path, sys.executable, "-c", code)

    assert len(set(done.stdout.split())) > 2 and sorted(done.stdout.split()) != done.stdout.split()


@needs_compiler
def test_a_look_comes_after_its_interval(clock, tmp_path):
    done, seconds = under(clock, tmp_path, *GDR, "watch", "--count", "3", "--interval", "1")

    assert "Traceback" not in done.stderr and "timed-out" not in done.stdout and seconds > 2


@needs_compiler
def test_a_collection_cuts_nothing_off(clock, tmp_path):
    done, _ = under(clock, tmp_path, *GDR, "collect", "-o", str(tmp_path / "b.tar.gz"))

    assert done.returncode == 0, done.stderr
    judged, _ = under(clock, tmp_path, *GDR, "doctor", str(tmp_path / "b.tar.gz"))
    assert "timed" not in done.stderr + judged.stdout + judged.stderr


@needs_compiler
def test_a_fleet_has_its_time_and_its_runs_their_order(clock, tmp_path, monkeypatch):
    install(tmp_path / "bin", "ssh", "exec sleep 90", monkeypatch)
    for names in (["one", "two"], ["three"]):
        words = ("fleet", "doctor", *(f"ssh://{name}" for name in names), "--timeout", "2", "--json")
        done, seconds = under(clock, tmp_path, *GDR, *words)
        found = json.loads(done.stdout)
        assert len(found["nodes"]) == len(names) and 1.5 < found["seconds"] < seconds < 60, done.stderr
    newest = under(clock, tmp_path, *GDR, "fleet", "doctor", "--run", "last", "--json")[0]
    assert [row["target"] for row in json.loads(newest.stdout)["nodes"]] == ["ssh://three"]


@needs_compiler
@needs_depmod
def test_the_runs_of_fix_keep_their_order_and_the_last_is_undone_first(clock, tmp_path):
    root = machine(tmp_path / "root")
    trees = [snapshot(root)]
    steps = ("remove-nv-peer-mem", "raise-memlock", "clean-nccl-settings")
    for step in steps:
        words = (*GDR, "fix", "--apply", "--yes", "--steps", step, "--root", str(root))
        assert under(clock, tmp_path, *words)[0].returncode == 0
        trees.append(snapshot(root))
    listed = under(clock, tmp_path, *GDR, "fix", "--status", "--root", str(root))[0].stdout
    assert re.findall("|".join(steps), listed) == [*steps]
    for before in reversed(trees[:-1]):
        assert under(clock, tmp_path, *GDR, "fix", "--undo", "--root", str(root))[0].returncode == 0
        assert snapshot(root) == before
