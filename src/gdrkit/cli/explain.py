"""`gdr explain [FILE]`: the likeliest cause in a pasted text, what to do, and what else it could be."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from gdrkit.cli.arguments import Parser, colours, text_width, write, write_json
from gdrkit.formats.utf_16 import MARKS, in_utf_8

if TYPE_CHECKING:
    from gdrkit.cli.long_text import CutText
    from gdrkit.explain.explanation import Explanation
    from gdrkit.explain.lines.transcript import Gap
    from gdrkit.jobs.pasted import PastedJob
    from gdrkit.repair.config.fault import CheckedFile

LIMIT_BYTES, LINES_LIMIT = 16 << 20, 400_000
"""Longest text that is read whole, and its most lines. A kernel log has a few MB and some 10,000 lines, and
each line takes memory."""

START_BYTES = 1 << 16
"""What is looked at to tell a text, where a log may have a few zero bytes, and programs and archives have
many; and the byte order marks of UTF-16."""

NOT_CUT = (*MARKS, b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ")
"""How texts begin that cannot be cut at a line: UTF-16, and what gzip, zstd and xz packed."""

HEAD_BYTES, TAIL_BYTES = 2 << 20, 6 << 20
"""What is read of a longer text: the start of a log names the machine and its versions, the end has what
failed last."""

PIPE = "name a file, paste something in, or pipe it: dmesg | gdr explain"


def parser() -> Parser:
    parser = Parser(
        "explain",
        "Find the cause of a problem in what programs printed: a modprobe error, an excerpt of dmesg, an "
        "NCCL log, output of nvidia-smi, lspci, modinfo or perftest, also within a post. Prints the most "
        "likely cause, how sure it is, by which line, what to do, and the command that tells other causes "
        "apart. What people write around the outputs proves nothing, and is not read.",
        "  gdr explain errors.txt\n"
        "  dmesg | gdr explain\n"
        '  gdr explain "Couldn\'t allocate MR with error=14"\n'
        "  gdr explain                          then paste, and press Ctrl-D\n"
        "  journalctl -b | gdr explain -v      show how to check each cause\n"
        "  gdr explain --json < nccl.log\n\n"
        "exit codes: 0 the text shows that the path works, or that what looks like a failure is none; 1 a "
        "problem is proven that stops no path; 2 one is proven that stops a path; 3 everything else; 64 "
        "and above usage and internal errors. For an NCCL log those of gdr nccl, for manifests those of "
        "gdr config check",
    )
    parser.add_argument(
        "file",
        nargs="?",
        default="-",
        metavar="FILE",
        help="text file, or an error itself in quotes; standard input if - or omitted",
    )
    parser.output()
    parser.add_argument("-v", "--verbose", action="store_true", help="show how to check each possible cause")
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing; only set the exit code")
    parser.one_output("--json", "--verbose", "--quiet")
    return parser


def main(arguments: list[str]) -> int:
    options = parser().parse(_joined(arguments))

    from gdrkit.cli.explained_exit import combined_exit_code

    explanation, job, file = explained(options.file)
    if options.quiet:
        pass
    elif options.json:
        from gdrkit.cli.explained_document import explained_text
        from gdrkit.formats.json_text import encode

        write_json(encode(explained_text(explanation, job), enc_hook=str))
    else:
        from gdrkit.explain.text import text

        terminal = colours()
        page = text(explanation, verbose=options.verbose, colour=terminal, width=text_width())
        if job is not None:
            from gdrkit.jobs.text import text as text_of_job

            words = text_of_job(job.document, brief=not options.verbose, colour=terminal, width=text_width())
            page += f"\nThe job of the log\n{words}"
        write(page, styled=terminal)
    return combined_exit_code(explanation, job, file)


def explained(argument: str) -> tuple[Explanation, PastedJob | None, CheckedFile | None]:
    """The explanation of a text, the job of a log in it that decides something, and what `gdr config check`
    finds in it. Raises TargetError if there is no text."""
    from gdrkit.cli.explained import LogReader, checked_file, with_faults, with_rates
    from gdrkit.cli.files import STDIN, shown
    from gdrkit.explain.explain import explain
    from gdrkit.explain.outputs.pasted_host import PastedHost
    from gdrkit.formats.log_store import without_frames

    content, gap = read_text(argument)
    if b"apiVersion" not in content[:START_BYTES]:  # what fields of a manifest quote stays quoted
        content = without_frames(content)
    name = shown(STDIN if _is_text(argument) else argument)
    host = PastedHost(content, gap=gap)
    log = LogReader(content, name, gap)
    explanation = explain(host, log)
    file = checked_file(content, name, host.lines, explanation)
    explanation = with_rates(with_faults(explanation, file, content), host)
    if log.job is not None:
        from gdrkit.cli.pasted_nics import with_left_out

        explanation = with_left_out(explanation, host, log.job)
    return explanation, log.job, file


OF_A_JOB = "`gdr nccl` reads all logs of a job at once: files, folders and patterns"


def _joined(arguments: list[str]) -> list[str]:
    """The arguments, with words that are typed without quotation marks, and of which none is a file, as one
    text. Ends the command for several files."""
    words = [one for one in arguments if not one.startswith("-")]
    files = sum(map(os.path.lexists, words))
    if files > 1:
        parser().error(f"{files} files; give one text. {OF_A_JOB}")
    if len(words) < 2 or files:
        return arguments
    return [*(one for one in arguments if one.startswith("-")), " ".join(words)]


def _is_text(argument: str) -> bool:
    """Whether an argument is the text itself, and not the name of a file."""
    return " " in argument and not os.path.lexists(argument)


def _typed() -> bytes:
    """What is pasted into a terminal until the end of input. Raises TargetError if there is nothing."""
    from gdrkit.evidence.errors import TargetError

    content = sys.stdin.buffer.read(LIMIT_BYTES)
    if not content.strip():
        raise TargetError("no text: the input is empty", PIPE)
    return content


def read_text(file: str) -> tuple[bytes, Gap]:
    """The text of a file or of standard input, decompressed, and what was left out of a long one. Raises
    TargetError if there is none, too much, or something else than text."""
    from gdrkit.cli.files import STDIN, shown
    from gdrkit.cli.long_text import read_cut
    from gdrkit.evidence.errors import TargetError
    from gdrkit.explain.lines.transcript import NO_GAP
    from gdrkit.formats.compressed import decompress
    from gdrkit.formats.errors import FormatError

    if _is_text(file):
        return f"{file}\n".encode(errors="surrogateescape"), NO_GAP
    if file == STDIN and sys.stdin is not None and sys.stdin.isatty():
        sys.stderr.write("Paste, then Ctrl-D\n")
        return _typed(), NO_GAP
    if file == STDIN and sys.stdin is None:
        raise TargetError("no text: standard input is closed", PIPE)
    try:
        text = read_cut(file, LIMIT_BYTES, HEAD_BYTES, TAIL_BYTES, lambda start: _check_cut(file, start))
        content = text.content if text.is_cut else bytes(decompress(text.content, LIMIT_BYTES))
    except OSError as error:
        of_several = os.path.isdir(file) or "*" in file
        why = (error.strerror or str(error)).lower()
        raise TargetError(f"{shown(file)}: {why}", OF_A_JOB if of_several else "") from None
    except FormatError as error:
        raise TargetError(f"{shown(file)}: {error}", "unpack it, and pipe the text in") from None
    if not content.strip():
        raise TargetError("no text: the input is empty", PIPE)
    _check_text(file, content)
    if content.startswith(MARKS):
        content = b"".join(in_utf_8((content,)))
    if content.count(b"\n") > LINES_LIMIT:
        raise TargetError(f"{shown(file)}: more than {LINES_LIMIT:,} lines", "cut it down to what matters")
    if text.is_cut:
        sys.stderr.write(_note(shown(file), text))
    return content, text.gap


def _check_cut(file: str, start: bytes) -> None:
    """Raises TargetError if a text with this start cannot be cut at a line, or is none."""
    from gdrkit.cli.files import shown
    from gdrkit.evidence.errors import TargetError

    if start.startswith(NOT_CUT):
        raise TargetError(
            f"{shown(file)}: larger than {LIMIT_BYTES >> 20} MiB", "unpack it, and pipe the text in"
        )
    _check_text(file, start)


def _check_text(file: str, content: bytes) -> None:
    """Raises TargetError if this is not a text."""
    from gdrkit.cli.files import shown
    from gdrkit.evidence.errors import TargetError

    head = content[:START_BYTES]
    if content.startswith(MARKS):
        return
    undecodable = head.decode("utf-8", "replace").count("\ufffd")
    if head.count(0) + undecodable > len(head) / 10:
        raise TargetError(f"{shown(file)}: not a text file", "gdr doctor judges bundles and sosreports")


def _note(name: str, text: CutText) -> str:
    """What was read of a long text."""
    first, last = text.gap.after, text.gap.after + text.gap.lines
    return (
        f"note: {name} has {text.size_bytes / 1e6:,.0f} MB; lines {first:,} to {last:,} were not read, only"
        f" the first {HEAD_BYTES >> 20} MiB and the last {TAIL_BYTES >> 20} MiB."
        " gdr nccl reads a whole log of NCCL\n"
    )
