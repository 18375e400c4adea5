"""The commands of the first pages, run as they are written: in a clean clone, with a home of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from gdrkit.cli.example import EXAMPLES
from tests.system_programs import IN_CI, program
from tests.test_linters import ROOT, committed
from tests.unpacked import unpack

PAGES = ("README.md", "docs/install.md", "docs/tutorial.md")
NOT_RUN = {
    r"^pipx run uv run --all-groups --all-extras pytest$": "this test is one of them; .ci/run ends with it",
    r"^(scp|ssh) ": "needs another machine",
    r"^podman ": "needs an image of a registry; docs/install.md says how the image was tried",
    r"-m tools\.pyz": "downloads for every Python; tests/test_package.py builds it from wheels",
}
"""Lines that are not run, with the reason; each is a command of a page."""


def lines_of(page: str) -> list[str]:
    """The commands of a page, in their order."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line and not line.startswith("#")]


HOW_TO_NOT_RUN = {
    r"^(scp|ssh) |ssh://|'gpu\[|--hosts ": "needs another machine",
    r"--slurm\b|^salloc ": "needs Slurm",
    r"--ray\b": "needs a Ray cluster",
    r"--kubernetes\b": "needs a cluster, and kubectl",
    r"^(curl|echo) .*(gpg|sources\.list)|^sudo apt": "adds a repository to the machine, or installs from it",
    r"^(uv|pipx) run |^git diff|^  --date": "for those who change gdrkit: needs its development environment",
    r"^gdr config check (?:cluster-policy|deployment/|job)": "needs a manifest: test_examples.py has one",
    r"--compare gpu1 gpu2": "needs a run with these nodes: test_examples.py has one",
    r"tool install": "installs gdr: the first pages do",
    r"^sudo ip link set ": "changes an interface that a Spark has",
    r"fleet doctor --resume\b": "needs a run over nodes of which some gave no answer",
}
"""The same of the how-to pages, in which several lines are about one form."""
HOW_TO = tuple(
    path
    for path in sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").glob("*.md"))
    if path not in (*PAGES, "docs/commands.md")
    and any(not any(re.search(pattern, line) for pattern in HOW_TO_NOT_RUN) for line in lines_of(path))
)
"""Pages with commands, besides the first ones; tests/cli/test_examples.py has those of docs/commands.md."""
HOW_TO_GIVEN = {
    "bundle.tar.gz": "h100", "node.tar.gz": "h100", "sosreport.tar.xz": "operator", "errors.txt": "job",
    "job.log": "job",
}  # fmt: skip
RIGHT_CODES = {r"^zgrep .* -c ": 1, r"\bgdr (ps|modprobe|export|expect) ": 3, r" --nodes-only \S": 2}
"""Codes that are an answer too: nothing was found, a machine without a GPU shows nothing, or no blocked node
is in the list that was asked for."""
GIVEN = {"bundle.tar.gz": "h100", "node17.tar.gz": "h100", "bundles/a.tar.gz": "operator"}
"""Bundles that a reader of README and of docs/install.md has; the tutorial makes its own."""
SUDO = """#!/bin/sh
if [ "$1 $2" != "apt install" ]; then PATH=/usr/sbin:/usr/bin:/sbin:/bin exec "$@"; fi
shift 2
for name; do
  case $name in -*) continue ;; esac
  dpkg-query -W "$name" >/dev/null 2>&1 || command -v "$name" >/dev/null || exit 100
done
"""
"""sudo with the PATH that Debian's sudoers gives it; of apt, whether what it would install is here."""
NO_NETWORK = r"error sending request|dns error|Could not connect|NewConnectionError|Network is unreachable"
VERDICT = re.compile(r"\bgdr (doctor|explain|fix|report|nccl|fleet)\b")
"""Commands whose exit code is a verdict: 1 works with warnings, 2 blocked, 3 unknown."""


