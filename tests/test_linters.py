"""Checks of every committed file with tools and searches: style, types, and forbidden contents."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system_programs import IN_CI, found, program

ROOT = Path(__file__).parent.parent
HERE = Path(__file__).relative_to(ROOT)
GENERATED = {".git", ".venv", ".lab", "dist", "site", "uv.lock", "pylock.toml", ".cache", "PKG-INFO"}
"""Names in .gitignore, and what a source distribution adds, for copies without git; folders of caches are
ignored as well."""


def committed() -> list[Path]:
    """Files of the repository; in a copy without git, all files that are not generated."""
    if (ROOT / ".git").exists() and (git := found("git")):
        asked = subprocess.run(
            [git, "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
        )
        if asked.returncode == 0:  # git refuses a checkout that another user owns
            return [Path(name) for name in asked.stdout.split("\0") if name and (ROOT / name).is_file()]
    return [path.relative_to(ROOT) for path in sorted(_walk(ROOT)) if path.is_file()]


def _walk(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.name in GENERATED or path.name.endswith(("cache", "cache__", ".egg-info", ".hypothesis")):
            continue
        if path.is_dir() and not path.is_symlink():
            yield from _walk(path)
        else:
            yield path


FILES = committed()
PYTHON = [path for path in FILES if path.suffix == ".py"]


def text_of(path: Path) -> str:
    """The text of a file; "" for a binary file."""
    content = (ROOT / path).read_bytes()
    return "" if b"\0" in content else content.decode("utf-8", "replace")


def matches(pattern: str, paths: list[Path]) -> list[str]:
    """Lines that match, as file:line: text."""
    wanted = re.compile(pattern)
    return [
        f"{path}:{number}: {line.strip()[:120]}"
        for path in paths
        for number, line in enumerate(text_of(path).splitlines(), 1)
        if wanted.search(line)
    ]


# -- tools -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [["ruff", "check", "--no-cache"], ["ruff", "format", "--check", "--no-cache"], ["mypy"]],
    ids=["ruff check", "ruff format", "mypy"],
)
def test_the_tool_reports_nothing(arguments):
    if importlib.util.find_spec(arguments[0]) is None and not IN_CI:
        pytest.skip("run: uv sync --all-groups --all-extras")
    if arguments == ["mypy"] and not os.access(ROOT, os.W_OK):
        arguments = ["mypy", "--cache-dir", os.devnull]
    run = subprocess.run([sys.executable, "-m", *arguments], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


def shellcheck(name: str, text: str) -> str:
    run = subprocess.run(
        [program("shellcheck"), "--shell", "bash", "--severity", "warning", "-"],
        input=text, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return f"{name}:\n{run.stdout}{run.stderr}" if run.returncode else ""


def test_shellcheck_accepts_the_shell_scripts():
    assert shellcheck(".ci/run", text_of(Path(".ci/run"))) == ""


def test_shellcheck_accepts_the_completion_for_bash():
    command = [sys.executable, "-c", "from gdrkit.cli import main; main()", "completion", "bash"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stdout
    assert shellcheck("gdr completion bash", run.stdout) == ""


# -- forbidden contents ----------------------------------------------------------------------------


def test_no_command_goes_through_a_shell():
    assert matches(r"shell\s*=\s*Tr" + "ue|os\\.sys" + "tem\\(|os\\.po" + "pen\\(", PYTHON) == []


def test_only_the_command_line_catches_all_exceptions():
    """cli/__init__.py reports errors in gdrkit, and so does the row of a node in a fleet; a step of the
    transport keeps its own for whoever waits for the message. No other code may hide them."""
    reports = ("cli/__init__.py", "fleet/worker.py", "transport/steps.py")
    allowed = {Path("src/gdrkit") / path for path in reports}
    package = [path for path in PYTHON if path.parts[0] == "src" and path not in allowed]
    assert matches(r"except\s*(\(?\s*Exception|:)", package) == []


PUBLIC = (
    "docs.nvidia.com", "github.com", "docs.kernel.org", "man7.org", "deb.debian.org", "yaml.org",
    "www.freedesktop.org", "json-schema.org", "discourse.ubuntu.com", "coreos.github.io", "www.apache.org",
    "archive.ubuntu.com", "security.ubuntu.com", "www.talos.dev", "docs.mellanox.com", "lwn.net",
    "git.kernel.org", "lore.kernel.org", "www.kernel.org", "developer.nvidia.com",
    "forums.developer.nvidia.com", "ubuntu.com", "uefi.org", "pcisig.com", "cateee.net", "example.com",
    "example.org", "factory.talos.dev", "rcuda.net", "www.w3.org",
    "www.gnu.org", "cloud.google.com", "docs.aws.amazon.com", "kvcache-ai.github.io", "ofiwg.github.io",
    "nvidia.github.io",
    "openucx.readthedocs.io", "prometheus.io", "docs.pypi.org", "peps.python.org",
    "documentation.suse.com", "slurm.schedmd.com",
    "linux.mellanox.com", "www.mellanox.com",  # DOCA, in commands that users copy; nothing here reads it
    "report.invalid",  # which resolves nowhere (RFC 2606): a browser must not even ask for it, in a test
    "discord.com", "hooks.slack.com", "account.blob.core.windows.net",  # the forms of secrets in a test
)  # fmt: skip
"""Cited sources, and Debian's archive, which lab and tests read. No registries and no mirrors."""


