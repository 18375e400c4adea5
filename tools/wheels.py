"""Download what gdr needs as wheels, each compared with its hash: for every Python that gdr supports.

`uv run --no-sync python -m tools.wheels` needs the network; tests/test_package.py then needs none.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from packaging.tags import compatible_tags, cpython_tags

ROOT = Path(__file__).parent.parent
REQUIREMENTS = ROOT / "requirements-run.txt"
WHEELS = Path.home() / ".cache/gdrkit/wheels"
MINORS = (11, 12, 13, 14)
GLIBC = range(28, 16, -1)
"""2.28, the oldest that cryptography's wheels support, down to 2.17, which manylinux2014 means (PEP 599)."""


def environment(minor: int, machine: str) -> dict[str, object]:
    """CPython 3.`minor` on Linux on a processor, as pex describes an interpreter that is not here."""
    platforms = [*(f"manylinux_2_{glibc}_{machine}" for glibc in GLIBC), f"manylinux2014_{machine}"]
    tags = itertools.chain(
        cpython_tags((3, minor), platforms=platforms),
        compatible_tags((3, minor), f"cp3{minor}", platforms),
    )
    markers = {
        "implementation_name": "cpython", "implementation_version": f"3.{minor}.0", "os_name": "posix",
        "platform_machine": machine, "platform_python_implementation": "CPython", "platform_release": "",
        "platform_system": "Linux", "platform_version": "", "python_full_version": f"3.{minor}.0",
        "python_version": f"3.{minor}", "sys_platform": "linux",
    }  # fmt: skip
    return {"marker_environment": markers, "compatible_tags": [str(tag) for tag in tags]}


@contextmanager
def platforms(*machines: str) -> Iterator[list[str]]:
    """The options of pex for every Python on these processors; their files exist within the context."""
    with tempfile.TemporaryDirectory() as folder:
        options = []
        for minor, machine in itertools.product(MINORS, machines):
            file = Path(folder, f"{minor}-{machine}.json")
            file.write_text(json.dumps(environment(minor, machine)))
            options += ["--complete-platform", str(file)]
        yield options


def pex(*words: str | Path) -> None:
    """Run `python -m WORDS`, a module of pex. Raises CalledProcessError."""
    environment = {**os.environ, "PEX_ROOT": str(WHEELS.parent / "pex")}
    subprocess.run([sys.executable, "-m", *map(str, words)], env=environment, check=True)


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    with platforms(platform.machine()) as options:
        pex("pex.cli", "download", "-r", REQUIREMENTS, "--no-build", *options, "-d", WHEELS)


if __name__ == "__main__":
    main()
