"""JSON that anybody may have written."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from gdrkit.formats.errors import FormatError

T = TypeVar("T")


def decode(data: bytes | memoryview | str, wanted: type[T]) -> T:
    """A value of the type that is wanted. Raises FormatError for other JSON, for text that is not UTF-8 or
    not JSON, and for brackets that are nested too deeply."""
    try:
        return msgspec.json.decode(data, type=wanted)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise FormatError(str(error)) from None
