"""Hides evidence of the nodes of tests/evidence, and prints each claim that the whole does not make.

    python -m tools.hidings --workers 64                 every source of every node, one at a time
    python -m tools.hidings --sample 20 --pairs 20       a few of each node, and as many random pairs
    python -m tools.hidings --node rail-down             one node

Hidden evidence counts as not collected. It may make an answer unknown, never another one: tests/claims.py.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import datetime
import random
import sys
from collections import Counter
from collections.abc import Iterator
from multiprocessing import get_context

from msgspec import Struct
from tests.claims import Claims, claims, offences
from tests.evidence_nodes import laid_down, names
from tests.hiding_host import HidingHost

from gdrkit.evidence.target import open_host

CHUNK = 40
"""Hidings of one node that one task takes: the whole evidence is judged once for them."""

Hiding = tuple[str, ...]


class Task(Struct, frozen=True):
    """Some hidings of one node."""

    node: str
    hidings: tuple[Hiding, ...]


class Offence(Struct, frozen=True, order=True):
    """A claim without evidence."""

    node: str
    hidden: Hiding
    claim: str


def sources(node: str) -> tuple[str, ...]:
    """What a verdict on the node asks for."""
    host = HidingHost(open_host(str(laid_down(node))))
    claims(host)
    return tuple(sorted(host.asked))


def tasks(nodes: list[str], sample: int, pairs: int, seed: str) -> Iterator[Task]:
    """All single hidings, or a sample of each node, and random pairs."""
    for node in nodes:
        chooser = random.Random(f"{seed} {node}")
        found = sources(node)
        single = chooser.sample(found, k=min(sample, len(found))) if sample else found
        chosen: list[Hiding] = [(name,) for name in single]
        chosen += [tuple(sorted(chooser.sample(found, k=2))) for _ in range(pairs) if len(found) > 1]
        for start in range(0, len(chosen), CHUNK):
            yield Task(node, tuple(chosen[start : start + CHUNK]))


def carry_out(task: Task) -> list[Offence]:
    """The offences of a task."""
    host = open_host(str(laid_down(task.node)))
    whole: Claims = claims(HidingHost(host))
    return [
        Offence(task.node, hidden, claim)
        for hidden in task.hidings
        for claim in offences(whole, claims(HidingHost(host, set(hidden))))
    ]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, default=2, help="processes (default: 2)")
    parser.add_argument("--sample", type=int, default=0, help="single hidings of each node; 0: all of them")
    parser.add_argument("--pairs", type=int, default=0, help="random pairs of each node (default: none)")
    parser.add_argument("--seed", default=datetime.date.today().isoformat(), help="default: the date")
    parser.add_argument("--node", action="append", help="only this node; may be repeated")
    return parser.parse_args()


def main() -> int:
    """Run, and print the offences and a table. Exit status 1 if there is any offence."""
    options = arguments()
    nodes = options.node or list(names())
    found: list[Offence] = []
    done: Counter[int] = Counter()
    left: Counter[str] = Counter()
    print(f"seed {options.seed}")
    listed = list(tasks(nodes, options.sample, options.pairs, options.seed))  # lays the nodes down, once
    left.update(task.node for task in listed)
    with concurrent.futures.ProcessPoolExecutor(options.workers, get_context("fork")) as pool:
        todo = {pool.submit(carry_out, task): task for task in listed}
        for future in concurrent.futures.as_completed(todo):
            done.update(len(hidden) for hidden in todo[future].hidings)
            for offence in sorted(future.result()):
                print(f"{offence.node}: without {' and '.join(offence.hidden)}: {offence.claim}", flush=True)
                found.append(offence)
            left[todo[future].node] -= 1
            if not left[todo[future].node]:  # a run that is stopped has shown how far it came
                print(f"{todo[future].node}: all done", file=sys.stderr, flush=True)
    print(f"\n| nodes | single | pairs | claims without evidence |\n|{' ---: |' * 4}")
    print(f"| {len(nodes)} | {done[1]} | {done[2]} | {len(found)} |")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
