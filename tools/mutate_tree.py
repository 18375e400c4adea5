"""Copies of the working tree in which `python -m tools.mutate` changes code, and the recorded coverage."""

from __future__ import annotations

import ast
import contextlib
import difflib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from itertools import accumulate, zip_longest
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
LEFT_OUT = (
    "tests/lab",  # boots kernels
    "tests/test_linters.py",  # would find a change by its style or types
    "tests/test_architecture.py",
    "tests/test_adding.py",
    "tests/test_pages.py",
    "tests/test_plain_english.py",
    "tests/test_links.py",
    "tests/tools",
)
"""Tests of the text of the source, not of what it does, and tests that are too slow."""

FILES = 15
"""Files of tests that are collected besides those nearest to a change."""
NO_TESTS = 5
"""pytest's exit status when no test was chosen."""
COVERAGE = """\
[run]
data_file = {folder}/data
parallel = True
include = {tree}/src/gdrkit/*
context = ${{GDRKIT_MUTATE_CONTEXT}}
disable_warnings = no-data-collected,module-not-imported
"""


def copy_tree(tree: Path) -> None:
    """Copy the files that git knows or would add, and make an environment whose gdrkit is that copy."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split("\0")  # fmt: skip
    names = {name for name in listed if name and os.path.lexists(ROOT / name)}
    for kept in ("src", "tests", "tools", "docs"):
        for path in (tree / kept).rglob("*.py"):
            if str(path.relative_to(tree)) not in names:
                path.unlink()
    for name in names:
        target = tree / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target, follow_symlinks=False)
    _make_environment(tree)


def _make_environment(tree: Path) -> None:
    """An environment in the copy: `python -I` and `gdr` must find the copy, so PYTHONPATH is not enough."""
    if not (tree / ".venv").exists():
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", tree / ".venv"], check=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = tree / ".venv" / "lib" / version / "site-packages"
    recording = 'os.environ.get("COVERAGE_PROCESS_START")'
    start = f"import os; {recording} and __import__('coverage').process_startup()"
    rows = [str(tree / "src"), sysconfig.get_paths()["purelib"], start]
    (packages / "mutate.pth").write_text("\n".join(rows) + "\n")
    script = tree / ".venv" / "bin" / "gdr"
    script.write_text(
        f"#!{tree}/.venv/bin/python\nimport sys\nfrom gdrkit.cli import main\nsys.exit(main())\n"
    )
    script.chmod(0o755)


def python_of(tree: Path) -> str:
    return str(tree / ".venv" / "bin" / "python")


def pytest_of(tree: Path, folder: Path) -> list[str]:
    """The words that run pytest in the tree, with its temporary files in a folder that its caller removes.
    Where they are by default, pytest removes those of older runs at its end, which can take minutes."""
    words = ["-m", "pytest", "-p", "tools.mutate_plugin", "-p", "no:cacheprovider"]
    return [python_of(tree), *words, f"--basetemp={folder / 'pytest'}"]


def environment(**more: str) -> dict[str, str]:
    """The environment of a run of pytest, without what changes how bytecode is cached."""
    changing = ("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX")
    kept = {name: value for name, value in os.environ.items() if name not in changing}
    return {**kept, "CI": "", **more}


def record(work: Path, tests: list[str], jobs: int) -> None:
    """Run tests (all, if none are named) once with coverage.py, and write work/coverage.json."""
    tree, folder = work / "tree", work / "parts"
    tree.mkdir(parents=True, exist_ok=True)
    copy_tree(tree)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "coveragerc").write_text(COVERAGE.format(folder=folder, tree=tree))
    more = {
        "GDRKIT_MUTATE_RECORD": str(folder),
        "COVERAGE_PROCESS_START": str(folder / "coveragerc"),
        "GDRKIT_MUTATE_CONTEXT": "",
    }
    with tempfile.TemporaryDirectory(prefix="record-") as below:
        command = [*pytest_of(tree, Path(below)), "-q", "-m", "not slow and not lab"]
        command += ["-o", f"addopts=--strict-markers -n {jobs} --dist loadscope"]
        command += [f"--ignore={name}" for name in LEFT_OUT] + tests
        subprocess.run(command, cwd=tree, env=environment(**more), check=False)
    (work / "coverage.json").write_text(json.dumps(_merged(folder, tree)))
    shutil.rmtree(folder)


def _merged(folder: Path, tree: Path) -> dict[str, Any]:
    import coverage

    tests = [json.loads(row) for path in folder.glob("tests-*.jsonl") for row in path.open()]
    numbers = {test["id"]: number for number, test in enumerate(tests)}
    measured = coverage.Coverage(config_file=str(folder / "coveragerc"), context=None)
    measured.combine(keep=True)
    data = measured.get_data()
    files = {}
    for name in sorted(data.measured_files()):
        path = Path(name)
        lines = {
            line: sorted({numbers[context] for context in contexts if context in numbers})
            for line, contexts in data.contexts_by_lineno(name).items()
        }
        files[str(path.relative_to(tree))] = {"text": path.read_text(), "lines": lines}
    rows = (path for path in (tree / "tests").rglob("test_*.py"))
    digests = {str(path.relative_to(tree)): _digest(path) for path in rows}
    return {"tests": tests, "files": files, "files_of_tests": digests}


@dataclass(frozen=True)
class Outcome:
    """How tests ended, killed, timed out or survived, and which of them failed."""

    word: str
    failed: tuple[str, ...] = ()


class Coverage:
    """Which tests reach a line, by the record. If a file changed since, its recorded text is compared."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            raise SystemExit(
                f"no record of coverage in {path}\nRun `python -m tools.mutate --record` first."
            )
        recorded = json.loads(path.read_text())
        self.files = recorded["files"]
        self.tests = recorded["tests"]
        self.files_of_tests = recorded["files_of_tests"]
        self.seconds = {test["id"]: test["seconds"] for test in self.tests}
        self.failing = {test["id"] for test in self.tests if not test["passed"]}
        self.in_file: dict[str, list[str]] = defaultdict(list)
        for test in self.tests:
            self.in_file[file_of(test["id"])].append(test["id"])

    def tests_of(self, path: str, line: int | None) -> set[str]:
        """The tests that reach a line; those that reach any line of the file if it is None.

        For a new line, those that reach the old line above it.
        """
        recorded = self.files.get(path)
        if recorded is None:
            return set()
        lines = recorded["lines"]
        if line is None:
            numbers = {number for row in lines.values() for number in row}
        else:
            then = _line_then(recorded["text"], (ROOT / path).read_text(), line)
            first = _first_line(recorded["text"], then)  # of a statement of several lines
            numbers = set(lines.get(str(then), ()) or lines.get(str(first), ()))
        return {self.tests[number]["id"] for number in numbers} - self.failing

    def chosen(
        self, path: str, reached: set[str], near_s: float, far_s: float
    ) -> tuple[list[str], list[str]]:
        """Tests to run: those in the folder that mirrors the package, and the others that reach the change.

        The first include the whole file that mirrors the changed one, and files that changed since the
        record. The second end with whole files: what tests share counts for the first of them only.
        """
        own, folder = mirrors_of(path)
        whole = own + [name for name in folder if self.files_of_tests.get(name) != _digest(ROOT / name)]
        near = sorted((name for name in reached if file_of(name) in {*own, *folder}), key=self._cost)
        near = self._within(near_s, near) + (whole if near or whole else folder)
        others: dict[str, list[str]] = defaultdict(list)
        for name in sorted(reached - set(near), key=self._cost):
            others[file_of(name)].append(name)
        most = sorted(others, key=lambda file: -len(others[file]))[:FILES]  # collecting takes its time too
        others = {file: others[file] for file in most}
        in_turn = [name for row in zip_longest(*others.values()) for name in row if name]
        known = {*in_turn, *near, *self.failing}
        shared = [name for file in others for name in self.in_file[file] if name not in known]
        return near, self._within(far_s, in_turn + sorted(shared, key=self._cost))

    def _cost(self, name: str) -> float:
        return float(self.seconds.get(name, 1.0))

    def _within(self, limit_s: float, names: list[str]) -> list[str]:
        ends = accumulate(self._cost(name) + 0.005 for name in names)
        return [name for name, end in zip(names, ends, strict=True) if end <= limit_s]

    def expected_s(self, tests: list[str]) -> float:
        """The processor seconds that these tests took when they were recorded."""
        whole = [name for file in tests for name in self.in_file.get(file, ())]
        return sum(self._cost(name) for name in {*tests, *whole} if name in self.seconds)


