"""Files that a user asked for, written whole or not at all. Runs on Python 3.8, alone."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from typing import IO


@contextlib.contextmanager
def whole_file(path: str, mode: int = 0o644) -> Iterator[IO[bytes]]:
    """A stream to write to; when it is done it takes its place under that name, at once. Raises OSError.

    It is written beside its place and renamed, so that no half file is ever seen, and that root, who writes
    into /tmp, follows no link that another user left there. Only a regular file is replaced: not a link, and
    no device.
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
