"""`python -m tools.fuzz`: drive the targets in turn, print what broke and a table of counts.

python -m tools.fuzz --seconds 600                             every parser, fact and command
python -m tools.fuzz --target '^formats/' --count 10000        10,000 inputs of each target of a name
python -m tools.fuzz --seed 7 --target '^formats/elf$' --first 1234 --count 1    repeat one input
"""

from __future__ import annotations

import argparse
import datetime
import gc
import os
import re
import shlex
import sys
import tempfile
import time
from pathlib import Path

from tools.fuzz.commands import Commands
from tools.fuzz.corpus import Corpus
from tools.fuzz.facts import facts
from tools.fuzz.parsers import parsers
from tools.fuzz.target import Target, bounded_memory, why_broken

TURN_S = 2.0
"""How long one target runs at most before the next has its turn. Each has one within the given time."""


class Count:
    """What happened to one target."""

    def __init__(self, first: int) -> None:
        self.next, self.inputs, self.seconds = first, 0, 0.0
        self.kinds: set[str] = set()


def targets(corpus: Corpus) -> list[Target]:
    """Everything that can be driven: the registry."""
    commands = (Commands(f"commands/{kind}", corpus) for kind in ("text", "node"))
    return [*parsers(corpus), *facts(corpus), *commands]


def turn(target: Target, count: Count, seed: int, most: int | None, seconds: float) -> None:
    """Drive a target until its turn or its inputs are over; print each new kind of failure."""
    gc.collect()  # a command lets garbage grow, for a process that ends soon: cli/process.py
    began = time.monotonic()
    while time.monotonic() < began + seconds and (most is None or count.inputs < most):
        why = why_broken(target, seed, count.next)
        kind = "\n".join(why.splitlines()[-4:-1])
        if why and kind not in count.kinds:
            count.kinds.add(kind)
            print(f"{target.name}, input {count.next} of seed {seed}:\n{why}", flush=True)
        count.next += 1
        count.inputs += 1
    count.seconds += time.monotonic() - began


def drive(chosen: list[Target], seed: int, first: int, most: int | None, seconds: float) -> dict[str, Count]:
    """Drive targets in turn for some seconds, or for `most` inputs of each."""
    counts = {target.name: Count(first) for target in chosen}
    for target in chosen:
        target.prepare()
    gc.freeze()
    end = time.monotonic() + seconds if most is None else float("inf")
    turn_s = TURN_S if most is not None else min(TURN_S, seconds / len(chosen))
    waiting = list(chosen)
    while waiting and time.monotonic() < end:
        for target in waiting:
            turn(target, counts[target.name], seed, most, turn_s)
        waiting = [target for target in waiting if most is None or counts[target.name].inputs < most]
    return counts


def table(counts: dict[str, Count]) -> str:
    """The counts in Markdown."""
    rows = [(name, count.inputs, count.seconds, len(count.kinds)) for name, count in counts.items()]
    rows.append(("all", *(sum(row[column] for row in rows) for column in (1, 2, 3))))  # type: ignore[arg-type]
    lines = ["| target | inputs | per second | kinds of failure |", "|---|---|---|---|"]
    lines += [
        f"| {name} | {inputs:,} | {inputs / max(s, 1e-9):,.0f} | {kinds} |"
        for name, inputs, s, kinds in rows
    ]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.fuzz",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seconds", type=float, default=60, help="how long to go on (60)")
    parser.add_argument("--seed", type=int, default=None, help="repeat a run (default: a new seed)")
    parser.add_argument("--target", default="", metavar="REGEX", help="only targets whose name matches")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="number of the first input (0)")
    parser.add_argument("--count", type=int, default=None, metavar="N", help="inputs of each target")
    parser.add_argument("--inputs", type=Path, default=None, help="keep the files in this folder")
    parser.add_argument("--node", action="append", default=[], help="only this node of tests/evidence")
    options = parser.parse_args(arguments)
    seed = int.from_bytes(os.urandom(4), "big") if options.seed is None else options.seed
    with tempfile.TemporaryDirectory(prefix="gdrkit-fuzz-") as folder:
        corpus = Corpus(options.inputs or Path(folder), tuple(options.node))
        chosen = [target for target in targets(corpus) if re.search(options.target, target.name)]
        if not chosen:
            parser.error(f"no target matches {options.target!r}")
        print(f"seed {seed}, {len(chosen)} targets", flush=True)
        with bounded_memory():
            counts = drive(chosen, seed, options.first, options.count, options.seconds)
    given = shlex.join(arguments if arguments is not None else sys.argv[1:])
    print(f"\n{datetime.date.today()}, seed {seed}: `python -m tools.fuzz {given}`\n\n{table(counts)}")
    return 1 if any(count.kinds for count in counts.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
