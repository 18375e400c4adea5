"""A disk that is full or read-only: each command that writes says so in a line, with its exit code, and
leaves no part of a file behind."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.evidence_nodes import laid_down

ROOT = Path(__file__).parents[2]
BUNDLE = ROOT / "tests/evidence/h200-collected/bundle.tar.gz"
UNSHARE = ("unshare", "--user", "--map-root-user", "--mount")

PROGRAM = """
import json, os, resource, subprocess, sys
from tools.fuzz.commands import run

resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
kind, disk, calls = json.loads(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", disk], check=True)
os.environ["XDG_STATE_HOME"] = disk
if kind == "full":
    with open(f"{disk}/rest", "wb", 0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            pass
else:
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
found = []
for call in calls:
    code, out, error = run(tuple(call))
    found.append([code, error])
sys.stdout.write(json.dumps([found, [name for _, _, names in os.walk(disk) for name in names]]))
"""
"""Mounts a small file system at a folder, fills it or makes it read-only, and runs commands."""


@pytest.fixture(scope="module")
def namespaces():
    """Skips where a process may not mount, even in namespaces of its own."""
    try:
        may = subprocess.run(
            [*UNSHARE, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, timeout=60
        )
    except FileNotFoundError:
        pytest.skip("needs unshare: sudo apt install util-linux")
    if may.returncode:
        pytest.skip(
            f"needs user namespaces: sudo sysctl kernel.unprivileged_userns_clone=1 ({may.stderr!r})"
        )


def on_disk(kind, disk, *calls):
    """The codes and messages of the calls, and the files that are on the disk then."""
    done = subprocess.run(
        [*UNSHARE, sys.executable, "-c", PROGRAM, json.dumps([kind, str(disk), calls])],
        capture_output=True, cwd=ROOT, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    found, left = json.loads(done.stdout)
    return found, left


@pytest.mark.parametrize(
    ("kind", "why"), [("full", "no space left"), ("read-only", "read-only file system")]
)
def test_what_cannot_be_written_is_refused(namespaces, kind, why, tmp_path):
    node = str(laid_down("peermem-blacklisted"))
    disk = tmp_path / "disk"
    disk.mkdir()
    found, left = on_disk(
        kind, disk,
        ("config", "nccl-env", node, "-o", f"{disk}/nccl.conf"),
        ("topo", node, "--write-nccl-xml", f"{disk}/topo.xml"),
        ("collect", "--pyz", f"{disk}/collect.pyz"),
        ("collect", "-o", f"{disk}/bundle.tar.gz"),
        ("expect", node, "-o", f"{disk}/expect.toml"),
        ("report", node, "-o", f"{disk}/report.html"),
        ("export", node, "-o", f"{disk}/gdr.prom"),
        ("fleet", "report", str(BUNDLE), "-o", f"{disk}/fleet.html"),
        ("man", "-o", f"{disk}/man"),
    )  # fmt: skip
    for code, error in found:
        assert code == 73 and why in error.lower() and str(disk) in error, error
        assert "Traceback" not in error and "internal error" not in error
    assert left == (["rest"] if kind == "full" else [])


@pytest.mark.parametrize(
    ("kind", "why"), [("full", "no space left"), ("read-only", "read-only file system")]
)
def test_a_journal_that_cannot_be_written_stops_a_repair(namespaces, kind, why, tmp_path):
    import shutil

    tree = shutil.copytree(laid_down("peermem-blacklisted"), tmp_path / "tree", symlinks=True)
    before = {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()}
    disk = tmp_path / "disk"
    disk.mkdir()
    apply = ("fix", "--root", str(tree), "--module", "--apply", "--yes")
    found, _ = on_disk(kind, disk, apply, ("fix", "--root", str(tree), "--status"))
    (code, error), (status, _) = found
    assert code == 74 and why in error and str(disk) in error, error
    assert "Traceback" not in error
    assert status == 0
    assert {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()} == before


WRITERS = {
    "agent/collect/command.py", "cli/config.py", "cli/expect.py", "cli/export.py", "cli/fleet_report.py",
    "cli/man.py", "cli/report.py", "cli/topo.py",
    "cli/files.py",  # write_output() itself
    "cli/example.py",  # as cli/man.py: a folder and its files
    "cli/bench.py",  # writes at the end of a measurement, which needs a peer
    "fleet/runs.py",  # a run that cannot be kept is a note: tests/cli/test_fleet.py
}  # fmt: skip
"""Files that write what a user asked for. Their commands are above, or the reason why not."""


def test_every_file_that_writes_for_the_user_is_known_here():
    source = ROOT / "src/gdrkit"
    found = set()
    for path in source.rglob("*.py"):
        calls = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
        if {ast.unparse(call.func) for call in calls} & {"whole_file", "write_output", "os.replace"}:
            found.add(str(path.relative_to(source)))
    assert found - {"agent/output_file.py"} == WRITERS