def file_of(name: str) -> str:
    return name.partition("::")[0]


def mirrors_of(path: str) -> tuple[list[str], list[str]]:
    """The files of tests that mirror a source file, and all others in the folder of its package."""
    source = Path(path).relative_to("src/gdrkit")
    package = Path("tests", source.parent)
    stem = source.parent.name if source.stem == "__init__" else source.stem
    rows = sorted((ROOT / package).rglob("test_*.py"))
    own = [str(row.relative_to(ROOT)) for row in rows if row.name == f"test_{stem}.py"]
    return own, [name for row in rows if (name := str(row.relative_to(ROOT))) not in own]


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _line_then(old: str, new: str, line: int) -> int:
    """The number that a line of the new text had in the old one, or of the old line above it; 0 for none."""
    matcher = difflib.SequenceMatcher(None, old.splitlines(), new.splitlines(), autojunk=False)
    before = [block for block in matcher.get_matching_blocks() if block.b < line and block.size]
    return before[-1].a + min(line - before[-1].b, before[-1].size) if before else 0


def _first_line(text: str, line: int) -> int:
    """The first line of the innermost statement that holds a line.

    For `continue` and `break` that of the statement around it: CPython jumps over most of them, so that no
    line is recorded.
    """
    rows = (row for row in ast.walk(ast.parse(text)) if isinstance(row, ast.stmt))
    holding = [row for row in rows if row.lineno <= line <= (row.end_lineno or 0)]
    plain = [row.lineno for row in holding if not isinstance(row, ast.Continue | ast.Break)]
    return max(plain, default=line)


def run_tests(tree: Path, coverage: Coverage, tests: list[str], *, to_the_end: bool = False) -> Outcome:
    """Run tests in a bounded child, until the first one fails."""
    limit_s = 120 + 10 * coverage.expected_s(tests)  # more than any load of the machine adds
    files = list(dict.fromkeys(file_of(name) for name in tests))
    with tempfile.TemporaryDirectory(prefix="tests-") as folder:
        wanted = Path(folder, "wanted")
        wanted.write_text("\n".join([*tests, *(f"-{name}" for name in coverage.failing)]))
        command = [*pytest_of(tree, Path(folder)), "-o", "addopts=--strict-markers", "-q"]
        command += ["--hypothesis-seed=0", *files]
        child = subprocess.Popen(
            command if to_the_end else [*command, "-x"],
            cwd=tree, env=environment(GDRKIT_MUTATE_RUN=str(wanted)), start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            status = child.wait(limit_s)
        except subprocess.TimeoutExpired:
            return Outcome("timed out")
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        failed = Path(f"{wanted}.failed")
        names = tuple(failed.read_text().splitlines()) if failed.exists() else ()
    return Outcome("survived" if status in (0, NO_TESTS) else "killed", names)
