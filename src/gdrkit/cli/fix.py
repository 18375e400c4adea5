"""`gdr fix [TARGET]`: plans repairs of a node; on this machine, also carries them out and undoes them."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from gdrkit.cli.arguments import (
    Parser,
    colours,
    matching,
    number,
    print_notes,
    text_width,
    write,
    write_json,
)
from gdrkit.cli.exit import OK

if TYPE_CHECKING:
    from gdrkit.report.fix_document import FixReport, Goal


_RUN = matching(r"last|\d{8}-\d{6}-\d{2}", "the name of a run, as in gdr fix --status")


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
        "exit codes: 0 done, a plan exists, or nothing to fix; 1 reboot needed, stopped, or partly "
        "undone; 2 blocked or failed; 3 unknown; 75 another gdr fix is running; 77 root needed",
    )
    parser.target()
    parser.output()
    parser.add_argument("-q", "--quiet", action="store_true", help="print only what must be done by hand")
    parser.add_argument("--root", default="/", metavar="DIR", help="work on the system tree in DIR")
    parser.consumer()
    _plans(parser.add_argument_group("which steps, to print or to --apply"))
    carried = parser.add_argument_group("instead of printing, on this machine")
    mode = carried.add_mutually_exclusive_group()
    mode.add_argument("--apply", action="store_true", help="carry out the steps")
    mode.add_argument("--resume", action="store_true", help="continue an unfinished run")
    mode.add_argument(
        "--undo", nargs="?", const="last", type=_RUN, metavar="RUN", help="undo the last run, or RUN"
    )
    mode.add_argument("--status", action="store_true", help="list all runs and their states")
    carried.add_argument(
        "-y", "--yes", action="store_true", help="do not ask before each step (not with --status)"
    )
    carried.add_argument(
        "--force", action="store_true", help="with --undo: also restore files that changed since"
    )
    _signing(parser.add_argument_group("for steps that sign modules"))
    _passwords(parser.add_argument_group("passwords of these steps, with --apply, --resume or --undo"))
    acs = parser.add_argument_group("for clear-acs-redirect")
    acs.add_argument("--acs", choices=("unit", "command-line", "volatile"), default="unit",
                     help="how to keep ACS bits cleared across reboots")  # fmt: skip
    _add_rules(parser)
    return parser


_MODES = ("--apply", "--resume", "--undo", "--status")
_CHOICES = ("--key", "--certificate", "--digest", "--no-enrol", "--acs")
"""A run keeps them in its journal."""


def _add_rules(parser: Parser) -> None:
    """Which options have no effect without, or with, which others."""
    parser.only_with("--yes", "--apply", "--resume", "--undo")
    parser.only_with("--force", "--undo")
    parser.never_with("--plan", "--module", "--steps")
    parser.never_with("--quiet", "--json", "--status")
    parser.never_with("--json", *_MODES)
    parser.never_with("--expect", "--module", "--steps")
    for option in ("--module", "--steps", "--plan", "--consumer", "--expect", *_CHOICES):
        parser.never_with(option, *_MODES[1:])
    for option in ("--ask-key-password", "--key-password-fd", "--mok-password-fd"):
        parser.only_with(option, *_MODES[:3])
    parser.never_with("--ask-key-password", "--key-password-fd")
    parser.never_with("--mok-password-fd", "--no-enrol")


def _steps(text: str) -> tuple[str, ...]:
    """The names of a comma-separated list of steps. Raises ArgumentTypeError."""
    from gdrkit.rules.remedy_names import RemedyName

    names = tuple(name.strip() for name in text.split(","))
    if unknown := [name for name in names if name not in list(RemedyName)]:
        known = ", ".join(RemedyName)
        raise argparse.ArgumentTypeError(f"unknown step: {unknown[0]!r}; known steps: {known}")
    return tuple(dict.fromkeys(names))


def _plans(group: argparse._ArgumentGroup) -> None:
    goal = group.add_mutually_exclusive_group()
    goal.add_argument("--module", action="store_true", help="make nvidia-peermem load")
    goal.add_argument(
        "--steps", metavar="NAMES", type=_steps, help="carry out these steps, separated by commas"
    )
    group.add_argument(
        "--plan", type=number(1, 99), metavar="N", help="number of the plan to use (default: 1)"
    )
    group.add_argument(
        "--expect", metavar="FILE", help="what the node should have, as TOML; see gdr doctor --expect"
    )


def _signing(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--key", default="", metavar="FILE", help="sign modules with this private key")
    group.add_argument("--certificate", default="", metavar="FILE", help="certificate of --key")
    group.add_argument("--digest", choices=("sha256", "sha384", "sha512"), default="sha256",
                       help="digest of the signatures")  # fmt: skip
    group.add_argument("--no-enrol", action="store_true", help="do not enrol the key in the firmware")


def _passwords(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--ask-key-password", action="store_true", help="ask for the key's password")
    group.add_argument(
        "--key-password-fd",
        type=number(0, 1 << 20),
        metavar="FD",
        help="read the key's password from descriptor FD",
    )
    group.add_argument(
        "--mok-password-fd",
        type=number(0, 1 << 20),
        metavar="FD",
        help="read the MOK enrolment password from descriptor FD",
    )


def main(arguments: list[str]) -> int:
    options = parser().parse(arguments)
    changes = options.apply or options.resume or options.undo or options.status
    if options.target and changes:
        parser().error("--apply, --resume, --undo and --status work on this machine only; omit the target")
    if options.target:
        parser().refuse(options, ("--root",), "with a target")
    if bool(options.key) != bool(options.certificate):
        parser().error("--key and --certificate must be given together")
    if not changes:
        return _print(options)
    from gdrkit.cli.fix_apply import carry_out

    return carry_out(options, lambda: make_plan(options))


def make_plan(options: argparse.Namespace) -> FixReport:
    """The plans for the goal that the options name."""
    from gdrkit.cli.expectation import read_expectation
    from gdrkit.diagnosis import node_of
    from gdrkit.evidence.quoting import quoted
    from gdrkit.evidence.target import open_host
    from gdrkit.repair.platforms.choices import ProcedureChoices
    from gdrkit.report.fix import FixOptions, fix_report

    expected = None if options.expect is None else read_expectation(options.expect)
    host = open_host(options.target or (options.root if options.root != "/" else None))
    print_notes(host)
    choices = ProcedureChoices(
        key=options.key,
        certificate=options.certificate,
        digest=options.digest,
        enrol=not options.no_enrol,
        acs=options.acs,
    )
    goal: Goal = "steps" if options.steps else "module" if options.module else "verdict"
    report = fix_report(
        node_of(host, expected),
        FixOptions(
            consumer=options.consumer,
            goal=goal,
            steps=options.steps or (),
            choices=choices,
            target=quoted(options.target) if options.target else "",
        ),
    )
    if report.plans and (options.plan or 1) > len(report.plans):
        parser().error(
            f"--plan {options.plan}: there are only {len(report.plans)} plans; gdr fix lists them"
        )
    return report


def _print(options: argparse.Namespace) -> int:
    from msgspec.structs import replace

    report = make_plan(options)
    if options.plan is not None and report.plans:
        report = replace(report, plans=(report.plans[options.plan - 1],))
    if options.json:
        write_json(report)
    elif not options.quiet:
        from gdrkit.report.fix_text import fix_text

        coloured = colours()
        write(fix_text(report, colour=coloured, width=text_width()), styled=coloured)
    from gdrkit.cli.fix_apply import exit_code_without_plan

    return OK if report.plans else exit_code_without_plan(report)
