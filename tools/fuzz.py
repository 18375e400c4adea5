"""Drive every command in this process on altered bundles, texts, topologies, logs and configurations.

    python -m tools.fuzz --seconds 60                       prints the seed; exits with 1 if a command broke
    python -m tools.fuzz --seed 7 --first 1234 --count 1    repeat one input of that run

An input breaks a command if it raises an exception, or exits with a code that `gdr` does not define, or with
70, "internal error". Input number N of a seed depends on these two numbers alone.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import re
import shutil
import sys
import tarfile
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tools.golden import KINDS, MODULES, ROOT, build_nodes, freeze_texts

CODES = {0, 1, 2, 3, 64, 66, 73, 74, 75, 77}
"""The exit codes of `gdr`, without 70."""

ON_NODE: tuple[tuple[str, ...], ...] = (
    ("doctor", "-v"), ("doctor", "--json"), ("doctor", "--line", "--exit-style", "nagios"),
    *(("modprobe", module) for module in MODULES), ("topo",),
    ("topo", "--write-nccl-xml"), ("topo", "--dot"),
    ("estimate",), ("estimate", "--model", "llama-3-70b", "--tp", "16"), ("fix",), ("fix", "--module"),
    *(("config", kind) for kind in KINDS),
)  # fmt: skip
ON_TEXT: tuple[tuple[str, ...], ...] = (
    ("explain",), ("explain", "-v"), ("nccl",), ("nccl", "--json"), ("config", "check"), ("topo",),
    ("estimate", "/nowhere", "--measured"), ("prove", "log", "--log"), ("doctor",), ("modprobe", "nvidia"),
    ("estimate", "/nowhere", "--tp", "2", "--model"),
)  # fmt: skip
"""Arguments before the altered file."""

WORDS = (
    b"", b"\0", b"-1", b"0", b"zz", b"0x", b"1e999", b"99999999999999999999", b"\xff\xfe", b"\n", b" ",
    b"N/A", "\u0663\u00b2".encode(), b"..", b"[", b"{{", b'"', b"%s",
)  # fmt: skip


class Failure(NamedTuple):
    number: int
    arguments: tuple[str, ...]
    why: str


# -- altering ------------------------------------------------------------------------------------------


def altered(content: bytes, draw: random.Random) -> bytes:
    """The content with one small change."""
    match draw.randrange(8):
        case 0:
            return content[: draw.randrange(len(content) + 1)]
        case 1 if content:
            at = draw.randrange(len(content))
            return content[:at] + bytes([draw.randrange(256)]) + content[at + 1 :]
        case 2:
            lines = content.splitlines(keepends=True)
            if lines:
                del lines[draw.randrange(len(lines))]
            return b"".join(lines)
        case 3:
            lines = content.splitlines(keepends=True)
            return b"".join([*lines, *draw.sample(lines, min(3, len(lines)))])
        case 4:
            return draw.choice(WORDS)
        case _:
            pattern = draw.choice((rb"0x[0-9a-f]+", rb"\d+", rb"[0-9a-f]{2,}", rb"[A-Za-z_]+", rb"[:.,=/ ]"))
            places = list(re.finditer(pattern, content))
            if not places:
                return draw.choice(WORDS) + content
            place = draw.choice(places)
            return content[: place.start()] + draw.choice(WORDS) + content[place.end() :]


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


# -- inputs --------------------------------------------------------------------------------------------


class Inputs:
    """What is altered: nodes, and files of text."""

    def __init__(self, folder: Path, nodes: tuple[str, ...] = ()) -> None:
        self.work = folder / "work"
        self.nodes = [Path(path) for name, path in build_nodes(folder, nodes).items()]
        freeze_texts(folder)
        self.texts = sorted([*(folder / "texts").iterdir(), *ROOT.glob("tests/**/*.xml")])
        for kind in KINDS:
            (folder / f"{kind}.conf").write_text(run(("config", kind))[1])
            self.texts.append(folder / f"{kind}.conf")

    def drawn(self, draw: random.Random) -> Iterator[tuple[str, ...]]:
        """The calls on one altered input, which is written below `work`."""
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        if draw.random() < 0.5:
            source = draw.choice(self.texts)
            target = self.work / source.name.replace(".conf", ".yaml")
            target.write_bytes(altered(source.read_bytes(), draw))
            if draw.random() < 0.3:
                target.write_bytes(altered(target.read_bytes(), draw))
            yield from ((*before, str(target)) for before in draw.sample(ON_TEXT, 3))
        else:
            target = self._node(draw.choice(self.nodes), draw)
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


# -- running -------------------------------------------------------------------------------------------


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


def failures(
    inputs: Inputs, seed: int, numbers: Iterator[int], shown: Callable[[int], None] = lambda number: None
) -> Iterator[Failure]:
    """The calls that broke, of these inputs of a seed."""
    for number in numbers:
        for arguments in inputs.drawn(random.Random(f"{seed}:{number}")):
            code, _, error = run(arguments)
            if code not in CODES:
                yield Failure(number, arguments, error if code == 70 else str(code))
        shown(number)


def _numbers(first: int, count: int | None, seconds: float) -> Iterator[int]:
    end = time.monotonic() + seconds
    number = first
    while (time.monotonic() < end) if count is None else (number < first + count):
        yield number
        number += 1


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seconds", type=float, default=60, help="how long to go on (60)")
    parser.add_argument("--seed", type=int, default=None, help="repeat a run (default: a new seed)")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="number of the first input (0)")
    parser.add_argument("--count", type=int, default=None, metavar="N", help="inputs to try, not seconds")
    parser.add_argument("--inputs", type=Path, default=None, help="keep the inputs in this folder")
    options = parser.parse_args(arguments)
    seed = int.from_bytes(os.urandom(4), "big") if options.seed is None else options.seed
    sys.stdout.write(f"seed {seed}\n")
    sys.stdout.flush()
    tried, kinds = 0, set()
    with tempfile.TemporaryDirectory(prefix="gdrkit-fuzz-") as folder:
        inputs = Inputs(options.inputs or Path(folder))

        def count(number: int) -> None:
            nonlocal tried
            tried += 1

        for failure in failures(
            inputs, seed, _numbers(options.first, options.count, options.seconds), count
        ):
            kind = failure.why.splitlines()[-3:]
            if str(kind) not in kinds:
                kinds.add(str(kind))
                sys.stdout.write(
                    f"input {failure.number}: gdr {' '.join(failure.arguments)}\n{failure.why}\n"
                )
                sys.stdout.flush()
    sys.stdout.write(f"{tried} inputs, {len(kinds)} kinds of failure\n")
    return 1 if kinds else 0


if __name__ == "__main__":
    sys.exit(main())
