"""Draw docs/architecture.svg: the packages in order, and which package imports which.

`uv run python -m tools.architecture` writes it; with --check it writes nothing and exits 1 if it is stale.
tests/test_architecture.py checks every import against the same order.
"""

from __future__ import annotations

import argparse
import ast
import functools
import sys
from collections.abc import Mapping
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "gdrkit"
PICTURE = ROOT / "docs" / "architecture.svg"

ORDER = (
    "agent", "formats", "evidence", "node", "messages", "facts", "rules", "programs", "catalogue",
    "loader", "verdict", "repair", "report", "fabric", "jobs", "explain", "transport", "diagnosis", "fleet",
    "html", "cli",
)  # fmt: skip
"""Every top-level package and module: each imports only those before it."""
FEATURES = ("fabric", "jobs", "explain", "transport", "fleet")
"""Packages that do not import each other."""

ROW, BOX, LEFT, TOP = 36, 110, 90, 20
"""Pixels: height of a row, width of a box, left edge of the boxes, margin above them."""


def package_of(path: Path) -> str:
    """The top-level package or module of a file: "" for gdrkit/__init__.py, "cli" for gdrkit/__main__.py."""
    name = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    return {"__init__": "", "__main__": "cli"}.get(name, name)


@functools.cache
def imports_of(path: Path) -> set[str]:
    """The dotted names that a file imports, including imports in functions and for type checking only."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def edges() -> dict[str, set[str]]:
    """The earlier packages that each package imports; a test checks that it imports no others."""
    found: dict[str, set[str]] = {name: set() for name in ORDER}
    for path in sorted(SOURCE.rglob("*.py")):
        here = package_of(path)
        for name in imports_of(path):
            parts = name.split(".")
            if here and parts[0] == "gdrkit" and len(parts) > 1 and parts[1] in ORDER[: ORDER.index(here)]:
                found[here].add(parts[1])
    return found


def reduced(graph: Mapping[str, set[str]]) -> list[tuple[str, str]]:
    """The edges of the picture: those that no longer path implies (the transitive reduction)."""

    def reaches(start: str, goal: str) -> bool:
        return any(step == goal or reaches(step, goal) for step in graph[start])

    return [
        (here, there)
        for here in ORDER
        for there in sorted(graph[here], key=ORDER.index)
        if not any(reaches(other, there) for other in graph[here] if other != there)
    ]


def summary(name: str) -> str:
    """The first sentence of a package's docstring."""
    folder = SOURCE / name / "__init__.py"
    text = (folder if folder.exists() else SOURCE / f"{name}.py").read_text("utf-8")
    docstring = ast.get_docstring(ast.parse(text)) or ""
    return docstring.replace("\n", " ").split(". ")[0].removesuffix(".")


def picture() -> str:
    """The picture as SVG: a row for each package in order, an arc for each direct import."""
    height = TOP * 2 + ROW * len(ORDER)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 860 {height}" font-family="sans-serif">',
        "<style>text{fill:#222}rect{fill:#eef3fa;stroke:#4a6fa5}path{fill:none;stroke:#4a6fa5;"
        "stroke-opacity:.6}@media(prefers-color-scheme:dark){text{fill:#ddd}rect{fill:#1d2836;"
        "stroke:#7fa3d8}path{stroke:#7fa3d8}}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0L8 4L0 8" style="stroke-opacity:1"/></marker></defs>',
    ]
    for here, there in reduced(edges()):
        below, above = (TOP + ORDER.index(name) * ROW + 13 for name in (here, there))
        bulge = LEFT - 12 - 11 * (ORDER.index(here) - ORDER.index(there))
        parts.append(
            f'<path d="M{LEFT} {below + 3}C{bulge} {below + 3} {bulge} {above} {LEFT - 2} {above}" '
            'marker-end="url(#tip)"/>'
        )
    for row, name in enumerate(ORDER):
        y = TOP + row * ROW
        parts.append(f'<rect x="{LEFT}" y="{y}" width="{BOX}" height="26" rx="4"/>')
        parts.append(f'<text x="{LEFT + 10}" y="{y + 18}" font-size="14">{name}</text>')
        parts.append(
            f'<text x="{LEFT + BOX + 14}" y="{y + 18}" font-size="12">{escape(summary(name))}</text>'
        )
    return "\n".join((*parts, "</svg>\n"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if one is out of date")
    check = parser.parse_args().check
    text = picture()
    if check:
        return 0 if PICTURE.exists() and PICTURE.read_text("utf-8") == text else 1
    PICTURE.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
