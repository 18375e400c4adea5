"""`python -m lab`: list, run, record, words, compare, random, rdma, live, doctor, fix, transport, shell."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence

from lab import commands
from lab.cache import LabError, require_tools
from lab.kernels import flavour


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 0 success, 1 a disagreement, 2 a failure of the lab itself."""
    options = _parser().parse_args(arguments)
    try:
        if options.boots or getattr(options, "boot", False):
            require_tools(flavour(options.kernel).architecture)
        code: int = options.act(options)
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 2
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gdr-lab", description="Compare predictions with real kernels.")
    actions = parser.add_subparsers(required=True, metavar="ACTION")

    def action(name: str, text: str, act: object, *, boots: bool = True) -> argparse.ArgumentParser:
        sub = actions.add_parser(name, help=text, description=text)
        sub.set_defaults(act=act, boots=boots)
        sub.add_argument("-k", "--kernel", default="6.1-amd64", help="the kernel to use (see list)")
        return sub

    action("list", "list kernels, profiles and cases", commands.show, boots=False)
    run = action("run", "boot a profile and print the kernel's answers", commands.run)
    record = action("record", "boot profiles and write their golden files", commands.record)
    compare = action(
        "compare",
        "compare predictions with golden files, or with a fresh boot",
        commands.compare,
        boots=False,
    )
    compare.add_argument("--boot", action="store_true", help="boot instead of reading golden files")
    compare.add_argument(
        "-v", "--verbose", action="store_true", help="print each case, not only disagreements"
    )
    keep = action("words", "keep the expected word of each recorded case", commands.words, boots=False)
    keep.set_defaults(profile="")
    for sub in (run, compare):
        sub.add_argument("profile", nargs="?", default="")
        sub.add_argument("case", nargs="?", default="", help="a shell pattern")
    record.add_argument("profile", nargs="*")
    some = "record only these cases (a shell pattern; may be repeated)"
    record.add_argument("--case", action="append", default=[], help=some)
    record.add_argument(
        "--missing", action="store_true", help="record only the cases missing in the golden file"
    )
    for sub in (run, record, compare):
        sub.add_argument("--seed", type=int, default=commands.SEED, help="seed of the random names")
    random = action("random", "predict and run random combinations of faults", commands.random)
    random.add_argument("count", nargs="?", type=int, default=100)
    random.add_argument("--seed", type=int, default=None)
    random.add_argument("--profile", default="", help="one profile instead of a random mix")
    random.add_argument("--keep", default="", help="a folder for the sessions' golden files")
    rdma = action("rdma", "run RDMA over rdma_rxe in a guest: tools, traffic, verbs", commands.rdma)
    rdma.add_argument("--write", action="store_true", help="save the outputs as fixtures")
    rdma.add_argument("--two", action="store_true", help="use two guests on one network")
    doctor = action("doctor", "compare gdr doctor live in a guest with its bundle", commands.doctor)
    doctor.add_argument("--write", action="store_true", help="save the bundle as a fixture")
    fix = action("fix", "break guests, repair them with gdr fix, reboot, undo", commands.fix)
    fix.add_argument("scenario", nargs="*", help="only these scenarios (see lab/fix_scenarios.py)")
    live = action("live", "hold RDMA objects in a guest, and record what gdr ps sees", commands.live)
    live.add_argument("--write", action="store_true", help="save the outputs as fixtures")
    action("transport", "run gdrkit.transport over rdma_rxe in a guest", commands.transport)
    shell = action("shell", "open a shell in a guest on this terminal", commands.shell)
    shell.add_argument("profile", nargs="?", default="plain")
    return parser


def end_by(number: int, _frame: object) -> None:
    """End by a signal as by Ctrl-C: what is cleaned up at an end is cleaned up."""
    sys.exit(128 + number)


if __name__ == "__main__":
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end_by)
    sys.exit(main())
