"""Words of commands that gdr suggests. Names in evidence may be chosen by a stranger."""

from __future__ import annotations


def quoted(word: str) -> str:
    """The text as one word of a shell that no program takes for an option.

    Only a whole word: a name beside text of our own is quoted with it, `quoted(f"/{path}")`."""
    from shlex import quote

    plain = " ".join(word.split()) if not word.isprintable() else word  # a line break ends a pasted command
    return quote(f"./{plain}" if plain.startswith("-") else plain)


def in_prose(text: str) -> str:
    """A sentence about evidence beside a command: as it is, unless a shell that it is pasted into would run
    a part of it."""
    return text if text.isprintable() and not set(text) & set("$`;|&<>") else quoted(text)
