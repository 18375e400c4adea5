"""On a machine that lacks programs no test fails: what needs one is skipped, with what enables it.

The programs are hidden from everything that a test starts: in a mount namespace, by an empty file over each.
"""

from __future__ import annotations

import ast
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from lab.cache import TOOLS

from tests.seed import SEED
from tests.system_programs import PACKAGES, found, how_to_install, program
from tests.test_linters import PYTHON, ROOT

PROGRAM = """
import json, os, subprocess, sys
empty, paths, command = json.loads(sys.argv[1])
for path in paths:
    subprocess.run(["mount", "--bind", empty, path], check=True)
os.execv(command[0], command)
"""
NAMESPACE = ["--mount"] if os.geteuid() == 0 else ["--mount", "--user", "--map-root-user"]
SETS = {
    "kmod": (("depmod", "modinfo", "modprobe"), "machines/test_evidence.py evidence/test_nodes_build.py"),
    "pciutils": (
        ("lspci", "setpci"),
        "facts/test_pci_tree.py facts/test_pci_text.py repair/config/test_tools.py",
    ),
    "gcc": (("gcc", "cc", "nm", "objcopy"), "agent/native agent/probe/test_program.py formats/test_elf.py"),
    "openssl": (("openssl",), "formats/test_module_signature.py repair/apply/test_signing.py"),
    "git": (("git",), "tools/test_mutate.py"),
    "hwloc": (("lstopo-no-graphics",), "fabric/topology/test_from_hwloc.py"),
    "QEMU": (("qemu-system-x86_64",), "lab/test_boot.py"),
    "chromium": (("chromium",), "html/test_in_a_browser.py cli/test_report.py"),
    "sshd": (("sshd", "ssh", "ssh-keygen"), "fleet/test_ssh_daemon.py fleet/test_bench_ssh.py"),
    "slurm": (
        ("munged", "slurmctld", "slurmd", *PACKAGES["slurm-client"]),
        "fleet/test_slurm_cluster.py",
    ),
}
"""What is hidden, and tests that start it."""
CHANCE = random.Random(SEED)
ALONE = CHANCE.sample(sorted(SETS), 2)
"""What is hidden alone today; all of it is hidden together every day."""
PACKAGE_OF = {name: package for package, programs in PACKAGES.items() for name in programs}
COMPOSES = re.compile(r"^from (?:machines|tests\.(?:fleet|system_programs))\b", re.MULTILINE)
TOGETHER = [
    str(path.relative_to(ROOT))
    for folder in ("fleet", "cli")
    for path in sorted(ROOT.glob(f"tests/{folder}/test_*.py"))
    if folder == "fleet" or COMPOSES.search(path.read_text())
]
"""What composes machines or starts daemons, besides tests/machines; other tests of commands need a node
alone, as these do."""
MACHINES = [str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("tests/machines/test_*.py"))]
FILES = [str(path) for path in PYTHON if path.parts[0] == "tests" and path.name.startswith("test_")]
RUN = (
    "tests/machines/test_evidence.py",  # surely needs depmod
    *CHANCE.sample(TOGETHER, len(TOGETHER) // 6),
    *CHANCE.sample(MACHINES, len(MACHINES) // 6),
)
COLLECTED = CHANCE.sample(FILES, len(FILES) // 6)
"""What is run and what is collected today."""
ON_EVERY_MACHINE = {
    "apt-cache", "apt-get", "bash", "cat", "dpkg-deb", "dpkg-query", "env", "head", "mount", "sh", "sleep",
    "sudo", "tar", "tr", "true", "uname",
}  # fmt: skip
"""Programs of Debian's essential packages; tests of apt say themselves that they need Debian."""


def hiding(names: Iterable[str], empty: Path, *command: str) -> list[str]:
    """The words that run a command which sees none of these programs, and nothing that it starts does."""
    empty.write_bytes(b"")
    empty.chmod(0o644)
    paths = sorted({os.path.realpath(path) for name in names if (path := found(name))})
    told = json.dumps([str(empty), paths, command])
    return [program("unshare"), *NAMESPACE, sys.executable, "-c", PROGRAM, told]


def pytest_without(names: Iterable[str], folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """pytest where none of these programs is installed; not as in CI, where no test may be skipped."""
    command = [sys.executable, "-m", "pytest", "-rs", "-p", "no:cacheprovider", *words]
    environment = {
        name: value for name, value in os.environ.items() if not re.match(r"PYTEST|CI$|GDRKIT_", name)
    }
    environment["TMPDIR"] = str(folder)  # else it waits for the lab's lock, to skip the lab
    return subprocess.run(
        hiding(names, folder / "empty", *command),
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1500,
    )  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def namespaces() -> None:
    """Skips where a process may not mount, even in namespaces of its own."""
    may = subprocess.run([program("unshare"), *NAMESPACE, "true"], capture_output=True, timeout=60)
    if may.returncode:
        pytest.skip("needs user namespaces: sudo sysctl kernel.unprivileged_userns_clone=1")


@pytest.mark.slow
@pytest.mark.parametrize("name", ALONE)
def test_tests_that_start_a_program_are_skipped_without_it(name, tmp_path):
    programs, files = SETS[name]
    done = pytest_without(programs, tmp_path, "-n0", *(f"tests/{file}" for file in files.split()))
    assert done.returncode == 0, f"GDRKIT_SEED={SEED}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
    package = TOOLS.get(programs[0]) or PACKAGE_OF[programs[0]]
    assert re.search(rf"SKIPPED.* install .*{re.escape(package)}", done.stdout), done.stdout[-4000:]


@pytest.mark.slow
def test_every_test_is_collected_without_any_of_them(tmp_path):
    """Of a sixth of the files, others each day."""
    every = [one for programs, _ in SETS.values() for one in programs]
    done = pytest_without(every, tmp_path, "-n0", "--collect-only", "--snapshot-warn-unused", *COLLECTED)
    assert done.returncode == 0, f"GDRKIT_SEED={SEED}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"


@pytest.mark.slow
def test_tests_of_machines_fleets_and_commands_pass_without_any_of_them(tmp_path):
    """A sixth of the files, others each day."""
    every = [one for programs, _ in SETS.values() for one in programs]
    done = pytest_without(every, tmp_path, "-n0", "-m", "not slow", *RUN)
    assert done.returncode == 0, f"GDRKIT_SEED={SEED}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
    assert how_to_install("depmod") in done.stdout and re.search(r"\d{2,} passed", done.stdout)


def test_a_hidden_program_can_not_be_started(tmp_path):
    """Else the tests above know nothing."""
    code = "import shutil, subprocess; print(shutil.which('sh'))\nsubprocess.run(['sh', '-c', 'exit 7'])"
    command = hiding(["sh"], tmp_path / "empty", sys.executable, "-c", code)
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == "None\n" and "PermissionError" in done.stderr


def started(path: Path) -> Iterator[str]:
    """The programs that a file starts by a literal name."""
    text = (ROOT / path).read_text()
    tree = ast.parse(text if "subprocess." in text else "")
    lists = {
        target.id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args and ast.unparse(node.func).startswith("subprocess."):
            words = node.args[0]
            words = lists.get(words.id, words) if isinstance(words, ast.Name) else words
            first = words.elts[0] if isinstance(words, ast.List | ast.Tuple) and words.elts else None
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield first.value


def test_tests_start_only_programs_whose_package_is_known():
    known = ON_EVERY_MACHINE | {one for programs in PACKAGES.values() for one in programs}
    files = [path for path in PYTHON if path.parts[0] in ("tests", "machines")]
    names = {name: path for path in files for name in started(path) if not name.startswith("/")}
    assert {"sh", "bash", "sudo"} & set(names)
    assert {name: path for name, path in names.items() if name not in known} == {}


def test_ci_installs_every_package_of_the_table():
    installed = set(re.findall(r"[a-z][a-z0-9+.-]+", (ROOT / ".ci/run").read_text()))
    assert {word for packages in PACKAGES for word in packages.split()} <= installed
