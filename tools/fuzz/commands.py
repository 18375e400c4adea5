"""Drives commands on altered bundles, trees, texts, topologies, logs and configurations."""

from __future__ import annotations

import contextlib
import io
import os
import random
import shutil
import tarfile
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path

from tools.fuzz.altering import altered
from tools.fuzz.corpus import Corpus
from tools.fuzz.target import Broken
from tools.golden_calls import MODULES, configurations

CODES = {0, 1, 2, 3, 64, 66, 73, 74, 75, 77}
"""The exit codes of `gdr`, without 70."""

ON_NODE: tuple[tuple[str, ...], ...] = (
    ("doctor", "-v"), ("doctor", "--json"), ("doctor", "--line", "--exit-style", "nagios"),
    *(("modprobe", module) for module in MODULES), ("topo",),
    ("topo", "--write-nccl-xml"), ("topo", "--svg"), ("report", "-o", "-"), ("expect",),
    ("estimate",), ("estimate", "--model", "llama-3-70b", "--tp", "16"), ("fix",), ("fix", "--module"),
    *(("config", kind) for kind in dict(configurations())),
)  # fmt: skip
ON_TEXT: tuple[tuple[str, ...], ...] = (
    ("explain",), ("explain", "-v"), ("nccl",), ("nccl", "--json"), ("config", "check"), ("topo",),
    ("estimate", "/nowhere", "--measured"), ("prove", "log", "--log"), ("doctor",), ("modprobe", "nvidia"),
    ("estimate", "/nowhere", "--tp", "2", "--model"),
)  # fmt: skip
"""Arguments before the altered file."""


def alter_tree(folder: Path, draw: random.Random) -> None:
    """Change, remove or replace a few files of an unpacked node."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    chosen = [draw.choice(files) for _ in range(draw.randint(1, 12))]
    chosen += [path for path in files if "manifest" in path.name and draw.random() < 0.1]
    for path in dict.fromkeys(chosen):
        if not path.is_file():
            continue  # its folder is a link now
        kind = draw.randrange(24)
        content = path.read_bytes()
        path.unlink()
        match kind:
            case 0:
                pass
            case 1:
                path.symlink_to("../nowhere")
            case 2:
                path.symlink_to(path.name)
            case 3:
                path.mkdir()
            case 4:
                shutil.rmtree(path.parent)
                path.parent.symlink_to("/nowhere" if draw.random() < 0.5 else "..")
                return
            case _:
                path.write_bytes(altered(content, draw))


def archived(folder: Path, draw: random.Random) -> bytes:
    """The folder as a tar archive, which may be cut or altered."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=draw.choice(("w", "w:gz"))) as tar:
        tar.add(folder, folder.name)
    content = buffer.getvalue()
    return altered(content, draw) if draw.random() < 0.7 else content


class Commands:
    """The commands that take a file, or those that take a node."""

    seconds = 30.0

    def __init__(self, name: str, corpus: Corpus) -> None:
        self.name, self.corpus = name, corpus
        self.work = corpus.folder / "work"

    def prepare(self) -> None:
        """Nothing: its samples are chosen already."""

    def drive(self, draw: random.Random) -> None:
        for arguments in self.drawn(draw):
            code, _, error = run(arguments)
            if code not in CODES:
                raise Broken(f"gdr {' '.join(arguments)}\n{error if code == 70 else code}")

    def drawn(self, draw: random.Random) -> Iterator[tuple[str, ...]]:
        """The calls on one altered input, which is written below `work`."""
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        if self.name == "commands/text":
            source = draw.choice(self.corpus.texts)
            target = self.work / source.name.replace(".conf", ".yaml")
            target.write_bytes(altered(source.read_bytes(), draw))
            yield from ((*before, str(target)) for before in draw.sample(ON_TEXT, 3))
        else:
            target = self._node(draw.choice(tuple(self.corpus.nodes.values())), draw)
            yield from ((*before, str(target)) for before in draw.sample(ON_NODE, 4))

    def _node(self, source: Path, draw: random.Random) -> Path:
        target = self.work / source.name
        if source.is_file():
            target.write_bytes(altered(source.read_bytes(), draw))
            return target
        shutil.copytree(source, target, symlinks=True, copy_function=_linked)
        if draw.random() < 0.8:
            alter_tree(target, draw)
        if draw.random() < 0.25:
            (self.work / "node.tar").write_bytes(archived(target, draw))
            return self.work / "node.tar"
        return target


def _linked(source: str, target: str) -> None:
    """A second name for a file, which `alter_tree` removes before it writes; a link is copied."""
    if Path(source).is_symlink():
        shutil.copy2(source, target, follow_symlinks=False)
    else:
        os.link(source, target)


def run(arguments: tuple[str, ...]) -> tuple[object, str, str]:
    """The exit code or the traceback of a command, and what it printed."""
    from gdrkit.cli import main

    out, error = io.StringIO(), io.StringIO()
    code: object
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            code = main([*arguments, "--debug"])
        except SystemExit as end:
            code = end.code
        except Exception:
            code = traceback.format_exc()
    return code, out.getvalue(), error.getvalue()
