"""python -m machines: judge gdrkit on machines of a seed."""

from __future__ import annotations

import argparse
import itertools
import sys
from pathlib import Path

from machines import compose
from machines.cases import cases
from machines.faults import BY_NAME, GROUPS
from machines.faults.decoys import DECOY_BY_NAME
from machines.report import describe, summary, table
from machines.run import Result, judged


def main() -> int:
    parser = argparse.ArgumentParser("python -m machines", description=__doc__)
    parser.add_argument("--seed", type=int, default=[1], nargs="+", help="one or more (default 1)")
    parser.add_argument("--count", type=int, default=100, help="machines (default 100)")
    parser.add_argument(
        "--only", default="", metavar="FAULT", help="plant this fault, or one of this group, in each machine"
    )
    parser.add_argument("--number", type=int, help="only this machine of the seed")
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="keep the evidence of machines that gdrkit misjudges"
    )
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--faults", action="store_true", help="list the faults")
    parser.add_argument("--summary", action="store_true", help="print the shares of right answers only")
    parser.add_argument("-v", "--verbose", action="store_true", help="describe every machine")
    options = parser.parse_args()
    if options.faults:
        print("\n".join(f"{name:<40} {', '.join(fault.codes)}" for name, fault in BY_NAME.items()))
        print(f"groups: {', '.join(GROUPS)}")
        print(f"near misses: {', '.join(DECOY_BY_NAME)}")
        return 0
    if options.only and options.only not in {**BY_NAME, **GROUPS, **DECOY_BY_NAME}:
        parser.error(f"no such fault: {options.only}; --faults lists them")
    results: list[Result] = []
    given = (options.count, options.only, options.number, options.jobs)
    for result in itertools.chain.from_iterable(judged(seed, *given) for seed in options.seed):
        results.append(result)
        if options.verbose or (options.number is not None):
            print(describe(result))
        if options.keep and (result.misses or options.number is not None):
            case = next(cases(result.seed, 1, options.only, result.number))
            options.keep.mkdir(parents=True, exist_ok=True)
            folder = options.keep / f"{result.seed}-{result.number}"
            folder.mkdir(exist_ok=True)
            compose.write(case.machine, folder)
    print("\n".join(summary(results)) if options.summary else table(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
