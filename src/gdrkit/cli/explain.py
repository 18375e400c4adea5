"""`gdr explain [FILE]`: the likeliest cause in a pasted text, what to do, and what else it could be."""

from __future__ import annotations

from gdrkit.cli.arguments import Parser, colours, text_width, write, write_json

LIMIT_BYTES, LINES_LIMIT = 16 << 20, 400_000
"""Longest text that is accepted. A kernel log has a few MB and some 10,000 lines; more is a mistake or many
machines, and each line takes memory."""

HEAD_BYTES, UTF_16 = 1 << 16, (b"\xff\xfe", b"\xfe\xff")
"""What is looked at to tell a text, where a log may have a few zero bytes, and programs and archives have
many; and the byte order marks of UTF-16."""

PIPE = "name a file, or pipe something in: dmesg | gdr explain"


def parser() -> Parser:
    parser = Parser(
        "explain",
        "Find the cause of a problem in what programs printed: a modprobe error, an excerpt of dmesg, an "
        "NCCL log, output of nvidia-smi, lspci, modinfo or perftest, also within a post. Prints the most "
        "likely cause, how sure it is, by which line, what to do, and the command that tells other causes "
        "apart. What people write around the outputs proves nothing, and is not read.",
        "  gdr explain errors.txt\n"
        "  dmesg | gdr explain\n"
        "  journalctl -b | gdr explain -v      show how to check each cause\n"
        "  gdr explain --json < nccl.log\n\n"
        "exit codes: 0 the text shows that the path works, or that what looks like a failure is none; 1 a "
        "problem is proven that stops no path; 2 one is proven that stops a path; 3 everything else; 64 "
        "and above usage and internal errors. For an NCCL log those of gdr nccl, for manifests those of "
        "gdr config check",
    )
    parser.add_argument(
        "file", nargs="?", default="-", metavar="FILE", help="text file; standard input if - or omitted"
    )
    parser.output()
    parser.add_argument("-v", "--verbose", action="store_true", help="show how to check each possible cause")
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing; only set the exit code")
    parser.one_output("--json", "--verbose", "--quiet")
    return parser


def main(arguments: list[str]) -> int:
    options = parser().parse(arguments)

    from gdrkit.cli.explained import (
        FINDS_NOTHING,
        agreeing,
        checked_file,
        combined_exit_code,
        explained_text,
    )
    from gdrkit.cli.files import shown
    from gdrkit.explain.explain import explain
    from gdrkit.explain.pasted_host import PastedHost
    from gdrkit.jobs.pasted import PastedJob, pasted_job

    content = _content(options.file)
    log = pasted_job(content, shown(options.file)) if b"NCCL" in content or b"NET/" in content else None
    explanation = explain(PastedHost(content))
    finds_nothing = explanation.answer.kind in FINDS_NOTHING
    file = checked_file(content, shown(options.file)) if finds_nothing else None
    explanation = agreeing(explanation, log, file)
    job = log if isinstance(log, PastedJob) else None
    if options.quiet:
        pass
    elif options.json:
        from gdrkit.formats.json_text import encode

        write_json(encode(explained_text(explanation, job), enc_hook=str))
    else:
        from gdrkit.explain.text import text
        from gdrkit.jobs.text import text as text_of_job

        terminal = colours()
        page = text(explanation, verbose=options.verbose, colour=terminal, width=text_width())
        if job is not None:
            words = text_of_job(job.document, colour=terminal, width=text_width())
            page += f"\nThe job of the NCCL log\n{words}"
        write(page, styled=terminal)
    return combined_exit_code(explanation, log, file)


def _content(file: str) -> bytes:
    """The text of a file or of standard input, decompressed. Raises TargetError if there is none, too much,
    or something else than text."""
    from gdrkit.cli.files import read_input, shown
    from gdrkit.evidence.errors import TargetError
    from gdrkit.formats.compressed import decompress
    from gdrkit.formats.errors import FormatError

    try:
        content = bytes(decompress(read_input(file, LIMIT_BYTES, PIPE), LIMIT_BYTES))
    except FormatError as error:
        raise TargetError(f"{shown(file)}: {error}", "unpack it, and pipe the text in") from None
    if not content.strip():
        raise TargetError("no text: the input is empty", PIPE)
    head = content[:HEAD_BYTES]
    if head.count(0) > len(head) / 10 and not content.startswith(UTF_16):
        raise TargetError(f"{shown(file)}: not a text file", "gdr doctor judges bundles and sosreports")
    if content.count(b"\n") > LINES_LIMIT:
        raise TargetError(f"{shown(file)}: more than {LINES_LIMIT:,} lines", "cut it down to what matters")
    return content
