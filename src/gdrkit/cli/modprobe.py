"""`gdr modprobe NAME [TARGET]`: predict what modprobe would print, without loading anything."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from gdrkit.cli.arguments import Parser, print_notes, text_width, write, write_json
from gdrkit.cli.exit import BLOCKED, OK, UNKNOWN

if TYPE_CHECKING:
    from gdrkit.loader import Prediction
    from gdrkit.loader.prediction import LoadRefusal
    from gdrkit.report.document import ModprobeSection


def parser() -> Parser:
    parser = Parser(
        "modprobe",
        "Predict what modprobe would print for a module, its exit code and the kernel messages. "
        "Reads files only: does not load anything and does not need root. It is about the kernel that runs: "
        "`gdr doctor` also judges the one that boots next.",
        "  gdr modprobe nvidia-peermem                    this machine\n"
        "  gdr modprobe nvidia_peermem sosreport.tar.xz   a node from its sosreport\n"
        "  gdr modprobe mlx5_ib --json\n"
        "  gdr modprobe nvidia NVreg_EnableResizableBar=1  with a module parameter\n\n"
        "exit codes: 0 the module would load, 2 it would not, 3 unknown, or a check could not be made",
    )
    parser.add_argument("module", metavar="NAME", help="module name or alias")
    parser.add_argument(
        "parameters",
        nargs="*",
        metavar="TARGET | PARAMETER=VALUE",
        help="see gdr doctor --help; or a module parameter",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing; only set the exit code")
    parser.output()
    parser.one_output("--json", "--quiet")
    return parser


def main(arguments: list[str]) -> int:
    options = parser().parse(arguments)
    if not options.module.isprintable() or not options.module.strip():
        parser().error(f"not a module's name: {options.module!r}")
    if "/" in options.module:
        parser().error(f"expected a module's name before the target, got a path: {options.module}")
    targets = [word for word in options.parameters if "=" not in word]
    if len(targets) > 1:
        parser().error(f"expected at most one target, got {len(targets)}")
    from gdrkit.evidence import EvidenceMissing
    from gdrkit.evidence.target import open_host
    from gdrkit.formats.module_name import canonical
    from gdrkit.loader import modprobe
    from gdrkit.loader.unseen import refused_unseen
    from gdrkit.node import Node

    parameters = tuple(word for word in options.parameters if "=" in word)
    host = open_host(targets[0] if targets else None)
    print_notes(host)
    node = Node(host)
    try:
        prediction = modprobe(node, options.module, parameters)
    except EvidenceMissing as error:  # the folder of modules was not collected
        missing = error.missing
        why = missing.why.replace("-", " ")
        sys.stderr.write(
            f"gdr modprobe: cannot tell: {missing.source}: {why}\n  to find out, run: {missing.ask}\n"
        )
        refusal = refused_unseen(node, options.module)
        if options.json:
            write_json(_unknown(options.module, refusal), indent=2)
        elif refusal is not None and not options.quiet:
            write(f"no build of {canonical(options.module)} can load here: {refusal.reason}\n")
        return UNKNOWN if refusal is None else BLOCKED
    if options.json:
        from gdrkit.report.build import modprobe_section

        write_json(modprobe_section(prediction), indent=2)
    elif not options.quiet:
        write(_text(prediction, targets[0] if targets else ""))
        sys.stdout.flush()
    if prediction.undecided:
        return UNKNOWN
    return OK if prediction.loaded or prediction.exit_code == 0 else BLOCKED


def _unknown(module: str, refusal: LoadRefusal | None) -> ModprobeSection:
    """What is known without an index of modules: at most that the kernel refuses every build."""
    from gdrkit.evidence import Confidence
    from gdrkit.report.document import ModprobeSection

    return ModprobeSection(
        module=module, exit_code=None, loaded=None if refusal is None else False, stderr="",
        kernel_log=(), reason="" if refusal is None else refusal.reason,
        confidence=Confidence.CERTAIN,
    )  # fmt: skip


def _why(prediction: Prediction, target: str) -> list[str]:
    """What the reason means, and where to read on; nothing for a module that loads."""
    from gdrkit.catalogue import CODES
    from gdrkit.evidence.quoting import quoted
    from gdrkit.facts.modules import PEERMEM
    from gdrkit.report.pages import code_page

    if prediction.reason not in CODES:
        return []
    where = f" {quoted(target)}" if target else ""
    more = f"more: `gdr codes {prediction.reason}`"
    if prediction.module == PEERMEM:
        more += f"; `gdr doctor{where}` says whether it matters here"
    return [f"why: {code_page(prediction.reason)[0]}", more]


def _text(prediction: Prediction, target: str = "") -> str:
    from gdrkit.report.terminal import QUOTE, Row, render

    quotes = (*prediction.stderr, *(f"kernel: {line}" for line in prediction.kernel_log))
    lines = []
    if prediction.result_unknown:
        lines.append(f"{prediction.module}: result unknown: an init function or an install command may fail")
    elif prediction.undecided:
        lines.append(
            f"{prediction.module}: result open: {'would load' if prediction.loaded else 'would not load'}"
        )
    elif prediction.builtin:
        lines.append(f"{prediction.module} is built into the kernel")
    elif prediction.loaded and not prediction.inserted:
        lines.append(f"{prediction.module} is loaded already")
    elif prediction.loaded:
        lines.append(f"{prediction.module} would load")
    else:
        lines.append(f"{prediction.module} would not load; modprobe exits {prediction.exit_code}")
    lines.append(f"reason: {prediction.reason or 'nothing stops it'} ({prediction.confidence})")
    lines += _why(prediction, target)
    for code in prediction.unless:  # what is refused is refused, whichever check comes first
        lines.append(
            f"unless {code} (not checked: evidence missing)"
            if prediction.undecided
            else f"not checked, and without effect on the exit code: {code} (evidence missing)"
        )
    if not prediction.result_unknown:
        lines += [f"assuming that the init function of {module} succeeds" for module in prediction.assumes]
    rows: list[Row] = [(0, QUOTE, line) for line in quotes]
    return render((*rows, *((2, "none", "", line) for line in lines)), {}, width=text_width())
