"""`python -m tools.fuzz.verdicts`: alter evidence of blocked machines, and look for a verdict of ready.

Each machine of machines/ has planted faults, and its truth is known. What is altered is any file but those
in which the machine differs from itself without the faults. A program that the truth calls blocked, and
gdrkit before the change, must not become ready or active: unknown is allowed.

python -m tools.fuzz.verdicts --seconds 600                     machines of a new seed
python -m tools.fuzz.verdicts --seed 7 --first 12 --machines 1  repeat one machine
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from machines.cases import Case
from machines.compose import compose, head
from machines.truth import CONSUMERS
from tools.fuzz.altering import altered

from gdrkit.diagnosis import diagnose
from gdrkit.evidence.errors import TargetError
from gdrkit.evidence.target import open_host
from machines import cases

PER_MACHINE = 40
"""Altered inputs of one machine: writing it costs as much as judging it some times."""
CRASH = "crash"
WRONG = ("ready", "active", CRASH)


class Hit(NamedTuple):
    """A change that made a blocked program ready."""

    machine: int
    number: int
    path: str
    consumers: tuple[str, ...]
    faults: tuple[str, ...]


class Counts:
    """What was tried."""

    def __init__(self) -> None:
        self.machines = self.inputs = self.changed = 0
        self.hits: list[Hit] = []


def states(folder: Path) -> dict[str, str]:
    """The state of each program; empty where there is no verdict."""
    try:
        report = diagnose(open_host(str(folder)))
    except TargetError:
        return {}
    except Exception:
        traceback.print_exc(limit=-2)
        return dict.fromkeys(CONSUMERS, CRASH)
    return {name: str(section.state) for name, section in report.consumers.items()}


def free_files(made: Case) -> list[str]:
    """Files in which the faults are not: of the machine, and equal without the faults."""
    faulty, healthy = compose(made.machine), compose(made.healthy)
    return [path for path, content in sorted(faulty.files.items()) if healthy.files.get(path) == content]


def of_machine(made: Case, folder: Path, counts: Counts, end: float) -> Iterator[Hit]:
    """Alter a machine's evidence, and judge it each time."""
    root = compose(made.machine).write(folder / "node", head(made.machine))
    before = states(root)
    blocked = [name for name in CONSUMERS if made.truth.states[name] == {"blocked"} == {before.get(name)}]
    paths = [path for path in free_files(made) if (root / path).is_file()]
    if not blocked or not paths:
        return
    counts.machines += 1
    subjects: dict[str, list[str]] = {}
    for path in paths:  # each subject is as likely as another, however many files it has
        subjects.setdefault("/".join(path.split("/")[:2]), []).append(path)
    for number in range(PER_MACHINE):
        if time.monotonic() > end:
            return
        draw = random.Random(f"{made.seed}:{made.number}:{number}")
        path = draw.choice(subjects[draw.choice(sorted(subjects))])
        content = (root / path).read_bytes()
        (root / path).write_bytes(altered(content, draw))
        after = states(root)
        (root / path).write_bytes(content)
        counts.inputs += 1
        counts.changed += after != before
        wrong = tuple(name for name in blocked if after.get(name) in WRONG)
        if wrong:
            yield Hit(made.number, number, path, wrong, tuple(fault.name for fault in made.faults))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.fuzz.verdicts",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seconds", type=float, default=600, help="how long to go on (600)")
    parser.add_argument("--seed", type=int, default=None, help="repeat a run (default: a new seed)")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="number of the first machine (0)")
    parser.add_argument("--machines", type=int, default=None, metavar="N", help="how many machines")
    options = parser.parse_args(arguments)
    seed = int.from_bytes(os.urandom(4), "big") if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    counts, end, number = Counts(), time.monotonic() + options.seconds, options.first
    while time.monotonic() < end and options.machines != number - options.first:
        made = cases.case(seed, number)
        number += 1
        if not made.faults:
            continue
        with tempfile.TemporaryDirectory(prefix="gdrkit-verdicts-") as folder:
            for hit in of_machine(made, Path(folder), counts, end):
                counts.hits.append(hit)
                print(hit, flush=True)
    print(
        f"{counts.inputs:,} altered inputs of {counts.machines:,} blocked machines; {counts.changed:,}"
        f" changed a state, {len(counts.hits)} ended in ready or a crash"
    )
    return 1 if counts.hits else 0


if __name__ == "__main__":
    sys.exit(main())
