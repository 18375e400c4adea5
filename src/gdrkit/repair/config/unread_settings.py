"""Settings that a file mentions in a form that is not read, so that "no faults" does not cover them."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping

from gdrkit.facts.assignments import NAME, commands_of, is_filled_in
from gdrkit.formats.regex import regex
from gdrkit.repair.config.fault import ConfigFault, fault_at
from gdrkit.repair.config.semantic_check import setting_faults

FORMS = "ENV, export, env, -e, -x, --export or a mapping"


def active_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a text that may set a variable of programs or an argument, without comments: their
    numbers, and each with those that continue it."""
    for number, line in commands_of(text):
        if ("_" in line or "=" in line) and not _PATTERNS["comment"].match(line):
            yield number, line


LINES_LIMIT = 200
"""Lines of one command in which a setting is looked for."""


def own_line(lines: list[str], first: int, name: str) -> int:
    """The number of the line that names a variable, among those that continue a first one."""
    named = re.compile(rf"^(?!\s*#(?!SBATCH |PBS )).*\b{name}\b")
    for number, line in enumerate(lines[first - 1 : first - 1 + LINES_LIMIT], first):
        if named.search(line):
            return number
    return first


def unread_faults(
    text: str, read: set[tuple[str, str]], variables: Mapping[str, str]
) -> Iterator[ConfigFault]:
    """The faults of settings whose value is a variable, by its value or default in the file; and one fault
    for each setting that would be a fault, but is not among those that were read, or has no value in the
    file. `variables`: those that the file sets as a script."""
    default = dict(variables)
    reported: set[str] = set()
    lines, known = text.split("\n"), sorted(read)
    for first, line in active_lines(text):
        if argument := _PATTERNS["argument"].match(line):  # not in the environment of a job
            default[argument["name"]] = argument["value"].strip("\"'")
            continue
        for found in _PATTERNS["mention"].finditer(line):
            name, value = found["name"], found["value"]
            if name in reported or _is_read(known, name, value):
                continue
            number = own_line(lines, first, name)
            faults = [
                one for one in setting_faults(number, name, value, "", default) if one.severity != "note"
            ]
            if faults and not is_filled_in(value):
                seen = f"{value} is in a form that is not read"
                faults = [fault_at(number, "unreadable", name, seen, f"a value by {FORMS}", "unreadable")]
            if faults:
                reported.add(name)
                yield from faults


def _is_read(known: list[tuple[str, str]], name: str, value: str) -> bool:
    """Whether a value was read, of which a mention may show only what comes before a comma. Among sorted
    values, one that begins with the mention comes where the mention would."""
    at = bisect_left(known, (name, value))
    return at < len(known) and known[at][0] == name and known[at][1].startswith(value)


_PATTERNS = {
    "comment": regex(r"\s*#(?!SBATCH |PBS )"),  # Slurm and PBS read options of a job from comments
    "argument": regex(r"^\s*(?i:ARG)\s+(?P<name>\w+)=(?P<value>\S+)"),
    "mention": regex(
        rf"(?<![\w$-])(?P<name>{NAME})[\"']?\]?\s*[=:,]\s*[\"']?"
        r"(?P<value>\$\{[^}\s]+\}|\$\(\w+\)|[^\s\"',;)}]+)"
    ),
}
