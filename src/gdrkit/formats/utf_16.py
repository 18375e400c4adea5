"""Text in UTF-16 with a byte order mark, as PowerShell writes it, in UTF-8."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator

MARKS = (b"\xff\xfe", b"\xfe\xff")


def in_utf_8(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """A text whose first piece begins with a mark; bytes that are not a character become U+FFFD."""
    decoder = codecs.getincrementaldecoder("utf-16")("replace")
    for piece in pieces:
        if text := decoder.decode(piece):
            yield text.encode()
