"""The PCI tree as `lspci -tv` draws it.

    -+-[0000:15]---01.0-[16-19]----00.0-[17-19]--+-00.0-[18]----00.0  Mellanox Technologies MT2910
     |                                           \\-01.0-[19]----00.0  NVIDIA Corporation GH100
     \\-[0000:00]-+-00.0  Intel Corporation Device 09a2

Source of the layout: pciutils ls-tree.c, show_tree_dev() and show_tree_bus(): after a bridge come the
buses below it, in brackets; branches of one bus are printed below each other. More -v add nothing; -nn adds
ids.
"""

from __future__ import annotations

import re

from msgspec import Struct

from gdrkit.formats.errors import FormatError


class DrawnFunction(Struct, frozen=True):
    """One function, and its position in the tree."""

    address: str
    root_bus: str  # "0000:15"
    above: tuple[str, ...]  # bridges, root port first
    name: str = ""  # "NVIDIA Corporation GH100 [H100 SXM5 80GB]"; bridges with buses have none


class _Bus(Struct, frozen=True):
    """The bus of the next functions in a column."""

    domain: str
    number: str
    above: tuple[str, ...]
    root: str


def parse(text: str) -> tuple[DrawnFunction, ...]:
    """Every function in the drawing, a bridge before those below it. Raises FormatError if there is no
    tree."""
    token = re.compile(
        r"\[(?P<domain>[0-9a-f]{4,8}):(?P<root>[0-9a-f]{2})\]"
        r"|(?P<slot>[01][0-9a-f]\.[0-7])(?:-\[(?P<bus>[0-9a-f]{2})(?:-[0-9a-f]{2})?\])?"
    )
    drawing = re.compile(r"[-+|\\ \t]*")  # characters between two parts of the tree
    columns: dict[int, _Bus] = {}
    found: dict[str, DrawnFunction] = {}
    for line in text.splitlines():
        at, bus = 0, None
        while True:
            start = drawing.match(line, at)
            column = start.end() if start else at
            match = token.match(line, column)
            if match is None or (bus is not None and "  " in line[at:column]):
                break  # a name, after two blanks
            if match["root"]:
                root = f"{match['domain']}:{match['root']}"
                bus = _Bus(match["domain"], match["root"], (), root)
            else:
                bus = bus or columns.get(column)
                if bus is None:
                    break
                columns[column] = bus
                address = f"{bus.domain}:{bus.number}:{match['slot']}"
                name = "" if match["bus"] else line[match.end() :].strip()
                found.setdefault(address, DrawnFunction(address, bus.root, bus.above, name))
                if not match["bus"]:
                    break
                bus = _Bus(bus.domain, match["bus"], (*bus.above, address), bus.root)
            at = match.end()
    if not found:
        complaint = " ".join(text.split())[:120]
        raise FormatError(f"no tree in the output of lspci -t: {complaint or 'empty'}")
    return tuple(found.values())
