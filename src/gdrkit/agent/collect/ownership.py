"""What a user may have root read: no more than that user could read.

A local user chooses what lies in a home, and where its links lead: a `~/.nccl.conf` that is a link to
/etc/shadow must not put that file into a bundle. fs.protected_symlinks of the kernel (proc_sys_fs(5)) guards
only sticky folders that everybody may write to.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from typing import Optional, Tuple

_HOME = re.compile(r"(?:home/[^/]+|root)(?=/)")
_FOLDER_FLAGS = getattr(os, "O_PATH", 0) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LINK_IN_PROC = ("proc", "self")  # to a number, which the kernel chooses


class NotTheirs(PermissionError):
    """A user has chosen a file that this user may not have read."""

    def __init__(self, reason: str) -> None:
        super().__init__(errno.EACCES, reason)


def home_of(path: str) -> str:
    """The home that a path lies in, such as `home/alice`; empty if it lies in none."""
    match = _HOME.match(path)
    return match.group() if match else ""


def is_trusted(user: int) -> bool:
    """Whether links and folders of this user id are root's or our own."""
    return user in (0, os.geteuid())


def open_below(root: str, path: str, flags: int) -> Tuple[int, os.stat_result]:
    """A descriptor of what a path without links leads to, and the status of the folder that it is in.

    No part may have become a link in the meantime. Raises OSError, ENOTDIR or ELOOP for such a part."""
    *folders, name = path.split("/")
    folder = os.open(root, (_FOLDER_FLAGS & ~os.O_NOFOLLOW))
    try:
        for depth, part in enumerate(folders):
            if (*folders[:depth], part) == _LINK_IN_PROC:
                part = _number(part, folder)
            below = os.open(part, _FOLDER_FLAGS, dir_fd=folder)
            os.close(folder)
            folder = below
        return os.open(name or ".", flags, dir_fd=folder), os.fstat(folder)
    finally:
        os.close(folder)


def _number(name: str, folder: int) -> str:
    try:
        target = os.readlink(name, dir_fd=folder)
    except OSError:  # a folder, in the copy of a tree
        return name
    return target if target.isdigit() else name


def check(status: os.stat_result, folder: os.stat_result, owner: Optional[int]) -> None:
    """Raise NotTheirs for a file that the user who may write to its folder could not read.

    `owner`: who must own it; None if anybody may. Such a user can make a hard link to the file, or rename
    it."""
    if owner is not None and status.st_uid != owner:
        raise NotTheirs("in a home, but not a file of the home's owner")
    if status.st_mode & stat.S_IROTH:
        return
    if folder.st_mode & stat.S_IWOTH and status.st_nlink > 1:
        raise NotTheirs("a hard link in a folder that everybody may write to")
    if not is_trusted(folder.st_uid) and status.st_uid != folder.st_uid:
        raise NotTheirs("not readable by the owner of its folder")
