"""Texts that show an EFA beside a GPU that is coherent with its CPU, which not every driver serves."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gdrkit.explain.lines.blocks import EVIDENCE
from gdrkit.explain.lines.transcript import TextLine
from gdrkit.explain.outputs.readings import Reading
from gdrkit.formats.regex import regex
from gdrkit.programs.aws_ofi_nccl.messages import SHOWS_EFA
from gdrkit.rules.efa_mapping_refused import WITHOUT_OPTION

CODE = "efa-mapping-refused"
SHOWS = (*EVIDENCE, "typed")
LINE_CHARACTERS = 400
"""How much of a line is searched for a driver, a GPU or a NIC."""

_NUMBER = ".".join(map(str, WITHOUT_OPTION))
_BRANCH = regex(
    rf"\bDriver Version\s*: *{_NUMBER}\.\d|NVRM version: .* {_NUMBER}\.\d|^\s*{_NUMBER}\.\d+\.\d+\s*$"
)
_COHERENT = regex(r"\bNVIDIA(?: Corporation)? GB[23]00\b|\bp6e-gb[23]00")
_EFA = regex(rf"{SHOWS_EFA}|NET/OFI|\befa_nccl")
_NAMED = regex(r"\bEFA\b|\baws-ofi-nccl\b|\bp6e-gb[23]00")


def names_efa(lines: Sequence[TextLine]) -> bool:
    """Whether people name an EFA, or an instance that has one."""
    return any(_NAMED.search(line.text, 0, LINE_CHARACTERS) for line in lines)


def shows_efa(lines: Sequence[TextLine]) -> bool:
    """Whether lines show an EFA: its name in a listing, or the plugin that serves no other NIC on AWS."""
    return _first(lines, _EFA) is not None


def efa_readings(lines: tuple[TextLine, ...]) -> Iterator[Reading]:
    """A driver of the branch that does not serve an EFA with GPUs that are coherent with their CPU."""
    position = _first(lines, _BRANCH)
    if position is not None and shows_efa(lines) and _first(lines, _COHERENT) is not None:
        note = f"R{WITHOUT_OPTION[0]} does not serve an EFA with this GPU"
        yield Reading(lines[position], position, (CODE,), note)


def _first(lines: Sequence[TextLine], pattern: re.Pattern[str]) -> int | None:
    return next(
        (
            position
            for position, line in enumerate(lines)
            if line.kind in SHOWS and pattern.search(line.text, 0, LINE_CHARACTERS)
        ),
        None,
    )
