"""`gdr mcp [PATH ...]`: answer an agent over the Model Context Protocol, on standard input and output."""

from __future__ import annotations

import sys

from gdrkit.cli.arguments import Parser
from gdrkit.cli.exit import OK, UNAVAILABLE


def parser() -> Parser:
    parser = Parser(
        "mcp",
        "Let an agent ask gdr: a server of the Model Context Protocol on standard input and output. Its "
        "tools are doctor, fix (the plan alone), explain, nccl, estimate and codes. They read this machine "
        "and what you name, and change nothing.",
        "  gdr mcp                                this machine, and texts that the agent gives\n"
        "  gdr mcp /srv/bundles                   also what is in that folder\n"
        "  gdr mcp ssh://admin@node17             also that node, over ssh\n\n"
        "An agent starts it itself, by its settings. Needs the extra `mcp` of the package.",
    )
    parser.add_argument(
        "paths",
        nargs="*",
        metavar="PATH",
        help="a folder, file or ssh://[user@]host that the agent may name; all else is refused",
    )
    return parser


def main(arguments: list[str]) -> int:
    options = parser().parse(arguments)
    try:
        from gdrkit.cli.mcp_server import serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        sys.stderr.write("gdr mcp: needs the Python package mcp: install gdrkit with its extra `mcp`\n")
        return UNAVAILABLE
    serve(options.paths)
    return OK
