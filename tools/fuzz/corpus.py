"""Real files to alter: those of the nodes of tests/evidence, of tests/, and the texts that tests paste."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from pathlib import Path

from tools.golden_calls import configurations
from tools.golden_inputs import ROOT, build_nodes, freeze_texts

LARGEST = 1 << 16
"""Larger files are cut to this size, so that thousands of inputs a second are possible."""


class Corpus:
    """What is altered, built once below a folder."""

    def __init__(self, folder: Path, nodes: tuple[str, ...] = ()) -> None:
        self.folder = folder
        self.nodes = {name: Path(path) for name, path in build_nodes(folder, nodes).items()}

    @functools.cached_property
    def texts(self) -> tuple[Path, ...]:
        """Pasted texts, topologies, and one file of each kind that `gdr config` writes."""
        from tools.fuzz.commands import run

        freeze_texts(self.folder)
        found = [*(self.folder / "texts").iterdir(), *ROOT.glob("tests/**/*.xml")]
        for kind in dict(configurations()):
            (self.folder / f"{kind}.conf").write_text(run(("config", kind))[1])
            found.append(self.folder / f"{kind}.conf")
        return tuple(sorted(found))

    @functools.cached_property
    def contents(self) -> tuple[bytes, ...]:
        """Each different content of any file, the shortest first."""
        files: Iterable[Path] = (
            *self.texts,
            *ROOT.glob("tests/**/*.log"),
            *ROOT.glob("tests/**/*.txt"),
            *ROOT.glob("tests/**/*.json"),
            *(
                path
                for node in self.nodes.values()
                for path in (node.rglob("*") if node.is_dir() else [node])
            ),
        )
        found = {_start(path) for path in files if path.is_file() and not path.is_symlink()}
        return tuple(sorted(found, key=lambda content: (len(content), content)))


def _start(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(LARGEST)
