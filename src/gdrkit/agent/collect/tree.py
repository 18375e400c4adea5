"""Read files below a root: links stay inside it, sizes and times are limited.

The root is `/` or any folder that looks like it, such as the host's file system in a privileged container.
Paths are relative to it, without a leading slash.
"""

from __future__ import annotations

import errno
import os
import posixpath
import stat
from itertools import islice
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Set, Tuple

from ..running.files import hides_processes
from .ownership import NotTheirs, check, home_of, is_trusted, open_below
from .timeouts import TimeLimitedCalls

LINKS_LIMIT = 40
"""Most links followed for one path, as in the kernel: Linux include/linux/namei.h, MAXSYMLINKS."""

MOUNT_POINTS = (
    "sys/firmware/efi/efivars",
    "sys/firmware",  # container runtimes cover it with an empty tmpfs: moby oci/defaults.go, MaskedPaths
    "sys/kernel/security",
    "sys/kernel/debug",
    "proc",
    "sys",
)
"""Mount points. If one is empty, nothing is mounted there, and nothing below it counts as absent."""

NAMES_LIMIT = 20000
"""Most names recorded of one folder. /usr/lib of a desktop has 3,000; no system folder has more than
this."""

_HOMES = ("home/", "root/", "var/home/")
_SYSTEM = ("boot/", "etc/", "lib/", "usr/", "var/")
"""Where reading does not hang. Elsewhere it may, in a driver, in a network file system or in one that a user
provides (fuse(8)), so that a second thread is needed for the timeout."""

_KERNELS = ("proc/", "sys/", "dev/")
"""Where only the kernel makes files, if the root is this machine's."""

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW


class FileContent(NamedTuple):
    """The content of a file."""

    data: bytes
    whole: bool  # False if it is longer than the limit
    modified_s: int  # seconds since 1970
    size: int  # as stat(2) gives it; 4096 or 0 for files of proc and sysfs


class MaskedFile(PermissionError):
    """A file hidden from a container: a device is mounted over it (moby oci/defaults.go, MaskedPaths)."""


