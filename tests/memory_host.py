"""A host in memory, for tests that need only a few files."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

from gdrkit.evidence import Command, EvidenceAbsent, EvidenceMissing, Missing, MissingReason, TextOrigin
from gdrkit.evidence.missing import LOOP, not_collected, unreadable


class MemoryHost:
    """Files and links by path, commands by argv. Other files are absent if `complete`, else not
    collected."""

    source = "tree"

    def __init__(
        self,
        files: Mapping[str, bytes | str] = {},
        *,
        commands: Mapping[tuple[str, ...], bytes | str] = {},
        links: Mapping[str, str] = {},
        absent: frozenset[str] | set[str] = frozenset(),
        complete: bool = False,
        origins: Mapping[str, TextOrigin] = {},
    ) -> None:
        self.files = {path: _bytes(content) for path, content in files.items()}
        self.commands = {argv: _bytes(output) for argv, output in commands.items()}
        self.links, self.absent, self.complete = dict(links), absent, complete
        self.origins = origins
        self.opened: list[str] = []

    def read(self, path: str) -> bytes:
        self.opened.append(path)
        path = self.resolve(path)
        if path not in self.files:
            raise self._error(path)
        return self.files[path]

    def map(self, path: str) -> memoryview:
        return memoryview(self.read(path))

    def list(self, path: str) -> tuple[str, ...]:
        self.opened.append(path)
        path = self.resolve(path)
        prefix = path + "/" if path else ""
        names = {p[len(prefix) :].split("/")[0] for p in (*self.files, *self.links) if p.startswith(prefix)}
        if not names:
            raise self._error(path)
        return tuple(sorted(names))

    def exists(self, path: str) -> bool:
        self.opened.append(path)
        path = self.resolve(path)
        if path in self.files or any(p.startswith(path + "/") for p in (*self.files, *self.links)):
            return True
        error = self._error(path)
        if isinstance(error, EvidenceAbsent):
            return False
        raise error

    def resolve(self, path: str) -> str:
        for _ in range(40):
            parts = path.split("/")
            for end in range(1, len(parts) + 1):
                link = "/".join(parts[:end])
                if link in self.links:
                    target = self.links[link]
                    base = "" if target.startswith("/") else posixpath.dirname(link)
                    path = posixpath.normpath(
                        posixpath.join("/", base, target.lstrip("/") if not base else target, *parts[end:])
                    ).lstrip("/")
                    break
            else:
                return path
        raise unreadable(path, LOOP)

    def run(self, command: Command) -> bytes:
        self.opened.append(command.line)
        if command.argv in self.commands:
            return self.commands[command.argv]
        for file in command.files:
            if file in self.files:
                return self.files[file]
        raise EvidenceMissing(Missing(command.line, MissingReason.NOT_COLLECTED, command.line))

    def origin(self, name: str) -> TextOrigin | None:
        return self.origins.get(name)

    def _error(self, path: str) -> EvidenceMissing:
        if self.complete or path in self.absent:
            return EvidenceAbsent(Missing(path, MissingReason.ABSENT, f"ls /{path}"))
        return not_collected(path)


def _bytes(content: bytes | str) -> bytes:
    return content.encode() if isinstance(content, str) else content
