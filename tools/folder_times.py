"""How long the tests of each folder take: a table from pytest's JUnit file.

    PYTEST_ADDOPTS=--junitxml=tests.xml .ci/run
    python -m tools.folder_times tests.xml

Seconds are those of all workers together, from the start of a test to the end of its clean-up.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from pathlib import Path
from xml.etree import ElementTree

LEAST_SECONDS = 10.0
"""Folders that take less share one row."""


def folder_of(classname: str) -> str:
    """tests.cli.test_fix.TestApply is in tests/cli; a module of tests/ itself has its own row."""
    parts = classname.split(".")
    return f"{parts[0]}/{parts[1]}" + (".py" if parts[1].startswith("test_") else "")


def table(text: str) -> str:
    """Rows of tests and seconds, the longest first, and their sum."""
    seconds: defaultdict[str, float] = defaultdict(float)
    tests: Counter[str] = Counter()
    for case in ElementTree.fromstring(text).iter("testcase"):
        folder = folder_of(case.get("classname", ""))
        seconds[folder] += float(case.get("time", 0))
        tests[folder] += 1
    listed = [
        folder for folder, time in sorted(seconds.items(), key=lambda row: -row[1]) if time >= LEAST_SECONDS
    ]
    rows = [(folder, tests[folder], seconds[folder]) for folder in listed]
    small = seconds.keys() - listed
    left = sum(seconds[one] for one in small)
    rows.append((f"{len(small)} others", sum(tests[one] for one in small), left))
    rows.append(("all", tests.total(), sum(seconds.values())))
    width = max(len(folder) for folder, _, _ in rows)
    return "".join(f"{folder:{width}} {count:6} tests {time:6.0f} s\n" for folder, count, time in rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("report", type=Path, help="what pytest --junitxml wrote")
    print(table(parser.parse_args().report.read_text()), end="")
