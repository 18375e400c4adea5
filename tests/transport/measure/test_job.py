"""Measurements between two processes: every size is measured, and errors are reported."""

import ast
import io
import os
import subprocess
import sys
import zipfile

import pytest

from gdrkit.transport import TransportError
from gdrkit.transport.measure import job, remote
from gdrkit.transport.measure.job import MeasureEnd, measure
from gdrkit.transport.measure.peer import PeerTask
from gdrkit.transport.measure.sweep import _point
from tests.transport.measure import A_SHELL_FOR_SSH

SIZES = (1, 4096, 300_000)


@pytest.mark.parametrize(("count", "tail"), [(1, 0), (2, 1), (99, 98), (100, 99), (101, 99), (200, 198)])
def test_the_slowest_of_a_hundred_is_left_out(count: int, tail: int):
    samples = [float(number + 1) for number in range(count)]
    found = _point(1000, samples[::-1], 1.0)
    assert (found.repeats, found.tail_us) == (count, (tail + 1) * 1e6)


@pytest.mark.parametrize("path", ["tcp", "shared"])
def test_every_size_is_measured_with_its_bytes_checked(path):
    reported = []
    points = measure(
        path, MeasureEnd(), MeasureEnd(), SIZES, on_point=reported.append, seconds_per_size=0.05
    )
    assert points == reported
    assert [point.size_bytes for point in points] == list(SIZES)
    for point in points:
        assert point.checked and 0 < point.median_us <= point.tail_us
        assert point.gb_per_s == pytest.approx(point.size_bytes / point.median_us / 1e3)
        assert point.streaming_gb_per_s > 0


def test_an_unavailable_path_has_a_reason():
    with pytest.raises(TransportError, match=r"ibv_get_device_list|libibverbs|RDMA device"):
        measure("verbs", MeasureEnd(device="mlx5_0"), MeasureEnd(device="mlx5_0"), SIZES)


def test_the_key_is_not_on_a_command_line_or_in_the_environment(monkeypatch):
    started = []
    popen = subprocess.Popen

    def watched(command, **options):
        started.append((command, options.get("env")))
        return popen(command, **options)

    monkeypatch.setattr(remote.subprocess, "Popen", watched)
    keys = []
    monkeypatch.setattr(job, "generate_key", lambda: keys.append(os.urandom(32)) or keys[-1])
    measure("tcp", MeasureEnd(), MeasureEnd(), (1,), seconds_per_size=0.05)
    ((command, environment),) = started
    assert keys[0].hex() not in " ".join(command)
    assert keys[0].hex() not in str(environment)


def test_code_sent_to_another_node_imports_only_the_standard_library(tmp_path):
    packed = remote._packed()
    names = zipfile.ZipFile(io.BytesIO(packed)).namelist()
    assert "gdrkit/transport/connection.py" in names and "gdrkit/cli/doctor.py" not in names
    (tmp_path / "sent.zip").write_bytes(packed)
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import gdrkit.transport.measure.peer as p; print(p.__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-E", "-c", program, str(tmp_path / "sent.zip")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "sent.zip" in done.stdout


def test_code_sent_to_another_node_is_valid_python_3_9():
    archive = zipfile.ZipFile(io.BytesIO(remote._packed()))
    for name in archive.namelist():
        tree = ast.parse(archive.read(name), name, feature_version=(3, 9))
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            if isinstance(call.func, ast.Name) and call.func.id == "zip":
                assert not call.keywords, f"{name}:{call.lineno}: zip has no strict= in Python 3.9"


def test_another_node_runs_the_code_from_memory(tmp_path, monkeypatch):
    """The unchanged remote command, with a shell instead of ssh."""
    shell = tmp_path / "ssh"
    shell.write_text(A_SHELL_FOR_SSH)
    shell.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    points = measure("tcp", MeasureEnd(), MeasureEnd(), (1000,), host="node-b")
    assert points[0].size_bytes == 1000


def test_a_node_that_ssh_cannot_reach_is_an_error(tmp_path, monkeypatch):
    shell = tmp_path / "ssh"
    shell.write_text('#!/bin/sh\necho "ssh: Could not resolve hostname node-b" >&2\nexit 255\n')
    shell.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(TransportError, match="Could not resolve hostname"):
        measure("tcp", MeasureEnd(), MeasureEnd(), (1000,), host="node-b")


def test_a_task_is_one_line():
    line = PeerTask("127.0.0.1", 1, "00", "tcp", [1]).line()
    assert line.count(b"\n") == 1 and line.endswith(b"\n")
