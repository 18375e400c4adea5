"""kmod's index files, as depmod writes them: kmod tools/depmod.c, index_write()."""

from __future__ import annotations

import struct
from collections.abc import Mapping

_MAGIC, _VERSION = 0xB007F457, 0x00020001
_PREFIX, _VALUES, _CHILDREN = 0x80000000, 0x40000000, 0x20000000


def index(entries: Mapping[str, str]) -> bytes:
    """An index of these keys, each with one value; its priority is its place."""
    body = bytearray(struct.pack(">III", _MAGIC, _VERSION, 0))
    keys = {key.encode(): (place, value.encode()) for place, (key, value) in enumerate(entries.items())}
    body[8:12] = struct.pack(">I", _node(body, keys, 0))
    return bytes(body)


def _node(body: bytearray, keys: Mapping[bytes, tuple[int, bytes]], skip: int) -> int:
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
    own = [value for key, value in keys.items() if len(key) == depth]
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


def with_indexes(files: Mapping[str, bytes | str]) -> dict[str, bytes | str]:
    """The files, and next to each modules.dep and modules.builtin its index, unless there is one.

    Other indexes are only there: their text decides."""
    found: dict[str, bytes | str] = {}
    for path, content in files.items():
        text = content if isinstance(content, str) else content.decode("utf-8", "replace")
        if path.endswith("/modules.dep"):
            found[f"{path}.bin"] = of_dependencies(text)
        elif path.endswith("/modules.builtin"):
            found[f"{path}.bin"] = of_builtin(text)
        elif path.endswith(("/modules.alias", "/modules.symbols")):
            found[f"{path}.bin"] = index({})
    return {**found, **files}
