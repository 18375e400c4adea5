"""Files that a user names, read within a limit."""

from __future__ import annotations

import os
import sys

from gdrkit.cli.exit import CANNOT_CREATE, USAGE
from gdrkit.evidence.errors import TargetError

STDIN = "-"


class OutputRefused(Exception):
    """Why a file that the user asked for is not written, in one line; `hint` says what to do."""

    def __init__(self, message: str, hint: str = "", code: int = USAGE) -> None:
        super().__init__(message)
        self.hint, self.code = hint, code


def write_output(name: str, content: bytes, *, force: bool, inputs: tuple[str | None, ...] = ()) -> None:
    """Write a whole file; an existing one only with `force`, and never one of the inputs.

    Raises OutputRefused."""
    for source in inputs:
        if source and os.path.exists(source) and os.path.exists(name) and os.path.samefile(source, name):
            raise OutputRefused(f"{name} is the input", "name another output file")
    check_output(name, force=force)
    from gdrkit.agent.output_file import whole_file

    try:
        with whole_file(name) as file:
            file.write(content)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        words = f"cannot write {name}: {(reason or str(error)).lower()}"
        raise OutputRefused(words, code=CANNOT_CREATE) from None


def check_output(name: str, *, force: bool) -> None:
    """Raises OutputRefused if the file exists, unless `force`, and if it can have no place there; call
    before work that takes long."""
    why = ""
    if os.path.lexists(name) and (os.path.islink(name) or not os.path.isfile(name)):
        why = "it is not a regular file"
    elif not os.path.isdir(os.path.dirname(os.path.abspath(name))):
        why = "no such folder"
    if why:
        raise OutputRefused(f"cannot write {name}: {why}", code=CANNOT_CREATE)
    if os.path.lexists(name) and not force:
        raise OutputRefused(f"{name} exists", "name another output file, or replace it with --force")


def files_of(name: str, endings: tuple[str, ...]) -> tuple[str, ...]:
    """The files that a name means: of a folder those with these endings, by name; else the name itself.

    Raises TargetError for a folder without any."""
    if name == STDIN or not os.path.isdir(name):
        return (name,)
    try:
        found = sorted(one for one in os.listdir(name) if one.endswith(endings))
    except OSError as error:
        raise TargetError(f"{name}: {(error.strerror or str(error)).lower()}") from None
    if not found:
        raise TargetError(f"{name}: no file that ends in {' or '.join(endings)}")
    return tuple(os.path.join(name, one) for one in found)


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
        raise TargetError(f"{shown(name)}: {(error.strerror or str(error)).lower()}") from None
    if len(content) > limit_bytes:
        raise TargetError(
            f"{shown(name)}: larger than {limit_bytes >> 20} MiB", "cut it down to what matters"
        )
    return content


def shown(name: str) -> str:
    return "standard input" if name == STDIN else name
