"""What SECURITY.md promises about the code as a whole."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from gdrkit.cli import first_words, main

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "src" / "gdrkit").rglob("*.py"))
PAGE = (ROOT / "SECURITY.md").read_text()
CLIENTS = {
    "urllib.request",
    "http",
    "requests",
    "httpx",
    "aiohttp",
    "smtplib",
    "ftplib",
    "xmlrpc",
    "socketserver",
}
LOADERS = {"pickle", "marshal", "shelve", "dill"}
OWN = {
    "jobs/workers.py": "unpickles what its own child wrote into a pipe",
    "fleet/ray_api.py": "asks the Ray cluster whose address the user names",
    "agent/running/ras.py": "asks NCCL on loopback, if the user gives --ras",
    "agent/probe/program.py": "the text of our own probes, as one program",
}
"""Files that may do what no other may, and why."""


def imported(path: Path) -> set[str]:
    """The modules that a file imports anywhere, and the packages that they are in."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add(node.module or "")
    return found | {name.partition(".")[0] for name in found}


def is_own(path: Path) -> bool:
    return str(path.relative_to(ROOT / "src/gdrkit")) in OWN


NETLINK = {ROOT / "src/gdrkit/agent/running" / name for name in ("netlink.py", "rdma.py", "sockets.py")}
"""They ask the kernel of this machine: netlink(7)."""


def test_only_the_transport_opens_network_connections():
    using = {path for path in SOURCES if "socket" in imported(path) and not is_own(path)}
    assert using > NETLINK
    families = {text for path in NETLINK for text in re.findall(r"\bAF_[A-Z]\w+", path.read_text())}
    assert families == {"AF_NETLINK", "AF_INET", "AF_INET6"}  # two of them say what is asked for
    opened = [text for path in NETLINK for text in re.findall(r"socket\.socket\((.*?),", path.read_text())]
    assert opened == ["socket.AF_NETLINK"] * 2
    using -= NETLINK
    assert {path.relative_to(ROOT / "src/gdrkit").parts[0] for path in using} == {"transport"}


@pytest.mark.parametrize("names", [CLIENTS, LOADERS], ids=["clients", "loaders"])
def test_nothing_reports_home_and_nothing_is_unpickled(names):
    found = {str(path): sorted(imported(path) & names) for path in SOURCES if not is_own(path)}
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize(
    "words",
    [
        ["doctor", "ssh://node17"],
        ["fleet", "doctor", "node17"],
        ["fleet", "doctor", "--slurm"],
        ["fleet", "doctor", "--kubernetes"],
        ["bench", "host", "--host", "node17"],
        ["prove", "host", "--host", "node17"],
    ],
    ids=" ".join,
)
def test_no_program_of_the_current_folder_is_run(words, tmp_path, monkeypatch, capsys):
    """PATH of a user who has `.` or an empty entry in it, in a folder with programs of another user."""
    for name in ("ssh", "sinfo", "srun", "scancel", "squeue", "kubectl", "python3"):
        (tmp_path / name).write_text(f"#!/bin/sh\necho >{tmp_path}/owned\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f":.:{tmp_path / 'absent'}:")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert main(words) not in (0, 70)
    assert not (tmp_path / "owned").exists()
    assert "Traceback" not in capsys.readouterr().err


def test_nothing_that_was_read_is_executed():
    unsafe = ("eval", "exec", "os.system", "os.popen")  # shells: test_linters.py
    found = [
        f"{path}:{call.lineno}"
        for path in SOURCES
        if not is_own(path)
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and ast.unparse(call.func) in unsafe
    ]
    assert found == []


def test_the_page_has_a_row_for_every_command():
    rows = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    named = {word.split()[0] for row in rows for word in re.findall(r"`([^`]+)`", row)}
    printers = {"codes", "schema", "completion", "man", "example"}  # show what gdrkit itself contains
    assert set(first_words()) - printers <= named
    assert printers.isdisjoint(named)


def test_every_option_and_file_that_the_page_names_exists():
    source = "".join(path.read_text() for path in SOURCES)
    for option in set(re.findall(r"`[^`]*?(--[a-z][a-z-]+)", PAGE)) - {"--host"}:
        assert option in source, option
    for name in set(re.findall(r"`((?:tools|agent|src|formats)/[\w/.]*)`", PAGE)) - {"tools/mutate.py"}:
        assert (ROOT / name).exists() or (ROOT / "src/gdrkit" / name).exists(), name
