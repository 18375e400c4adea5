"""A host over collected files, in a directory or an archive.

Only this module follows links, and only inside the tree, so that no link in a hostile bundle leads out of
it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from gdrkit.evidence import Command, EvidenceAbsent, EvidenceMissing, Missing, MissingReason
from gdrkit.evidence.errors import TargetError
from gdrkit.evidence.foreign import SOS_MANIFEST, ForeignRecord, parse_sos
from gdrkit.evidence.live import READ_LIMIT_BYTES
from gdrkit.evidence.manifest import GDR_MANIFEST, BundleRecord, CollectionRecord, CommandNote, parse
from gdrkit.evidence.missing import GO_ON, LOOP, absent, of_command, of_long_output, truncated, unreadable

# -- recognise an error message that a collector stored in place of a command's output --

HEAD_BYTES = 2048
"""How much of a file is examined. An error message is short; an output that only begins with one is kept."""

COMPLAINTS = (
    "command not found",  # sos and bash
    "no such file or directory",  # sh: 1: ..., nice: ..., timeout: failed to run command
    "libkmod: error",  # kmod libkmod/libkmod-module.c, kmod_module_new_from_loaded()
    "modinfo: error",
    "modprobe: error",
    "modprobe: fatal",
    "efi variables are not supported on this system",  # mokutil src/mokutil.c, main()
    "this system doesn't support secure boot",  # mokutil src/mokutil.c, test_sb()
    "failed to read secureboot",
    "couldn't communicate with the nvidia driver",  # nvidia-smi without a driver
    "failed to initialize nvml",
    "no devices were found",
    "operation not permitted",  # dmesg: read kernel buffer failed
    "permission denied",
    "must be root",
    "are you root",
    "timed out",
    "no ib devices found",
    "unable to open file",
    "pcilib: cannot open",  # lspci without /proc/bus/pci or /sys
    "lspci: cannot find any working access method",
    'failed to open connection to "system" message bus',
    "system has not been booted with systemd",
    "no journal files were found",
)
"""Substrings, in lower case, of error messages that programs print instead of their output."""
SHORTEST = min(map(len, COMPLAINTS))
"""No shorter line is an error message. A hostile output has a million of them."""


def complaint(data: bytes | memoryview) -> str:
    """The error message that was stored in place of an output; "" if the data is an output.

    Every line at the beginning and at the end must be an error message, or belong to one ("Error: ..."). So
    a kernel log that quotes "Permission denied" is still a log, and an output that follows the error
    messages of a command with many arguments is still an output."""
    lines = _lines(bytes(data[:HEAD_BYTES]), whole=len(data) <= HEAD_BYTES)
    if not lines or not all(_complains(line) for line in lines):
        return ""
    tail = _lines(bytes(data[-HEAD_BYTES:])[::-1], whole=False)
    if not all(_complains(line[::-1]) for line in tail):
        return ""
    return next((line.strip() for line in lines if _known(line)), "")


def without_complaints(data: bytes | memoryview) -> bytes:
    """The output without the lines that are error messages."""
    lines = bytes(data).splitlines(keepends=True)
    return b"".join(
        line for line in lines if len(line) < SHORTEST or not _known(line.decode("utf-8", "replace"))
    )


def _lines(part: bytes, whole: bool) -> list[str]:
    """The lines that are neither blank nor cut off at the end."""
    if not whole:
        part = part.rpartition(b"\n")[0]
    return [line for line in part.decode("utf-8", "replace").splitlines() if line.strip()]


def _known(line: str) -> bool:
    lower = line.lower()  # the kernel's log and a document in JSON, on one line, only quote messages
    return not lower.startswith(("[", "{")) and any(words in lower for words in COMPLAINTS)


def _complains(line: str) -> bool:
    return _known(line) or line.lower().lstrip().startswith(("error", "warning", "fatal", "usage:", "try "))


FILE, FOLDER, LINK, OTHER = "file", "folder", "link", "other"

LINKS_LIMIT = 40
"""Most links followed for one path, as in the kernel: Linux include/linux/namei.h, MAXSYMLINKS."""

EVIDENCE_NAMES = frozenset(("etc", "lib", "proc", "sys", "usr", "boot", "sos_commands", "dev", GDR_MANIFEST))
"""Names at the top of a tree of evidence. A directory with none of them is not one."""


class Store(Protocol):
    """Storage of collected files. In a path, only the last part may be a link."""

    def kind(self, path: str) -> str | None:
        """FILE, FOLDER, LINK or OTHER; None if the path does not exist."""

    def target(self, path: str) -> str:
        """The target of a link, as written."""

    def names(self, path: str) -> tuple[str, ...]:
        """Names in a folder, sorted."""

    def read(self, path: str) -> memoryview:
        """The content of a file. Raises EvidenceMissing if it was not kept."""


class BundleHost:
    """Answers from a store; for what is not in the store, from the record of the collection."""

    def __init__(
        self, store: Store, record: CollectionRecord, source: str, notes: tuple[str, ...] = ()
    ) -> None:
        self.store, self.record, self.source = store, record, source
        self.notes = notes
        """Remarks on this target for the reader of a report, one line each: that it is cut off, for
        example."""
        self.collected = record.manifest.time if isinstance(record, BundleRecord) else ""
        """When, in UTC, as 2026-11-22T23:31:05Z; empty if the collector did not record it."""
        self._folders: dict[str, str] = {"": ""}

    def read(self, path: str) -> bytes:
        content = self.map(path)
        if len(content) > READ_LIMIT_BYTES:
            raise truncated(path, f"larger than {READ_LIMIT_BYTES >> 20} MiB")
        return bytes(content)

    def map(self, path: str) -> memoryview:
        real = self.resolve(path)
        kind = self.store.kind(real)
        if kind == FILE:
            return self.store.read(real)
        if kind is None:
            raise self.record.missing(path, real)
        raise unreadable(path, "a directory" if kind == FOLDER else "not a regular file")

    def list(self, path: str) -> tuple[str, ...]:
        real = self.resolve(path)
        names = self.record.names(path, real)
        if names is not None:
            return names
        kind = self.store.kind(real)
        if kind == FOLDER:
            return self.store.names(real)
        if kind is None:
            raise self.record.missing(path, real)
        raise absent(path)  # like ENOTDIR on a live machine

    def exists(self, path: str) -> bool:
        real = self.resolve(path)
        if self.store.kind(real) is not None:
            return True
        there = self.record.there(path, real)
        if there is None:
            missing = self.record.missing(path, real)
            if isinstance(missing, EvidenceAbsent):
                return False
            raise missing
        return there

    def resolve(self, path: str) -> str:
        folder, _, name = path.rpartition("/")
        base = self._folders.get(folder)
        if base is None:
            base = self._folders[folder] = self._follow(folder, path)
        if name in ("", ".", ".."):
            return self._follow(path, path)
        real = f"{base}/{name}" if base else name
        return self._follow(real, path) if self.store.kind(real) == LINK else real

    def _follow(self, walk: str, asked: str) -> str:
        """The path `walk` with its links followed one by one inside the tree; `..` at the root stays there.

        `asked` is the path that an error names."""
        done, rest, links = "", walk.split("/")[::-1], 0
        while rest:
            part = rest.pop()
            if part in ("", "."):
                continue
            if part == "..":
                done = done.rpartition("/")[0]
                continue
            here = f"{done}/{part}" if done else part
            if self.store.kind(here) != LINK:
                done = here
                continue
            links += 1
            target = self.store.target(here)
            if links > LINKS_LIMIT:
                raise unreadable(asked, LOOP)
            if target.startswith("/"):
                done = ""
            rest.extend(target.split("/")[::-1])
        return done

    # -- commands ----------------------------------------------------------------------------------

    def origin(self, name: str) -> None:
        """None: a bundle is not built from a text."""

    def run(self, command: Command) -> bytes:
        reason: EvidenceMissing | None = None
        files = command.files
        if (note := self.record.command(command.argv)) is not None:
            reason = _failure(command, note)
            if reason is None and note.file:
                files = (note.file, *files)
        for file in files:
            if self.store.kind(self.resolve(file)) == FILE:
                try:
                    return self._output(command, file)
                except EvidenceMissing as missing:
                    reason = reason or missing.fresh()
        if reason is not None:
            raise reason.fresh()
        raise EvidenceMissing(Missing(command.line, MissingReason.NOT_COLLECTED, command.line))

    def _output(self, command: Command, file: str) -> bytes:
        data = self.store.read(self.resolve(file))
        note = self.record.output(file)
        if note is not None and (failure := _failure(command, note, data)) is not None:
            if command.argv[0] not in GO_ON or not (rest := without_complaints(data)).strip():
                raise failure
            return rest
        if message := complaint(data):
            raise of_command(command, message)
        output = bytes(data)
        if (not output or output.isspace()) and (note is None or note.exit_code is None):
            raise of_command(command, "the output is empty")
        return output


def _failure(command: Command, note: CommandNote, data: bytes | memoryview = b"") -> EvidenceMissing | None:
    """Why the output of a recorded command cannot be used; None if it can."""
    if note.status == "found" and not note.exit_code:
        return None
    if note.status == "truncated":
        return of_long_output(command)
    if note.status == "not-installed":
        return of_command(command, "the command is not installed")
    if note.status == "timed-out":
        return of_command(command, "timed out")
    message = note.stderr or bytes(data[:512]).decode("utf-8", "replace").strip().partition("\n")[0]
    return of_command(command, message or f"exit code {note.exit_code}")


def _manifest(read: Callable[[str], memoryview], name: str) -> memoryview:
    """The content of a manifest; raises TargetError, as nothing can be judged without it."""
    try:
        return read(name)
    except EvidenceMissing as error:
        why = error.missing.note or error.missing.why.value
        raise TargetError(f"cannot read {name}: {why}", "copy the archive again") from None


def recognise(
    kind: Callable[[str], str | None], read: Callable[[str], memoryview], *, cut_off: bool = False
) -> tuple[str, CollectionRecord]:
    """The kind of tree (bundle, sosreport, tree) and its record. Raises TargetError for a damaged
    manifest."""
    if kind(GDR_MANIFEST) == FILE:
        try:
            return "bundle", BundleRecord(parse(_manifest(read, GDR_MANIFEST)))
        except ValueError as error:
            raise TargetError(str(error), "collect again: gdr collect") from None

    def outputs() -> dict[str, CommandNote]:
        if kind(SOS_MANIFEST) != FILE:
            return {}
        try:
            return parse_sos(_manifest(read, SOS_MANIFEST))
        except (
            ValueError
        ):  # then failures are recognised by the text of the output, as in sosreports before 4.0
            return {}

    sosreport = kind("sos_commands") == FOLDER and any(
        kind(name) is not None for name in ("sos_reports", "sos_logs", "version.txt")
    )
    record = ForeignRecord(
        lambda path: kind(path) is not None, read, outputs, sosreport=sosreport, cut_off=cut_off
    )
    return ("sosreport" if sosreport else "tree"), record
