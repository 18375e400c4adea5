"""Reads, atomically replaces and restores files below a root: of the running machine, or of a tree like it.

Paths are absolute, as on the machine itself. Symbolic links in a path's folders are followed, inside the
root. The last part is not, so a link itself can be replaced and restored.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import glob
import hashlib
import os
import posixpath
import re
import stat
from collections.abc import Iterator, Mapping
from io import BufferedReader

from msgspec import Struct

from gdrkit.repair.apply.errors import ApplyError
from gdrkit.repair.platforms.command_shapes import is_plain

_MOST_LINKS = 40  # path_resolution(7): ELOOP
_BACKUP = re.compile(r"[0-9-]*", re.ASCII)
_UNSUPPORTED = (errno.ENOTSUP, errno.EPERM, errno.EACCES, errno.ENODATA)


class FileState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a path was. `backup` names the copy of its content in the run's folder."""

    path: str
    kind: str = "absent"  # absent, file, link
    mode: int = 0
    uid: int = 0
    gid: int = 0
    mtime_ns: int = 0
    digest: str = ""  # SHA-256 of a file's content, or of a link's target
    target: str = ""
    attributes: Mapping[str, str] = {}  # extended attributes, base64
    backup: str = ""

    def __post_init__(self) -> None:
        """A journal's path or backup that leads elsewhere is not read."""
        if not is_plain(self.path):
            raise ValueError("not a plain path")
        if not _BACKUP.fullmatch(self.backup):
            raise ValueError("not the name of a backup")


class RootFS:
    """A root folder, and operations on files below it."""

    def __init__(self, root: str = "/") -> None:
        self.path = os.path.realpath(root)
        self._is_checked = False
        if not os.path.isdir(self.path):
            raise ApplyError(f"not a directory: {root}")

    @property
    def is_machine(self) -> bool:
        """Whether it is the running machine, where commands can run."""
        return self.path == "/"

    def real(self, path: str) -> str:
        """The path on the running system: folders resolved inside the root, the last part unresolved."""
        folder, name = posixpath.split(path.rstrip("/"))
        return posixpath.join(self._folder(folder), name)

    def _folder(self, folder: str) -> str:
        self._check_above()
        parts = folder.split("/")[::-1]
        here: list[str] = []
        links = 0
        while parts:
            part = parts.pop()
            if part in ("", "."):
                continue
            if part == "..":
                here = here[:-1]
                continue
            full = posixpath.join(self.path, *here, part)
            if os.path.islink(full):
                links += 1
                if links > _MOST_LINKS:
                    raise ApplyError(f"{folder}: too many symbolic links")
                target = os.readlink(full)
                here = [] if target.startswith("/") else here
                parts += target.split("/")[::-1]
            else:
                self._check(full)
                here.append(part)
        return posixpath.join(self.path, *here)

    def _check_above(self) -> None:
        """Check the root itself, and the folders above it, once."""
        if not self._is_checked:
            parts = self.path.split("/")
            for number in range(1, len(parts) + 1):
                self._check("/".join(parts[:number]) or "/")
            self._is_checked = True

    def _check(self, real: str) -> None:
        """Raise ApplyError for a folder that a user could replace by a link while root works in it."""
        if self.is_machine or os.geteuid() != 0:
            return
        try:
            found = os.lstat(real)
        except (FileNotFoundError, NotADirectoryError):
            return
        shared = found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX
        if stat.S_ISDIR(found.st_mode) and (found.st_uid != 0 or shared):
            raise ApplyError(
                f"{real} belongs to user {found.st_uid}, or others can write to it: not safe for root",
                "run as its owner, or copy the tree to a folder that only root can write to",
            )

    # -- reading ----------------------------------------------------------------------------------------

    def state(self, path: str) -> FileState:
        """The present state of a path. Raises ApplyError for folders and devices, which are not replaced."""
        real = self.real(_unicode(path))
        try:
            found = os.lstat(real)
        except (FileNotFoundError, NotADirectoryError):
            return FileState(path=path)
        if stat.S_ISLNK(found.st_mode):
            target = _unicode(os.readlink(real))
            digest = hashlib.sha256(target.encode()).hexdigest()
            return FileState(
                path=path, kind="link", uid=found.st_uid, gid=found.st_gid, mtime_ns=found.st_mtime_ns,
                target=target, digest=digest,
            )  # fmt: skip
        if not stat.S_ISREG(found.st_mode):
            raise ApplyError(f"{path} is not a regular file")
        return FileState(
            path=path,
            kind="file",
            mode=stat.S_IMODE(found.st_mode),
            digest=_digest(real),
            attributes=dict(_attributes(real)),
            uid=found.st_uid,
            gid=found.st_gid,
            mtime_ns=found.st_mtime_ns,
        )

    def digest(self, path: str) -> str:
        """SHA-256 of the file or link at a path; "" if there is none."""
        return self.state(path).digest

    def read(self, path: str) -> bytes:
        with open_regular(self.real(path)) as file:
            return file.read()

    def resolved(self, path: str) -> str:
        """A path without a link in its last part: links followed inside the root."""
        for _ in range(_MOST_LINKS):
            real = self.real(path)
            if not os.path.islink(real):
                return path
            path = posixpath.normpath(posixpath.join(posixpath.dirname(path), os.readlink(real)))
        raise ApplyError(f"{path}: too many symbolic links")

    def content(self, path: str) -> bytes:
        """The content of a path, links followed inside the root; b"" if there is no file."""
        path = self.resolved(path)
        return self.read(path) if self.state(path).kind == "file" else b""

    def matching(self, pattern: str) -> tuple[str, ...]:
        """Files whose path matches a shell pattern, sorted."""
        folder, name = posixpath.split(pattern)
        real = posixpath.join(glob.escape(self._folder(folder)), name)
        found = sorted(p for p in glob.glob(real) if os.path.isfile(p) or os.path.islink(p))
        return tuple(posixpath.join(folder, posixpath.basename(path)) for path in found)

    def missing_folders(self, path: str) -> tuple[str, ...]:
        """Folders above a path that do not exist, the outermost first."""
        missing: list[str] = []
        folder = posixpath.dirname(path)
        while folder not in ("", "/") and not os.path.isdir(self._folder(folder)):
            missing.insert(0, folder)
            folder = posixpath.dirname(folder)
        return tuple(missing)

    # -- writing ----------------------------------------------------------------------------------------

    def make_folder(self, path: str, mode: int = 0o755) -> None:
        real = self._folder(path)
        if not os.path.isdir(real):
            os.mkdir(real, mode)
            sync_folder(posixpath.dirname(real))

    def remove_folder(self, path: str) -> None:
        """Remove a folder if it is empty."""
        with contextlib.suppress(FileNotFoundError, OSError):
            os.rmdir(self._folder(path))

    def write(self, path: str, content: bytes, like: FileState, token: str) -> None:
        """Replace a file atomically, with the owner, mode and attributes of `like`; on disk on return."""
        real = self.real(path)
        temporary = self.temporary(path, token)
        _unlink(temporary)
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(fd, "wb") as file:
            file.write(content)
            file.flush()
            _copy_metadata(fd, like)
            os.fsync(fd)
        os.rename(temporary, real)
        sync_folder(posixpath.dirname(real))

    def temporary(self, path: str, token: str) -> str:
        """The real path of the temporary file that is then renamed to `path`."""
        folder, name = posixpath.split(self.real(path))
        return posixpath.join(folder, f".{name}.gdrkit-{token}")

    def restore(self, state: FileState, content: bytes, token: str) -> None:
        """Restore a path to a state. A path that is already in that state is not touched."""
        _unlink(self.temporary(state.path, token))
        real = self.real(state.path)
        if _without_backup(self.state(state.path)) == _without_backup(state):
            return
        if state.kind == "absent":
            _unlink(real)
        elif state.kind == "link":
            temporary = self.temporary(state.path, token)
            os.symlink(state.target, temporary)
            os.chown(temporary, state.uid, state.gid, follow_symlinks=False)
            os.rename(temporary, real)
        else:
            self.write(state.path, content, state, token)
        sync_folder(posixpath.dirname(real))

    def remove(self, path: str) -> None:
        real = self.real(path)
        _unlink(real)
        sync_folder(posixpath.dirname(real))


