"""`gdr fix [TARGET]`: what would mend a node, and, on this machine alone, doing it and taking it back."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from gdrkit.cli.arguments import Parser, print_notes, write
from gdrkit.cli.exit import OK
from gdrkit.consumers.names import NAMES

if TYPE_CHECKING:
    from gdrkit.report.fix_document import Aim, FixReport


def parser() -> Parser:
    parser = Parser(
        "fix",
        "The steps that lead from this node's verdict to one that works, with the exact commands for its "
        "distribution. Prints; changes something only with --apply, only on this machine, and writes down "
        "each change before making it.",
        "  gdr fix                                what would mend this machine\n"
        "  gdr fix sosreport.tar.xz               another one: prints, never changes it\n"
        "  sudo gdr fix --apply                   step by step, asking before each\n"
        "  sudo gdr fix --resume                  go on after a crash or a reboot\n"
        "  sudo gdr fix --undo                    every file as it was before\n"
        "  sudo gdr fix --module --apply          make nvidia-peermem load, whatever the verdict\n"
        "  sudo gdr fix --steps raise-memlock --apply\n\n"
        "exit codes: 0 done, or a way is known; 1 done but for a reboot, or something was left alone;\n"
        "2 blocked or failed; 3 unknown; 75 another gdr fix is at work; 77 this needs root",
    )
    parser.target()
    parser.output()
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--apply", action="store_true", help="carry the steps out on this machine")
    what.add_argument("--resume", action="store_true", help="go on with a run that did not finish")
    what.add_argument(
        "--undo", nargs="?", const="last", metavar="RUN", help="take back the last run, or the one named"
    )
    what.add_argument("--status", action="store_true", help="what was done here, and what is open")
    aim = parser.add_mutually_exclusive_group()
    aim.add_argument("--module", action="store_true", help="aim at a nvidia-peermem that loads")
    aim.add_argument("--steps", metavar="NAMES", help="take these steps, separated by commas")
    parser.add_argument(
        "--way", type=int, default=1, metavar="N", help="which way to take, if there are more"
    )
    parser.add_argument("--consumer", choices=NAMES, default=NAMES[0], help="whose verdict is mended")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask before each step")
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing but what a person must do")
    parser.add_argument("--root", default="/", metavar="DIR", help="work on a tree that looks like /")
    parser.add_argument("--force", action="store_true", help="undo also what somebody changed since")
    _signing(parser)
    return parser


def _signing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--key", default="", metavar="FILE", help="sign modules with this private key")
    parser.add_argument("--certificate", default="", metavar="FILE", help="the certificate of --key")
    parser.add_argument("--digest", choices=("sha256", "sha384", "sha512"), default="sha256",
                        help="of the signatures")  # fmt: skip
    parser.add_argument("--no-enrol", action="store_true", help="do not ask the firmware to trust the key")
    parser.add_argument("--ask-key-password", action="store_true", help="protect the key, or open it")
    parser.add_argument("--key-password-fd", type=int, metavar="FD", help="the same, read from a descriptor")
    parser.add_argument(
        "--mok-password-fd",
        type=int,
        metavar="FD",
        help="the password for the blue screen, from a descriptor",
    )
    parser.add_argument("--acs", choices=("unit", "command-line", "volatile"), default="unit",
                        help="how cleared ACS bits outlast a boot")  # fmt: skip


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    changes = options.apply or options.resume or options.undo or options.status
    if options.target and changes:
        parser().error("gdr fix changes this machine alone; for another one it prints")
    if bool(options.key) != bool(options.certificate):
        parser().error("--key and --certificate go together")
    if not changes:
        return _print(options)
    from gdrkit.cli.fix_apply import carry_out

    return carry_out(options, lambda: planned(options))


def planned(options: argparse.Namespace) -> FixReport:
    """The plan for what the options name."""
    from gdrkit.evidence.target import open_host
    from gdrkit.node import Node
    from gdrkit.repair.platforms.choices import ProcedureChoices
    from gdrkit.repair.remedies import REMEDIES
    from gdrkit.report.fix import FixOptions, fix_report

    steps = tuple(name.strip() for name in (options.steps or "").split(",") if name.strip())
    known = [remedy.name for remedy in REMEDIES]
    for name in steps:
        if name not in known:
            parser().error(f"there is no step {name}; there are {', '.join(known)}")
    host = open_host(options.target or (options.root if options.root != "/" else None))
    print_notes(host)
    choices = ProcedureChoices(
        key=options.key,
        certificate=options.certificate,
        digest=options.digest,
        enrol=not options.no_enrol,
        acs=options.acs,
    )
    aim: Aim = "steps" if steps else "module" if options.module else "verdict"
    return fix_report(
        Node(host), FixOptions(consumer=options.consumer, aim=aim, steps=steps, choices=choices)
    )


def _print(options: argparse.Namespace) -> int:
    report = planned(options)
    if options.json:
        import msgspec

        write(msgspec.json.format(msgspec.json.encode(report), indent=1).decode() + "\n")
    elif not options.quiet:
        from gdrkit.report.fix_text import fix_text

        write(fix_text(report))
    from gdrkit.cli.fix_apply import without_a_way

    return OK if report.ways else without_a_way(report)
