"""What is wrong in a file, and where."""

from __future__ import annotations

from msgspec import Struct

SEVERITIES = ("error", "unreadable", "warning")
"""Worst first. Unreadable: a part that could not be judged at all."""


class ConfigFault(Struct, frozen=True, kw_only=True):
    """One thing that is wrong in a document."""

    line: int
    code: str
    severity: str
    path: str  # spec.driver.rdma; "" for the whole document
    seen: str
    expected: str

    @property
    def words(self) -> str:
        """The fault as a sentence, its code last."""
        place = f"{self.path}: " if self.path else ""
        return f"{place}{self.seen}; expected {self.expected} [{self.code}]"


class FoundDocument(Struct, frozen=True):
    """A document that was recognised: what it is, its name, where it starts."""

    line: int
    kind: str
    name: str = ""


class CheckedFile(Struct, frozen=True):
    """What a check made of a file."""

    file: str
    documents: tuple[FoundDocument, ...]
    faults: tuple[ConfigFault, ...]

    @property
    def worst(self) -> str:
        """The worst severity; "" where nothing is wrong."""
        there = {fault.severity for fault in self.faults}
        return next((severity for severity in SEVERITIES if severity in there), "")

    def lines(self) -> tuple[str, ...]:
        """Each fault as compilers print theirs: file:line: severity: what."""
        return tuple(f"{self.file}:{fault.line}: {fault.severity}: {fault.words}" for fault in self.faults)

    def summary(self) -> str:
        """What was looked at, and how it fared."""
        kinds = ", ".join(dict.fromkeys(found.kind for found in self.documents)) or "nothing that is known"
        counts = [(sum(f.severity == severity for f in self.faults), severity) for severity in SEVERITIES]
        told = ", ".join(f"{count} {severity}" for count, severity in counts if count) or "nothing wrong"
        return f"{self.file}: {kinds}: {told}"

    def document(self) -> dict[str, object]:
        """The same as JSON-like data, gdrkit.config-check/1."""
        return {
            "schema": "gdrkit.config-check/1",
            "file": self.file,
            "worst": self.worst,
            "documents": self.documents,
            "faults": self.faults,
        }
