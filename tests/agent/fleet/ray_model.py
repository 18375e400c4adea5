"""A small model of Ray for the driver, which runs in a Ray that the tests do not have.

A task runs when it is waited for; its node decides what happens then. What the driver says to the store and
to the scheduler is kept.
"""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any


class RayError(Exception):
    """ray.exceptions.RayError."""


class Ray(ModuleType):
    """The module `ray`. `answers` has, by the identity of a node, what its task returns or raises; a node
    without an answer never ends."""

    def __init__(self, answers: dict[str, Any]) -> None:
        super().__init__("ray")
        self.answers = answers
        self.exceptions = SimpleNamespace(RayError=RayError)
        self.started: list[tuple[str, tuple[Any, ...]]] = []
        self.most = 0  # tasks at once
        self.options: list[dict[str, Any]] = []
        self.store: dict[str, Any] = {}
        self.asked: list[str] = []
        self.kept: list[Any] = []
        self._open: set[str] = set()

    def modules(self) -> dict[str, ModuleType]:
        """The modules by the names under which the driver imports them."""
        store = ModuleType("ray.experimental.internal_kv")
        vars(store).update(_internal_kv_get=self._get, _internal_kv_del=self._del)
        strategies = ModuleType("ray.util.scheduling_strategies")
        vars(strategies).update(NodeAffinitySchedulingStrategy=lambda node, soft: (node, soft))
        parents = {name: ModuleType(name) for name in ("ray.experimental", "ray.util")}
        return {"ray": self, **parents, store.__name__: store, strategies.__name__: strategies}

    def install(self, monkeypatch: Any) -> None:
        for name, module in self.modules().items():
            monkeypatch.setitem(sys.modules, name, module)

    def _get(self, key: str) -> Any:
        self.asked.append(key)
        return self.store.get(key)

    def _del(self, key: str) -> None:
        self.store.pop(key, None)

    def init(self, **options: Any) -> None:
        self.options.append(options)

    def put(self, value: Any) -> Any:
        self.kept.append(value)
        return ("put", value)

    def get_runtime_context(self) -> Any:
        return SimpleNamespace(get_node_id=lambda: "head")

    def remote(self, **options: Any) -> Any:
        self.options.append(options)

        def of(function: Any) -> Any:
            return SimpleNamespace(options=lambda **more: SimpleNamespace(remote=self._starter(more)))

        return of

    def _starter(self, options: dict[str, Any]) -> Any:
        node, soft = options["scheduling_strategy"]
        assert not soft and options["name"] == "gdr collect"

        def start(*words: Any) -> str:
            self.started.append((node, words))
            self._open.add(node)
            self.most = max(self.most, len(self._open))
            return str(node)

        return start

    def wait(self, references: list[str], **options: Any) -> tuple[list[str], list[str]]:
        assert options["fetch_local"] is False
        ready = [name for name in references if name in self.answers][: options.get("num_returns", 1)]
        return ready, [name for name in references if name not in ready]

    def get(self, reference: str, timeout: float) -> Any:
        self._open.discard(reference)
        answer = self.answers[reference]
        if isinstance(answer, Exception):
            raise answer
        return answer
