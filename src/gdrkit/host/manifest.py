"""What a collector says of its own work: rules by which "not there" becomes absent, denied or never seen.

Three records answer the same questions. A gdr bundle says it outright; a sosreport says it of its commands;
of any other tree only a few folders are known to be copied whole or not at all.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from typing import Protocol

import msgspec
from msgspec import Struct

from gdrkit.evidence import Absent, Lacks, Missing, Why
from gdrkit.host.lacks import absent, cut, denied, not_collected, timed_out, unreadable

GDR_MANIFEST = "gdr_manifest.json"
SOS_MANIFEST = "sos_reports/manifest.json"
SCHEMA = "gdrkit.bundle/"

MANIFEST_LIMIT_BYTES = 16 << 20
"""A gdr manifest is about 100 kB, that of a sosreport with all plugins 500 kB."""

WHOLE_FOLDERS = (
    "etc/modprobe.d",  # sos report/plugins/kernel.py
    "etc/modules-load.d",  # sos report/plugins/systemd.py, *.conf
)
"""Folders that collectors copy whole: what is not in them there was not on the machine."""

NEVER_WHOLE = ("sys/devices", "sys/bus", "lib/modules", "usr/lib/modules", "proc/bus")
"""Folders of a sosreport that hold only what some link or glob pointed to: a listing of one proves nothing.
Source: sos report/plugins/{kernel,networking,block}.py. Of lib/modules it copies modules.dep alone."""


class Note(Struct, frozen=True):
    """What became of one file."""

    status: str
    why: str = ""


class FolderNote(Struct, frozen=True):
    """What became of one folder; `names` is everything in it where the status is listed."""

    status: str
    names: tuple[str, ...] = ()
    why: str = ""


class CommandNote(Struct, frozen=True):
    """What became of one command."""

    argv: tuple[str, ...] = ()
    file: str | None = None
    status: str = "found"
    exit_code: int | None = None
    stderr: str = ""


class Record(Protocol):
    """What is known about what is not in a tree. A path comes twice: as asked, and with links followed."""

    def missing(self, path: str, real: str) -> Lacks:
        """Why there is no such file in the tree."""

    def there(self, path: str, real: str) -> bool | None:
        """Whether it was on the machine, although it is not in the tree. None: nobody looked."""

    def names(self, path: str, real: str) -> tuple[str, ...] | None:
        """Everything in a folder, as the collector saw it. None: ask the tree. Lacks if nobody can say."""

    def command(self, argv: tuple[str, ...]) -> CommandNote | None:
        """What became of a command, by the words it was run with."""

    def output(self, file: str) -> CommandNote | None:
        """What became of the command whose output stands in this file."""


# -- gdr bundles -----------------------------------------------------------------------------------


class Manifest(Struct, frozen=True):
    """gdr_manifest.json as `gdr collect` writes it. Unknown keys are passed over: the schema grows."""

    schema: str
    collector: str = ""
    collected: str = ""
    anonymized: bool = False
    scope: str = "host"
    user: str = ""
    kernel: str = ""
    files: dict[str, Note] = {}
    folders: dict[str, FolderNote] = {}
    commands: tuple[CommandNote, ...] = ()


def parse(data: bytes | memoryview) -> Manifest:
    """A bundle's manifest. Raises ValueError for anything else."""
    if len(data) > MANIFEST_LIMIT_BYTES:
        raise ValueError(f"{GDR_MANIFEST} is larger than {MANIFEST_LIMIT_BYTES >> 20} MiB")
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{GDR_MANIFEST} is damaged: {error}") from None
    if not manifest.schema.startswith(SCHEMA):
        raise ValueError(f"{GDR_MANIFEST} has the unknown schema {manifest.schema[:40]!r}")
    return manifest


class BundleRecord:
    """The record of a bundle made by `gdr collect`."""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest

    def missing(self, path: str, real: str) -> Lacks:
        for asked in (path, real):
            if (note := self.manifest.files.get(asked)) is not None:
                return _lacks_of(note.status, note.why, path)
            if (folder := self.manifest.folders.get(asked)) is not None:
                return _lacks_of(folder.status, folder.why, path)
        for asked in (path, real):
            if (lacks := self._by_ancestor(asked, path)) is not None:
                return lacks
        return not_collected(path)

    def _by_ancestor(self, asked: str, path: str) -> Lacks | None:
        """What the nearest recorded folder above says; None if it says nothing, or that it was there."""
        folder, name = posixpath.split(asked)
        while True:
            note = self.manifest.folders.get(folder)
            if note is not None and note.status == "listed":
                return None if name in note.names else absent(path)
            if note is not None:
                return _lacks_of(note.status, note.why, path)
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
        return False if isinstance(self.missing(path, real), Absent) else None

    def names(self, path: str, real: str) -> tuple[str, ...] | None:
        for asked in (path, real):
            note = self.manifest.folders.get(asked)
            if note is not None:
                if note.status != "listed":
                    raise _lacks_of(note.status, note.why, path)
                return tuple(sorted(name for name in note.names if name.isprintable()))
        raise self.missing(path, real)

    def command(self, argv: tuple[str, ...]) -> CommandNote | None:
        return next((note for note in self.manifest.commands if note.argv == argv), None)

    def output(self, file: str) -> CommandNote | None:
        return next((note for note in self.manifest.commands if note.file == file), None)


