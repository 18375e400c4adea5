"""`gdr modprobe NAME [TARGET]`: what modprobe would say, without loading anything."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from gdrkit.cli.arguments import Parser, print_notes, write
from gdrkit.cli.exit import BLOCKED, OK, UNKNOWN

if TYPE_CHECKING:
    from gdrkit.loader import Prediction


def parser() -> Parser:
    parser = Parser(
        "modprobe",
        "What modprobe would print for a module, its exit code, and the kernel's log lines. "
        "Judged from files alone: nothing is loaded, no root is needed.",
        "  gdr modprobe nvidia-peermem                    on this machine\n"
        "  gdr modprobe nvidia_peermem sosreport.tar.xz   on another, from its sosreport\n"
        "  gdr modprobe mlx5_ib --json\n"
        "  gdr modprobe nvidia NVreg_EnableResizableBar=1 with a parameter\n\n"
        "exit codes: 0 it would load, 2 it would not, 3 cannot tell",
    )
    parser.add_argument("module", metavar="NAME", help="a module's name or alias")
    parser.add_argument("parameters", nargs="*", metavar="TARGET | PARAMETER=VALUE", help="see gdr doctor")
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing; the exit code tells")
    parser.output()
    return parser


def main(arguments: list[str]) -> int:
    options = parser().parse_intermixed_args(arguments)
    targets = [word for word in options.parameters if "=" not in word]
    if len(targets) > 1:
        parser().error(f"one target at most, not {len(targets)}")
    from gdrkit.evidence import EvidenceMissing
    from gdrkit.evidence.target import open_host
    from gdrkit.loader import modprobe
    from gdrkit.node import Node

    parameters = tuple(word for word in options.parameters if "=" in word)
    host = open_host(targets[0] if targets else None)
    print_notes(host)
    try:
        prediction = modprobe(Node(host), options.module, parameters)
    except EvidenceMissing as lacks:  # not even the folder of modules is known
        missing = lacks.missing
        sys.stderr.write(f"gdr modprobe: {missing.source}: {missing.why}; {missing.ask}\n")
        return UNKNOWN
    if options.json:
        import msgspec

        from gdrkit.report.build import modprobe_section

        write(
            msgspec.json.format(msgspec.json.encode(modprobe_section(prediction)), indent=2).decode() + "\n"
        )
    elif not options.quiet:
        write(_told(prediction))
        sys.stdout.flush()
    if prediction.result_unknown:
        return UNKNOWN
    return OK if prediction.loaded or prediction.exit_code == 0 else BLOCKED


def _told(prediction: Prediction) -> str:
    lines = [*prediction.stderr, *(f"kernel: {line}" for line in prediction.kernel_log)]
    if prediction.result_unknown:
        lines.append(f"{prediction.module}: cannot tell what its loading would return")
    elif prediction.loaded:
        lines.append(f"{prediction.module} would load")
    else:
        lines.append(f"{prediction.module} would not load; modprobe exits {prediction.exit_code}")
    sure = prediction.confidence
    lines.append(f"reason: {prediction.reason or 'nothing stops it'} ({sure})")
    lines += [f"unless {unless}" for unless in prediction.unless]
    if not prediction.result_unknown:
        lines += [f"provided that the init of {module} succeeds" for module in prediction.assumes]
    return "\n".join(lines) + "\n"