class Step(NamedTuple):
    """A line of a page that was run."""

    line: str
    code: int
    output: str
    errors: str

    @property
    def failed(self) -> bool:
        verdict = self.code in (1, 2, 3) and VERDICT.search(self.line) and (self.output or self.errors)
        return bool((self.code and not verdict) or re.search(r"(?m)^error:|Traceback", self.errors))


def reason_not_to_run(line: str) -> str:
    return next((reason for pattern, reason in NOT_RUN.items() if re.search(pattern, line)), "")


def ran(folder: Path, lines: Sequence[str], environment: Mapping[str, str]) -> list[Step]:
    """Run lines in one shell, each with files for what it prints."""
    script = "".join(
        f"{{ {line}\n}} </dev/null >{folder}/{at}.out 2>{folder}/{at}.err\necho $? >{folder}/{at}.code\n"
        for at, line in enumerate(lines)
    )
    subprocess.run(["sh", "-c", script], cwd=folder, env=environment, check=True, timeout=900)
    kinds = ("code", "out", "err")
    read = [[(folder / f"{at}.{kind}").read_text() for kind in kinds] for at in range(len(lines))]
    return [Step(line, int(code), *printed) for line, (code, *printed) in zip(lines, read, strict=True)]


@pytest.fixture(scope="session")
def repository(made_once) -> Path:
    """A repository with one commit: what is committed here, as it is now."""
    return made_once("repository", commit_all)


def commit_all(folder: Path) -> None:
    git = program("git")
    for path in committed():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, folder / path, follow_symlinks=False)
    who = ["-c", "user.name=test", "-c", "user.email=test@localhost"]
    for words in (["init", "-q"], ["add", "-f", "-A"], [*who, "commit", "-q", "-m", "all"]):
        subprocess.run([git, *words], cwd=folder, check=True)


def environment_of(home: Path) -> dict[str, str]:
    """A reader's: no environment of Python, no gdr in PATH; downloads are kept where they always are."""
    (home / "sudo").mkdir()
    (home / "sudo/sudo").write_text(SUDO)
    (home / "sudo/sudo").chmod(0o755)
    kept = {
        name: value for name, value in os.environ.items()
        if not re.match(r"PYTEST|PYTHON|VIRTUAL_ENV|UV$|UV_(NO_SYNC|PROJECT)|XDG_|GDR|GIT_|CI$", name)
    }  # fmt: skip
    path = [folder for folder in os.environ["PATH"].split(os.pathsep) if not Path(folder, "gdr").exists()]
    config = Path.home() / ".config/pip/pip.conf"
    return {
        "UV_CACHE_DIR": str(Path.home() / ".cache/uv"),
        "PIPX_HOME": str(Path.home() / ".local/pipx"),
        **({"PIP_CONFIG_FILE": str(config)} if config.exists() else {}),
        **kept,
        "HOME": str(home),
        "PATH": os.pathsep.join([f"{home}/sudo", f"{home}/.local/bin", *path]),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": "*",
    }


