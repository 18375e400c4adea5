"""Passwords from a descriptor and from a terminal."""

from __future__ import annotations

import os

import pytest

from gdrkit.repair.apply.errors import ApplyError
from gdrkit.repair.apply.passwords import prompt_password, read_password


def from_descriptor(content: bytes) -> bytes:
    read, write = os.pipe()
    os.write(write, content)
    os.close(write)
    try:
        return read_password(read)
    finally:
        os.close(read)


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"\nnot this\n"])
def test_the_first_line_is_the_password(end):
    assert from_descriptor(b" with spaces " + end) == b" with spaces "


@pytest.mark.parametrize("content", [b"", b"\n", b"\r\n", b"\nsecret\n"])
def test_an_empty_first_line_is_no_password(content):
    with pytest.raises(ApplyError, match=r"^file descriptor \d+: no password on its first line$"):
        from_descriptor(content)


def test_a_descriptor_that_is_not_open_is_named():
    read, write = os.pipe()
    os.close(read)
    os.close(write)
    with pytest.raises(ApplyError, match=f"^file descriptor {read}: bad file descriptor$"):
        read_password(read)


def typing(monkeypatch: pytest.MonkeyPatch, *entries: str) -> list[str]:
    """The prompts that are shown during the input of these entries and of its end."""
    shown: list[str] = []
    left = [*entries]

    def getpass(prompt: str) -> str:
        shown.append(prompt)
        if not left:
            raise EOFError
        return left.pop(0)

    monkeypatch.setattr("getpass.getpass", getpass)
    return shown


def test_a_new_password_is_typed_twice_and_an_old_one_once(monkeypatch):
    shown = typing(monkeypatch, "söcret", "söcret", "old", "not read")
    assert prompt_password("new: ", twice=True) == "söcret".encode()
    assert prompt_password("old: ", twice=False) == b"old"
    assert shown == ["new: ", "repeat it: ", "old: "]


def test_two_different_entries_are_an_error(monkeypatch):
    typing(monkeypatch, "secret", "secrte")
    with pytest.raises(ApplyError, match=r"^the two passwords differ$"):
        prompt_password("new: ", twice=True)


@pytest.mark.parametrize("entries", [(), ("secret",)])
def test_the_end_of_the_input_is_an_error_that_names_the_option(monkeypatch, entries):
    typing(monkeypatch, *entries)
    with pytest.raises(ApplyError) as caught:
        prompt_password("new: ", twice=True)
    assert str(caught.value) == "cannot ask for the password: end of input"
    assert caught.value.hint == "use --key-password-fd FD"
