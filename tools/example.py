"""Write a node of tests/evidence as a bundle, to try gdr on: `python -m tools.example NODE FILE.tar.gz`."""

from __future__ import annotations

import sys
import tarfile
import tempfile
from pathlib import Path

from tests.evidence_nodes import build, described


def main(arguments: list[str]) -> int:
    if len(arguments) != 2 or arguments[0] not in described():
        sys.stderr.write(
            f"usage: python -m tools.example NODE FILE.tar.gz\n  NODE: {', '.join(described())}\n"
        )
        return 64
    with tempfile.TemporaryDirectory() as folder, tarfile.open(arguments[1], "w:gz") as tar:
        tree = build(arguments[0], Path(folder))
        tar.add(tree, tree.name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
