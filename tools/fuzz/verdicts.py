"""`python -m tools.fuzz.verdicts`: alter evidence of blocked machines, and look for a verdict of ready.

Each machine of machines/ has planted faults, and its truth is known. What is altered is a file that the
verdict rests on, but none in which the machine differs from itself without the faults. A program that the
truth calls blocked, and gdrkit before the change, must not become ready or active: unknown is allowed.

Only the answers that rest on an altered file are computed again (`tools/fuzz/altered_node.py`). What would
fail, and one try in WHOLE_EVERY, is judged from the beginning as well: the two must agree.

python -m tools.fuzz.verdicts --seconds 600 --jobs 16           machines of a new seed, one process per core
python -m tools.fuzz.verdicts --seed 7 --first 12 --machines 1  repeat one machine
  --only 33 --write FOLDER                                      ... one try of it, and keep what failed
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import astuple, dataclass
from itertools import count
from pathlib import Path
from typing import NamedTuple

from machines.cases import Case
from machines.compose import compose, head
from machines.truth import CONSUMERS
from tools.fuzz.altered_node import RecordedNode
from tools.fuzz.altering import altered

from gdrkit.diagnosis import diagnose
from gdrkit.evidence.bundle import BundleHost
from gdrkit.node import Node
from gdrkit.verdict import judge_node
from machines import cases

PER_MACHINE = 100
"""Altered inputs of one machine: to draw, compose and judge one costs as much as some forty of them."""
WHOLE_EVERY = 50
CRASH, DISAGREES = "crash", "disagrees"
WRONG = ("ready", "active", CRASH, DISAGREES)


class Hit(NamedTuple):
    """A change that made a blocked program ready."""

    seed: int
    machine: int
    number: int
    path: str
    consumers: tuple[str, ...]
    faults: tuple[str, ...]


@dataclass
class Counts:
    """What was tried."""

    machines: int = 0
    inputs: int = 0
    changed: int = 0
    hits: int = 0

    def __add__(self, more: Counts) -> Counts:
        return Counts(*map(sum, zip(astuple(self), astuple(more), strict=True)))


class Part(NamedTuple):
    """What one process does of a run: each `stride`-th machine from `first` on."""

    seed: int
    first: int
    stride: int
    until: int
    only: int | None
    end: float
    folder: str


States = dict[str, str]


def states(judged: Callable[[], Iterable[tuple[str, str]]]) -> States:
    """The state of each program, or a crash."""
    try:
        return dict(judged())
    except Exception:
        traceback.print_exc(limit=-2)
        return dict.fromkeys(CONSUMERS, CRASH)


def whole(host: BundleHost) -> States:
    """The state of each program in the report on a host."""
    return states(lambda: ((name, one.state) for name, one in diagnose(host).consumers.items()))


def brief(node: Node) -> States:
    """The state of each program in the verdict on a node."""
    return states(lambda: ((one.consumer, one.state) for one in judge_node(node).states))


class Blocked:
    """A machine of which programs are blocked, and what can be altered of it."""

    def __init__(self, made: Case) -> None:
        tree, healthy = compose(made.machine), compose(made.healthy)
        self.made, self.tree = made, tree
        self.node = RecordedNode(tree, head(made.machine))
        self.before = brief(self.node)
        known = made.truth.states
        self.programs = [name for name in CONSUMERS if known[name] == {"blocked"} == {self.before.get(name)}]
        self.subjects: dict[str, list[str]] = {}
        """The files in which the faults are not. Each subject is as likely as another, however many files it
        has."""
        for path in sorted(self.node.readers):
            if path in tree.files and healthy.files.get(path) == tree.files[path]:
                self.subjects.setdefault("/".join(path.split("/")[:2]), []).append(path)

    def tried(self, number: int) -> tuple[str, bytes, States]:
        """The file that a try alters, its content then, and the states of the programs."""
        draw = random.Random(f"{self.made.seed}:{self.made.number}:{number}")
        path = draw.choice(self.subjects[draw.choice(sorted(self.subjects))])
        content = altered(self.tree.files[path], draw)
        with self.node.store.altered(path, content):
            after = self._states(path)
            if self.wrong(after) or number % WHOLE_EVERY == 0:
                of_report = whole(self.node.host)
                after = of_report if after == of_report else dict.fromkeys(CONSUMERS, DISAGREES)
        return path, content, after

    def _states(self, path: str) -> States:
        try:
            node = self.node.with_altered(path)
        except Exception:  # of an answer that may not be asked for any more: the whole verdict decides
            return whole(self.node.host)
        return self.before if node is None else brief(node)

    def wrong(self, after: States) -> tuple[str, ...]:
        """The programs that may not have this state."""
        return tuple(name for name in self.programs if after.get(name) in WRONG)


def of_machine(made: Case, part: Part) -> Counts:
    """Alter a machine's evidence, judge it each time, and print each hit."""
    blocked = Blocked(made)
    counts = Counts(machines=1)
    if not blocked.programs or not blocked.subjects:
        return Counts()
    for number in range(PER_MACHINE) if part.only is None else (part.only,):
        if time.monotonic() > part.end:
            break
        path, content, after = blocked.tried(number)
        wrong = blocked.wrong(after)
        counts += Counts(inputs=1, changed=after != blocked.before, hits=bool(wrong))
        if wrong:
            faults = tuple(fault.name for fault in made.faults)
            print(Hit(made.seed, made.number, number, path, wrong, faults), flush=True)
            if part.folder:
                blocked.tree.file(path, content)
                blocked.tree.write(
                    Path(part.folder, f"{made.seed}-{made.number}-{number}"), head(made.machine)
                )
    return counts


def of_part(part: Part) -> Counts:
    """What one process tries."""
    counts = Counts()
    for number in count(part.first, part.stride):
        if time.monotonic() > part.end or number >= part.until:
            return counts
        made = cases.case(part.seed, number)
        if made.faults:
            counts += of_machine(made, part)
    return counts


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.fuzz.verdicts",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seconds", type=float, default=600, help="how long to go on (600)")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="how many processes (1)")
    parser.add_argument("--seed", type=int, default=None, help="repeat a run (default: a new seed)")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="number of the first machine (0)")
    parser.add_argument("--machines", type=int, default=None, metavar="N", help="how many machines")
    parser.add_argument("--only", type=int, default=None, metavar="N", help="number of the only try")
    parser.add_argument("--write", default="", metavar="FOLDER", help="where to write the node of each hit")
    options = parser.parse_args(arguments)
    seed = int.from_bytes(os.urandom(4), "big") if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    began = time.monotonic()
    until = sys.maxsize if options.machines is None else options.first + options.machines
    parts = [
        Part(
            seed,
            options.first + number,
            options.jobs,
            until,
            options.only,
            began + options.seconds,
            options.write,
        )
        for number in range(options.jobs)
    ]
    with ProcessPoolExecutor(options.jobs) as pool:
        total = sum(pool.map(of_part, parts), Counts())
    print(
        f"{total.inputs:,} altered inputs of {total.machines:,} blocked machines,"
        f" {total.inputs / (time.monotonic() - began):,.0f} per second; {total.changed:,} changed a state,"
        f" {total.hits} ended in ready or a crash"
    )
    return 1 if total.hits else 0


if __name__ == "__main__":
    sys.exit(main())
