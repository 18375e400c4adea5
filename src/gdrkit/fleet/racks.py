"""Which rack each node is in, from a file or from the names of the nodes."""

from __future__ import annotations

import re

from gdrkit.fleet.hostlist import expand
from gdrkit.formats.errors import FormatError

_SLURM = re.compile(r"SwitchName=(\S+)\s.*?\bNodes=(\S+)", re.IGNORECASE)
_LINE = re.compile(r"([^\s:=]+)\s*[:=]?\s+(.+)")
NAME_LIMIT = 64


def parse_racks(text: str) -> dict[str, str]:
    """The rack of each node: lines such as `r01 gpu[001-008]`, or Slurm's topology.conf, whose leaf switches
    are then the racks. Raises FormatError with the line that is neither.

        SwitchName=leaf1 Nodes=gpu[001-008]
        SwitchName=spine Switches=leaf[1-4]

    Source: topology.conf(5)."""
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].strip()
        if not words or re.match(r"SwitchName=\S+(?!.*\bNodes=)", words, re.IGNORECASE):
            continue
        match = _SLURM.match(words) or _LINE.fullmatch(words)
        if match is None:
            raise FormatError(f"line {number} is not a rack with its nodes: {line[:60]!r}")
        rack, nodes = match.groups()
        try:
            found.update(dict.fromkeys(expand(nodes), rack[:NAME_LIMIT]))
        except FormatError as error:
            raise FormatError(f"line {number}: {error}") from None
    return found


def rack_of(name: str) -> str:
    """The rack that the name of a node tells: r01 of r01-gpu3, gpu of gpu001."""
    words = re.split(r"(\d+)", name)
    return "".join(words[:-3] if len(words) > 3 else words[:1]).rstrip("-_.") or name
