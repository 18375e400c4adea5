"""`gdr probe`: what the CUDA driver and libibverbs answer, each call with the number that it returned."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from gdrkit.cli.arguments import Parser, write
from gdrkit.cli.exit import OK, UNKNOWN

if TYPE_CHECKING:
    from gdrkit.facts.probe import Call

MARKED = {18: "INTEGRATED", 116: "GPU_DIRECT_RDMA_SUPPORTED", 124: "DMA_BUF_SUPPORTED"}
"""The attributes that decide, shown without -v: cuda.h, CUdevice_attribute."""


def parser() -> Parser:
    parser = Parser(
        "probe",
        "Ask libcuda for each GPU's attributes, and libibverbs whether a device takes dma-bufs. "
        "Runs as a child process with a time limit; makes no context, takes no memory, changes nothing.",
        "  gdr probe                what decides\n"
        "  gdr probe -v             every call\n"
        "  gdr probe cuda --json    the record, as bundles keep it\n\n"
        "exit codes: 0 something answered, 3 nothing did",
    )
    parser.add_argument("what", nargs="?", choices=("cuda", "verbs"), help="one of the two, or both")
    parser.add_argument("-v", "--verbose", action="store_true", help="show every call")
    parser.output()
    return parser


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    from gdrkit.evidence import Lacks
    from gdrkit.facts.commands import PROBE_CUDA, PROBE_VERBS
    from gdrkit.facts.probe import cuda_calls, verbs_calls
    from gdrkit.host.live import LiveHost
    from gdrkit.node import Node

    node = Node(LiveHost(probe=True))
    table = {"cuda": (PROBE_CUDA, cuda_calls), "verbs": (PROBE_VERBS, verbs_calls)}
    code = UNKNOWN
    for name in [options.what] if options.what else table:
        command, calls = table[name]
        try:
            answers = calls(node)
        except Lacks as lacks:
            sys.stderr.write(f"gdr probe: {name}: {lacks.missing.why.value}: {lacks.missing.ask}\n")
            continue
        if any(call.result == 0 for call in answers):
            code = OK
        write(node.run(command) if options.json else _told(name, answers, options.verbose))
    return code


def _told(name: str, calls: tuple[Call, ...], verbose: bool) -> str:
    """One line per call. A call that failed shows the number that it returned, never 0 as its value."""
    lines = []
    for call in calls:
        number = int(call.argument) if call.argument.isdigit() else -1
        if name == "cuda" and call.call == "cuDeviceGetAttribute" and number not in MARKED and not verbose:
            continue
        what = f"{call.call}({call.argument}{' ' + MARKED[number] if number in MARKED else ''})"
        value = call.returned if call.result == 0 else "unknown"
        lines.append(f"{call.subject or name:<14} {what:<60} {value or 'ok'} [{call.result}]")
    return "\n".join(lines) + "\n"
