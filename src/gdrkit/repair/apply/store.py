"""Where journals, backups and the lock are: never inside a tree from another person.

A journal lists what to restore, so its author can write any file as root. That of the running machine is
in /var/lib, that of any other tree below the state folder of the user who repairs it. Each folder on the way
belongs to root or to that user, and is not writable by others; files are opened by descriptor and
without links.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import posixpath
import stat
from collections.abc import Iterator

from gdrkit.agent.state_folder import state_folder
from gdrkit.repair.apply.errors import ApplyError
from gdrkit.repair.apply.root_fs import RootFS

MACHINE = "/var/lib/gdrkit/fix"
_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_LINKS = 40  # path_resolution(7): ELOOP
_ELSEWHERE = "set XDG_STATE_HOME to a folder that only you can write to"


def home(root: RootFS) -> str:
    """The folder of a root's runs, on this machine."""
    if root.is_machine:
        return MACHINE
    digest = hashlib.sha256(os.fsencode(root.path)).hexdigest()[:32]
    return str(state_folder("fix") / digest)


@contextlib.contextmanager
def folder(root: RootFS, *inside: str, create: bool = False) -> Iterator[int]:
    """A descriptor of the folder of a root's runs, or of one inside.

    Raises FileNotFoundError if it does not exist, and ApplyError if other users can write there.
    """
    path = posixpath.join(home(root), *inside)
    fd = _walk(path, create=create)
    try:
        readable = os.open(".", os.O_RDONLY | _FOLDER, dir_fd=fd)
    finally:
        os.close(fd)
    try:
        yield readable
    finally:
        os.close(readable)


def open_file(at: int, name: str, flags: int) -> int:
    """A descriptor of a file of our own. Raises ApplyError for a link, a folder, or a file of others."""
    try:
        opened = flags & ~os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(name, opened, 0o600, dir_fd=at)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise ApplyError(f"{_shown(at, name)} is not a regular file", "move it away") from None
        error.filename = _shown(at, name)
        raise
    found = os.fstat(fd)
    why = ""
    if not stat.S_ISREG(found.st_mode):
        why = "is not a regular file"
    elif found.st_nlink != 1:
        why = "has another name (a hard link)"
    elif not _is_safe(found):
        why = f"belongs to user {found.st_uid}, or others can write to it"
    if why:
        os.close(fd)
        raise ApplyError(f"{_shown(at, name)} {why}", "move it away")
    if flags & os.O_TRUNC:
        os.ftruncate(fd, 0)
    return fd


def _shown(at: int, name: str) -> str:
    return posixpath.join(os.readlink(f"/proc/self/fd/{at}"), name)


def _is_safe(found: os.stat_result) -> bool:
    """Whether only root and this user can write; in a sticky folder others cannot replace what is ours."""
    sticky = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
    return found.st_uid in (0, os.geteuid()) and (bool(sticky) or not found.st_mode & 0o022)


def _walk(path: str, *, create: bool, links: int = 0) -> int:
    """A descriptor of a folder, each folder on the way checked before the next is opened."""
    if links > _MOST_LINKS:
        raise ApplyError(f"{path}: too many symbolic links")
    fd, here = os.open("/", os.O_PATH | _FOLDER), "/"
    parts = [part for part in path.split("/") if part]
    try:
        _check(fd, here)
        for number, part in enumerate(parts, 1):
            target = _link(fd, here, part)
            if target:
                rest = posixpath.normpath(posixpath.join(here, target, *parts[number:]))
                return _walk(rest, create=create, links=links + 1)
            if create:
                _make(fd, part, 0o700 if number == len(parts) else 0o755)
            try:
                below = os.open(part, os.O_PATH | _FOLDER, dir_fd=fd)
            except NotADirectoryError:
                raise ApplyError(f"{posixpath.join(here, part)} is not a folder", "move it away") from None
            os.close(fd)
            fd, here = below, posixpath.join(here, part)
            _check(fd, here)
        return os.dup(fd)
    except OSError as error:  # of a call that takes a descriptor, so it names only the last part
        error.filename = posixpath.join(here, str(error.filename or ""))
        raise
    finally:
        os.close(fd)


def _check(fd: int, path: str) -> None:
    found = os.fstat(fd)
    if not _is_safe(found):
        raise ApplyError(
            f"{path} belongs to user {found.st_uid}, or others can write to it: not safe for a journal",
            _ELSEWHERE,
        )


def _link(fd: int, here: str, part: str) -> str:
    """The target of a link of root's or of our own; "" if the part is not a link."""
    try:
        found = os.lstat(part, dir_fd=fd)
    except FileNotFoundError:
        return ""
    if not stat.S_ISLNK(found.st_mode):
        return ""
    if found.st_uid not in (0, os.geteuid()):
        raise ApplyError(f"{posixpath.join(here, part)} is a link of user {found.st_uid}", _ELSEWHERE)
    return os.readlink(part, dir_fd=fd)


def _make(fd: int, name: str, mode: int) -> None:
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, mode, dir_fd=fd)
        sync(fd)


def sync(fd: int) -> None:
    """Make changes to a folder's entries durable: fsync(2) on the folder."""
    readable = os.open(".", os.O_RDONLY | _FOLDER, dir_fd=fd)
    try:
        os.fsync(readable)
    finally:
        os.close(readable)
