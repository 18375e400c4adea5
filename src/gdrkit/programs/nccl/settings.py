"""What values of NCCL's settings mean: levels, which are its path types, and lists of devices."""

from __future__ import annotations

from gdrkit.formats.whole_number import integer, whole_number
from gdrkit.programs.nccl.releases import NEWEST, Release, every_release, release

LEVELS = ("LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS")
"""NCCL's path types, nearest first, as a setting spells them: src/graph/paths.cc, topoPathTypeStr."""

LEVEL_NUMBERS = ("LOC", "PIX", "PXB", "PHB", "SYS")
"""Levels by number: src/graph/paths.cc, levelsOldToNew. Larger numbers are clamped, so 5 is SYS too."""


def gdr_level(value: str, version: str = "") -> str | None:
    """The level of a value of NCCL_NET_GDR_LEVEL, for a version or the newest NCCL."""
    return level(value, release(version or NEWEST))


def level(value: str, rules: Release) -> str | None:
    """The level of a value, for a release; None if it ignores the value and keeps its default.

    Words must match exactly; a value that starts with a digit is a number, read as strtol
    with base 0 does: 0x2 is PXB, 010 is 8 and so SYS.
    Source: src/graph/paths.cc, ncclGetLevel(), since 2.6.4.
    """
    if value[:1].isascii() and value[:1].isdigit():
        return LEVEL_NUMBERS[min(integer(value) or 0, 4)]
    return value if value in levels(rules) else None


def levels(rules: Release) -> tuple[str, ...]:
    """The words that a release accepts as a level: its path types up to SYS."""
    return tuple(word for word in LEVELS if word in rules.path_types)


def path_type(distance: str) -> str:
    """NCCL's path type for a distance of nvidia-smi: NODE, another host bridge of the same socket, is
    PHB."""
    return "PHB" if distance == "NODE" else distance


def allows(level: str, distance: str) -> bool:
    """Whether a level covers a distance, both as NCCL's path types."""
    return LEVELS.index(distance) <= LEVELS.index(level)


def types_of_lines(version: str, level: str, limit: int | None, *, modes: bool) -> list[tuple[str, ...]]:
    """The path types by number, of each release that can have printed a line on a pair: of one release if
    the version is known. `limit` is the level's number in that line, and `level` its name in another."""
    if version:
        return [release(version).path_types]
    found = dict.fromkeys(
        one.path_types
        for one in every_release()
        if one.path_types and not one.silent_pairs and (one.modes or not modes)
    )
    if limit is None or not level:
        return list(found)
    return [types for types in found if limit < len(types) and types[limit] == level]


def printed_type(number: int, version: str) -> str:
    """The path type of a number in a log; "" if the version is not known, because the numbers changed."""
    words = release(version).path_types
    return words[number] if number < len(words) else ""


def selects(spec: str, device: str, port: int | None = None) -> bool:
    """Whether NCCL_IB_HCA selects a device: by prefix, with `=` by the whole name; `^` inverts the list.

    Source: NCCL src/misc/utils.cc, parseStringList() and matchIfList(); `mlx5_1` also selects mlx5_10.
    """
    exclude = spec.startswith("^")
    spec = spec[1:] if exclude else spec
    exact = spec.startswith("=")
    spec = spec[1:] if exact else spec
    entries = [entry for entry in spec.split(",") if entry.partition(":")[0]]
    if not entries:  # an empty list selects every device, and "^" alone none
        return not exclude
    for entry in entries:
        name, _, wanted = entry.partition(":")
        ports = wanted.partition(":")[0]
        if ports.isdigit() and port is not None and whole_number(ports) != port:
            continue
        if device == name if exact else device.startswith(name):
            return not exclude
    return exclude
