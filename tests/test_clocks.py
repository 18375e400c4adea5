"""What is packed holds no time of this machine: a zip has none before 1980, a gzip none after 2106."""

from __future__ import annotations

import ast
import io
import re
import time
import zipfile

import pytest

from gdrkit.agent.collect.bundle import Bundle
from gdrkit.fleet.ray import packed
from gdrkit.transport.measure import remote
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
        for call in ast.walk(ast.parse(path.read_text())):
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
