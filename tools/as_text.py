"""Compares what `gdr explain` says of a node's text with what `gdr doctor` says of the node.

    python -m tools.as_text --workers 8               every node of tests/evidence
    python -m tools.as_text --count 100 --seed 7      machines of the generator
    python -m tools.as_text --node rail-down          one node

The text holds what the commands of the node print (machines/printed), all of them or all but one. It may say
less than the node, never anything else: tests/text_form.py. Printed are each offence, and a table.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path

from machines.cases import case
from msgspec import Struct
from tests.evidence_nodes import laid_down
from tests.text_form import Outcome, TextForm, as_text_names, outcomes

from machines import compose

COLUMNS = ("same", "part", "less", "other")


class Task(Struct, frozen=True):
    """A node of tests/evidence, or a machine of the generator by its seed and number."""

    node: str = ""
    seed: int = 0
    number: int = 0
    sample: int = 0

    @property
    def name(self) -> str:
        return self.node or f"{self.seed}-{self.number}"


class Result(Struct, frozen=True):
    """The outcomes of a node: of the whole text, and without each command."""

    name: str
    whole: Outcome
    without: dict[str, Outcome]


def carry_out(task: Task) -> Result:
    """The outcomes of a task."""
    with tempfile.TemporaryDirectory() as name:
        if task.node:
            path = laid_down(task.node)
        else:
            path = compose.write(case(task.seed, task.number).machine, Path(name))
        form = TextForm(path)
        chosen = list(form.outputs)
        if task.sample:
            chosen = random.Random(task.name).sample(chosen, k=min(task.sample, len(chosen)))
        found = dict(outcomes(form, chosen))
    return Result(task.name, found.pop(""), found)


def complaints(result: Result) -> Iterator[str]:
    """The offences of a node, each once."""
    seen: set[str] = set()
    for command, outcome in (("", result.whole), *result.without.items()):
        for offence in outcome.offences:
            if offence not in seen:
                seen.add(offence)
                yield f"{result.name}{f', without {command}' if command else ''}: {offence}"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, default=2, help="processes (default: 2)")
    parser.add_argument("--count", type=int, default=0, help="machines of the generator, not the nodes")
    parser.add_argument("--seed", type=int, default=1, help="of the generator (default: 1)")
    parser.add_argument("--sample", type=int, default=0, help="commands left out of each; 0: all of them")
    parser.add_argument("--node", action="append", help="only this node; may be repeated")
    return parser.parse_args()


def main() -> int:
    """Run, and print the offences and a table. Exit status 1 if there is any offence."""
    options = arguments()
    if options.count:
        tasks = [Task("", options.seed, number, options.sample) for number in range(options.count)]
    else:
        tasks = [Task(name, sample=options.sample) for name in options.node or as_text_names()]
        for task in tasks:
            laid_down(task.node)  # once, before the processes start
    whole: Counter[str] = Counter()
    without: Counter[str] = Counter()
    with concurrent.futures.ProcessPoolExecutor(options.workers, get_context("fork")) as pool:
        for result in pool.map(carry_out, tasks):
            for complaint in complaints(result):
                print(complaint, flush=True)
            whole[result.whole.kind] += 1
            without.update(outcome.kind for outcome in result.without.values())
    print(f"\n| {'text of':<20} | texts | {' | '.join(COLUMNS)} |\n|---|{' ---: |' * (len(COLUMNS) + 1)}")
    for name, found in (("all commands", whole), ("all but one", without)):
        print(f"| {name:<20} | {found.total()} | {' | '.join(str(found[kind]) for kind in COLUMNS)} |")
    return 1 if whole["other"] or without["other"] else 0


if __name__ == "__main__":
    sys.exit(main())
