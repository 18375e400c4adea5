"""A recorded machine to which something happened: lines in its kernel log, other outputs, other files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from gdrkit.evidence import Command, EvidenceAbsent, Host, Missing, MissingReason
from gdrkit.facts.commands import DMESG, NVIDIA_SMI, NVIDIA_SMI_MEMORY
from tests.hiding_host import HidingHost

Edit = Callable[[str], str]


class AlteredHost(HidingHost):
    """A host with lines added to its kernel log, and with outputs and files edited; None: it is absent.

    The path of a file is edited wherever it ends so. A folder that is absent is not listed either."""

    def __init__(
        self,
        host: Host,
        log: Iterable[str] = (),
        smi: Edit | None = None,
        files: Mapping[str, Edit | None] | None = None,
        outputs: Mapping[str, str] | None = None,
        hidden: frozenset[str] | set[str] = frozenset(),
    ) -> None:
        super().__init__(host, hidden)
        self._log, self._smi, self._files = tuple(log), smi, dict(files or {})
        self._outputs = dict(outputs or {})

    def run(self, command: Command) -> bytes:
        if command.line in self._outputs:
            self._ask(command.line)
            return self._outputs[command.line].encode()
        found = super().run(command)
        if command.line == DMESG.line:
            added = (f"[{90000 + at:12.6f}] {line}\n" for at, line in enumerate(self._log))
            return found + "".join(added).encode()
        if self._smi and command.line in (NVIDIA_SMI.line, NVIDIA_SMI_MEMORY.line):
            return self._smi(found.decode()).encode()
        return found

    def read(self, path: str) -> bytes:
        edit = self._edit(path)
        found = super().read(path)
        return edit(found.decode()).encode() if edit else found

    def exists(self, path: str) -> bool:
        try:
            self._edit(path)
        except EvidenceAbsent:
            return False
        return super().exists(path)

    def list(self, path: str) -> tuple[str, ...]:
        gone = {name for name, edit in self._files.items() if edit is None}
        return tuple(name for name in super().list(path) if f"{path}/{name}" not in gone)

    def _edit(self, path: str) -> Edit | None:
        for name, edit in self._files.items():
            if edit is None and (path == name or path.startswith(name + "/")):
                raise EvidenceAbsent(Missing(path, MissingReason.ABSENT, f"ls /{path}"))
        return next((edit for name, edit in self._files.items() if path.endswith(name)), None)
