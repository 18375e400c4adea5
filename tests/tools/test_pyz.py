"""What gdr.pyz says to a Python that it does not run on."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tools.pyz import guard

OLD = ("python3", "python3.8", "python3.9", "python3.10", "pypy3")


@pytest.fixture
def pyz(tmp_path: Path) -> Path:
    """A file as pex writes it: a script for sh in front of an archive."""
    path = tmp_path / "gdr.pyz"
    path.write_bytes(b"#!/bin/sh\nexit 3\n")
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as file:
        file.writestr("__main__.py", "import other\nprint('started')\n")
        file.writestr("other.py", "")
    guard(path)
    return path


def started(python: str, pyz: Path, *words: str, path: Path) -> tuple[int, str, str]:
    """The exit code, output and errors of a Python, whose PATH has nothing else."""
    run = subprocess.run(
        [python, pyz, *words], capture_output=True, text=True, env={"PATH": str(path)}, check=False
    )
    return run.returncode, run.stdout, run.stderr


def old_python() -> str:
    """The program of an older Python, which may be behind a script that chooses one."""
    asks = "import sys; print(sys.executable if sys.version_info < (3, 11) else '')"
    for name in filter(shutil.which, OLD):
        asked = subprocess.run([name, "-c", asks], capture_output=True, text=True, check=False)
        if asked.returncode == 0 and (found := asked.stdout.strip()):
            return found
    pytest.skip("needs a Python older than 3.11: install pypy3, which is Python 3.9 in Debian 12")


def test_this_python_starts_it(pyz: Path, tmp_path: Path):
    assert started(sys.executable, pyz, "doctor", path=tmp_path) == (0, "started\n", "")
    assert zipfile.ZipFile(pyz).testzip() is None
    assert sorted(zipfile.ZipFile(pyz).namelist()) == ["__main__.py", "other.py"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["doctor"], 69),
        (["doctor", "--exit-style", "nagios"], 3),
        (["doctor", "--exit-style=slurm", "-q"], 0),
        (["doctor", "slurm"], 69),
    ],
)
def test_an_older_one_gets_one_line_and_no_code_of_a_verdict(
    pyz: Path, tmp_path: Path, words: list[str], code: int
):
    """For Slurm alone 0 means that the node is left as it is."""
    found, shown, errors = started(old_python(), pyz, *words, path=tmp_path)

    assert (found, shown, len(errors.splitlines())) == (code, "", 1)
    assert "gdr.pyz needs Python 3.11 to 3.14" in errors and "gdr doctor ssh://HOST" in errors


def test_where_another_one_fits_pex_chooses(pyz: Path, tmp_path: Path):
    (tmp_path / "python3.12").symlink_to(sys.executable)

    assert started(old_python(), pyz, path=tmp_path) == (0, "started\n", "")
