"""Whoever changes the truth of machines/ does not change the code that it judges in the same commit.

From START on, a commit that touches the truth touches nothing outside machines/ and tests/machines/. The
adapter, judge.py and words.py, is not part of the truth: a new code of gdrkit may bring its translation."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
START = "936f1626179d88a7644cf2498a45fb179a8e5365"
"""The last commit before the rule."""
TRUTH = (
    "machines/truth.py", "machines/faults", "machines/facts.py", "machines/subjects.py", "machines/cost.py",
    "machines/remedies.py", "machines/next_boot.py", "machines/health.py",
)  # fmt: skip
COUNTED = ("machines/truth.py", "machines/faults")
"""What docs/machines.md counts of the time before."""
ALLOWED = ("machines/", "tests/machines/")


def is_truth(path: str) -> bool:
    return any(path == one or path.startswith(f"{one}/") for one in TRUTH)


def mixed(commits: dict[str, list[str]]) -> dict[str, list[str]]:
    """The commits that touch the truth and other places, with the other places."""
    found = {}
    for commit, paths in commits.items():
        others = [path for path in paths if not path.startswith(ALLOWED)]
        if others and any(is_truth(path) for path in paths):
            found[commit] = others
    return found


def git(*words: str) -> str:
    program = shutil.which("git")
    if program is None:
        pytest.skip("needs git")
    done = subprocess.run([program, "-C", ROOT, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"needs the history of this repository: git {words[0]} failed")
    return done.stdout


def history() -> dict[str, list[str]]:
    """The paths that each commit since START changes, without merges: those bring what others committed."""
    git("cat-file", "-e", f"{START}^{{commit}}")
    git("merge-base", "--is-ancestor", START, "HEAD")
    return by_commit("--no-merges", f"{START}..HEAD")


def by_commit(*which: str) -> dict[str, list[str]]:
    """The paths that each of these commits changes."""
    text = git("log", "--name-only", "--no-renames", "--format=%x00%H", *which)
    commits = {}
    for block in text.split("\0")[1:]:
        commit, *paths = block.split("\n")
        commits[commit] = [path for path in paths if path]
    return commits


def test_no_commit_changes_the_truth_and_the_code_that_it_judges():
    assert mixed(history()) == {}


def test_the_truth_was_changed_since_then():
    """Else the rule would hold for nothing."""
    assert any(is_truth(path) for paths in history().values() for path in paths)


def test_the_page_says_how_often_both_changed_before():
    """Counted as history() does, up to START."""
    git("cat-file", "-e", f"{START}^{{commit}}")
    before = by_commit("--no-merges", START)
    touched = [paths for paths in before.values() if any(path.startswith(COUNTED) for path in paths)]
    both = [paths for paths in touched if any(path.startswith("src/gdrkit/") for path in paths)]
    page = " ".join((ROOT / "docs/machines.md").read_text().split())

    if git("rev-parse", "--is-shallow-repository").strip() == "true":
        pytest.skip("needs the whole history")
    assert f"{len(touched)} commits changed" in page
    assert f"{len(both)} of those also changed `src/gdrkit/`" in page


def test_a_commit_that_does_both_is_found():
    both = ["machines/faults/links.py", "src/gdrkit/rules/link_degraded.py"]
    apart = {"a": both[:1], "b": both[1:], "c": ["machines/words.py", both[1]], "d": ["tests/machines/x.py"]}

    assert mixed({"e": both, **apart}) == {"e": both[1:]}
    assert mixed({"f": ["machines/truth.py", "docs/machines.md"]}) == {"f": ["docs/machines.md"]}


def test_each_part_of_the_truth_is_there():
    assert all((ROOT / one).exists() for one in TRUTH)
