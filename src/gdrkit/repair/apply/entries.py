"""Entries of a folder that is open: their states, and how they are replaced and restored.

Each operation takes a descriptor of the folder and a name without a slash, so that nothing that happens to
the path meanwhile leads it elsewhere: openat(2), NOTES.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping
from io import BufferedReader

from msgspec import Struct

from gdrkit.formats.regex import regex
from gdrkit.repair.apply.errors import ApplyError
from gdrkit.repair.platforms.command_shapes import is_plain

FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_BACKUP = regex(r"[0-9-]*", re.ASCII)
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


def temporary(name: str, token: str) -> str:
    """The name of the temporary file that is then renamed."""
    return f".{name}.gdrkit-{token}"


def link_target(folder: int | None, name: str) -> str | None:
    """Where a link leads; None for anything else."""
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError:
        return None


def listed(folder: int) -> list[str]:
    fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        return sorted(os.listdir(fd))
    finally:
        os.close(fd)


def is_kept(folder: int, name: str) -> bool:
    """Whether an entry is a file or a link, which a state describes."""
    mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    return stat.S_ISREG(mode) or stat.S_ISLNK(mode)


def state_of(path: str, folder: int, name: str) -> FileState:
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISLNK(found.st_mode):
        target = unicode(os.readlink(name, dir_fd=folder))
        digest = hashlib.sha256(target.encode()).hexdigest()
        return FileState(
            path=path, kind="link", uid=found.st_uid, gid=found.st_gid, mtime_ns=found.st_mtime_ns,
            target=target, digest=digest,
        )  # fmt: skip
    if not stat.S_ISREG(found.st_mode):
        raise ApplyError(f"{path} is not a regular file")
    with open_regular(name, folder) as file:
        found = os.fstat(file.fileno())
        return FileState(
            path=path,
            kind="file",
            mode=stat.S_IMODE(found.st_mode),
            digest=hashlib.file_digest(file, "sha256").hexdigest(),
            attributes=dict(_attributes(file.fileno())),
            uid=found.st_uid,
            gid=found.st_gid,
            mtime_ns=found.st_mtime_ns,
        )


def check_unchanged(folder: int, name: str, was: FileState, done: str) -> None:
    """Raises ApplyError unless an entry is in a state that a journal has, or has the digest that it gets.

    An entry that nobody backed up, since it was hidden or changed meanwhile, could never be restored."""
    try:
        present = state_of(was.path, folder, name).digest
    except FileNotFoundError:
        present = ""
    if present not in (was.digest, done):
        raise ApplyError(f"{was.path} changed while it was repaired", "run gdr fix again")


def write(folder: int, name: str, content: bytes, like: FileState, token: str) -> None:
    beside = temporary(name, token)
    unlink(folder, beside)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(beside, flags, 0o600, dir_fd=folder)
    with open(fd, "wb") as file:
        file.write(content)
        file.flush()
        _copy_metadata(fd, like)
        os.fsync(fd)
    os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
    sync(folder)


def restore(folder: int, name: str, state: FileState, content: bytes, token: str) -> None:
    beside = temporary(name, token)
    unlink(folder, beside)
    try:
        present = state_of(state.path, folder, name)
    except FileNotFoundError:
        present = FileState(path=state.path)
    if _without_backup(present) == _without_backup(state):
        return
    if state.kind == "absent":
        unlink(folder, name)
    elif state.kind == "link":
        os.symlink(state.target, beside, dir_fd=folder)
        os.chown(beside, state.uid, state.gid, dir_fd=folder, follow_symlinks=False)
        os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
    else:
        write(folder, name, content, state, token)
    sync(folder)


def _without_backup(state: FileState) -> tuple[object, ...]:
    return state.kind, state.mode, state.uid, state.gid, state.digest, dict(state.attributes)


def free_bytes(real: str) -> int:
    """Free space on the file system of an existing folder."""
    found = os.statvfs(real)
    return found.f_bavail * found.f_frsize


def unicode(name: str) -> str:
    """A name that a journal can hold. Raises ApplyError for another."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ApplyError(f"not UTF-8: {name!r}", "rename it") from None
    return name


def open_regular(name: str, folder: int | None = None, shown: str = "") -> BufferedReader:
    """A file to read, which an error calls `shown`.

    Raises ApplyError for a folder, device or pipe, OSError for a link."""
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise ApplyError(f"{shown or name} is not a regular file")
    return open(fd, "rb")


def _attributes(fd: int) -> Iterator[tuple[str, str]]:
    """Extended attributes: SELinux labels, ACLs, IMA's hashes. None if unsupported."""
    try:
        names = os.listxattr(fd)
    except OSError as error:
        if error.errno in _UNSUPPORTED:
            return
        raise
    for name in sorted(names):
        with contextlib.suppress(OSError):
            yield name, base64.b64encode(os.getxattr(fd, name)).decode()


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


def unlink(folder: int, name: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


def sync(folder: int) -> None:
    """Make changes to a folder's entries durable: fsync(2) on the folder."""
    fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
