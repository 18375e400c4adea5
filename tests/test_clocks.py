"""What is packed holds no time of this machine: a zip has none before 1980, a gzip none after 2106."""

from __future__ import annotations

import ast
import io
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
