"""Writes into the pages what a program measured, counted or printed: no such number is typed by hand.

    python -m tools.measured                         rewrite every block of every page
    python -m tools.measured --record start topo     run these benchmarks, and keep what they print
    python -m tools.measured --record staging --from FILE --date DAY --commit C --machine M
                                                     keep what another machine printed

A block begins with one of these comments, and ends with `<!-- end -->`:

    measured: NAME       benchmarks/results/NAME.json: what a program printed, when and where
    counted: NAME        a function of tools/counts.py: what the repository holds
    printed: NODE WORDS  what `gdr WORDS` prints about a node of tests/evidence; `| 1-9,12` keeps these lines

The last two are computed anew by a test at every change. Nothing else in a page changes. Results of before
22 November 2026 were copied from the pages in which their output stood.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from tools import counts, shown

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PAGES = (*(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")), *ROOT.glob("docs/*.md"))
BLOCK = re.compile(r"^<!-- (\w+): ([^\n]+?) -->\n(.*?)^<!-- end -->$", re.MULTILINE | re.DOTALL)


class Result(Struct, frozen=True):
    """What one run of a program printed."""

    command: str
    date: str
    machine: str
    commit: str
    output: str
    exceeded: bool = False
    """Whether the program found that a limit was exceeded on that machine: its exit code was 1."""


def result(name: str) -> Result:
    """A recorded result. Raises FileNotFoundError if there is none."""
    return msgspec.json.decode((RESULTS / f"{name}.json").read_bytes(), type=Result)


def measured(name: str) -> str:
    """Who measured what, when and where, and what the program printed."""
    row = result(name)
    day = datetime.date.fromisoformat(row.date)
    caption = f"Printed by `{row.command}` on {day.day} {day:%B %Y}, {row.machine}, commit `{row.commit}`"
    caption += "; limits were exceeded there:" if row.exceeded else ":"
    output = "\n".join(line.rstrip() for line in row.output.rstrip().splitlines())
    return f"{caption}\n\n```text\n{output}\n```\n"


KINDS: dict[str, Callable[[str], str]] = {
    "measured": measured,
    "counted": counts.counted,
    "printed": shown.printed,
}


def page(text: str, kinds: Sequence[str] = tuple(KINDS)) -> str:
    """The text of a page with new contents in the blocks of these kinds."""

    def block(match: re.Match[str]) -> str:
        kind, name, _ = match.groups()
        if kind not in kinds:
            return match[0]
        return f"<!-- {kind}: {name} -->\n{KINDS[kind](name)}<!-- end -->"

    return BLOCK.sub(block, text)


def machine() -> str:
    """This machine in words: processor, cores, kernel and Python, and how busy it is."""
    cpu = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return (
        f"{os.cpu_count()} cores of {cpu[1] if cpu else platform.machine()} (virtual, shared with others), "
        f"Linux {platform.release()}, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}"
    )


def commit() -> str:
    """The commit that is checked out."""
    words = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def record(name: str) -> Result:
    """Run a benchmark, and return what it printed. Raises CalledProcessError if it fails."""
    where, words = machine(), [sys.executable, "-m", f"benchmarks.{name}"]
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if done.returncode > 1 or not done.stdout:
        done.check_returncode()
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    return Result(
        shlex.join(["python", *words[1:]]), today, where, commit(), done.stdout, bool(done.returncode)
    )


def keep(name: str, row: Result) -> None:
    """Write a result, as JSON that is readable in a diff."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_bytes(msgspec.json.format(msgspec.json.encode(row), indent=1) + b"\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Write measured, counted and printed blocks into the pages."
    )
    parser.add_argument("--record", nargs="*", default=[], metavar="NAME", help="run benchmarks.NAME first")
    parser.add_argument("--from", dest="source", type=Path, help="keep this output, and run nothing")
    parser.add_argument("--command", help="the command that printed it")
    for name in ("date", "machine", "commit"):
        parser.add_argument(f"--{name}", help="of that output")
    given = parser.parse_args()
    for name in given.record:
        if given.source:
            command = given.command or f"python -m benchmarks.{name}"
            output = given.source.read_text()
            keep(name, Result(command, given.date, given.machine, given.commit, output))
        else:
            keep(name, record(name))
    for path in PAGES:
        if path.exists() and (text := path.read_text()) != (new := page(text)):
            path.write_text(new)


if __name__ == "__main__":
    main()
