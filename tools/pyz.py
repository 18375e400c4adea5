"""Build dist/gdr.pyz: gdr with all that it needs as one file, for machines without network.

`uv run --no-sync python -m tools.pyz` needs the network. pex puts in the compiled parts for every Python
that gdr supports, on both processors; each file is compared with its hash. Of the checkout only what git
tracks is put in, so that one commit gives the same bytes wherever it is built. The first start unpacks them
below ~/.cache/pex.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from tools.wheels import MINORS, REQUIREMENTS, ROOT, pex, platforms

OUTPUT = ROOT / "dist" / "gdr.pyz"
MACHINES = ("x86_64", "aarch64")
HOW = (
    "--no-build", "--venv", "--sh-boot", "--no-compile", "--no-strip-pex-env",
    "--interpreter-constraint", f"CPython>=3.{MINORS[0]},<3.{MINORS[-1] + 1}", "--console-script", "gdr",
)  # fmt: skip
"""An environment is made at the first start; then sh finds it without Python, and starts gdr in it."""

GUARD = f"""import os, sys
if not (3, {MINORS[0]}) <= sys.version_info[:2] <= (3, {MINORS[-1]}):
    names = ["python3.%d" % minor for minor in range({MINORS[0]}, {MINORS[-1] + 1})]
    folders = os.environ.get("PATH", "").split(os.pathsep)
    if not any(os.access(os.path.join(folder, name), os.X_OK) for folder in folders for name in names):
        sys.stderr.write(
            "gdr.pyz needs Python 3.{MINORS[0]} to 3.{MINORS[-1]}, and this is %d.%d. From another machine, "
            "`gdr doctor ssh://HOST` needs only Python 3.8 here\\n" % sys.version_info[:2]
        )
        asked = " ".join(sys.argv).replace("=", " ").partition("--exit-style ")[2].partition(" ")[0]
        sys.exit({{"nagios": 3, "npd": 2, "slurm": 0}}.get(asked, 69))
"""
"""What pex says of a Python that does not fit is 15 lines and the exit code 1, which is that of a warning.
The codes are those of gdrkit.cli.exit. It is written for any Python; where PATH has one that fits, pex finds
it."""


def build(output: Path, machines: Sequence[str] = MACHINES, wheels: Path | None = None) -> None:
    """Write the file for these processors, from the network or from a folder of wheels.

    Raises CalledProcessError."""
    source = ("--no-index", "--find-links", wheels) if wheels else ()
    with tempfile.TemporaryDirectory() as folder, platforms(*machines) as options:
        command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder]
        subprocess.run(command, cwd=tracked(ROOT, Path(folder, "source")), check=True)
        (wheel,) = Path(folder).glob("*.whl")
        all_of_it = Path(folder, "requirements.txt")
        own = f"{wheel} --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}"
        all_of_it.write_text(f"{REQUIREMENTS.read_text()}{own}\n")
        output.parent.mkdir(exist_ok=True)
        pex("pex", "-r", all_of_it, *options, *source, *HOW, "-o", output)
    guard(output)


def guard(output: Path) -> None:
    """Put `GUARD` in front of what Python runs first in a file that pex wrote."""
    with zipfile.ZipFile(output, "a") as file:
        old = file.getinfo("__main__.py")
        content = file.read(old)
        entry = zipfile.ZipInfo(old.filename, old.date_time)
        entry.external_attr, entry.compress_type = old.external_attr, old.compress_type
        file.filelist.remove(old)
        del file.NameToInfo[old.filename]
        file.writestr(entry, GUARD.encode() + content)


def tracked(source: Path, copy: Path) -> Path:
    """A copy of the files of a checkout that git tracks, as they are now: another file beside the package
    would be in its wheel. Without git, as in an unpacked source distribution, the source itself."""
    if not (source / ".git").exists():
        return source
    command = ["git", "ls-files", "-z"]
    listed = subprocess.run(command, cwd=source, check=True, capture_output=True, text=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (source / name).is_file():  # else it was deleted
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source / name, copy / name, follow_symlinks=False)
    return copy


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    build(OUTPUT)
    sys.stdout.write(
        f"{OUTPUT}: {OUTPUT.stat().st_size >> 20} MiB, Python 3.{MINORS[0]} to 3.{MINORS[-1]}\n"
    )