def given(folder: Path) -> None:
    """What a reader has beside the clone's own files."""
    for name, example in GIVEN.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "src/gdrkit/cli/examples" / EXAMPLES[example].file, folder / name)
    shutil.copy(ROOT / "tests/cli/examples/job.log", folder)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_a_first_page_runs_in_a_clean_clone(page, repository, tmp_path):
    program("pipx")
    home = tmp_path / "home"
    home.mkdir()
    before = [f"git clone {repository} clone && cd clone"]
    if page != "docs/tutorial.md":
        given(tmp_path / "given")
        before.append(f"cp -R {tmp_path}/given/. .")
    lines = [*before, *(line for line in lines_of(page) if not reason_not_to_run(line))]

    steps = ran(tmp_path, lines, environment_of(home))

    if not IN_CI and any(re.search(NO_NETWORK, step.errors) for step in steps):
        pytest.skip("needs the network, for what a clean clone installs")
    assert len(steps) > 3
    assert [step for step in steps if step.failed] == []


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a reader with an installed gdr: this one, and a home of their own."""
    home = tmp_path_factory.mktemp("reader")
    for name, content in {
        "gdr": f'#!/bin/sh\nexec {sys.executable} -m gdrkit "$@"\n',
        "sudo": '#!/bin/sh\nexec "$@"\n',
    }.items():
        (home / name).write_text(content)
        (home / name).chmod(0o755)
    return {
        **os.environ,
        "HOME": str(home),
        "XDG_STATE_HOME": str(home),
        "PATH": f"{home}:{os.environ['PATH']}",
    }


def not_run(line: str) -> str:
    return next((reason for pattern, reason in HOW_TO_NOT_RUN.items() if re.search(pattern, line)), "")


@pytest.mark.slow
@pytest.mark.parametrize("page", HOW_TO)
def test_every_command_of_a_how_to_page_runs(page, reader, tmp_path):
    """The lines of a page share a shell and a folder, as a reader's do."""
    lines = [line for line in lines_of(page) if not not_run(line)]
    (tmp_path / "out").mkdir()
    (tmp_path / "out/bundles").mkdir()
    written = {name for line in lines for name in re.findall(r"-o (\S+)", line)}
    for name, example in HOW_TO_GIVEN.items():
        if name in written:  # by the reader, who has no older one
            continue
        shutil.copy(ROOT / "src/gdrkit/cli/examples" / EXAMPLES[example].file, tmp_path / "out" / name)
    shutil.copy(ROOT / "tests/cli/examples/ib_write_bw.log", tmp_path / "out")
    with tarfile.open(ROOT / "src/gdrkit/cli/examples/fleet.tar.xz") as nodes:
        unpack(nodes, tmp_path / "out/bundles")
    shutil.copy(ROOT / "src/gdrkit/cli/examples" / EXAMPLES["h100"].file, tmp_path / "out/bundles")

    steps = ran(tmp_path, ["cd out", *lines], reader)

    def right(step: Step) -> bool:
        return any(step.code == code and re.search(known, step.line) for known, code in RIGHT_CODES.items())

    assert [step for step in steps if step.failed and not right(step)] == []


def test_every_reason_not_to_run_a_line_of_a_how_to_page_is_about_one():
    pages = [str(page.relative_to(ROOT)) for page in (ROOT / "docs").glob("*.md")]
    lines = [line for page in pages for line in lines_of(page)]
    assert [
        pattern for pattern in HOW_TO_NOT_RUN if not any(re.search(pattern, line) for line in lines)
    ] == []


def test_every_reason_not_to_run_a_command_is_about_a_command_of_a_page():
    lines = [line for page in PAGES for line in lines_of(page)]
    assert [pattern for pattern in NOT_RUN if not any(re.search(pattern, line) for line in lines)] == []


def test_no_command_of_a_page_needs_an_address_that_is_reserved():
    """RFC 2606 has no host for it: a stranger's first command, `git clone`, failed."""
    pages = ["README.md", *(str(page.relative_to(ROOT)) for page in (ROOT / "docs").glob("*.md"))]
    reserved = re.compile(r"https?://(?:[\w-]+\.)*example\.(?:org|com|net)\b")
    assert [line for page in pages for line in lines_of(page) if reserved.search(line)] == []


@pytest.mark.parametrize(
    ("line", "fails"),
    [
        ("true    # a comment", False),
        ("false", True),
        ("gdr doctor x", True),
        ("sh -c 'echo BLOCKED; exit 2' gdr doctor x", False),
        ("sh -c 'exit 2' gdr doctor x", True),
        ("sh -c 'echo BLOCKED; exit 70' gdr doctor x", True),
        ("sh -c 'echo x; echo error: no solution >&2; exit 2' gdr doctor x", True),
    ],
)
def test_a_command_that_fails_is_told_from_a_verdict(line, fails, tmp_path):
    (step,) = ran(tmp_path, [line], {"PATH": "/usr/bin:/bin"})
    assert step.failed == fails


def test_a_command_sees_what_the_one_before_it_did(tmp_path):
    steps = ran(tmp_path, ["mkdir a && cd a", "pwd"], {"PATH": "/usr/bin:/bin"})
    assert steps[1].output == f"{tmp_path}/a\n"
