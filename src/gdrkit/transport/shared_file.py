"""Memory that another process of this user can open by a name.

It is a memfd that the other process opens through /proc: it has no entry in any file system, so nothing
remains if a process is killed at any moment, and the size of /dev/shm does not matter. Processes with
different PID namespaces do not see each other there; for them it is a file in /dev/shm, whose name is
removed once both have opened it.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets

from gdrkit.transport.errors import PathUnavailable

FOLDER = "/dev/shm"
_NAME = "gdrkit-"
_MEMFD = re.compile(r"/proc/([1-9][0-9]*)/fd/([0-9]+)\?(gdrkit-[0-9a-f]{32})")
_FILE = re.compile(rf"{FOLDER}/gdrkit-[0-9A-Za-z-]+")


def pid_namespace() -> str:
    """The PID namespace of this process, such as "pid:[4026531836]", or "" if it is not readable."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


class SharedFile:
    """A new file that only this user can open. `path` is its name for the other process until `unlink`."""

    def __init__(self, folder: str | None = FOLDER) -> None:
        """In `folder`, or with None as a memfd if this system has them. Raises PathUnavailable."""
        name = _NAME + secrets.token_hex(16)
        if folder is None:
            try:
                self.descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
                os.fchmod(self.descriptor, 0o600)
                self.path, self._file = f"/proc/{os.getpid()}/fd/{self.descriptor}?{name}", ""
                return
            except (AttributeError, OSError):  # an old C library, or a sandbox
                folder = FOLDER
        self.path = self._file = f"{folder}/{name}"
        try:
            self.descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise PathUnavailable(f"{folder}: {error.strerror}") from None

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
        if found := _MEMFD.fullmatch(path):
            return _open_memfd(*found.groups())
        if _FILE.fullmatch(path):
            return os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise PathUnavailable(f"{path}: {error.strerror}") from None
    raise PathUnavailable(f"not the name of a ring or a window: {path}")


def _open_memfd(process: str, number: str, name: str) -> int:
    """Open another process's memfd. Its random name shows that the process is the one that sent it, and
    that opening it has no effect on anything else. Raises OSError, PathUnavailable.
    """
    link, target = f"/proc/{process}/fd/{number}", f"/memfd:{name} (deleted)"
    if os.readlink(link) == target:
        descriptor = os.open(link, os.O_RDWR | os.O_CLOEXEC)
        if os.readlink(f"/proc/self/fd/{descriptor}") == target:
            return descriptor
        os.close(descriptor)
    raise PathUnavailable(f"{link} is not the other side's memory")


def remove(path: str) -> None:
    """Remove a file's name, if it is a file and neither side has removed it yet."""
    if not _MEMFD.fullmatch(path):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
