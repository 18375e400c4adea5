"""Read a sosreport, a gdr bundle or any tree from a tar archive, in one pass and without unpacking it to
disk.

Members with invalid names are skipped and counted. Content that no fact reads is not kept.
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
from gdrkit.formats.regex import regex

ROOT_NAMES = EVIDENCE_NAMES | {
    "bin", "home", "lib32", "lib64", "media", "mnt", "opt", "root", "run", "sbin", "snap", "srv", "tmp",
    "var", "sos_reports", "sos_logs", "sos_strings",
}  # fmt: skip
"""Names at the root of a machine (hier(7)) or of a sosreport. An archive that has one has no top folder."""

FILE_LIMIT_BYTES = 256 << 20
"""The largest file that is kept. An unstripped nvidia.ko is about 100 MB; larger ones are logs and core
dumps."""

NAMES_LIMIT = 64 << 20
"""Most characters of all names together. Names in a real archive have 60 characters on average."""

UNWANTED = (
    "home/", "opt/", "root/", "sos_logs/", "sos_strings/", "srv/", "tmp/", "usr/share/", "var/cache/",
    "var/log/audit/", "var/log/journal/", "var/log/pcp/", "var/log/sa/", "var/lib/docker/", "var/spool/",
)  # fmt: skip
"""Folders that no fact reads; sosreports can contain gigabytes of them."""

UNWANTED_ABOVE_BYTES = 1 << 12
"""Files of single processes (proc/<pid>/smaps and the like) are kept up to this size: links point to
some."""
_HERE = regex(r"(?:\./+)+")
_PLAIN = frozenset(("", ".", ".."))  # parts that would lead elsewhere; a leading "" means absolute


class _TarReader:
    """Reads the members of one archive into a store."""

    def __init__(self, stream: Stream, name: str) -> None:
        self.stream, self.name, self.store = stream, name, MemoryStore()
        self.top: str | None = None  # the one folder that contains everything; "" if there is none
        self._prefix = "/"  # of every member's name; "/" matches none
        self.skipped = 0
        self.ending = ""  # "is cut off" or "is damaged"; "" if the archive is complete

    def run(self) -> None:
        path, store = "", self.store
        try:
            for member in members(self.stream):
                path = self._path(member.name, member.type)
                if path:
                    self._take(path, member)
                    path = ""
                    if len(store.entries) > MEMBERS_LIMIT or store.names_size > NAMES_LIMIT:
                        raise DamagedArchive(
                            f"more than {MEMBERS_LIMIT:,} files, or names that are too long"
                        )
        except StreamEnded:
            self.ending = "is cut off"
        except DamagedArchive as damage:
            if str(damage):
                raise TargetError(
                    f"refusing {self.name}: {damage}", "unpack it yourself and name the directory"
                ) from None
            self.ending = "is damaged"
        else:
            self.stream.finish()
        if path:
            self.store.put(path, UnreadFile("the archive is cut off within it", cut=True))

    def _path(self, name: str, kind: str) -> str:
        """A member's path below the top folder; "" if its name is not valid or not below that folder."""
        plain = name.isprintable() and "/." not in name and "//" not in name
        if plain and name.startswith(self._prefix) and len(name) <= PATH_LIMIT_BYTES:  # as nearly all are
            return name[len(self._prefix) :].rstrip("/")
        if len(name) > PATH_LIMIT_BYTES or not name.isprintable():
            self.skipped += 1
            return ""
        start = _HERE.match(name)
        name = name[start.end() if start else 0 :].rstrip("/")
        if name in ("", "."):
            return ""
        parts = name.split("/")
        if not _PLAIN.isdisjoint(parts):
            self.skipped += 1
            return ""
        if self.top is None:
            alone = len(parts) == 1 and kind != DIRECTORY
            self.top = "" if alone or parts[0] in ROOT_NAMES else parts[0]
            self._prefix = self.top + "/" if self.top else "/"
        if not self.top:
            return name
        if parts[0] != self.top:
            self.skipped += 1
            return ""
        return name[len(self.top) + 1 :]

    def _take(self, path: str, member: Member) -> None:
        store = self.store
        if member.type == DIRECTORY:
            store.put(path, EmptyEntry.FOLDER)
        elif member.type == SYMBOLIC_LINK:
            store.put(path, StoredLink(member.link[:PATH_LIMIT_BYTES]))
        elif member.type == HARD_LINK:
            target = self._path(member.link, REGULAR)
            store.put(
                path,
                store.entries.get(
                    target or "?", UnreadFile("a hard link to a file that is not in the archive")
                ),
            )
        elif member.type != REGULAR:
            store.put(path, EmptyEntry.OTHER)
        elif member.sparse:
            store.put(path, UnreadFile("a sparse file; gdr does not expand it"))
        elif isinstance(self.stream, PlainStream):
            store.put(path, self.stream.take(member.size))
        elif member.size > FILE_LIMIT_BYTES:
            store.put(path, UnreadFile(f"larger than {FILE_LIMIT_BYTES >> 20} MiB"))
        elif _is_unwanted(path, member.size):
            store.put(path, UnreadFile("gdr does not read such files from an archive"))
        else:
            store.keep(path, bytes(self.stream.take(member.size)))


def _is_unwanted(path: str, size: int) -> bool:
    if path.startswith(UNWANTED):
        return True
    return (
        size > UNWANTED_ABOVE_BYTES and path.startswith("proc/") and path[5].isdigit() and path[5:7] != "1/"
    )


def open_tarball(stream: Stream, name: str, source: str = "") -> BundleHost:
    """An archive as a host; `source` overrides the recognised kind. Raises TargetError."""
    reader = _TarReader(stream, name)
    reader.run()
    store = reader.store
    if EVIDENCE_NAMES.isdisjoint(store.names("")):
        why = f"{name} {reader.ending}" if reader.ending else f"no evidence of a node in {name}"
        raise TargetError(why, "name a sosreport, a bundle from gdr collect, or nvidia-bug-report.log.gz")
    notes = []
    if reader.ending:
        notes.append(f"{name} {reader.ending}: everything after that point counts as not collected")
    if reader.skipped:
        notes.append(f"{name}: skipped {reader.skipped} members with invalid names")
    kind, record = recognise(store.kind, store.read, cut_off=bool(reader.ending))
    return BundleHost(store, record, source or kind, tuple(notes))