def _without_backup(state: FileState) -> tuple[object, ...]:
    return state.kind, state.mode, state.uid, state.gid, state.digest, dict(state.attributes)


def free_bytes(real: str) -> int:
    """Free space on the file system of an existing folder."""
    found = os.statvfs(real)
    return found.f_bavail * found.f_frsize


def _unicode(name: str) -> str:
    """A name that a journal can hold. Raises ApplyError for another."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ApplyError(f"not UTF-8: {name!r}", "rename it") from None
    return name


def open_regular(real: str) -> BufferedReader:
    """A file to read. Raises ApplyError for a folder, device or pipe, OSError for a link."""
    fd = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise ApplyError(f"{real} is not a regular file")
    return open(fd, "rb")


def _digest(real: str) -> str:
    with open_regular(real) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _attributes(real: str) -> Iterator[tuple[str, str]]:
    """Extended attributes: SELinux labels, ACLs, IMA's hashes. None if unsupported."""
    try:
        names = os.listxattr(real, follow_symlinks=False)
    except OSError as error:
        if error.errno in _UNSUPPORTED:
            return
        raise
    for name in sorted(names):
        with contextlib.suppress(OSError):
            yield name, base64.b64encode(os.getxattr(real, name, follow_symlinks=False)).decode()


def _copy_metadata(fd: int, like: FileState) -> None:
    """Set owner, mode, attributes and time as in `like`, as far as the system allows."""
    found = os.fstat(fd)
    if (found.st_uid, found.st_gid) != (like.uid, like.gid):
        os.fchown(fd, like.uid, like.gid)
    os.fchmod(fd, like.mode)
    for name, value in like.attributes.items():
        try:
            os.setxattr(fd, name, base64.b64decode(value))
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
    if like.mtime_ns:
        os.utime(fd, ns=(like.mtime_ns, like.mtime_ns))


def _unlink(real: str) -> None:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        os.unlink(real)


def sync_folder(real: str) -> None:
    """Make changes to a folder's entries durable: fsync(2) on the folder."""
    try:
        fd = os.open(real, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
