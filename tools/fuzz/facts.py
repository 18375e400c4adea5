"""Drives facts: a node of tests/evidence with one altered file or output, and the facts that read it."""

from __future__ import annotations

import functools
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

from tools.fuzz.altering import altered
from tools.fuzz.corpus import LARGEST, Corpus

from gdrkit.evidence import Command, EvidenceMissing, Host, TextOrigin
from gdrkit.evidence.errors import TargetError
from gdrkit.evidence.target import open_host
from gdrkit.facts.pci import PciGpu, gpus
from gdrkit.facts.rdma import Pair, pairs
from gdrkit.node import Key, Node

DEPENDENTS = 3
"""How many of the facts that are based on the altered ones are asked too."""


class Altered:
    """A host that answers with other bytes for one path or command."""

    def __init__(self, host: Host, name: str, content: bytes) -> None:
        self.host, self.name, self.content, self.source = host, name, content, host.source

    def read(self, path: str) -> bytes:
        return self.content if path == self.name else self.host.read(path)

    def map(self, path: str) -> memoryview:
        return memoryview(self.content) if path == self.name else self.host.map(path)

    def run(self, command: Command) -> bytes:
        return self.content if command.line == self.name else self.host.run(command)

    def list(self, path: str) -> tuple[str, ...]:
        return self.host.list(path)

    def exists(self, path: str) -> bool:
        return self.host.exists(path)

    def resolve(self, path: str) -> str:
        return self.host.resolve(path)

    def origin(self, name: str) -> TextOrigin | None:
        return self.host.origin(name)


class ReadFile:
    """One file or output of a node, the facts that read it, and those based on them."""

    def __init__(self, base: Node, name: str, content: bytes, readers: list[Key]) -> None:
        self.base, self.name, self.content, self.readers = base, name, content, readers

    @functools.cached_property
    def dependents(self) -> tuple[Key, ...]:
        return tuple(sorted(self.base._based_on(self.readers) - set(self.readers), key=_order))

    @functools.cached_property
    def kept(self) -> dict[Key, Any]:
        gone = self.base._based_on(self.readers)
        return {key: answer for key, answer in self.base._answers.items() if key not in gone}

    def drive(self, draw: random.Random) -> None:
        node = Node(Altered(self.base.host, self.name, altered(self.content, draw)))
        node._answers = dict(self.kept)
        others = draw.sample(self.dependents, min(DEPENDENTS, len(self.dependents)))
        for fact, subject in (*self.readers, *others):
            try:
                if all(map(functools.partial(_is_there, node), subject)):
                    fact(node, *subject)
            except (EvidenceMissing, TargetError):  # TargetError: more devices than any machine has
                continue


class Facts:
    """The facts of one module, with every file that they read."""

    seconds = 5.0

    def __init__(self, name: str) -> None:
        self.name = name
        self.files: list[ReadFile] = []

    def prepare(self) -> None:
        """Nothing: its samples are chosen already."""

    def drive(self, draw: random.Random) -> None:
        draw.choice(self.files).drive(draw)


def facts(corpus: Corpus) -> list[Facts]:
    """Every module whose facts read something of a node, by name."""
    found: dict[str, Facts] = {}
    seen: set[tuple[str, bytes, frozenset[str]]] = set()
    for path in corpus.nodes.values():
        node = asked(path)
        for module, file in _files(node):
            readers = frozenset(fact.__name__ for fact, _ in file.readers)
            if (module, file.content, readers) not in seen:
                seen.add((module, file.content, readers))
                found.setdefault(module, Facts(module)).files.append(file)
    return [found[name] for name in sorted(found)]


def _is_there(node: Node, subject: object) -> bool:
    """Whether the altered machine still has the GPU or the pair that a fact is asked about."""
    if isinstance(subject, PciGpu):
        return subject in gpus(node)
    return subject in pairs(node) if isinstance(subject, Pair) else isinstance(subject, str | int)


def _order(key: Key) -> tuple[str, str, str]:
    """An order that is the same in every process."""
    fact, subject = key
    return fact.__module__, fact.__name__, repr(subject)


def asked(path: Path) -> Node:
    """A node of which every command has asked what it wants to know."""
    from gdrkit.fabric.ceilings.pair_ceilings import ceilings
    from gdrkit.fabric.topology.from_node import topology
    from gdrkit.loader.modprobe import modprobe
    from gdrkit.node import if_missing
    from gdrkit.programs.names import NAMES
    from gdrkit.repair.remedies.plan import plan
    from gdrkit.verdict import judge_node

    node = Node(open_host(str(path)))
    verdict = judge_node(node, asked=NAMES[0])
    plan(node, verdict, NAMES[0])
    asks = (topology, ceilings, *(functools.partial(modprobe, name=name) for name in ("nvidia", "mlx5_ib")))
    for ask in asks:
        if_missing(None, functools.partial(ask, node))
    return node


def _files(node: Node) -> list[tuple[str, ReadFile]]:
    """Each file that a fact read, by the module of the fact."""
    readers: dict[tuple[str, str], list[Key]] = defaultdict(list)
    for key, answer in node._answers.items():
        for source in answer.sources:
            readers[key[0].__module__.removeprefix("gdrkit."), source.name].append(key)
    contents = _contents(node)
    return [
        (module.replace(".", "/"), ReadFile(node, name, contents[name], sorted(keys, key=_order)))
        for (module, name), keys in sorted(readers.items())
        if name in contents
    ]


def _contents(node: Node) -> dict[str, bytes]:
    """What was read, by path or command line."""
    found = {}
    for (method, target), content in node._evidence.items():
        name = target.line if isinstance(target, Command) else target
        if method in ("read", "map", "run") and not isinstance(content, EvidenceMissing):
            found[name] = bytes(content[:LARGEST])
    return found
