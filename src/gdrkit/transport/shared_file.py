"""Memory that another process of this user can open by a name.

It is a file in /dev/shm that never has a name there (O_TMPFILE): the other process opens it through /proc.
So nothing remains if a process is killed at any moment. (A memfd would have no limit except the machine's
memory.) Processes with different PID namespaces do not see each other in /proc; for them the file has a
name, which is removed once both have opened it.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat

from gdrkit.transport.errors import PathUnavailable

FOLDER = "/dev/shm"
_NAME = "gdrkit-"
_ANONYMOUS = re.compile(r"(/proc/[1-9][0-9]{0,9}/fd/[0-9]{1,10})\?([0-9]{1,20})\.([0-9]{1,20})")
_FILE = re.compile(rf"{FOLDER}/gdrkit-[0-9A-Za-z-]+")


def pid_namespace() -> str:
    """The PID namespace of this process, such as "pid:[4026531836]", or "" if it is not readable."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


class SharedFile:
    """A new file that only this user can open. `path` is its name for the other process until `unlink`."""

    def __init__(self, folder: str = FOLDER, *, anonymous: bool = False) -> None:
        """Raises PathUnavailable. If this system has no files without a name, it has one anyway."""
        self._file = ""
        try:
            if anonymous:
                with contextlib.suppress(OSError):
                    self._open(folder, os.O_TMPFILE)
                    found = os.fstat(self.descriptor)
                    self.path = f"/proc/{os.getpid()}/fd/{self.descriptor}?{found.st_dev}.{found.st_ino}"
                    return
            self.path = f"{folder}/{_NAME}{secrets.token_hex(16)}"
            self._open(self.path, os.O_CREAT | os.O_EXCL)
            self._file = self.path
        except OSError as error:
            raise PathUnavailable(f"{folder}: {error.strerror}") from None

    def _open(self, path: str, flags: int) -> None:
        self.descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | flags, 0o600)

    def reserve(self, size_bytes: int) -> None:
        """Reserve the space, not just the size: if the file system is full, this raises OSError here, and
        nothing gets SIGBUS later.
        """
        os.posix_fallocate(self.descriptor, 0, size_bytes)

    def unlink(self) -> None:
        """Make the name invalid; mappings remain. May be called twice."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
        if self._file:
            remove(self._file)
            self._file = ""


def open_file(path: str) -> int:
    """The descriptor of a file that the other process created. Raises PathUnavailable if it cannot be
    opened, or if its name is not one that SharedFile makes.
    """
    try:
        if found := _ANONYMOUS.fullmatch(path):
            return _open_anonymous(found[1], (int(found[2]), int(found[3])))
        if _FILE.fullmatch(path):
            return os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise PathUnavailable(f"{path}: {error.strerror}") from None
    raise PathUnavailable(f"not the name of a ring or a window: {path}")


def _open_anonymous(link: str, identity: tuple[int, int]) -> int:
    """Open another process's file. Device and inode are compared first, without opening anything: in another
    PID namespace the link may be something else. Raises OSError, PathUnavailable.
    """
    if _is_memory(os.stat(link)) and _identity(os.stat(link)) == identity:
        descriptor = os.open(link, os.O_RDWR | os.O_CLOEXEC)
        if _identity(os.fstat(descriptor)) == identity:
            return descriptor
        os.close(descriptor)
    raise PathUnavailable(f"{link} is not the other side's memory")


def _is_memory(found: os.stat_result) -> bool:
    """Whether this may be a file that SharedFile made. The other side chooses the link, and could name any
    file that some process has open: this process may be root's, and would write there."""
    return (
        stat.S_ISREG(found.st_mode)
        and found.st_nlink == 0
        and found.st_uid == os.geteuid()
        and found.st_dev == os.stat(FOLDER).st_dev
    )


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def remove(path: str) -> None:
    """Remove a file's name, if it is a file and neither side has removed it yet."""
    if not _ANONYMOUS.fullmatch(path):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
