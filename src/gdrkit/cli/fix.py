"""`gdr fix [TARGET]`: plans repairs of a node; on this machine, also carries them out and undoes them."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from gdrkit.cli.arguments import Parser, print_notes, write, write_json
from gdrkit.cli.exit import OK
from gdrkit.consumers.names import NAMES

if TYPE_CHECKING:
    from gdrkit.report.fix_document import FixReport, Goal


def parser() -> Parser:
    parser = Parser(
        "fix",
        "Plans the steps that make GPUDirect RDMA work on a node, with the exact commands for its "
        "distribution. Only prints, unless you give --apply. Changes only this machine, and "
        "journals and backs up everything before changing it.",
        "  gdr fix                                show what would fix this machine\n"
        "  gdr fix sosreport.tar.xz               the same for another node\n"
        "  sudo gdr fix --apply                   carry out each step after you confirm it\n"
        "  sudo gdr fix --resume                  continue after a crash or a reboot\n"
        "  sudo gdr fix --undo                    restore every file\n"
        "  sudo gdr fix --module --apply          make nvidia-peermem load, whatever the verdict\n"
        "  sudo gdr fix --steps raise-memlock --apply\n\n"
        "exit codes: 0 done, a plan exists, or nothing to fix; 1 reboot needed, stopped, or partly\n"
        "undone; 2 blocked or failed; 3 unknown; 75 another gdr fix is running; 77 root needed",
    )
    parser.target()
    parser.output()
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--apply", action="store_true", help="carry out the steps on this machine")
    mode.add_argument("--resume", action="store_true", help="continue an unfinished run")
    mode.add_argument("--undo", nargs="?", const="last", metavar="RUN", help="undo the last run, or RUN")
    mode.add_argument("--status", action="store_true", help="list all runs and their states")
    goal = parser.add_mutually_exclusive_group()
    goal.add_argument("--module", action="store_true", help="make nvidia-peermem load")
    goal.add_argument("--steps", metavar="NAMES", help="carry out these steps, separated by commas")
    parser.add_argument(
        "--way", type=int, default=1, metavar="N", help="number of the plan to use (default: 1)"
    )
    parser.add_argument("--consumer", choices=NAMES, default=NAMES[0], help="the program that must work")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask before each step")
    parser.add_argument("-q", "--quiet", action="store_true", help="print only what must be done by hand")
    parser.add_argument("--root", default="/", metavar="DIR", help="work on the system tree in DIR")
    parser.add_argument(
        "--force", action="store_true", help="with --undo: also restore files that changed since"
    )
    _signing(parser)
    return parser


def _signing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--key", default="", metavar="FILE", help="sign modules with this private key")
    parser.add_argument("--certificate", default="", metavar="FILE", help="certificate of --key")
    parser.add_argument("--digest", choices=("sha256", "sha384", "sha512"), default="sha256",
                        help="digest of the signatures")  # fmt: skip
    parser.add_argument("--no-enrol", action="store_true", help="do not enrol the key in the firmware")
    parser.add_argument("--ask-key-password", action="store_true", help="ask for the key's password")
    parser.add_argument(
        "--key-password-fd", type=int, metavar="FD", help="read the key's password from descriptor FD"
    )
    parser.add_argument(
        "--mok-password-fd",
        type=int,
        metavar="FD",
        help="read the MOK enrolment password from descriptor FD",
    )
    parser.add_argument("--acs", choices=("unit", "command-line", "volatile"), default="unit",
                        help="how to keep ACS bits cleared across reboots")  # fmt: skip


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    changes = options.apply or options.resume or options.undo or options.status
    if options.target and changes:
        parser().error("--apply, --resume, --undo and --status work on this machine only; omit the target")
    if bool(options.key) != bool(options.certificate):
        parser().error("--key and --certificate must be given together")
    if not changes:
        return _print(options)
    from gdrkit.cli.fix_apply import carry_out

    return carry_out(options, lambda: make_plan(options))


def make_plan(options: argparse.Namespace) -> FixReport:
    """The plans for the goal that the options name."""
    from gdrkit.evidence.target import open_host
    from gdrkit.node import Node
    from gdrkit.repair.platforms.choices import ProcedureChoices
    from gdrkit.repair.remedies import REMEDIES
    from gdrkit.report.fix import FixOptions, fix_report

    steps = tuple(name.strip() for name in (options.steps or "").split(",") if name.strip())
    known = [remedy.name for remedy in REMEDIES]
    for name in steps:
        if name not in known:
            parser().error(f"unknown step: {name}; known steps: {', '.join(known)}")
    host = open_host(options.target or (options.root if options.root != "/" else None))
    print_notes(host)
    choices = ProcedureChoices(
        key=options.key,
        certificate=options.certificate,
        digest=options.digest,
        enrol=not options.no_enrol,
        acs=options.acs,
    )
    goal: Goal = "steps" if steps else "module" if options.module else "verdict"
    return fix_report(
        Node(host), FixOptions(consumer=options.consumer, goal=goal, steps=steps, choices=choices)
    )


def _print(options: argparse.Namespace) -> int:
    report = make_plan(options)
    if options.json:
        write_json(report)
    elif not options.quiet:
        from gdrkit.report.fix_text import fix_text

        write(fix_text(report))
    from gdrkit.cli.fix_apply import exit_code_without_plan

    return OK if report.ways else exit_code_without_plan(report)
