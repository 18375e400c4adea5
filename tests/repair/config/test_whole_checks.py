"""Every fault of `gdr config check` in the files of checked/, in whole lines, and what was recognised.

The expected text is expected/check.txt. After a change that is meant, look at the difference, and write it
with `python -m tests.repair.config.test_whole_checks`.
"""

from __future__ import annotations

import difflib
from pathlib import Path

from gdrkit.repair.config.check import check

FOLDER = Path(__file__).parent
EXPECTED = FOLDER / "expected" / "check.txt"
VERSIONS = ("", "v25.3.4", "25.7.0", "v26.7.0", "v1.0")


def lines() -> list[str]:
    """What is found in each file; for an older operator only what differs from the newest."""
    out = []
    for path in sorted((FOLDER / "checked").iterdir()):
        newest: list[str] = []
        for version in VERSIONS:
            found = check(path.read_bytes(), path.name, version)
            rows = [found.summary(), *(f"{row.line} {row.kind} {row.name}" for row in found.documents)]
            rows += [f"worst: {found.worst}", *found.lines()]
            if not version:
                newest = rows
                out += rows
            else:
                only = [f"{version}: {row}" for row in rows if row not in newest]
                out += only + [f"not {version}: {row}" for row in newest if row not in rows]
    return out


def test_all_faults_are_as_they_should_be():
    expected = EXPECTED.read_text().splitlines()
    difference = "\n".join(difflib.unified_diff(expected, lines(), n=0, lineterm=""))
    assert not difference, difference


if __name__ == "__main__":
    EXPECTED.write_text("\n".join(lines()) + "\n")
