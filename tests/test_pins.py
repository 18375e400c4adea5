"""Every program that is downloaded and run here, as root in CI, is pinned: by hash where one is checked."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PIN = re.compile(r"([A-Za-z0-9_.-]+)==([^\s;\\]+)")


def hashed(name: str) -> dict[str, str]:
    """The versions of a file whose every requirement has a hash."""
    found = {}
    for block in re.split(r"^(?=\S)", (ROOT / name).read_text(), flags=re.MULTILINE)[1:]:
        match = PIN.match(block)
        assert match and "--hash=sha256:" in block, block.partition("\n")[0]
        found[match[1]] = match[2]
    return found


def versions(rows: list[str]) -> dict[str, str]:
    found = [PIN.match(row) for row in rows]
    assert all(found), rows
    return {match[1]: match[2] for match in found if match}


def test_what_builds_the_package_is_pinned_by_version_and_by_hash():
    pinned = hashed("requirements-dev.txt")
    build = versions(PROJECT["build-system"]["requires"])
    assert set(build) == {"hatchling"}
    assert build.items() <= pinned.items()
    constraints = versions(PROJECT["tool"]["uv"]["build-constraint-dependencies"])
    assert {"hatchling", "editables"} <= set(constraints)
    assert constraints.items() <= pinned.items()
    assert hashed("requirements-build.txt") == constraints


def test_both_lists_have_the_same_versions():
    pinned = hashed("requirements-dev.txt")
    assert versions(PROJECT["tool"]["uv"]["constraint-dependencies"]) == pinned


def test_what_is_installed_elsewhere_has_the_versions_that_were_tested():
    needed = hashed("requirements-run.txt")
    declared = {re.split("[>;]", row)[0].replace(".", "-") for row in PROJECT["project"]["dependencies"]}
    assert len(declared) == 6 and declared <= set(needed) and "pytest" not in needed
    assert needed.items() <= hashed("requirements-dev.txt").items()


def test_ci_runs_the_commands_of_the_readme_with_the_pinned_uv():
    assert set(versions((ROOT / "requirements-uv.txt").read_text().split())) == {"uv"}
    script = (ROOT / ".ci" / "run").read_text()
    assert "PIP_CONSTRAINT=$PWD/requirements-uv.txt UV_NO_SYNC=1" in script
    command = "pipx run uv run --all-groups --all-extras pytest"
    assert script.endswith(f"\n{command}\n") and command in (ROOT / "README.md").read_text()


@pytest.mark.parametrize(
    "unsafe", [r"\bpipx run (?!uv )", r"\bcurl\b", r"\bwget\b", r"pip install (?!.*--no-deps)"]
)
def test_ci_downloads_nothing_that_is_not_pinned(unsafe):
    lines = [line for line in (ROOT / ".ci" / "run").read_text().splitlines() if not line.startswith("#")]
    assert [line for line in lines if re.search(unsafe, line)] == []


def test_the_tool_that_the_lab_runs_is_pinned_with_all_that_it_needs():
    rows = [row for row in (ROOT / "requirements-lab.txt").read_text().splitlines() if row[:1].isalnum()]
    assert "virt-firmware" in versions(rows)
    code = (ROOT / "lab" / "firmware.py").read_text()
    assert f'_TOOL = "virt-firmware=={versions(rows)["virt-firmware"]}"' in code
    assert '"--constraints", str(_PINS)' in code


def test_the_ray_of_the_tests_is_pinned_by_hash_and_ci_compares_it():
    assert "ray" in hashed("requirements-ray.txt")
    assert "--require-hashes requirements-ray.txt" in (ROOT / ".ci" / "run").read_text()


def test_ci_builds_the_package_with_the_pinned_builder():
    (line,) = [line for line in (ROOT / ".ci" / "run").read_text().splitlines() if "--editable" in line]
    assert "--no-build-isolation" in line and "--no-deps" in line
