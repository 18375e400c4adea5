"""Draw the pictures of the pages: nodes of tests/evidence, as `gdr topo --svg` draws them, and diagrams.

`uv run --no-sync python -m tools.pictures` writes docs/pictures/; with --check it only lists outdated files,
and exits 1 if any.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tools.diagrams import drawn
from tools.shown import ran

FOLDER = Path(__file__).parent.parent / "docs" / "pictures"
NODES = {
    "rail-down": "rail-down",
    "dgx-spark": "zgx-3285",
    "acs-redirect": "acs-redirect",
}
"""Each picture and its node."""


def picture(node: str) -> str:
    """The picture of a node: SVG without references."""
    return ran(node, "topo node.tar.gz --svg")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if one is out of date")
    check = parser.parse_args().check
    pictures = {name: picture(node) for name, node in NODES.items()} | drawn()
    files = {FOLDER / f"{name}.svg": text for name, text in pictures.items()}
    stale = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    stale += [path for path in FOLDER.glob("*.svg") if path not in files]
    sys.stdout.write("".join(f"{path.name}\n" for path in stale))
    if check:
        return 1 if stale else 0
    FOLDER.mkdir(exist_ok=True)
    for path in stale:
        path.unlink() if path not in files else path.write_text(files[path])
    return 0


if __name__ == "__main__":
    sys.exit(main())
