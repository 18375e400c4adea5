"""The contents of a YAML document, with the line of every key; duplicate keys are kept.

Values cannot form a cycle, for which Python would look in all of them again and again without gc=False.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct


class Scalar(Struct, frozen=True, gc=False):
    """A leaf, as written and without quotes; `quoted` distinguishes the string "true" from the boolean
    true. The first line of a `literal` is the one after its own."""

    text: str
    line: int
    quoted: bool = False
    literal: bool = False


class MappingEntry(Struct, frozen=True, gc=False):
    """One key of a mapping. A duplicate key is an entry of its own."""

    key: str
    line: int
    value: Value


class YamlMapping(Struct, frozen=True, gc=False):
    entries: tuple[MappingEntry, ...]
    line: int

    def entry(self, key: str) -> MappingEntry | None:
        """The last entry with this key, which readers that accept duplicates use (PyYAML,
        sigs.k8s.io/yaml)."""
        return next((entry for entry in reversed(self.entries) if entry.key == key), None)


class YamlSequence(Struct, frozen=True, gc=False):
    items: tuple[Value, ...]
    line: int


Value = Scalar | YamlMapping | YamlSequence


class DuplicateKey(Struct, frozen=True):
    """A key that occurs more than once in one mapping; the last of its lines counts."""

    path: tuple[str, ...]
    lines: tuple[int, ...]


def at(value: Value | None, *path: str) -> Value | None:
    """The value at a path of keys, for duplicate keys the last one; None if there is none."""
    for key in path:
        entry = value.entry(key) if isinstance(value, YamlMapping) else None
        if entry is None:
            return None
        value = entry.value
    return value


def text_at(value: Value | None, *path: str) -> str:
    """The scalar at a path; "" if there is none."""
    found = at(value, *path)
    return found.text if isinstance(found, Scalar) else ""


def items_at(value: Value | None, *path: str) -> tuple[Value, ...]:
    """The items of the sequence at a path; () if there is none."""
    found = at(value, *path)
    return found.items if isinstance(found, YamlSequence) else ()


def scalars(value: Value | None) -> Iterator[Scalar]:
    """Every scalar of a value, in order; keys are none."""
    if isinstance(value, Scalar):
        yield value
        return
    entries = value.entries if isinstance(value, YamlMapping) else ()
    items = value.items if isinstance(value, YamlSequence) else (entry.value for entry in entries)
    for item in items:
        if isinstance(item, Scalar):  # a generator for each of a million takes a second
            yield item
        else:
            yield from scalars(item)


def duplicates(value: Value | None, path: tuple[str, ...] = ()) -> Iterator[DuplicateKey]:
    """Every key that occurs more than once in one mapping, at any depth, in order of appearance."""
    if isinstance(value, YamlSequence):
        for position, item in enumerate(value.items):
            if not isinstance(item, Scalar):
                yield from duplicates(item, (*path, str(position)))
    if not isinstance(value, YamlMapping):
        return
    lines: dict[str, list[int]] = {}
    for entry in value.entries:
        lines.setdefault(entry.key, []).append(entry.line)
    for key, found in lines.items():
        if len(found) > 1:
            yield DuplicateKey((*path, key), tuple(found))
    for entry in value.entries:
        if not isinstance(entry.value, Scalar):
            yield from duplicates(entry.value, (*path, entry.key))
