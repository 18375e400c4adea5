"""Files that a user names, read within a limit."""

from __future__ import annotations

import sys

from gdrkit.evidence.errors import TargetError

STDIN = "-"


def read_input(name: str, limit_bytes: int, hint: str = "") -> bytes:
    """The bytes of a file, or of standard input for "-".

    Raises TargetError for what cannot be read, is larger than the limit, or is a terminal or a closed
    stream; `hint` says what to give instead.
    """
    try:
        if name != STDIN:
            with open(name, "rb") as file:
                content = file.read(limit_bytes + 1)
        elif sys.stdin is None or sys.stdin.isatty():
            raise TargetError(
                f"no text: standard input is {'closed' if sys.stdin is None else 'a terminal'}", hint
            )
        else:
            content = sys.stdin.buffer.read(limit_bytes + 1)
    except OSError as error:
        raise TargetError(f"{shown(name)}: {(error.strerror or str(error)).lower()}", hint) from None
    if len(content) > limit_bytes:
        raise TargetError(
            f"{shown(name)}: larger than {limit_bytes >> 20} MiB", "cut it down to what matters"
        )
    return content


def shown(name: str) -> str:
    return "standard input" if name == STDIN else name
