"""The result of a check: faults in a file, with their lines."""

from __future__ import annotations

from msgspec import Struct

from gdrkit.formats.plural import plural

SEVERITIES = ("error", "unreadable", "warning", "note")
"""Worst first. Unreadable: a part that could not be checked. Note: right where another path is meant, or on
nodes that are set up for it."""


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


def fault_at(
    line: int, code: str, path: str, seen: str, expected: str, severity: str = "error"
) -> ConfigFault:
    """The fault of a line; an error unless it is said to be less."""
    return ConfigFault(line=line, code=code, severity=severity, path=path, seen=seen, expected=expected)


def not_shown(line: int, path: str, origin: str) -> ConfigFault:
    """That a value is filled in later, from a variable or a template that the file does not show."""
    seen = f"has its value from {origin[:60]}"
    return fault_at(line, "unreadable", path, seen, "a value that the file shows", "unreadable")


class FoundDocument(Struct, frozen=True):
    """A recognised document: its first line, kind and name, and whether anything in it is judged."""

    line: int
    kind: str
    name: str = ""
    judged: bool = True


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

    @property
    def is_not_judged(self) -> bool:
        """Whether nothing in the file is judged, so that no fault means nothing."""
        return not self.faults and not any(found.judged for found in self.documents)

    def lines(self) -> tuple[str, ...]:
        """Each fault in the format of compilers: file:line: severity: message."""
        return tuple(f"{self.file}:{fault.line}: {fault.severity}: {fault.message}" for fault in self.faults)

    def summary(self) -> str:
        """One line: the file, the kinds of its documents, and the number of faults."""
        words = (found.kind + ("" if found.judged else " (not judged)") for found in self.documents)
        kinds = ", ".join(dict.fromkeys(words)) or "no known kind"
        if self.is_not_judged:
            return f"{self.file}: {kinds}"
        counts = [(sum(f.severity == severity for f in self.faults), severity) for severity in SEVERITIES]
        totals = ", ".join(_counted(*one) for one in counts if one[0]) or "no known faults"
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


def _counted(count: int, severity: str) -> str:
    return f"{count} unreadable" if severity == "unreadable" else plural(count, severity)
