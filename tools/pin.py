"""Pin every dependency: requirements-dev.txt with hashes, and the same versions in pyproject.toml.

Run it as `uv run --no-sync python tools/pin.py` when a dependency is added or raised; commit both files.
No lock file is committed: it would name the registry of its author.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent
PINNED = ROOT / "requirements-dev.txt"
COMPILE = [
    os.environ.get("UV", "uv"),  # set by `uv run`, which may not be on the path itself
    "pip", "compile", "pyproject.toml", "--universal", "--generate-hashes", "--all-extras",
    "--group", "dev", "--python-version", "3.11",
    "--no-emit-index-url", "--no-emit-find-links", "--no-header", "--quiet",
    "--output-file", PINNED.name,
]  # fmt: skip
REQUIREMENT = re.compile(r"^([A-Za-z0-9_.-]+==[^\s\\;]+)( ; [^\\]+)?", re.MULTILINE)


def main() -> None:
    PINNED.unlink(missing_ok=True)
    text = (ROOT / "pyproject.toml").read_text()
    without = re.sub(r"constraint-dependencies = \[[^\]]*\]\n", "", text)
    (ROOT / "pyproject.toml").write_text(without)
    subprocess.run(COMPILE, cwd=ROOT, check=True, env={**os.environ, "UV_NO_CONFIG": "1"})
    pins = [name + (marker or "").rstrip() for name, marker in REQUIREMENT.findall(PINNED.read_text())]
    rows = "".join(f'  "{pin}",\n' for pin in pins)
    block = f"[tool.uv]\nconstraint-dependencies = [\n{rows}]\n"
    (ROOT / "pyproject.toml").write_text(without.replace("[tool.uv]\n", block, 1))


if __name__ == "__main__":
    main()
