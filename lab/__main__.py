"""`python -m lab`: list, run, record, compare, random, rdma, doctor, fix, transport, shell."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from lab import commands
from lab.cache import LabError


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code: 0 all well, 1 a disagreement, 2 the lab itself could not do its work."""
    options = _parser().parse_args(arguments)
    try:
        code: int = options.act(options)
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 2
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gdr-lab", description="Real kernels judge predictions.")
    actions = parser.add_subparsers(required=True, metavar="ACTION")

    def action(name: str, text: str, act: object) -> argparse.ArgumentParser:
        sub = actions.add_parser(name, help=text, description=text)
        sub.set_defaults(act=act)
        sub.add_argument("-k", "--kernel", default="6.1-amd64", help="which kernel (see list)")
        return sub

    action("list", "kernels, profiles and cases", commands.show)
    run = action("run", "boot a profile and print what the kernel says", commands.run)
    record = action("record", "boot profiles and write their golden files", commands.record)
    compare = action(
        "compare", "predictions against golden files, or against a fresh boot", commands.compare
    )
    compare.add_argument("--boot", action="store_true", help="boot instead of reading golden files")
    compare.add_argument("-v", "--verbose", action="store_true", help="each case, not only disagreements")
    for sub in (run, compare):
        sub.add_argument("profile", nargs="?", default="")
        sub.add_argument("case", nargs="?", default="", help="a shell pattern")
    record.add_argument("profile", nargs="*")
    some = "record only these cases anew (a shell pattern; may be repeated)"
    record.add_argument("--case", action="append", default=[], help=some)
    record.add_argument("--missing", action="store_true", help="record only what the golden file lacks")
    for sub in (run, record, compare):
        sub.add_argument("--seed", type=int, default=commands.SEED, help="of the random names")
    random = action("random", "random combinations of faults, predicted and judged", commands.random)
    random.add_argument("count", nargs="?", type=int, default=100)
    random.add_argument("--seed", type=int, default=None)
    random.add_argument("--profile", default="", help="one profile instead of a random mix")
    random.add_argument("--keep", default="", help="a folder for the sessions' golden files")
    rdma = action("rdma", "RDMA over rdma_rxe in a guest: tools, traffic, verbs", commands.rdma)
    rdma.add_argument("--write", action="store_true", help="keep the outputs as fixtures")
    rdma.add_argument("--two", action="store_true", help="two guests on one wire")
    doctor = action("doctor", "gdr doctor live in a guest, and from its bundle", commands.doctor)
    doctor.add_argument("--write", action="store_true", help="keep the bundle as a fixture")
    fix = action("fix", "break guests, let gdr fix mend them, reboot, take it back", commands.fix)
    fix.add_argument("scenario", nargs="*", help="some alone (see lab/fix_scenarios.py)")
    action("transport", "gdrkit.transport over rdma_rxe in a guest", commands.transport)
    shell = action("shell", "a shell in a guest, on this terminal", commands.shell)
    shell.add_argument("profile", nargs="?", default="plain")
    return parser


if __name__ == "__main__":
    sys.exit(main())
