"""Pin every dependency: requirements-dev.txt with hashes; of these, requirements-run.txt has what gdr needs,
requirements-build.txt what builds the package; requirements-uv.txt; the same versions in pyproject.toml;
requirements-ray.txt with hashes for the cluster of the tests; requirements-lab.txt without hashes, since
`uv tool run` compares none.

Run it as `uv run --no-sync python tools/pin.py` when a dependency is added or raised, and commit what it
writes. No lock file is committed: it would name the registry of its author.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent
PINNED, RUN, BUILD, UV, LAB, RAY = (
    ROOT / f"requirements-{name}.txt" for name in ("dev", "run", "build", "uv", "lab", "ray")
)
BUILDERS = ("hatchling", "editables")
"""What builds the package, and what hatchling needs besides for an editable installation."""
OPTIONS = (
    "--universal", "--python-version", "3.11", "--no-emit-index-url", "--no-emit-find-links", "--no-header",
    "--quiet",
)  # fmt: skip
PACKAGE = ("pyproject.toml",)
DEVELOPMENT = (*PACKAGE, "--all-extras", "--group", "dev")
REQUIREMENT = re.compile(r"^([A-Za-z0-9_.-]+==[^\s\\;]+)( ; [^\\]+)?", re.MULTILINE)


def resolved(*words: str, given: str = "") -> str:
    """What `uv pip compile` prints: every requirement with its version."""
    command = [os.environ.get("UV", "uv"), "pip", "compile", *words, *OPTIONS]  # UV is set by `uv run`
    environment = {**os.environ, "UV_NO_CONFIG": "1"}
    done = subprocess.run(
        command, cwd=ROOT, input=given, check=True, env=environment, capture_output=True, text=True
    )
    return done.stdout


def pins(text: str) -> list[str]:
    """The requirements of a resolution, each with its marker."""
    return [name + (marker or "").rstrip() for name, marker in REQUIREMENT.findall(text)]


def block(name: str, rows: list[str]) -> str:
    return f"{name} = [\n" + "".join(f'  "{row}",\n' for row in rows) + "]\n"


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    text = (ROOT / "pyproject.toml").read_text()
    text = re.sub(r"(build-)?constraint-dependencies = \[[^\]]*\]\n", "", text)
    (ROOT / "pyproject.toml").write_text(text)
    PINNED.write_text(resolved(*DEVELOPMENT, "--generate-hashes"))
    RUN.write_text(resolved(*PACKAGE, "--constraint", PINNED.name, "--generate-hashes", "--no-annotate"))
    RAY.write_text(resolved("-", "--generate-hashes", given="ray[default]\n"))
    UV.write_text(resolved("-", "--no-annotate", given="uv\n"))
    (tool,) = re.findall(r'^_TOOL = "(.+)"$', (ROOT / "lab/firmware.py").read_text(), re.MULTILINE)
    LAB.write_text(resolved("-", given=f"{tool}\n"))
    given = "\n".join(BUILDERS)
    BUILD.write_text(
        resolved("-", "--constraint", PINNED.name, "--generate-hashes", "--no-annotate", given=given)
    )
    build = pins(BUILD.read_text())
    (hatchling,) = [row for row in build if row.startswith("hatchling==")]
    text = re.sub(r'"hatchling==[^"]*"\]', f'"{hatchling}"]', text, count=1)
    blocks = block("constraint-dependencies", pins(PINNED.read_text()))
    blocks += block("build-constraint-dependencies", build)
    (ROOT / "pyproject.toml").write_text(text.replace("[tool.uv]\n", f"[tool.uv]\n{blocks}", 1))


if __name__ == "__main__":
    main()
