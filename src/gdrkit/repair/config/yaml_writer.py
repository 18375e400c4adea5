"""Writes plain YAML that readers of YAML 1.1 and 1.2 parse alike.

PyYAML's emitter cannot write comments, and here each key can have its reason as one."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gdrkit.formats.regex import regex
from gdrkit.repair.config.output import OutputLine


class Literal(Struct, frozen=True):
    """A multi-line text, written as a block scalar."""

    text: str


class Field(Struct, frozen=True):
    """A key, its value, and why it is there."""

    name: str
    value: Value
    why: str = ""


class Items(Struct, frozen=True):
    """A sequence."""

    values: tuple[Value, ...]


Value = str | int | bool | Literal | tuple[Field, ...] | Items

_PLAIN = regex(r"[A-Za-z_/][A-Za-z0-9_./@%+-]*(?: [A-Za-z0-9_./@%+=-]+)*")
_RESERVED_WORDS = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null", "none", "nan"))
"""Plain words that are not strings in YAML 1.1: yaml.org/type, bool and null."""


def lines(fields: tuple[Field, ...]) -> tuple[OutputLine, ...]:
    """The lines of a document."""
    return tuple(_mapping(fields, ""))


def scalar(value: str | int | bool) -> str:
    """A scalar as YAML, quoted if a reader could take it for another type or value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if _PLAIN.fullmatch(value) and value.lower() not in _RESERVED_WORDS:
        return value
    return '"' + "".join(map(_escaped, value)) + '"'


def _escaped(letter: str) -> str:
    """A letter between double quotes: YAML 1.2, 5.7, escaped characters."""
    if letter in '"\\':
        return f"\\{letter}"
    return "\\n" if letter == "\n" else letter if letter.isprintable() else f"\\U{ord(letter):08x}"


def _mapping(fields: tuple[Field, ...], indent: str) -> Iterator[OutputLine]:
    for field in fields:
        key = f"{indent}{scalar(field.name)}:"
        yield from _valued(key, field.value, indent, field.why)


def _valued(key: str, value: Value, indent: str, why: str) -> Iterator[OutputLine]:
    if isinstance(value, Literal):
        yield OutputLine(f"{key} |", why)
        for line in value.text.rstrip("\n").split("\n"):
            yield OutputLine(f"{indent}  {line}" if line else "")
    elif isinstance(value, tuple):
        yield OutputLine(key, why)
        yield from _mapping(value, indent + "  ")
    elif isinstance(value, Items):
        yield OutputLine(key, why)
        for item in value.values:
            yield from _item(item, indent + "  ")
    else:
        yield OutputLine(f"{key} {scalar(value)}", why)


def _item(value: Value, indent: str) -> Iterator[OutputLine]:
    """The lines of an item; a mapping's first key is on the line of the dash."""
    if isinstance(value, tuple):
        for number, line in enumerate(_mapping(value, indent + "  ")):
            yield OutputLine(f"{indent}- {line.text[len(indent) + 2 :]}", line.why) if not number else line
    elif isinstance(value, Literal | Items):
        raise TypeError("a block within a sequence has no key to explain it")
    else:
        yield OutputLine(f"{indent}- {scalar(value)}")