class Tree:
    """A file system below a root, and the links that were followed."""

    def __init__(self, root: str = "/", limit_s: float = 5.0) -> None:
        self.root = root
        self.links: Dict[str, str] = {}
        """Every link followed so far, by path: its target, relative and inside the root."""
        self._timed = TimeLimitedCalls(limit_s)
        self._seen: Dict[str, Optional[str]] = {}  # by path: the target of a link, None if it is not a link
        self._users: Dict[str, int] = {}  # by path of a link of an ordinary user: that user
        self._folders: Dict[str, str] = {"": ""}  # by path: the folder with its links followed
        self._names: Dict[str, List[str]] = {}
        self._holds: Dict[str, bool] = {}

    def at(self, path: str) -> str:
        """The path on this machine of a resolved path in the tree."""
        return os.path.join(self.root, path)

    # -- links -------------------------------------------------------------------------------------

    def resolve(self, path: str, last: bool = True) -> str:
        """The path with its links followed, as far as it exists; the last part only if `last`.

        Raises OSError (ELOOP) for a loop of links, NotTheirs for a link of a user that leads out of the home
        or to what is not that user's."""
        real = self._resolve(path, last)
        home = self._resolve(home_of(path), True)
        if home and not f"{real}/".startswith(home + "/"):
            self._forget(path)
            raise NotTheirs("a link out of the home")
        return real

    def owner(self, path: str) -> Optional[int]:
        """The user id that must own a file, by the path that was asked for: the home's; None for no
        home."""
        home = home_of(path)
        return self.status(self._resolve(home, True)).st_uid if home else None

    def _resolve(self, path: str, last: bool) -> str:
        folder, _, name = path.rpartition("/")
        if name in ("", ".", ".."):
            return self._follow(path, last)
        if folder not in self._folders:
            self._folders[folder] = self._follow(folder, True)
        here = posixpath.join(self._folders[folder], name)
        return here if not last or self._target(here) is None else self._follow(here, True)

    def _follow(self, path: str, last: bool) -> str:
        done: List[str] = []
        rest = path.split("/")[::-1]
        links = 0
        users: Set[int] = set()
        while rest:
            part = rest.pop()
            if part in ("", "."):
                continue
            if part == "..":
                del done[-1:]
                continue
            here = "/".join([*done, part])
            target = self._target(here) if rest or last else None
            if target is None:
                done.append(part)
                continue
            users.update({self._users[here]} if here in self._users else ())
            links += 1
            if links > LINKS_LIMIT:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            if target.startswith("/"):
                done = []
            rest.extend(target.split("/")[::-1])
        real = "/".join(done)
        if users and self._exists(real) and users != {self.status(real).st_uid}:
            self._forget(path)
            raise NotTheirs("a link of a user to what is not that user's")
        return real

    def _forget(self, path: str) -> None:
        """Leave the links of a refused path out of the bundle: readers look for the reason at this path."""
        for link in [link for link in self.links if f"{path}/".startswith(link + "/")]:
            if home_of(link) or link in self._users:
                del self.links[link]

    def _target(self, path: str) -> Optional[str]:
        """The target of a link, as written; None if the path is not a link or does not exist."""
        if path not in self._seen:
            if path == "proc/self":  # a process id, which changes
                self._seen[path] = None
                return None
            try:
                call = self._timed.call if _may_hang(path) and not path.startswith(_KERNELS) else _directly
                target, user = call(_link, self.at(path))
            except OSError:  # EINVAL: not a link. ENOENT, EACCES: opening the path reports them
                self._seen[path] = None
            else:
                self._seen[path] = target
                self.links[path] = _inside(path, target)
                if not is_trusted(user):
                    self._users[path] = user
        return self._seen[path]

    def is_link(self, path: str) -> bool:
        """Whether the last part of a path is a link; adds it to `links`."""
        folder, _, name = path.rpartition("/")
        return self._target(posixpath.join(self.resolve(folder), name)) is not None

    # -- files and folders -------------------------------------------------------------------------

    def read(self, path: str, limit_bytes: int, owner: Optional[int] = None) -> FileContent:
        """The beginning of a file, by resolved path; only a file of this user id if `owner` is given.

        Raises OSError, TimeoutError and NotTheirs among them."""
        if _may_hang(path):
            content: FileContent = self._timed.call(self._read, path, limit_bytes, owner)
            return content
        return self._read(path, limit_bytes, owner)

    def open(self, path: str, owner: Optional[int] = None) -> int:
        """A descriptor of a regular file, by resolved path. Raises OSError."""
        if self.root == "/" and path.startswith(_KERNELS):
            fd, folder = os.open(self.at(path), _FLAGS), None
        else:
            fd, folder = open_below(self.root, path, _FLAGS)
        try:
            status = os.fstat(fd)
            if stat.S_ISDIR(status.st_mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            if stat.S_ISCHR(status.st_mode) and path.startswith(("proc/", "sys/")):
                raise MaskedFile(errno.EACCES, "hidden from this container")
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EINVAL, "not a regular file")
            if folder is not None:
                check(status, folder, owner)
        except OSError:
            os.close(fd)
            raise
        return fd

    def _read(self, path: str, limit_bytes: int, owner: Optional[int]) -> FileContent:
        fd = self.open(path, owner)
        try:
            status = os.fstat(fd)
            chunks = []
            left = limit_bytes + 1
            while left > 0:
                chunk = os.read(fd, min(left, 1 << 20))
                if not chunk:
                    break
                chunks.append(chunk)
                left -= len(chunk)
        finally:
            os.close(fd)
        data = b"".join(chunks)
        return FileContent(
            data[:limit_bytes], len(data) <= limit_bytes, int(status.st_mtime), status.st_size
        )

    def peek(self, path: str, limit_bytes: int = 65536) -> bytes:
        """The beginning of a file, for internal use; empty if it cannot be read."""
        try:
            return self.read(self.resolve(path), limit_bytes).data
        except (OSError, ValueError):
            return b""

    def names(self, path: str) -> List[str]:
        """Sorted printable names in a folder, by resolved path; of more than NAMES_LIMIT, one more than
        that. Raises OSError."""
        if path not in self._names:
            found = self._timed.call(self._listed, path)
            self._names[path] = sorted(name for name in found if name.isprintable())
        return self._names[path]

    def _listed(self, path: str) -> List[str]:
        fd, _ = open_below(self.root, path, _FLAGS | os.O_DIRECTORY)
        try:
            with os.scandir(fd) as entries:
                return [entry.name for entry in islice(entries, NAMES_LIMIT + 1)]
        finally:
            os.close(fd)

    def status(self, path: str) -> os.stat_result:
        """lstat(2) of a resolved path. Raises OSError."""
        found: os.stat_result = self._timed.call(os.lstat, self.at(path))
        return found

    def _exists(self, path: str) -> bool:
        found: bool = self._timed.call(os.path.lexists, self.at(path))
        return found

    def is_folder(self, path: str) -> bool:
        """Whether a resolved path is a folder; False if that cannot be determined."""
        try:
            return stat.S_ISDIR(self.status(path).st_mode)
        except OSError:
            return False

    def unmounted(self, path: str) -> bool:
        """Whether this path is, or is below, a mount point where nothing is mounted."""
        for point in MOUNT_POINTS:
            if path == point or path.startswith(point + "/"):
                if point not in self._holds:
                    try:
                        self._holds[point] = bool(self._timed.call(os.listdir, self.at(point)))
                    except OSError:
                        self._holds[point] = True
                if not self._holds[point]:
                    return True
        return False

    def hidden(self, path: str) -> bool:
        """Whether this path is of the first process, which proc does not show to this user."""
        try:
            return path.startswith("proc/1/") and hides_processes(self.names("proc"))
        except OSError:  # a tree without proc hides nothing
            return False

    def close(self) -> None:
        self._timed.close()


def _may_hang(path: str) -> bool:
    return path.startswith(_HOMES) or not path.startswith(_SYSTEM)


def _directly(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


def _link(place: str) -> Tuple[str, int]:
    """Where a link leads, and whose it is."""
    return os.readlink(place), os.lstat(place).st_uid


def _inside(path: str, target: str) -> str:
    """A link's target for the bundle: relative, and never above the root.

    Some readers refuse archives with absolute links or links that lead out (PEP 706)."""
    folder = posixpath.dirname(path)
    depth: List[str] = [] if target.startswith("/") else [part for part in folder.split("/") if part]
    climbs = False
    for part in target.split("/"):
        if part == "..":
            climbs = climbs or not depth
            del depth[-1:]
        elif part not in ("", "."):
            depth.append(part)
    if target.startswith("/") or climbs:
        return posixpath.relpath("/" + "/".join(depth), "/" + folder)
    return target


def outcome(error: OSError) -> Tuple[str, str]:
    """Status and reason in the manifest for a file that could not be read."""
    reason = error.strerror or str(error)
    if isinstance(error, TimeoutError):
        return "timed-out", str(error)
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ESRCH, errno.ENAMETOOLONG):
        return "absent", ""
    if error.errno in (errno.EACCES, errno.EPERM):
        return "denied", reason
    return "unreadable", reason  # for example EINVAL for the speed of a link that is down
