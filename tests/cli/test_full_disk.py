"""A disk that is full or read-only: each command that writes says so in a line, with its exit code, and
leaves no part of a file behind."""

import ast
import json
import os
import re
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
kind, disk, calls, hidden = json.loads(sys.argv[1])
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
if hidden:
    sys.path.insert(0, os.getcwd())
    os.chdir(disk)
    for folder in filter(os.path.isdir, hidden):
        subprocess.run(["mount", "--bind", ".", folder], check=True)
found = []
for call in calls:
    code, out, error = run(tuple(call))
    found.append([code, error])
sys.stdout.write(json.dumps([found, [name for _, _, names in os.walk(disk) for name in names]]))
"""
"""Mounts a small file system at a folder and over others, fills or locks it, and runs commands."""
TEMPORARY = ("/var/tmp", "/usr/tmp", "/tmp")
"""Where tempfile looks, besides its variables and the working folder."""


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


def on_disk(kind, disk, *calls, hidden=(), program=PROGRAM):
    """The codes and messages of the calls, and the files that are on the disk then."""
    done = subprocess.run(
        [*UNSHARE, sys.executable, "-c", program, json.dumps([kind, str(disk), calls, hidden])],
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
        ("example", "h100", "-o", f"{disk}/h100.tar.gz"),
        ("example", "fleet", "-o", f"{disk}/fleet"),
        ("bench", "loopback", "--csv", f"{disk}/bench.csv"),
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


@pytest.mark.parametrize(
    ("kind", "why"), [("full", "no space left"), ("read-only", "read-only file system")]
)
def test_a_root_that_takes_nothing_more_is_not_repaired_and_its_repair_can_be_undone(
    namespaces, kind, why, tmp_path
):
    """The journal is elsewhere, as on a node whose /var is a disk of its own."""
    tree = laid_down("peermem-blacklisted")
    program = PROGRAM.replace('os.environ["XDG_STATE_HOME"] = disk', f"""