def test_addresses_are_of_public_sources():
    pattern = re.compile(r"\bhttps?://([^/\s:,@\"'`)<>\]]+)")
    found = {
        (host.lower(), str(path)) for path in FILES for host in pattern.findall(text_of(path))
        if "{" not in host and "." in host
    }  # fmt: skip
    assert sorted(row for row in found if row[0].strip(".") not in PUBLIC) == []


def test_no_registry_is_named():
    pins = [
        Path("pyproject.toml"),
        Path("requirements-dev.txt"),
        Path("requirements-run.txt"),
        Path("requirements-uv.txt"),
        Path("requirements-lab.txt"),
        *(path for path in FILES if path.parts[0] == ".ci"),
    ]
    ours = tomllib.loads(text_of(Path("pyproject.toml")))["project"]["urls"].values()
    found = matches(r"https?://|--(extra-)?index-url|--find-links|\[\[tool\.uv\.index", pins)
    assert [row for row in found if not row.endswith(tuple(f'= "{url}"' for url in ours))] == []


def test_paths_of_developers_machines_do_not_occur():
    """Home folders and checkouts are forbidden. Tests of redaction need names, and have these."""
    made_up = r"(?!(?:max|alice|bob7|frank|grace|kubernetes|not|user\d)\b|\*)"
    folders = rf"(?:^|[^\w./=-])/(?:home|Users|root|work|workspace|builds)/{made_up}[\w.-]+"
    assert matches(folders, [path for path in FILES if path != HERE]) == []
    home = str(Path.home())
    if home.count("/") > 1:
        assert matches(re.escape(home) + r"\b", FILES) == []


KNOWN = (
    r"@example\.(com|org)|@node1\.example\.com|@lists\.debian\.org|^mockbuild@|^linux-bugs@nvidia\.com$"
    r"|^git@github\.com$|@sha256$|^sk-ssh-ed25519@openssh\.com$"
)
"""Addresses that kernels, drivers and distributions print, reserved ones (RFC 2606), and a kind of key."""


def test_addresses_of_persons_do_not_occur():
    address = re.compile(r"[\w.%+-]+@[\w-]+(?:\.[\w-]+)*\.[a-z]{2,6}\b")
    found = {(word, str(path)) for path in FILES for word in address.findall(text_of(path))}
    assert sorted(row for row in found if not re.search(KNOWN, row[0])) == []
