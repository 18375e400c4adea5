"""Files that a user asked for, written whole or not at all. Runs on Python 3.8, alone."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from typing import IO

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
"""What a disk answers that takes nothing more, whatever is written."""


def temporary_folder() -> str:
    """The folder for temporary files. Raises OSError if none can be written to.

    tempfile says FileNotFoundError then, which means something else wherever a program is started."""
    try:
        return tempfile.gettempdir()
    except FileNotFoundError:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), "temporary files") from None


def temporary_file() -> IO[bytes]:
    """A file without a name, for as long as it is open. Raises OSError."""
    return tempfile.TemporaryFile(dir=temporary_folder())


@contextlib.contextmanager
def whole_file(path: str, mode: int = 0o644) -> Iterator[IO[bytes]]:
    """A stream to write to; when it is done it takes its place under that name, at once. Raises OSError.

    It is written to a temporary file in the same folder and renamed, so that a partial file is never
    visible, and root, writing to /tmp, never follows a link left by another user. Only a regular file is
    replaced: not a link, and no device.
    """
    folder = os.path.dirname(os.path.abspath(path))
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(os.lstat(path).st_mode):
            raise OSError(22, "it is not a regular file", path)
    descriptor, beside = tempfile.mkstemp(prefix=".gdr-", suffix=".partial", dir=folder)
    try:
        with os.fdopen(descriptor, "w+b") as stream:
            yield stream
            os.fchmod(stream.fileno(), mode)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise
