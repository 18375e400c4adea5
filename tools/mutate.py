"""Changes the code on purpose and counts the changes that the tests notice.

    uv run --no-sync python -m tools.mutate --record              # once: which test reaches which line
    uv run --no-sync python -m tools.mutate --group loader --seed 1
    uv run --no-sync python -m tools.mutate --only src/gdrkit/loader/probing.py:75

A change is drawn by the seed, applied to a copy of the tree, and judged by the tests that reach its line.
Why not mutmut or cosmic-ray: neither draws a sample by a seed, and both run all tests or one fixed command
for each change, which here takes minutes; many of our tests also reach the code in a child process.
docs/testing.md describes the results.
"""

from __future__ import annotations

import argparse
import datetime
import difflib
import os
import random
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from queue import SimpleQueue

from tools.mutate_tree import ROOT, Coverage, Outcome, copy_tree, record, run_tests
from tools.mutations import Mutation, changed_by, mutations

RECORD = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "gdrkit-mutate"
SOURCE = "src/gdrkit/"
HANDSHAKE = ("handshake", "sealed_socket", "reception", "rendezvous", "protocol", "shared_file")
GROUPS = {
    **{
        file.parent.name: (f"{file.parent.name}/",) for file in sorted((ROOT / SOURCE).glob("*/__init__.py"))
    },
    "running": ("agent/running/",),
    "handshake": tuple(f"transport/{name}.py" for name in HANDSHAKE),
    "config": ("repair/config/",),
}
"""What is drawn from: each package, and three parts of one that have a draw of their own."""
PER_FUNCTION = 3
FIRST, SECOND = 10.0, 30.0
"""Processor seconds of tests: those nearest to the change, then the others that reach it."""
COLUMNS = "| Group | Seed | Date | Drawn | Killed | Timed out | Survived | Not reached | Noticed |"


@dataclass(frozen=True)
class Mutant:
    """A change of one file, and the changed text of the whole file."""

    path: str
    mutation: Mutation
    text: str

    @property
    def place(self) -> str:
        return f"{self.path}:{self.mutation.line}"

    def diff(self) -> str:
        """The changed lines, without headers."""
        old = (ROOT / self.path).read_text().splitlines()
        rows = difflib.unified_diff(old, self.text.splitlines(), lineterm="", n=0)
        return "\n".join(f"    {row}" for row in rows if not row.startswith(("---", "+++", "@@")))


@dataclass(frozen=True)
class Result:
    mutant: Mutant
    outcome: str
    """killed, timed out, survived, or not reached."""
    tests: int
    killer: str = ""
    """The test that failed; "" if the change was noticed before any test ran."""


def files_of(group: str) -> list[str]:
    """The files of a group, as paths from the root, without those of a group inside it: `repair` leaves its
    configuration files to `config`."""
    found = (str(path.relative_to(ROOT)) for path in sorted((ROOT / SOURCE).rglob("*.py")))
    own = GROUPS[group]
    wanted = tuple(SOURCE + name for name in own)
    inside = tuple(
        SOURCE + name
        for other in GROUPS
        for name in GROUPS[other]
        if other != group and name.startswith(own)
    )
    return [name for name in found if name.startswith(wanted) and not name.startswith(inside)]


def draw(group: str, seed: int, count: int) -> list[Mutant]:
    """`count` changes of a group: every kind is equally likely, at most three in one function."""
    order = random.Random(f"{group} {seed}")
    by_kind: dict[str, list[tuple[str, Mutation]]] = defaultdict(list)
    sources = {path: (ROOT / path).read_text() for path in files_of(group)}
    for path, source in sources.items():
        for mutation in mutations(source):
            by_kind[mutation.kind].append((path, mutation))
    for rows in by_kind.values():
        order.shuffle(rows)
    taken: Counter[tuple[str, str]] = Counter()
    drawn: list[Mutant] = []
    while len(drawn) < count and by_kind:
        kind = order.choice(sorted(by_kind))
        path, mutation = by_kind[kind].pop()
        if not by_kind[kind]:
            del by_kind[kind]
        function = (path, mutation.function)
        if taken[function] < PER_FUNCTION and (text := changed_by(mutation, sources[path])):
            taken[function] += 1
            drawn.append(Mutant(path, mutation, text))
    return drawn


def at(place: str) -> list[Mutant]:
    """All changes of one line, FILE:LINE."""
    path, _, line = place.rpartition(":")
    source = (ROOT / path).read_text()
    rows = [row for row in mutations(source) if row.line == int(line)]
    return [Mutant(path, row, text) for row in rows if (text := changed_by(row, source))]


def judge(mutant: Mutant, coverage: Coverage, tree: Path) -> Result:
    """Run the tests that reach the change, nearest first, until one fails."""
    line = mutant.mutation.line if mutant.mutation.function else None
    reached = coverage.tests_of(mutant.path, line)
    near, others = coverage.chosen(mutant.path, reached, FIRST, SECOND)
    if not reached and not near:
        return Result(mutant, "not reached", 0)
    target = tree / mutant.path
    original = target.read_text()
    target.write_text(mutant.text)
    _new_time(target)
    outcome, number = Outcome("survived"), 0
    try:
        for tests in (near, others):
            if outcome.word == "survived" and tests:
                number += len(tests)
                outcome = run_tests(tree, coverage, tests)
    finally:
        target.write_text(original)
        _new_time(target)
    word = "not reached" if outcome.word == "survived" and not reached else outcome.word
    return Result(mutant, word, number, *outcome.failed[:1])


_clock = iter(range(1_000_000_000, 2_000_000_000))


def _new_time(path: Path) -> None:
    """A modification time that no version had: bytecode is cached by time and size."""
    seconds = next(_clock)
    os.utime(path, (seconds, seconds))


def judge_all(mutants: list[Mutant], coverage: Coverage, jobs: int) -> Iterator[Result]:
    """Results in the order of the draw, from `jobs` copies of the tree.

    A test that also fails without a change noticed nothing: such changes are judged again, and their later
    result counts."""
    with tempfile.TemporaryDirectory(prefix="mutate-") as folder:
        trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(jobs):
            tree = Path(folder, str(number))
            copy_tree(tree)
            trees.put(tree)

        def control(tests: list[str]) -> tuple[str, ...]:
            tree = trees.get()
            try:
                return run_tests(tree, coverage, tests, to_the_end=True).failed
            finally:
                trees.put(tree)

        def one(mutant: Mutant) -> Result:
            tree = trees.get()
            try:
                return judge(mutant, coverage, tree)
            finally:
                trees.put(tree)

        with ThreadPoolExecutor(jobs) as pool:
            while mutants:
                by_killer: dict[str, list[Mutant]] = defaultdict(list)
                for result in pool.map(one, mutants):
                    yield result
                    if result.killer:
                        by_killer[result.killer].append(result.mutant)
                parts = [names for number in range(jobs) if (names := sorted(by_killer)[number::jobs])]
                failing = {name for names in pool.map(control, parts) for name in names}
                coverage.failing |= failing
                mutants = [mutant for name in sorted(failing) for mutant in by_killer[name]]


def row_of(group: str, seed: int, results: list[Result]) -> str:
    """The row of the table for one run."""
    number = Counter(result.outcome for result in results)
    noticed = number["killed"] + number["timed out"]
    cells = [group, seed, datetime.date.today(), len(results), number["killed"], number["timed out"]]
    cells += [number["survived"], number["not reached"], f"{noticed / max(len(results), 1):.0%}"]
    return "| " + " | ".join(map(str, cells)) + " |"


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(prog="python -m tools.mutate", description=__doc__.splitlines()[0])
    add = options.add_argument
    add(
        "--record", nargs="*", metavar="TESTS", help="record which test (default: of all) reaches which line"
    )
    add("--group", action="append", choices=GROUPS, help="draw from this group (default: all)")
    add("--seed", type=int, help="repeat the draw of this seed (default: a new one, printed)")
    add("--count", type=int, default=60, help="changes in each group (default: 60)")
    add("--only", action="append", metavar="FILE:LINE", help="judge every change of a line (repeatable)")
    add("--jobs", type=int, default=2, help="changes, or tests to record, at a time (default: 2)")
    add("--without-snapshots", action="store_true", help="let every comparison with a snapshot pass")
    add("--list", action="store_true", help="show what is drawn and run nothing")
    add("--coverage", type=Path, default=RECORD, help=f"where --record writes (default: {RECORD})")
    return options


def main(words: list[str]) -> int:
    arguments = parser().parse_args(words)
    if arguments.record is not None:
        record(arguments.coverage, arguments.record, arguments.jobs)
        return 0
    if arguments.without_snapshots:
        os.environ["GDRKIT_MUTATE_SNAPSHOTS"] = "off"
    coverage = Coverage(arguments.coverage / "coverage.json")
    seed = random.SystemRandom().randrange(10_000) if arguments.seed is None else arguments.seed
    drawn = {place: at(place) for place in arguments.only} if arguments.only else {
        group: draw(group, seed, arguments.count) for group in arguments.group or GROUPS
    }  # fmt: skip
    print(f"seed {seed}", flush=True)
    group_of = {mutant: group for group, mutants in drawn.items() for mutant in mutants}
    if arguments.list:
        print(*(f"{row.place} {row.mutation.kind}\n{row.diff()}" for row in group_of), sep="\n")
        return 0
    judged: dict[Mutant, Result] = {}
    in_turn = [mutant for row in zip_longest(*drawn.values()) for mutant in row if mutant]
    for result in judge_all(in_turn, coverage, arguments.jobs):
        judged[result.mutant] = result
        _show(result)
    if not arguments.only:
        print(COLUMNS)
        for group in drawn:
            print(row_of(group, seed, [row for row in judged.values() if group_of[row.mutant] == group]))
    return 0


def _show(result: Result) -> None:
    survivor = result.outcome in ("survived", "not reached")
    kind = result.mutant.mutation.kind
    by = f" by {result.killer}" if result.killer else ""
    print(f"{result.outcome:11} {result.mutant.place} {kind} ({result.tests} tests){by}", flush=True)
    if survivor:
        print(result.mutant.diff(), flush=True)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