def _lacks_of(status: str, why: str, path: str) -> Lacks:
    if status == "absent":
        return absent(path)
    if status == "denied":
        return denied(path, why)
    if status == "timed-out":
        return timed_out(path)
    if status == "unreadable":
        return unreadable(path, why)
    if status in ("truncated", "found", "reduced", "listed"):  # recorded, and yet not in the archive
        return cut(path, why)
    return not_collected(path, why)


# -- sosreports and other trees --------------------------------------------------------------------


class _SosCommand(Struct):
    filepath: str | None = None
    return_code: int | None = None


class _SosPlugin(Struct):
    commands: list[_SosCommand] = []


class _SosReport(Struct):
    plugins: dict[str, _SosPlugin] = {}


class _SosComponents(Struct):
    report: _SosReport = msgspec.field(default_factory=_SosReport)


class _SosManifest(Struct):
    components: _SosComponents = msgspec.field(default_factory=_SosComponents)


def parse_sos(data: bytes | memoryview) -> dict[str, CommandNote]:
    """Exit codes by output file, of a sosreport's manifest. Raises ValueError for anything else.

    Source: sos report/plugins/__init__.py, _collect_cmd_output(); 124 is its own code for a time-out."""
    if len(data) > MANIFEST_LIMIT_BYTES:
        raise ValueError(f"{SOS_MANIFEST} is larger than {MANIFEST_LIMIT_BYTES >> 20} MiB")
    try:
        manifest = msgspec.json.decode(data, type=_SosManifest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{SOS_MANIFEST} is damaged: {error}") from None
    notes = {}
    for plugin in manifest.components.report.plugins.values():
        for command in plugin.commands:
            if command.filepath:
                status = {0: "found", None: "found", 124: "timed-out"}.get(command.return_code, "failed")
                notes[command.filepath] = CommandNote((), command.filepath, status, command.return_code)
    return notes


class ForeignRecord:
    """The record of a tree that some other collector made, or somebody's hands.

    Not there means not collected, but below the folders that are copied whole."""

    def __init__(
        self,
        holds: Callable[[str], bool],
        outputs: Callable[[], dict[str, CommandNote]] = dict,
        *,
        sosreport: bool = False,
        cut_off: bool = False,
    ) -> None:
        self._holds, self._read_outputs = holds, outputs
        self._sosreport, self._cut_off = sosreport, cut_off
        self._outputs: dict[str, CommandNote] | None = None

    def missing(self, path: str, real: str) -> Lacks:
        if self._cut_off:
            return not_collected(path, "the archive ends before it")
        if any(self._is_whole(folder) for folder in (_whole_folder(path), _whole_folder(real)) if folder):
            return absent(path)
        return not_collected(path)

    def _is_whole(self, folder: str) -> bool:
        if folder in WHOLE_FOLDERS:
            return self._holds(folder)
        return not self._sosreport and self._holds(folder + "/modules.dep")

    def there(self, path: str, real: str) -> bool | None:
        return False if isinstance(self.missing(path, real), Absent) else None

    def names(self, path: str, real: str) -> tuple[str, ...] | None:
        if self._cut_off:
            raise cut(path, "the archive ends early")
        if self._sosreport and any(real == top or real.startswith(top + "/") for top in NEVER_WHOLE):
            raise not_collected(path, "a sosreport copies only parts of it")
        return None

    def command(self, argv: tuple[str, ...]) -> CommandNote | None:
        return None

    def output(self, file: str) -> CommandNote | None:
        if self._outputs is None:
            self._outputs = self._read_outputs()
        return self._outputs.get(file)


def _whole_folder(path: str) -> str:
    """The folder above a path that collectors copy whole; "" if there is none."""
    for folder in WHOLE_FOLDERS:
        if path.startswith(folder + "/"):
            return folder
    parts = path.removeprefix("usr/").split("/")
    if parts[:2] == ["lib", "modules"] and len(parts) > 3:
        return path[: path.index("lib/modules")] + "/".join(parts[:3])
    return ""


class CompleteRecord:
    """The record of a whole machine's file system: what is not there is absent.

    But for what stands below an empty mount point, of which nothing is known."""

    def __init__(self, unmounted: Callable[[str], bool]) -> None:
        self._unmounted = unmounted

    def missing(self, path: str, real: str) -> Lacks:
        for asked in (path, real):
            if self._unmounted(asked):
                return Lacks(Missing(path, Why.NOT_COLLECTED, f"cat /{path} (nothing is mounted there)"))
        return absent(path)

    def there(self, path: str, real: str) -> bool | None:
        return False if isinstance(self.missing(path, real), Absent) else None

    def names(self, path: str, real: str) -> tuple[str, ...] | None:
        if self._unmounted(real + "/"):
            raise not_collected(path, "nothing is mounted there")
        return None

    def command(self, argv: tuple[str, ...]) -> CommandNote | None:
        return None

    def output(self, file: str) -> CommandNote | None:
        return None
