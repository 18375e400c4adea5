"""Which rack each node is in, from a file or from the names of the nodes."""

from __future__ import annotations

import re

from gdrkit.fleet.hostlist import NODES_LIMIT, expand
from gdrkit.formats.errors import FormatError
from gdrkit.formats.regex import regex

_SLURM = regex(r"SwitchName=(\S+)\s.*?\bNodes=(\S+)", re.IGNORECASE)
_SPINE = regex(r"SwitchName=\S++(?!.*\bNodes=)", re.IGNORECASE)
_LINE = regex(r"([^\s:=]+)\s*[:=]?\s+(.+)")
_NAMED = regex(r"((?:.*?[-_.])?(?:r|rack)[-_]?\d++)(?:[-_.]?[a-z]+)?[-_.]?\d", re.IGNORECASE)
"""A rack with its number, and a node with its own: a model, as in a100-hwe, or gpu001 is neither."""
NAME_LIMIT = 64


def parse_racks(text: str) -> dict[str, str]:
    """The rack of each node: lines such as `r01 gpu[001-008]`, or Slurm's topology.conf, whose leaf switches
    are then the racks. Raises FormatError with the line that is neither.

        SwitchName=leaf1 Nodes=gpu[001-008]
        SwitchName=spine Switches=leaf[1-4]

    Source: topology.conf(5)."""
    found: dict[str, str] = {}
    left = NODES_LIMIT  # in all: 100 bytes may name as many
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].strip()
        if not words or _SPINE.match(words):
            continue
        match = _SLURM.match(words) or _LINE.fullmatch(words)
        if match is None:
            raise FormatError(f"line {number} is not a rack with its nodes: {line[:60]!r}")
        rack, nodes = match.groups()
        try:
            names = expand(nodes)
        except FormatError as error:
            raise FormatError(f"line {number}: {error}") from None
        left -= len(names)
        if left < 0:
            raise FormatError(f"line {number}: more than {NODES_LIMIT} nodes")
        found.update(dict.fromkeys(names, rack[:NAME_LIMIT]))
    return found


def rack_of(name: str) -> str:
    """The rack that the name of a node tells, "" if it tells none: r01 of r01-gpu3, rack12 of rack12n4."""
    match = _NAMED.match(name)
    return match[1] if match else ""
