"""What recordings are made from: nodes, texts, logs, topologies, fleets and records of processes, as files.

They are written once, before a change, so that a change of the tests takes nothing from a comparison."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import io
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
TEXTS_OF = ("verdict", "facts", "rules", "cli", "loader", "explain", "jobs", "messages")
"""Folders of tests whose string literals are pasted texts, logs and command outputs."""
TABLES = ("messages/*.py", "programs/**/*messages.py", "programs/proofs.py")
"""Tables of messages, whose string literals are lines of programs."""
LARGEST_TEXT_BYTES = 2_000_000
FLEET_SEED = 2
FLEET_SIZE = 12
SIGNED = (".tar.gz", ".tgz", ".tar.xz", ".log.gz")
"""Ends of the names of bundles, sosreports and bug reports."""


def freeze(folder: Path) -> dict[str, int]:
    """Write every input below a folder; return how many there are of each kind."""
    folder.mkdir(parents=True, exist_ok=True)
    shared = Path(os.environ.get("GDRKIT_SHARED", ROOT.parent / "shared"))
    found = {
        "texts": freeze_texts(folder),
        "nodes": len(build_nodes(folder)) + _copied(shared / "cases", folder / "others", SIGNED),
        "logs": _copied(ROOT / "tests", folder / "logs", (".log",))
        + sum(
            _copied(shared / name, folder / "logs", (".txt", ".log", ".md"))
            for name in ("data", "cases", "sources")
        ),
        "topologies": _copied(ROOT / "tests", folder / "topologies", (".xml",))
        + _copied(shared / "data", folder / "topologies", (".xml",)),
        "dumps": _copied(shared / "cases" / "rdma_topo", folder / "dumps", (".json",)),
        "records": freeze_records(folder),
    }
    freeze_fleet(folder)
    freeze_expectation(folder)
    return found


def freeze_texts(folder: Path) -> int:
    """Write each long string literal of the tests to a file; return the number of files."""
    texts = folder / "texts"
    texts.mkdir(parents=True, exist_ok=True)
    sources = [path for name in TEXTS_OF for path in (ROOT / "tests" / name).glob("*.py")]
    for path in (*sources, *(path for table in TABLES for path in (ROOT / "src/gdrkit").glob(table))):
        for text in _literals(ast.parse(path.read_text("utf-8"))):
            content = text.encode("utf-8", "replace")
            (texts / f"{hashlib.sha1(content).hexdigest()[:12]}.txt").write_bytes(content)
    return len(list(texts.iterdir()))


def _literals(tree: ast.Module) -> Iterator[str]:
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if len(text) > 30 and id(node) not in docstrings:
                yield text


def build_nodes(folder: Path, only: Sequence[str] = ()) -> dict[str, str]:
    """Build each node of tests/evidence in a folder, or `only` these, once; return the paths by name."""
    from tests.evidence_nodes import build, names

    for name in only or names():
        target, mark = folder / "nodes" / name, folder / "paths" / name
        if not mark.exists():
            target.mkdir(parents=True, exist_ok=True)
            mark.parent.mkdir(exist_ok=True)
            path = build(name, target)
            if not path.is_relative_to(target):  # a bundle that was collected
                path = Path(shutil.copy(path, target))
            mark.write_text(str(path.relative_to(folder)))
    return {name: str(folder / (folder / "paths" / name).read_text()) for name in only or names()}


def built_nodes(folder: Path) -> dict[str, str]:
    """The paths of the nodes that a folder has, by name."""
    marks = sorted((folder / "paths").iterdir())
    others = sorted((folder / "others").iterdir()) if (folder / "others").is_dir() else []
    return {mark.name: str(folder / mark.read_text()) for mark in marks} | {
        path.name: str(path) for path in others
    }


def _copied(source: Path, target: Path, ends: tuple[str, ...]) -> int:
    """Copy the files below a folder whose names end so, under names without folders."""
    target.mkdir(exist_ok=True)
    chosen = [
        path for path in sorted(source.rglob("*")) if path.name.endswith(ends) and path.is_file()
    ] if source.is_dir() else []  # fmt: skip
    for path in chosen:
        if path.stat().st_size < LARGEST_TEXT_BYTES or ends is SIGNED:
            shutil.copy(path, target / "-".join(path.relative_to(source).parts))
    return len(chosen)


def freeze_records(folder: Path) -> int:
    """Write each record of processes that the tests judge, and those of real machines; return their number.

    The tests of `gdr ps` put most records together in code, so they are run with a decoder that keeps what
    it is given."""
    import pytest

    from gdrkit.jobs.running import record

    kept, records = record.decode, folder / "records"
    records.mkdir(exist_ok=True)

    def keep(content: bytes) -> record.RunningRecord:
        decoded = kept(content)
        (records / f"{hashlib.sha1(content).hexdigest()[:12]}.json").write_bytes(content)
        return decoded

    record.decode = keep
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            pytest.main(["-q", "-p", "no:cacheprovider", "-n0", str(ROOT / "tests" / "jobs" / "running")])
    finally:
        record.decode = kept
    for path in sorted(ROOT.glob("tests/lab/live/*/*.json")):
        if path.read_bytes().startswith(b'{"schema": "gdrkit.running/'):
            shutil.copy(path, records / f"{path.parent.name}-{path.name}")
    recorded = json.loads((ROOT / "tests/jobs/running/h200.json").read_text("utf-8"))
    for name, one in recorded.items():
        (records / f"h200-{'-'.join(name.replace('/', ' ').split())}.json").write_text(json.dumps(one))
    return len(list(records.iterdir()))


def freeze_fleet(folder: Path) -> None:
    """Write the bundles of a generated fleet, of which one is odd and one is damaged."""
    from machines.fleet import bundles, fleet

    target = folder / "fleet"
    if target.exists():
        return
    target.mkdir()
    for path in bundles(fleet(FLEET_SEED, FLEET_SIZE).machines, folder / "drawn"):
        shutil.move(path, target / path.name)
    shutil.rmtree(folder / "drawn")
    damaged = sorted(target.iterdir())[-1]
    damaged.write_bytes(damaged.read_bytes()[:2000])


def freeze_expectation(folder: Path) -> None:
    """Write what a good node has, as `gdr expect` does."""
    from gdrkit.cli import main

    with contextlib.redirect_stdout(io.StringIO()) as out:
        main(["expect", built_nodes(folder)["ubuntu-6.8-h100"]])
    (folder / "expect.toml").write_text(out.getvalue(), "utf-8")
