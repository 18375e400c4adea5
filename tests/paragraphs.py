"""How snapshots are stored: a paragraph for each test, its name and below it the text, indented.

Syrupy's own form needs four more lines for each test. Here a file of them reads as a page, and in a change
each line is something that a test says:

    test_a_dry_run_loads_nothing
      x: exit 0, not loaded, certain

Cases of one test that say the same share a paragraph, below `test_a_dry_run[one]  [another]`.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from syrupy.data import Snapshot, SnapshotCollection
from syrupy.extensions.amber import AmberSnapshotExtension
from syrupy.extensions.amber.serializer import AmberDataSerializer

INDENT = "  "
BETWEEN = "]  ["
WIDTH = 150


def content_of(texts: Mapping[str, str]) -> str:
    """A file of these texts by the names of their tests, ordered by name."""
    cases: dict[tuple[str, str], list[str]] = {}
    for name in sorted(texts):
        test, bracket, case = name.partition("[")
        cases.setdefault((test, texts[name]), []).append(bracket + case)
    rows: list[str] = []
    for (test, text), sharing in cases.items():
        rows += [
            *_headings(test, sharing),
            *(f"{INDENT}{line}" if line else "" for line in text.split("\n")),
        ]
    return "".join(f"{row}\n" for row in rows)


def _headings(test: str, cases: list[str]) -> Iterator[str]:
    """The name of a test with its cases, in as many rows as they need."""
    row = test
    for number, case in enumerate(cases):
        assert BETWEEN not in case, case
        if number and len(row) + len(case) > WIDTH:
            yield row
            row = case
        else:
            row += f"{'  ' if number else ''}{case}"
    yield row


def paragraphs(content: str) -> dict[str, str]:
    """The texts of a file by the names of their tests: the opposite of `content_of`."""
    found: dict[str, list[str]] = {}
    rows: list[str] = []
    test = ""
    for line in content.split("\n")[:-1]:
        if not line or line.startswith(INDENT):
            rows.append(line.removeprefix(INDENT))
            continue
        rows = [] if rows else rows
        name, bracket, cases = line.partition("[")
        test = name or test
        for case in cases.replace(BETWEEN, "]\n[").split("\n["):
            found[f"{test}{bracket}{case}"] = rows
    return {name: "\n".join(rows) for name, rows in found.items()}


class ParagraphSerializer(AmberDataSerializer):
    """Reads and writes files of paragraphs."""

    @classmethod
    def serialize(cls, data: Any, **_: Any) -> str:
        assert isinstance(data, str), data
        return data

    @classmethod
    def read_file(cls, filepath: str) -> SnapshotCollection:
        collection = SnapshotCollection(location=filepath)
        if Path(filepath).exists():
            for name, text in paragraphs(Path(filepath).read_bytes().decode()).items():
                collection.add(Snapshot(name=name, data=text))
        return collection

    @classmethod
    def write_file(cls, snapshot_collection: SnapshotCollection, *_: Any, **__: Any) -> None:
        """Add these to what the file has; workers of one run write one after the other."""
        with _alone(snapshot_collection.location):
            whole = cls.read_file(snapshot_collection.location)
            whole.merge(snapshot_collection)
            _write(whole)


class Paragraphs(AmberSnapshotExtension):
    """The extension that tests/conftest.py makes the default."""

    file_extension = "txt"
    serializer_class = ParagraphSerializer

    def delete_snapshots(self, snapshot_location: str, snapshot_names: set[str]) -> None:
        with _alone(snapshot_location):
            kept = self.serializer_class.read_file(snapshot_location)
            for name in snapshot_names:
                kept.remove(name)
            _write(kept)


def _write(collection: SnapshotCollection) -> None:
    """The file, ordered by name and replaced at once; none if nothing is left."""
    path = Path(collection.location)
    if not collection.has_snapshots:
        path.unlink(missing_ok=True)
        return
    texts = {snapshot.name: str(snapshot.data) for snapshot in collection}
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_bytes(content_of(texts).encode())
    unfinished.replace(path)


@contextmanager
def _alone(location: str) -> Iterator[None]:
    """While no other process writes into the same folder."""
    folder = os.open(Path(location).parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)
