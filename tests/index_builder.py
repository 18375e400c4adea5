"""kmod's index files, as depmod writes them: kmod tools/depmod.c, index_write()."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

_MAGIC, _VERSION = 0xB007F457, 0x00020001
_PREFIX, _VALUES, _CHILDREN = 0x80000000, 0x40000000, 0x20000000


_Keys = Mapping[bytes, list[tuple[int, bytes]]]


def index(entries: Mapping[str, str] | Iterable[tuple[str, str]]) -> bytes:
    """An index of these keys and values; the priority of a value is its place."""
    body = bytearray(struct.pack(">III", _MAGIC, _VERSION, 0))
    keys: dict[bytes, list[tuple[int, bytes]]] = {}
    rows = entries.items() if isinstance(entries, Mapping) else entries
    for place, (key, value) in enumerate(rows):
        keys.setdefault(key.encode(), []).append((place, value.encode()))
    body[8:12] = struct.pack(">I", _node(body, keys, 0))
    return bytes(body)


def _node(body: bytearray, keys: _Keys, skip: int) -> int:
    """Write a node with all below it, those first; returns its offset with its flags."""
    prefix = _common([key[skip:] for key in keys]) if skip and keys else b""
    depth = skip + len(prefix)
    letters = sorted({key[depth] for key in keys if len(key) > depth})
    below = {
        letter: _node(
            body, {k: v for k, v in keys.items() if k[depth : depth + 1] == bytes([letter])}, depth + 1
        )
        for letter in letters
    }
    own = [value for key, values in keys.items() if len(key) == depth for value in values]
    flags = (_PREFIX if prefix else 0) | (_CHILDREN if below or not skip else 0) | (_VALUES if own else 0)
    offset = len(body) | flags
    body += prefix + b"\0" if prefix else b""
    if flags & _CHILDREN:
        first, last = (letters[0], letters[-1]) if letters else (128, 0)
        body += bytes([first, last])
        body += b"".join(struct.pack(">I", below.get(letter, 0)) for letter in range(first, last + 1))
    if own:
        body += struct.pack(">I", len(own))
        body += b"".join(struct.pack(">I", place) + value + b"\0" for place, value in own)
    return offset


def _common(keys: list[bytes]) -> bytes:
    shortest, longest = min(keys), max(keys)
    same = 0
    while same < len(shortest) and shortest[same] == longest[same]:
        same += 1
    return shortest[:same]


def of_dependencies(text: str) -> bytes:
    """modules.dep.bin for a modules.dep."""
    lines = [line for line in text.split("\n") if ".ko" in line.partition(":")[0]]
    names = {
        line.partition(":")[0].rpartition("/")[2].partition(".ko")[0].replace("-", "_"): line
        for line in reversed(lines)
    }
    return index({name: names[name] for name in reversed(names)})


def of_builtin(text: str) -> bytes:
    """modules.builtin.bin for a modules.builtin."""
    paths = [line for line in text.split("\n") if ".ko" in line]
    return index({path.rpartition("/")[2].partition(".ko")[0].replace("-", "_"): "" for path in paths})


def of_aliases(text: str) -> bytes:
    """modules.alias.bin for a modules.alias, or modules.symbols.bin for a modules.symbols."""
    lines = (line.split() for line in text.split("\n"))
    return index([(words[1], words[2]) for words in lines if len(words) == 3 and words[0] == "alias"])


def with_indexes(files: Mapping[str, bytes | str]) -> dict[str, bytes | str]:
    """The files, and next to each modules.dep and modules.builtin its index, unless there is one.

    So have modules.alias and modules.symbols."""
    found: dict[str, bytes | str] = {}
    for path, content in files.items():
        text = content if isinstance(content, str) else content.decode("utf-8", "replace")
        if path.endswith("/modules.dep"):
            found[f"{path}.bin"] = of_dependencies(text)
        elif path.endswith("/modules.builtin"):
            found[f"{path}.bin"] = of_builtin(text)
        elif path.endswith(("/modules.alias", "/modules.symbols")):
            found[f"{path}.bin"] = of_aliases(text)
    return {**found, **files}