import shutil
subprocess.run(["mount", "-o", "remount,size=80m", disk], check=True)
shutil.copytree({str(tree)!r}, f"{{disk}}/tree", symlinks=True)
os.environ["XDG_STATE_HOME"] = {str(tmp_path / "state")!r}
""")  # fmt: skip
    disk = tmp_path / "disk"
    disk.mkdir()
    of_tree = ("fix", "--root", f"{disk}/tree")
    calls = ((*of_tree, "--module", "--apply", "--yes"), (*of_tree, "--status"))
    found, left = on_disk(kind, disk, *calls, program=program)
    (code, error), (status, _) = found

    assert code in (2, 74) and status == 0, error
    assert (why in error or "less than 64 MiB free" in error) and str(disk) in error
    assert "Traceback" not in error and len(error.splitlines()) == 2
    assert set(left) - {"rest"} == {name for _, _, names in os.walk(tree) for name in names}


@pytest.mark.parametrize("kind", ["full", "read-only"])
def test_without_room_for_temporary_files_no_program_is_said_to_be_missing(
    namespaces, kind, tmp_path, monkeypatch
):
    """tempfile finds no folder, which is FileNotFoundError, as for a program that is not installed."""
    if any(place.startswith(f"{folder}/") for place in (str(ROOT), sys.prefix) for folder in TEMPORARY):
        pytest.skip("the checkout is in a folder that this test hides: run it in another one")
    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.delenv(name, raising=False)
    calls = (("doctor", "ssh://nowhere"), ("fleet", "doctor", "nowhere"), ("fleet", "doctor", "--slurm"))
    found, _ = on_disk(kind, tmp_path, *calls, hidden=TEMPORARY)

    assert len(found) == len(calls)
    for code, error in found:
        assert code == 73 and "cannot write temporary files" in error and "TMPDIR" in error, error
        assert "not installed" not in error and "internal error" not in error


WRITERS = {
    **dict.fromkeys(
        ("agent/collect/command.py", "cli/bench.py", "cli/config.py", "cli/example.py", "cli/expect.py",
         "cli/export.py", "cli/fleet_report.py", "cli/man.py", "cli/report.py", "cli/topo.py"),
        "their commands are above",
    ),
    **dict.fromkeys(("agent/output_file.py", "cli/files.py"), "what those call"),
    **dict.fromkeys(
        ("repair/apply/entries.py", "repair/apply/enrolment.py", "repair/apply/journal.py",
         "repair/apply/commands.py", "repair/apply/store.py", "repair/apply/root_fs.py",
         "repair/apply/runner.py"),
        "gdr fix, above",
    ),
    **dict.fromkeys(
        ("agent/collect/unpack.py", "evidence/memory_store.py", "evidence/running.py", "evidence/ssh.py",
         "fleet/client.py", "fleet/run.py", "transport/measure/tools.py"),
        "temporary files, above",
    ),
    "fleet/runs.py": "a run that cannot be kept is a note: tests/cli/test_fleet.py",
    "fleet/processes.py": "a bundle in the temporary folder of the run: the row of its node has the error",
    "fleet/ray.py": "as fleet/processes.py",
    "agent/fleet/ray_driver.py": "on the head of a Ray cluster: what it prints is the error of all nodes",
    "transport/shared_file.py": "memory that two processes share: tests/transport/test_shared_file.py",
    "jobs/workers.py": "a pipe",
    "agent/running/children.py": "a pipe",
    "agent/running/trace_files.py": "files of tracefs",
    "agent/collect/bundle.py": "into a stream that is given",
    "agent/collect/pyz.py": "in memory",
    "transport/measure/remote.py": "in memory",
    "agent/streams.py": "/dev/null",
    "agent/probe/rm_probe.py": "a device of the driver",
}  # fmt: skip
"""Files that write, and what tests that: those without an answer here have none."""

NAMES = {
    "whole_file", "write_output", "temporary_file", "symlink_to",
    "hardlink_to", "write_text", "write_bytes", "touch", "mkdir", "makedirs", "mkstemp", "mkdtemp", "mknod",
    "NamedTemporaryFile", "TemporaryFile", "SpooledTemporaryFile", "TemporaryDirectory", "copyfile", "copy2",
    "copytree", "ZipFile",
}  # fmt: skip
"""Functions that make or fill a file or folder, by the last part of their names."""
MODULES = ("os", "shutil")
FLAGS = ("O_WRONLY", "O_RDWR", "O_CREAT", "O_APPEND", "O_TMPFILE")
MODE = re.compile(r"[rwxabt+]{1,4}(?:[:|]\w*)?")


def writes(call: ast.Call) -> bool:
    """Whether a call opens or makes something that is written to. Of os.open, its flags show that."""
    method = isinstance(call.func, ast.Attribute)
    name = call.func.attr if method else getattr(call.func, "id", "")
    if name in ("open", "fdopen", "GzipFile"):
        words = [word.value for word in (*call.args, *(one.value for one in call.keywords))
                 if isinstance(word, ast.Constant) and isinstance(word.value, str)]  # fmt: skip
        return any(MODE.fullmatch(word) and set("wxa+") & set(word) for word in words)
    if method and name in ("replace", "rename", "link", "symlink"):
        return ast.unparse(call.func.value) in MODULES  # else of a text, or a function of ours
    return name in NAMES


def test_every_file_that_writes_is_known_here():
    """By the syntax tree: a new one fails until a test has its command, or it has a reason why not."""
    source = ROOT / "src/gdrkit"
    found = set()
    words = re.compile("|".join((*NAMES, *FLAGS, "open", "GzipFile", *(f"{one}[.]" for one in MODULES))))
    for path in source.rglob("*.py"):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if words.search(text) else ():
            flags = isinstance(node, ast.Attribute) and node.attr in FLAGS
            if flags or (isinstance(node, ast.Call) and writes(node)):
                found.add(str(path.relative_to(source)))
    assert found == WRITERS.keys()


@pytest.mark.parametrize(
    "text",
    [
        "open(p, 'w')", "open(p, mode='xb')", "path.open('a')", "path.write_text(t)", "os.replace(a, b)",
        "tempfile.mkstemp()", "gzip.open(p, 'wb')", "os.fdopen(fd, 'r+b')", "write_output(p, b'')",
    ],
)  # fmt: skip
def test_a_call_that_writes_is_seen(text):
    assert writes(ast.parse(text).body[0].value)


@pytest.mark.parametrize(
    "text", ["open(p)", "open(p, 'rb')", "text.replace('a', 'w')", "path.open()", "link(a, b)"]
)
def test_a_call_that_reads_is_not(text):
    assert not writes(ast.parse(text).body[0].value)
