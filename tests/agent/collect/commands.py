"""The commands of the collector's table."""

from __future__ import annotations

from collections.abc import Sequence

from gdrkit.agent.collect.sources import COMMANDS, NET, PROBES


def covers_command(argv: Sequence[str]) -> bool:
    """Whether the table has this command; any name of an interface stands for NET."""
    rows = [row.argv for row in COMMANDS] + [probe.argv for probe in PROBES]
    return any(
        len(row) == len(argv) and all(word in (given, NET) for word, given in zip(row, argv, strict=True))
        for row in rows
    )
