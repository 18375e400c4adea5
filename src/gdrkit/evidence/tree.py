"""A directory that looks like a machine: a root mounted elsewhere, an unpacked sosreport or bundle.

The kernel follows no links here: this code resolves each link inside the root, opens only regular files, and
checks that the open file has the expected path.
"""

from __future__ import annotations

import os
from stat import S_ISDIR, S_ISLNK, S_ISREG

from gdrkit.evidence.bundle import EVIDENCE_NAMES, FILE, FOLDER, LINK, OTHER, BundleHost, recognise
from gdrkit.evidence.errors import TargetError
from gdrkit.evidence.foreign import CompleteRecord
from gdrkit.evidence.live import FLAGS, map_open, read_open
from gdrkit.evidence.missing import MOUNT_POINTS, NOT_ALLOWED, NOT_THERE, of_error, unreadable

SMALL_BYTES = 1 << 16
"""Files up to this size are read, not mapped: a mapping would cost more than the copy."""


class DirectoryStore:
    """A store over a directory. The result of lstat(2) for a path is cached."""

    def __init__(self, root: str) -> None:
        self.root = os.path.realpath(root)
        self._kinds: dict[str, str | None] = {"": FOLDER}
        self._sizes: dict[str, int] = {}
        self._prefix = self.root.rstrip("/") + "/"
        self._verify = os.path.isdir("/proc/self/fd")

    def kind(self, path: str) -> str | None:
        if path in self._kinds:
            return self._kinds[path]
        kind: str | None
        try:
            status = os.lstat(self._prefix + path)
        except OSError as error:
            if error.errno not in NOT_THERE:
                raise of_error(path, error) from None
            kind = None
        except ValueError:  # a NUL, or half of a surrogate pair
            kind = None
        else:
            mode = status.st_mode
            self._sizes[path] = status.st_size
            kind = FILE if S_ISREG(mode) else FOLDER if S_ISDIR(mode) else LINK if S_ISLNK(mode) else OTHER
        self._kinds[path] = kind
        return kind

    def target(self, path: str) -> str:
        try:
            return os.readlink(self._prefix + path)
        except OSError as error:
            raise of_error(path, error) from None

    def names(self, path: str) -> tuple[str, ...]:
        try:
            return tuple(sorted(name for name in os.listdir(self._prefix + path) if name.isprintable()))
        except OSError as error:
            raise of_error(path, error) from None

    def read(self, path: str) -> memoryview:
        try:
            fd = os.open(self._prefix + path, FLAGS | os.O_NOFOLLOW)
            try:
                self._check(fd, path)
                if self._sizes[path] > SMALL_BYTES:
                    return map_open(fd, path)
                return memoryview(read_open(fd, path))
            finally:
                os.close(fd)
        except OSError as error:
            raise of_error(path, error) from None

    def _check(self, fd: int, path: str) -> None:
        """Check that the open file has the expected path. A folder may be replaced by a link meanwhile, and
        O_NOFOLLOW checks only the last part of a path. See proc(5), /proc/pid/fd."""
        if self._verify and os.readlink(f"/proc/self/fd/{fd}") != self._prefix + path:
            raise unreadable(path, "it was moved while being read")

    def unmounted(self, path: str) -> bool:
        """Whether a path is below a mount point that is empty here."""
        return any(path.startswith(point + "/") and self._is_empty(point) for point in MOUNT_POINTS)

    def _is_empty(self, folder: str) -> bool:
        if self.kind(folder) != FOLDER:
            return False
        try:
            with os.scandir(self._prefix + folder) as entries:
                return next(entries, None) is None
        except OSError:
            return False


def open_tree(path: str) -> BundleHost:
    """A directory as a host. Raises TargetError if it has no evidence of a node."""
    store = DirectoryStore(_root(path))
    source, record = recognise(store.kind, store.read)
    if source == "tree" and store.kind("proc/1") == FOLDER:
        record = CompleteRecord(store.unmounted)
    return BundleHost(store, record, source)


def _root(path: str) -> str:
    """The directory that looks like a root: `path`, or the only directory in it."""
    try:
        names = os.listdir(path)
        if EVIDENCE_NAMES.isdisjoint(names):
            inner = [name for name in names if os.path.isdir(os.path.join(path, name))]
            if len(inner) == 1 and not os.path.islink(os.path.join(path, inner[0])):
                path = os.path.join(path, inner[0])
                names = os.listdir(path)
    except OSError as error:
        hint = "run as root" if error.errno in NOT_ALLOWED else ""
        raise TargetError(f"{path}: {error.strerror}", hint) from None
    if EVIDENCE_NAMES.isdisjoint(names):
        raise TargetError(
            f"no evidence of a node in {path}",
            "name a directory that contains etc, proc, sys or sos_commands, or a bundle from gdr collect; "
            "gdr fleet doctor takes a folder of bundles",
        )
    return path
