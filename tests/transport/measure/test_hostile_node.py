"""Another node that does not answer, answers without end, or does not read: an error, in bounded time."""

import os
import sys

import pytest

from gdrkit.transport import TransportError
from gdrkit.transport.measure import job, tools
from gdrkit.transport.measure.job import MeasureEnd, measure
from tests.work import within

READS = "exec 3<&0; cat <&3 >/dev/null & "
NODES = {
    "silent": ("exec sleep 60", "did not answer|read nothing"),
    "reads only": (READS + "exec sleep 60", "did not answer"),
    "no newline": (READS + "exec cat /dev/zero", "something else"),
    "a letter at a time": ("while :; do printf x; sleep 0.05; done", "did not answer|read nothing"),
    "complains": ("exec cat /dev/zero >&2", "did not answer|read nothing"),
    "not an address": (READS + "echo 'evil;id 1 2'; sleep 60", "no address"),
    "every address": (READS + "echo '0.0.0.0 1 2'; sleep 60", "not an address"),
    "writes for ever, reads nothing": ("exec yes", "something else|no address|read nothing"),
    "introduced, then writes for ever and reads nothing": (
        "read size; head -c $size >/dev/null; echo '127.0.0.1 1 127.0.0.1 22'; exec cat /dev/zero",
        "no authenticated peer",
    ),
    "introduced, then complains for ever": (
        "read size; head -c $size >/dev/null; echo '127.0.0.1 1 127.0.0.1 22'; exec cat /dev/zero >&2",
        "no authenticated peer",
    ),
    "leaves a process": ("sleep 60 & echo gone >&2; exit 1", "gone|did not start|not answer|read nothing"),
}


@pytest.fixture
def node(tmp_path, monkeypatch):
    """A function that makes a script the other node."""

    def make(script):
        (tmp_path / "ssh").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "ssh").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        monkeypatch.setattr(job, "CONNECT_SECONDS", 1.0)
        monkeypatch.setattr(job, "_END_SECONDS", 0.5)

    return make


@pytest.mark.parametrize(("script", "message"), NODES.values(), ids=NODES)
def test_a_hostile_node_is_an_error(node, script, message):
    node(script)
    with within(15), pytest.raises(TransportError, match=message) as error:
        measure("tcp", MeasureEnd(), MeasureEnd(), (1000,), host="node-b")
    assert len(str(error.value)) < 500 and str(error.value).startswith("node-b: ")


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("while True: sys.stdout.write('x' * 65536)", "more than"),
        ("sys.stdout.write('x' * 100000); sys.exit(1)", "^x{300}$"),
        ("import time; time.sleep(60)", "not done after"),
    ],
)
def test_a_tool_that_prints_without_end_is_stopped(program, message):
    with within(30), pytest.raises(tools.ToolFailed, match=message):
        tools._output(
            [sys.executable, "-c", f"import sys\n{program}"], {}, 1.0 if "sleep" in program else 20.0
        )
