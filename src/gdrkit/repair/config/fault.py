"""The result of a check: faults in a file, with their lines."""

from __future__ import annotations

from msgspec import Struct

SEVERITIES = ("error", "unreadable", "warning", "note")
"""Worst first. Unreadable: a part that could not be checked. Note: right where another path is meant."""


class ConfigFault(Struct, frozen=True, kw_only=True):
    """One fault in a document."""

    line: int
    code: str
    severity: str
    path: str  # spec.driver.rdma; "" for the whole document
    seen: str
    expected: str

    @property
    def message(self) -> str:
        """The fault in one line, with its code at the end."""
        path = f"{self.path}: " if self.path else ""
        return f"{path}{self.seen}; expected {self.expected} [{self.code}]"


class FoundDocument(Struct, frozen=True):
    """A recognised document: its first line, kind and name."""

    line: int
    kind: str
    name: str = ""


class CheckedFile(Struct, frozen=True):
    """The result of checking a file."""

    file: str
    documents: tuple[FoundDocument, ...]
    faults: tuple[ConfigFault, ...]

    @property
    def worst(self) -> str:
        """The worst severity; "" without faults."""
        found = {fault.severity for fault in self.faults}
        return next((severity for severity in SEVERITIES if severity in found), "")

    def lines(self) -> tuple[str, ...]:
        """Each fault in the format of compilers: file:line: severity: message."""
        return tuple(f"{self.file}:{fault.line}: {fault.severity}: {fault.message}" for fault in self.faults)

    def summary(self) -> str:
        """One line: the file, the kinds of its documents, and the number of faults."""
        kinds = ", ".join(dict.fromkeys(found.kind for found in self.documents)) or "no known kind"
        counts = [(sum(f.severity == severity for f in self.faults), severity) for severity in SEVERITIES]
        totals = ", ".join(f"{count} {severity}" for count, severity in counts if count) or "no faults"
        return f"{self.file}: {kinds}: {totals}"

    def document(self) -> dict[str, object]:
        """The result as data for JSON, gdrkit.config-check/1."""
        return {
            "schema": "gdrkit.config-check/1",
            "file": self.file,
            "worst": self.worst,
            "documents": self.documents,
            "faults": self.faults,
        }
