"""Passwords: from a terminal or a file descriptor, never from a command line; and nothing prints them."""

from __future__ import annotations

import os

from gdrkit.repair.apply.errors import ApplyError

_LONGEST_BYTES = 4096


class Secrets:
    """What a run may need to know and must not tell."""

    def __init__(self, key_password: bytes | None = None, enrolment_password: bytes | None = None) -> None:
        self.key_password = key_password
        self.enrolment_password = enrolment_password

    def __repr__(self) -> str:
        return "<secrets>"


def from_descriptor(fd: int) -> bytes:
    """The first line that an open file descriptor gives. Raises ApplyError if there is none."""
    try:
        with os.fdopen(fd, "rb", closefd=False) as file:
            line = file.readline(_LONGEST_BYTES)
    except OSError as error:
        raise ApplyError(f"file descriptor {fd}: {(error.strerror or '').lower()}") from None
    password = line.rstrip(b"\r\n")
    if not password:
        raise ApplyError(f"file descriptor {fd} gives no password")
    return password


def asked(prompt: str, *, twice: bool) -> bytes:
    """A password that somebody types. Raises ApplyError if the two differ, or nobody is there to type."""
    from getpass import getpass

    try:
        password = getpass(prompt)
        if twice and getpass("again: ") != password:
            raise ApplyError("the two passwords differ")
    except EOFError:
        raise ApplyError("there is nobody to ask for a password") from None
    return password.encode()
