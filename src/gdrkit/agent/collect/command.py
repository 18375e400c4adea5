"""The command line of `gdr collect`, and of `gdr-collect.pyz`."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from typing import IO, Any, Dict, List, NoReturn, Optional, Tuple

from ..output_file import whole_file
from .collector import Collection, CollectOptions, CollectSummary
from .progress import CollectorProgress
from .version import VERSION

USAGE, SOFTWARE, CANNOT_CREATE = 64, 70, 73  # sysexits.h, EX_USAGE, EX_SOFTWARE, EX_CANTCREAT
INTERRUPTED = 130

_EXAMPLES = """examples:
  sudo gdr collect                          write a bundle of this machine to this folder
  sudo gdr collect --anonymize -o node.tar.gz
  gdr collect --pyz gdr-collect.pyz         write the collector as one file; it needs only Python 3.8

gdr collect changes nothing on the machine. It removes secrets and never opens private keys.
Only you can read the bundle (mode 0600).
"""


class _CollectParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        sys.stderr.write(f"{self.prog}: {message}\n  see {self.prog} --help\n")
        raise SystemExit(USAGE)


def parser() -> argparse.ArgumentParser:
    parser = _CollectParser(
        prog="gdr collect",
        description="Write the evidence of this node into one .tar.gz; `gdr doctor FILE` reads it anywhere.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="write to this file; - is standard output")
    parser.add_argument(
        "--anonymize", action="store_true", help="replace names, addresses, GUIDs and serial numbers"
    )
    parser.add_argument(
        "--module",
        action="append",
        default=[],
        type=_module,
        metavar="NAME",
        help="also collect this kernel module",
    )
    parser.add_argument(
        "--no-probe", action="store_true", help="do not query libcuda, libibverbs and the kernel module"
    )
    parser.add_argument(
        "--root", default="/", metavar="DIR", help="collect from this directory instead of /"
    )
    parser.add_argument(
        "--pyz", metavar="FILE", help="write the collector as one file instead of collecting"
    )
    parser.add_argument("--force", action="store_true", help="replace an existing output file")
    parser.add_argument("-q", "--quiet", action="store_true", help="print only errors")
    parser.add_argument("-v", "--verbose", action="store_true", help="print every source")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    parser.add_argument("--debug", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--version", action="version", version=f"gdr collect {VERSION}")
    return parser


def _module(text: str) -> str:
    """The name of a module: Linux include/linux/module.h, MODULE_NAME_LEN."""
    if not re.fullmatch(r"\w[\w-]{0,54}", text, re.ASCII):
        raise argparse.ArgumentTypeError(f"not a module's name: {text!r}")
    return text


def parse(argv: Optional[List[str]]) -> argparse.Namespace:
    """The options. Exits with USAGE, and a line that names the option, if one would have no effect."""
    command = parser()
    given = command.parse_args(argv)
    bundle = {
        "--output": given.output is not None, "--anonymize": given.anonymize, "--module": given.module,
        "--no-probe": given.no_probe, "--root": given.root != "/", "--json": given.json,
        "--verbose": given.verbose,
    }  # fmt: skip
    for option, value in (("--output", given.output), ("--root", given.root), ("--pyz", given.pyz)):
        if value == "":
            command.error(f"empty value of {option}")
    wrong = next((option for option, is_given in bundle.items() if is_given), "")
    if given.pyz is not None and wrong:
        command.error(f"{wrong} has no effect with --pyz, which collects nothing")
    if given.quiet and given.verbose:
        command.error("--verbose has no effect with --quiet")
    if given.force and given.output == "-":
        command.error("--force has no effect with -o -")
    return given


def main(argv: Optional[List[str]] = None) -> int:
    """Run with these arguments (the process's own if None); returns the exit code."""
    try:
        arguments = parse(argv)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    progress = CollectorProgress(sys.stderr, quiet=arguments.quiet, verbose=arguments.verbose)
    try:
        if _exists(arguments.pyz or arguments.output or "-", arguments, progress):
            return USAGE
        if arguments.pyz:
            return _write_pyz(arguments.pyz, progress)
        return _collect(arguments, progress)
    except KeyboardInterrupt as interrupt:  # gdr's own has the code of another signal
        progress.problem("gdr collect: interrupted; nothing was written")
        return getattr(interrupt, "exit_code", INTERRUPTED)
    except BrokenPipeError:
        progress.problem("gdr collect: standard output was closed; the bundle is incomplete")
        return CANNOT_CREATE


def _exists(path: str, arguments: argparse.Namespace, progress: CollectorProgress) -> bool:
    """Whether a file is there that may not be replaced; says so."""
    if path == "-" or arguments.force or os.path.islink(path) or not os.path.isfile(path):
        return False  # what is not a regular file is never replaced: whole_file()
    progress.problem(f"gdr collect: {path} exists\n  name another output file, or replace it with --force")
    return True


def _write_pyz(path: str, progress: CollectorProgress) -> int:
    from .pyz import archive

    try:
        data = archive()
        with whole_file(path, 0o755) as stream:
            stream.write(data)
    except OSError as error:
        progress.problem(f"gdr collect: cannot write {path}: {error.strerror or error}")
        return CANNOT_CREATE
    progress.line(f"wrote {path}; copy it to a node and run: sudo python3 {os.path.basename(path)}")
    return 0


def _collect(arguments: argparse.Namespace, progress: CollectorProgress) -> int:
    to_stdout = arguments.output == "-"
    if to_stdout and arguments.json:
        progress.problem(
            "gdr collect: --json and -o - both write to standard output\n  use -o FILE with --json"
        )
        return USAGE
    if to_stdout and sys.stdout.isatty():
        progress.problem(
            "gdr collect: cannot write an archive to a terminal\n  redirect standard output, or use -o FILE"
        )
        return USAGE
    if not os.path.isdir(arguments.root):
        progress.problem(f"gdr collect: not a directory: {arguments.root}")
        return USAGE
    root = os.path.abspath(arguments.root)
    options = CollectOptions(root, arguments.anonymize, tuple(arguments.module), not arguments.no_probe)
    collection = Collection(options, progress)
    path = arguments.output or f"{collection.top}.tar.gz"
    if not arguments.output and _exists(path, arguments, progress):
        return USAGE
    try:
        if to_stdout:
            summary, size = _stream(collection, sys.stdout.buffer), 0
        else:
            summary, size = _file(collection, path)
    except BrokenPipeError:
        raise
    except OSError as error:
        progress.problem(f"gdr collect: cannot write {path}: {error.strerror or error}")
        return CANNOT_CREATE
    if arguments.json:
        sys.stdout.write(json.dumps(_as_json(path, size, summary), indent=2) + "\n")
    _print_summary(progress, "" if to_stdout else path, size, summary)
    return 0


def _stream(collection: Collection, stream: IO[bytes]) -> CollectSummary:
    summary = collection.write(stream)
    stream.flush()
    return summary


def _file(collection: Collection, path: str) -> Tuple[CollectSummary, int]:
    """Write the bundle to a file, for its owner alone: it may hold what only root can read."""
    with whole_file(path, 0o600) as stream:
        summary = collection.write(stream)
        size = stream.tell()
    return summary, size


def _as_json(path: str, size: int, summary: CollectSummary) -> Dict[str, Any]:
    return {
        "schema": "gdrkit.collect/1",
        "file": path,
        "size_bytes": size,
        "seconds": round(summary.seconds, 3),
        "files": summary.files,
        "commands": summary.commands,
        "denied": summary.denied,
    }


def _print_summary(progress: CollectorProgress, path: str, size: int, summary: CollectSummary) -> None:
    files, commands = summary.files, summary.commands
    kept = sum(files.get(status, 0) for status in ("found", "reduced", "listed"))
    counts = [f"{kept} found", f"{files.get('denied', 0)} denied", f"{files.get('absent', 0)} absent"]
    counts += [f"{files[status]} {status}" for status in ("timed-out", "truncated") if files.get(status)]
    named = f"{path}, {size / 1e6:.1f} MB: " if path else ""
    succeeded = f"{commands.get('found', 0)} of {sum(commands.values())} commands succeeded"
    progress.line(f"{named}{', '.join(counts)}; {succeeded}; {summary.seconds:.1f} s")
    if summary.denied and os.geteuid() != 0:
        some = ", ".join(summary.denied[:3]) + (", ..." if len(summary.denied) > 3 else "")
        progress.line(f"run as root to collect more: {some}")
