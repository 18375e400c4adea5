"""Write a node of tests/evidence as a bundle, to try gdr on: `python -m tools.example NODE FILE.tar.gz`.

Nodes with signed modules need the dependency group `example`."""

from __future__ import annotations

import sys
import tarfile
import tempfile
from pathlib import Path

from tests.evidence_nodes import build, described

from gdrkit.agent.output_file import whole_file


def main(arguments: list[str]) -> int:
    if len(arguments) != 2 or arguments[0] not in described():
        sys.stderr.write(
            f"usage: python -m tools.example NODE FILE.tar.gz\n  NODE: {', '.join(described())}\n"
        )
        return 64
    with tempfile.TemporaryDirectory() as folder:
        tree = build(arguments[0], Path(folder))
        with whole_file(arguments[1]) as stream, tarfile.open(fileobj=stream, mode="w:gz") as tar:
            tar.add(tree, tree.name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
