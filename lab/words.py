"""The expected word for every recorded case: agrees, or open and why.

`words.json` beside a kernel's recordings names the cases that do not simply agree, by profile and word, so
that a change of the predictor which leaves more open shows in a diff. `python -m lab words` writes it; a
test compares.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from lab import golden
from lab.compare import Comparison, Result

Words = dict[str, dict[str, list[str]]]  # profile -> word -> cases


def path(flavour: str) -> Path:
    return golden.folder_of(flavour) / "words.json"


def read(flavour: str) -> Words:
    """The words of a kernel's recordings; empty if there are none yet."""
    file = path(flavour)
    return msgspec.json.decode(file.read_bytes(), type=Words) if file.exists() else {}


def expected(flavour: str, profile: str, cases: Iterable[str]) -> dict[str, str]:
    """The expected word for each of these cases."""
    listed = {case: word for word, row in read(flavour).get(profile, {}).items() for case in row}
    return {case: listed.get(case, Result.AGREES.value) for case in cases}


def write(flavour: str, found: Iterable[Comparison]) -> None:
    """Keep the words of these comparisons; profiles that are not among them keep theirs."""
    words: Words = {}
    for row in found:
        profile = words.setdefault(row.profile, {})
        if row.word != Result.AGREES.value:
            profile.setdefault(row.word, []).append(row.case)
    everything = read(flavour) | words
    path(flavour).write_bytes(
        msgspec.json.format(msgspec.json.encode(everything, order="sorted"), indent=1) + b"\n"
    )
