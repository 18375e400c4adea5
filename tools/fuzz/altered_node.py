"""A verdict on altered evidence without judging everything again: only what rests on the altered file is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from machines.tree import Tree

from gdrkit.evidence import Command, EvidenceMissing
from gdrkit.evidence.bundle import BundleHost
from gdrkit.evidence.manifest import BundleRecord, parse
from gdrkit.evidence.memory_store import EmptyEntry, MemoryStore, StoredLink
from gdrkit.node import Key, Node


class RecordedStore(MemoryStore):
    """A tree in memory, which records the files that are read."""

    def __init__(self, tree: Tree) -> None:
        super().__init__()
        self.opened: set[str] = set()
        for folder in tree.folders:
            self.put(folder, EmptyEntry.FOLDER)
        for path, content in tree.files.items():
            self.put(path, content)
        for path, target in tree.links.items():
            if path not in self.entries:
                self.put(path, StoredLink(target))

    def read(self, path: str) -> memoryview:
        self.opened.add(path)
        return super().read(path)

    @contextmanager
    def altered(self, path: str, content: bytes) -> Iterator[None]:
        """The store with another content of one file."""
        original = self.entries[path]
        self.entries[path] = content
        try:
            yield
        finally:
            self.entries[path] = original


class RecordedNode(Node):
    """A node that knows which of its answers rest on which file of its store."""

    host: BundleHost

    def __init__(self, tree: Tree, head: dict[str, Any]) -> None:
        self.store = RecordedStore(tree)
        manifest = parse(json.dumps(tree.manifest(head)).encode())
        super().__init__(BundleHost(self.store, BundleRecord(manifest), "bundle"))
        self.files: dict[tuple[str, str | Command], frozenset[str]] = {}
        """What was opened for a request to the host, whether it was granted or not."""
        self.readers: dict[str, set[Key | None]] = {}
        """The answers that directly rest on a file; None for what is read outside of any fact."""
        self._computing: list[Key | None] = [None]

    def _compute(self, fact: Any, subject: Any) -> Any:
        self._computing.append((fact, subject))
        try:
            return super()._compute(fact, subject)
        finally:
            self._computing.pop()

    def _once(self, method: str, target: str | Command) -> Any:
        self.store.opened.clear()
        try:
            return super()._once(method, target)
        finally:
            files = self.files.setdefault((method, target), frozenset(self.store.opened))
            for file in files:
                self.readers.setdefault(file, set()).add(self._computing[-1])

    def with_altered(self, path: str) -> Node | None:
        """The node after a file of its store was altered; None if all that was asked has the same answer.

        Answers that rest on the file are computed in the order of the first time, so that what one rests on
        comes before it. Where an answer is the same again, those above it are too. Raises whatever a fact
        raises that it should not."""
        readers = self.readers.get(path, set())
        stale = self._based_on(key for key in readers if key is not None)
        node = Node(self.host)
        node._evidence = {
            asked: found for asked, found in self._evidence.items() if path not in self.files.get(asked, ())
        }
        node._answers = {key: answer for key, answer in self._answers.items() if key not in stale}
        changed: set[Key] = set()
        for key in [key for key in self._answers if key in stale]:
            if key not in readers and changed.isdisjoint(self._answers[key].facts):
                node._answers[key] = self._answers[key]
            elif not self._same_again(node, key):
                changed.add(key)
        asked = self._open[0].facts  # outside of any fact
        return None if changed.isdisjoint(asked) and None not in readers else node

    def _same_again(self, node: Node, key: Key) -> bool:
        """Whether a node has the same answer, with the same confidence; then it takes over the old one."""
        old = self._answers[key]
        with suppress(EvidenceMissing):
            node.answer(*key)
        new = node._answers[key]
        missing = [None if one.error is None else (type(one.error), one.error.missing) for one in (old, new)]
        same = missing[0] == missing[1] and bool(new.value == old.value)
        if not same or node._lowest(key) is not self._lowest(key):
            return False
        node._answers[key] = old
        return True
