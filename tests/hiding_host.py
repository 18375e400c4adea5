"""A host that hides some of another host's evidence, and records what it is asked for."""

from __future__ import annotations

from gdrkit.evidence import Command, EvidenceMissing, Host, Missing, MissingReason, TextOrigin


class HidingHost:
    """Hidden evidence counts as not collected: a path with everything below it, or a command by its line."""

    def __init__(self, host: Host, hidden: frozenset[str] | set[str] = frozenset()) -> None:
        self._host, self._hidden, self.source = host, hidden, host.source
        self.asked: dict[str, None] = {}  # paths and command lines, in order

    def read(self, path: str) -> bytes:
        self._ask(path)
        return self._host.read(path)

    def map(self, path: str) -> memoryview:
        self._ask(path)
        return self._host.map(path)

    def list(self, path: str) -> tuple[str, ...]:
        self._ask(path)
        return self._host.list(path)

    def exists(self, path: str) -> bool:
        self._ask(path)
        return self._host.exists(path)

    def resolve(self, path: str) -> str:
        self._ask(path)
        return self._host.resolve(path)

    def run(self, command: Command) -> bytes:
        self._ask(command.line)
        return self._host.run(command)

    def origin(self, name: str) -> TextOrigin | None:
        return self._host.origin(name)

    def _ask(self, name: str) -> None:
        self.asked[name] = None
        if any(name == hidden or name.startswith(hidden + "/") for hidden in self._hidden):
            raise EvidenceMissing(Missing(name, MissingReason.NOT_COLLECTED, f"look at {name}"))
