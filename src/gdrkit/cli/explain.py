"""`gdr explain [FILE]`: what a pasted text establishes, what it leaves open, what to ask next."""

from __future__ import annotations

import sys

from gdrkit.cli.arguments import Parser, write

LIMIT_BYTES = 64 << 20
"""How much of a text is read. A kernel's log has at most a few MB; more is a mistake, or many machines."""


def parser() -> Parser:
    parser = Parser(
        "explain",
        "What does a pasted text establish? A line of modprobe, an excerpt of dmesg, a log of NCCL, outputs "
        "of nvidia-smi, lspci, modinfo, perftest, a whole post of a forum. Says what is proven and by which "
        "line, which causes stay open, and the one command that would decide most between them.",
        "  gdr explain post.txt\n"
        "  dmesg | gdr explain\n"
        "  journalctl -b | gdr explain -v      with what would tell each cause\n"
        "  gdr explain --json < nccl.log\n\n"
        "exit codes: 0 nothing wrong is established or open, 1 something that stops no path, "
        "2 something that does, 3 causes remain open, 64 and above usage and internal errors",
    )
    parser.add_argument(
        "file", nargs="?", default="-", metavar="FILE", help="a text; standard input if - or none"
    )
    parser.output()
    parser.add_argument("-v", "--verbose", action="store_true", help="show what would tell each cause")
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing; the exit code tells")
    return parser


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    from gdrkit.explain.explain import explain
    from gdrkit.explain.pasted_host import PastedHost

    told = explain(PastedHost(_content(options.file)))
    if options.quiet:
        pass
    elif options.json:
        import msgspec

        write(msgspec.json.format(msgspec.json.encode(told), indent=1).decode() + "\n")
    else:
        from gdrkit.explain.text import text

        write(text(told, verbose=options.verbose, colour=sys.stdout.isatty()))
    return told.exit_code


def _content(file: str) -> bytes:
    """The bytes of a file or of standard input. Raises TargetError where there are none to be had."""
    from gdrkit.evidence.errors import TargetError

    if file != "-":
        try:
            with open(file, "rb") as text:
                content = text.read(LIMIT_BYTES + 1)
        except OSError as error:
            raise TargetError(f"{file}: {(error.strerror or str(error)).lower()}") from None
    elif sys.stdin.isatty():
        raise TargetError(
            "no text: standard input is a terminal",
            "name a file, or pipe something in: dmesg | gdr explain",
        )
    else:
        content = sys.stdin.buffer.read(LIMIT_BYTES + 1)
    if len(content) > LIMIT_BYTES:
        raise TargetError(f"more than {LIMIT_BYTES >> 20} MB of text", "cut it down to what matters")
    return content
