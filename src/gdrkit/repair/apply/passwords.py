"""Passwords, read from a terminal or a file descriptor, never from the command line, and never printed."""

from __future__ import annotations

import os

from gdrkit.repair.apply.errors import ApplyError

_LONGEST_BYTES = 4096


class Passwords:
    """The passwords of a run. `repr` does not show them."""

    def __init__(self, key_password: bytes | None = None, enrolment_password: bytes | None = None) -> None:
        self.key_password = key_password
        self.enrolment_password = enrolment_password

    def __repr__(self) -> str:
        return "<passwords>"


def read_password(fd: int) -> bytes:
    """A password from the first line of an open file descriptor. Raises ApplyError if there is none."""
    try:
        with os.fdopen(fd, "rb", closefd=False) as file:
            line = file.readline(_LONGEST_BYTES)
    except OSError as error:
        raise ApplyError(f"file descriptor {fd}: {(error.strerror or '').lower()}") from None
    password = line.rstrip(b"\r\n")
    if not password:
        raise ApplyError(f"file descriptor {fd}: no password on its first line")
    return password


def prompt_password(prompt: str, *, twice: bool) -> bytes:
    """A password typed at the terminal. Raises ApplyError if the two entries differ, or without input."""
    from getpass import getpass

    try:
        password = getpass(prompt)
        if twice and getpass("repeat it: ") != password:
            raise ApplyError("the two passwords differ")
    except EOFError:
        raise ApplyError("cannot ask for the password: end of input", "use --key-password-fd FD") from None
    return password.encode()
