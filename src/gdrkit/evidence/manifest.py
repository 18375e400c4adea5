"""The manifest of a gdr bundle: whether a path that is not in it was absent, denied or not collected."""

from __future__ import annotations

import posixpath
import re
from typing import Protocol

from msgspec import Struct

from gdrkit.evidence import EvidenceMissing
from gdrkit.evidence.missing import absent, denied, not_collected, timed_out, truncated, unreadable
from gdrkit.formats import json_text
from gdrkit.formats.errors import FormatError
from gdrkit.formats.regex import regex

GDR_MANIFEST = "gdr_manifest.json"
SCHEMA = "gdrkit.bundle/"

MANIFEST_LIMIT_BYTES = 16 << 20
"""A gdr manifest is about 100 kB, that of a sosreport with all plugins 500 kB."""


_TIME = regex(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)


class FileNote(Struct, frozen=True):
    """The result of collecting one file."""

    status: str
    why: str = ""


class FolderNote(Struct, frozen=True):
    """The result of listing one folder; `names` is everything in it if the status is listed."""

    status: str
    names: tuple[str, ...] = ()
    why: str = ""


class CommandNote(Struct, frozen=True):
    """The result of one command."""

    argv: tuple[str, ...] = ()
    file: str | None = None
    status: str = "found"
    exit_code: int | None = None
    stderr: str = ""


class CollectionRecord(Protocol):
    """What a collector recorded about paths that are not in its tree.

    Methods take a path twice: as asked, and with its links followed."""

    def missing(self, path: str, real: str) -> EvidenceMissing:
        """Why the file is not in the tree."""

    def there(self, path: str, real: str) -> bool | None:
        """Whether a path that is not in the tree was on the machine. None: as `missing` says."""

    def names(self, path: str, real: str) -> tuple[str, ...] | None:
        """Everything in a folder, as the collector listed it. None: list the tree instead.

        Raises EvidenceMissing if the names are not known."""

    def command(self, argv: tuple[str, ...]) -> CommandNote | None:
        """The result of a command, by its arguments."""

    def output(self, file: str) -> CommandNote | None:
        """The result of the command whose output is in this file."""


class BundleManifest(Struct, frozen=True):
    """gdr_manifest.json as `gdr collect` writes it. Unknown keys are ignored: the schema grows."""

    schema: str
    collector: str = ""
    collected: str = ""
    anonymized: bool = False
    scope: str = "host"
    user: str = ""
    kernel: str = ""
    files: dict[str, FileNote] = {}
    folders: dict[str, FolderNote] = {}
    commands: tuple[CommandNote, ...] = ()

    @property
    def time(self) -> str:
        """When it was collected, as `collected` has it; empty for anything but a time."""
        return self.collected if _TIME.fullmatch(self.collected) else ""


def parse(data: bytes | memoryview) -> BundleManifest:
    """A bundle's manifest. Raises ValueError for anything else."""
    if len(data) > MANIFEST_LIMIT_BYTES:
        raise ValueError(f"{GDR_MANIFEST} is larger than {MANIFEST_LIMIT_BYTES >> 20} MiB")
    try:
        manifest = json_text.decode(data, BundleManifest)
    except FormatError as error:
        raise FormatError(f"{GDR_MANIFEST} is damaged: {error}") from None
    if not manifest.schema.startswith(SCHEMA):
        raise ValueError(f"{GDR_MANIFEST} has an unknown schema: {manifest.schema[:40]!r}")
    return manifest


class BundleRecord:
    """The record of a bundle made by `gdr collect`."""

    def __init__(self, manifest: BundleManifest) -> None:
        self.manifest = manifest

    def missing(self, path: str, real: str) -> EvidenceMissing:
        for asked in (path, real):
            if (note := self.manifest.files.get(asked)) is not None:
                return _missing_for(note.status, note.why, path)
            if (folder := self.manifest.folders.get(asked)) is not None:
                return _missing_for(folder.status, folder.why, path)
        for asked in (path, real):
            if (missing := self._by_ancestor(asked, path)) is not None:
                return missing
        return not_collected(path)

    def _by_ancestor(self, asked: str, path: str) -> EvidenceMissing | None:
        """Why a path is missing, by the nearest recorded folder above it; None if none explains it."""
        folder, name = posixpath.split(asked)
        while True:
            note = self.manifest.folders.get(folder)
            if note is not None and note.status == "listed":
                return None if name in note.names else absent(path)
            if note is not None:
                return _missing_for(note.status, note.why, path)
            if not folder:
                return None
            folder, name = posixpath.split(folder)

    def there(self, path: str, real: str) -> bool | None:
        for asked in (path, real):
            note = self.manifest.files.get(asked) or self.manifest.folders.get(asked)
            if note is not None and note.status != "not-collected":
                return note.status != "absent"
            folder = self.manifest.folders.get(posixpath.dirname(asked))
            if folder is not None and folder.status == "listed":
                return posixpath.basename(asked) in folder.names
        return None

    def names(self, path: str, real: str) -> tuple[str, ...] | None:
        for asked in (path, real):
            note = self.manifest.folders.get(asked)
            if note is not None:
                if note.status != "listed":
                    raise _missing_for(note.status, note.why, path)
                return tuple(sorted(name for name in note.names if name.isprintable()))
        raise self.missing(path, real)

    def command(self, argv: tuple[str, ...]) -> CommandNote | None:
        return next((note for note in self.manifest.commands if note.argv == argv), None)

    def output(self, file: str) -> CommandNote | None:
        return next((note for note in self.manifest.commands if note.file == file), None)


def _missing_for(status: str, why: str, path: str) -> EvidenceMissing:
    if status == "absent":
        return absent(path)
    if status == "denied":
        return denied(path, why)
    if status == "timed-out":
        return timed_out(path)
    if status == "unreadable":
        return unreadable(path, why)
    if status in ("truncated", "found", "reduced", "listed"):  # recorded, but not in the archive
        return truncated(path, why)
    return not_collected(path, why)
