"""JSON that anybody may have written, and JSON with names that anybody chose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

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


def encode(document: object, enc_hook: Callable[[Any], Any] | None = None) -> bytes:
    """A document as JSON. A byte of a file's name that is not UTF-8 becomes a question mark: Python has half
    of a surrogate pair for it (PEP 383), which readers of JSON may refuse (RFC 8259, 8.2)."""
    try:
        return msgspec.json.encode(document, enc_hook=enc_hook)
    except UnicodeEncodeError:
        import json

        plain = msgspec.to_builtins(document, enc_hook=enc_hook)
        return json.dumps(plain, ensure_ascii=False).encode("utf-8", "replace")
