"""Reads, atomically replaces and restores files below a root: of the running machine, or of a tree like it.

Paths are absolute, as on the machine itself. Symbolic links in a path's folders are followed, inside the
root. The last part is not, so a link itself can be replaced and restored.
"""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import os
import posixpath
import stat
from collections.abc import Callable, Iterator
from io import BufferedReader

from gdrkit.repair.apply import entries
from gdrkit.repair.apply.entries import FileState, link_target, open_regular, unicode
from gdrkit.repair.apply.errors import ApplyError

_MOST_LINKS = 40  # path_resolution(7): ELOOP


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
        """The path on the running system: folders resolved inside the root, the last part unresolved.

        To be shown, or for a program: what it leads to may change. No operation below uses it."""
        folder, name = posixpath.split(path.rstrip("/"))
        here: list[str] = []

        def link(part: str) -> str | None:
            return link_target(None, posixpath.join(self.path, *here, part))

        for part in self._parts(folder, link):
            if part in ("/", ".."):
                del here[0 if part == "/" else -1 :]
            else:
                here.append(part)
        return posixpath.join(self.path, *here, name)

    @contextlib.contextmanager
    def _entry(self, path: str) -> Iterator[tuple[int, str]]:
        """A descriptor of the folder that a path is in, and the last part. Raises FileNotFoundError and
        NotADirectoryError."""
        folder, name = posixpath.split(path.rstrip("/"))
        try:
            with self.folder(folder) as fd:
                yield fd, name
        except OSError as error:
            error.filename = posixpath.join(self.path, path.lstrip("/"))  # not the part alone
            raise

    @contextlib.contextmanager
    def folder(self, path: str) -> Iterator[int]:
        """A descriptor of a folder, reached part by part from the root.

        No part is a link when it is opened, so whoever swaps folders for links leads nothing outside."""
        self._check_above()
        fds = [os.open(self.path, entries.FOLDER)]
        try:
            for part in self._parts(path, lambda part: link_target(fds[-1], part)):
                if part in ("/", ".."):
                    for fd in fds[1 if part == "/" else max(1, len(fds) - 1) :]:
                        os.close(fd)
                        fds.remove(fd)
                else:
                    fds.append(os.open(part, entries.FOLDER, dir_fd=fds[-1]))
                    self._check(os.fstat(fds[-1]), f"/proc/self/fd/{fds[-1]}")
            yield fds[-1]
        finally:
            for fd in fds:
                os.close(fd)

    def _parts(self, folder: str, link: Callable[[str], str | None]) -> Iterator[str]:
        """The parts of a path, with those of the links on the way; `/` for the root. `link` is asked about
        each part before it is given."""
        parts = folder.split("/")[::-1]
        links = 0
        while parts:
            part = parts.pop()
            if part in ("", "."):
                continue
            target = None if part == ".." else link(part)
            if target is None:
                yield part
                continue
            links += 1
            if links > _MOST_LINKS:
                raise ApplyError(f"{folder}: too many symbolic links")
            if target.startswith("/"):
                yield "/"
            parts += target.split("/")[::-1]

    def _check_above(self) -> None:
        """Check the root itself, and the folders above it, once."""
        if not self._is_checked:
            parts = self.path.split("/")
            for number in range(1, len(parts) + 1):
                real = "/".join(parts[:number]) or "/"
                self._check(os.lstat(real), real)
            self._is_checked = True

    def _check(self, found: os.stat_result, real: str) -> None:
        """Raise ApplyError for a folder that a user could replace by a link while root works in it."""
        if self.is_machine or os.geteuid() != 0:
            return
        shared = found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX
        if stat.S_ISDIR(found.st_mode) and (found.st_uid != 0 or shared):
            real = os.path.realpath(real)
            raise ApplyError(
                f"{real} belongs to user {found.st_uid}, or others can write to it: not safe for root",
                "run as its owner, or copy the tree to a folder that only root can write to",
            )

    # -- reading ----------------------------------------------------------------------------------------

    def state(self, path: str) -> FileState:
        """The present state of a path. Raises ApplyError for folders and devices, which are not replaced."""
        try:
            with self._entry(unicode(path)) as (folder, name):
                return entries.state_of(path, folder, name)
        except (FileNotFoundError, NotADirectoryError):
            return FileState(path=path)

    def digest(self, path: str) -> str:
        """SHA-256 of the file or link at a path; "" if there is none."""
        return self.state(path).digest

    @contextlib.contextmanager
    def opened(self, path: str) -> Iterator[BufferedReader]:
        """A file to read. Raises ApplyError for a folder, device or pipe, OSError for a link."""
        with self._entry(path) as (folder, name), open_regular(name, folder, path) as file:
            yield file

    def read(self, path: str) -> bytes:
        with self.opened(path) as file:
            return file.read()

    def resolved(self, path: str) -> str:
        """A path without a link in its last part: links followed inside the root."""
        for _ in range(_MOST_LINKS):
            try:
                with self._entry(path) as (folder, name):
                    target = link_target(folder, name)
            except (FileNotFoundError, NotADirectoryError):
                return path
            if target is None:
                return path
            path = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        raise ApplyError(f"{path}: too many symbolic links")

    def content(self, path: str) -> bytes:
        """The content of a path, links followed inside the root; b"" if there is no file."""
        path = self.resolved(path)
        return self.read(path) if self.state(path).kind == "file" else b""

    def matching(self, pattern: str) -> tuple[str, ...]:
        """Files whose path matches a shell pattern in its last part, sorted."""
        folder, wanted = posixpath.split(pattern)
        try:
            with self.folder(folder) as fd:
                fitting = fnmatch.filter(entries.listed(fd), wanted)
                names = [name for name in fitting if entries.is_kept(fd, name)]
        except (FileNotFoundError, NotADirectoryError):
            return ()
        hidden = wanted.startswith(".")
        return tuple(posixpath.join(folder, name) for name in names if hidden or name[0] != ".")

    def missing_folders(self, path: str) -> tuple[str, ...]:
        """Folders above a path that do not exist, the outermost first."""
        missing: list[str] = []
        folder = posixpath.dirname(path)
        while folder not in ("", "/") and not self._is_folder(folder):
            missing.insert(0, folder)
            folder = posixpath.dirname(folder)
        return tuple(missing)

    def _is_folder(self, path: str) -> bool:
        try:
            with self.folder(path):
                return True
        except (FileNotFoundError, NotADirectoryError):
            return False

    # -- writing ----------------------------------------------------------------------------------------

    def make_folder(self, path: str, mode: int = 0o755) -> None:
        if not self._is_folder(path):
            with self._entry(self.resolved(path)) as (folder, name):
                os.mkdir(name, mode, dir_fd=folder)
                entries.sync(folder)

    def remove_folder(self, path: str) -> None:
        """Remove a folder if it is empty."""
        with contextlib.suppress(OSError), self._entry(self.resolved(path)) as (folder, name):
            os.rmdir(name, dir_fd=folder)

    def write(
        self, path: str, content: bytes, like: FileState, token: str, was: FileState | None = None
    ) -> None:
        """Replace a file atomically, with the owner, mode and attributes of `like`; on disk on return.

        Raises ApplyError if it is neither what it was, where that is given, nor replaced already."""
        with self._entry(path) as (folder, name):
            if was is not None:
                entries.check_unchanged(folder, name, was, hashlib.sha256(content).hexdigest())
            entries.write(folder, name, content, like, token)

    def restore(self, state: FileState, content: bytes, token: str) -> None:
        """Restore a path to a state. A path that is already in that state is not touched."""
        try:
            with self._entry(state.path) as (folder, name):
                entries.restore(folder, name, state, content, token)
        except (FileNotFoundError, NotADirectoryError):
            if state.kind != "absent":
                raise

    def remove(self, path: str, was: FileState | None = None) -> None:
        """Remove a file. Raises ApplyError if it is not what it was, where that is given."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), self._entry(path) as (folder, name):
            if was is not None:
                entries.check_unchanged(folder, name, was, "")
            entries.unlink(folder, name)
            entries.sync(folder)
