"""A sosreport, a gdr bundle or any tree in a tar archive, read in one pass and in place.

Names that no honest archive has are passed over and told of. Content that no fact wants is not kept.
"""

from __future__ import annotations

from gdrkit.evidence.archive import (
    DIRECTORY,
    HARD_LINK,
    MEMBERS_LIMIT,
    PATH_LIMIT_BYTES,
    REGULAR,
    SYMBOLIC_LINK,
    DamagedArchive,
    Member,
    members,
)
from gdrkit.evidence.bundle import EVIDENCE_NAMES, BundleHost, recognise
from gdrkit.evidence.errors import TargetError
from gdrkit.evidence.memory_store import EmptyEntry, MemoryStore, StoredLink, UnreadFile
from gdrkit.evidence.stream import PlainStream, Stream, StreamEnded

ROOT_NAMES = EVIDENCE_NAMES.union(
    ("bin", "home", "lib32", "lib64", "media", "mnt", "opt", "root", "run", "sbin", "snap", "srv", "tmp"),
    ("var", "sos_reports", "sos_logs", "sos_strings"),
)
"""What stands at the root of a machine (hier(7)) or of a sosreport: with it, there is no top folder."""

FILE_LIMIT_BYTES = 256 << 20
"""The largest file that is kept. An unstripped nvidia.ko is about 100 MB; beyond are logs and core dumps."""

NAMES_LIMIT = 64 << 20
"""Characters of all names together. Names of a real archive are 60 characters long on average."""

UNWANTED = (
    "home/", "opt/", "root/", "sos_logs/", "sos_strings/", "srv/", "tmp/", "usr/share/", "var/cache/",
    "var/log/audit/", "var/log/journal/", "var/log/pcp/", "var/log/sa/", "var/lib/docker/", "var/spool/",
)  # fmt: skip
"""Folders that no fact reads from, of which sosreports can hold gigabytes."""

UNWANTED_ABOVE_BYTES = 1 << 12
"""Files of single processes (proc/<pid>/smaps and the like) are kept up to this size: links lead to some."""


class _Intake:
    """Puts the members of one archive on a shelf."""

    def __init__(self, stream: Stream, name: str) -> None:
        self.stream, self.name, self.shelf = stream, name, MemoryStore()
        self.top: str | None = None  # the folder that holds everything; "" if there is none
        self._prefix = "/"  # of every member's name; no name begins with a slash
        self.passed_over = 0
        self.ending = ""  # how the archive ended, if not well

    def run(self) -> None:
        path, shelf = "", self.shelf
        try:
            for member in members(self.stream):
                path = self._path(member.name, member.type) or ""
                if path:
                    self._take(path, member)
                    path = ""
                    if len(shelf.entries) > MEMBERS_LIMIT or shelf.names_size > NAMES_LIMIT:
                        raise DamagedArchive(f"more than {MEMBERS_LIMIT:,} files, or names of no real size")
        except StreamEnded:
            self.ending = "is cut off"
        except DamagedArchive as damage:
            if str(damage):
                raise TargetError(
                    f"{self.name} is refused: {damage}", "unpack it yourself and name the directory"
                ) from None
            self.ending = "is damaged"
        else:
            self.stream.finish()
        if path:
            self.shelf.put(path, UnreadFile("the archive ends in it", cut=True))

    def _path(self, name: str, kind: str) -> str | None:
        """A member's path below the top folder; None if it has no place there."""
        plain = name.isprintable() and "/." not in name and "//" not in name
        if plain and name.startswith(self._prefix) and len(name) <= PATH_LIMIT_BYTES:  # as nearly all are
            return name[len(self._prefix) :].rstrip("/") or None
        while name.startswith("./"):
            name = name[2:].lstrip("/")
        name = name.rstrip("/")
        if name in ("", "."):
            return None
        parts = name.split("/")
        if len(name) > PATH_LIMIT_BYTES or not name.isprintable() or not _PLAIN.isdisjoint(parts):
            self.passed_over += 1
            return None
        if self.top is None:
            alone = len(parts) == 1 and kind != DIRECTORY
            self.top = "" if alone or parts[0] in ROOT_NAMES else parts[0]
            self._prefix = self.top + "/" if self.top else "/"
        if not self.top:
            return name
        if parts[0] != self.top:
            self.passed_over += 1
            return None
        return name[len(self.top) + 1 :] or None

    def _take(self, path: str, member: Member) -> None:
        shelf = self.shelf
        if member.type == DIRECTORY:
            shelf.put(path, EmptyEntry.FOLDER)
        elif member.type == SYMBOLIC_LINK:
            shelf.put(path, StoredLink(member.link[:PATH_LIMIT_BYTES]))
        elif member.type == HARD_LINK:
            target = self._path(member.link, REGULAR)
            shelf.put(path, shelf.entries.get(target or "?", UnreadFile("a hard link to nothing")))
        elif member.type != REGULAR:
            shelf.put(path, EmptyEntry.OTHER)
        elif member.sparse:
            shelf.put(path, UnreadFile("a sparse file, which gdr does not expand"))
        elif isinstance(self.stream, PlainStream):
            shelf.put(path, self.stream.take(member.size))
        elif member.size > FILE_LIMIT_BYTES:
            shelf.put(path, UnreadFile(f"larger than {FILE_LIMIT_BYTES >> 20} MiB"))
        elif _is_unwanted(path, member.size):
            shelf.put(path, UnreadFile("gdr keeps no such file of an archive"))
        else:
            shelf.keep(path, bytes(self.stream.take(member.size)))


_PLAIN = frozenset(("", ".", ".."))  # parts that make a path lead elsewhere; "" first also means absolute


def _is_unwanted(path: str, size: int) -> bool:
    if path.startswith(UNWANTED):
        return True
    return (
        size > UNWANTED_ABOVE_BYTES and path.startswith("proc/") and path[5].isdigit() and path[5:7] != "1/"
    )


def open_tarball(stream: Stream, name: str, source: str = "") -> BundleHost:
    """An archive as a host; `source` if it is known where it came from. Raises TargetError."""
    intake = _Intake(stream, name)
    intake.run()
    shelf = intake.shelf
    if EVIDENCE_NAMES.isdisjoint(shelf.names("")):
        why = f"{name} {intake.ending}" if intake.ending else f"{name} holds nothing of a node"
        raise TargetError(why, "name a sosreport, a bundle of gdr collect, or nvidia-bug-report.log.gz")
    notes = []
    if intake.ending:
        notes.append(f"{name} {intake.ending}: what stands behind that point counts as not collected")
    if intake.passed_over:
        notes.append(f"{name}: {intake.passed_over} members with impossible names were passed over")
    kind, record = recognise(shelf.kind, shelf.read, cut_off=bool(intake.ending))
    return BundleHost(shelf, record, source or kind, tuple(notes))
