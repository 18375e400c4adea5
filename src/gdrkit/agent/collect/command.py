"""The command line of `gdr collect`, and of `gdr-collect.pyz`."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from typing import IO, Any, Dict, List, NoReturn, Optional, Tuple

from .collector import Collection, CollectOptions, CollectSummary
from .progress import Progress
from .version import VERSION

USAGE, SOFTWARE, CANNOT_CREATE = 64, 70, 73  # sysexits.h, EX_USAGE, EX_SOFTWARE, EX_CANTCREAT
INTERRUPTED = 130

_EXAMPLES = """examples:
  sudo gdr collect                          a bundle of this machine, in this folder
  sudo gdr collect --anonymize -o node.tar.gz
  gdr collect --pyz gdr-collect.pyz         one file that runs on a node with Python 3.8 and nothing else

Nothing on the machine is changed. Secrets are dropped; private keys are never opened. The bundle is mode
0600.
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        sys.stderr.write(f"{self.prog}: {message}\n  see {self.prog} --help\n")
        raise SystemExit(USAGE)


def parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="gdr collect",
        description="Write what a node is judged by into one .tar.gz: `gdr doctor FILE` reads it anywhere.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="where to write; - is standard output")
    parser.add_argument(
        "--anonymize", action="store_true", help="replace names, addresses, GUIDs and serial numbers"
    )
    parser.add_argument(
        "--module", action="append", default=[], metavar="NAME", help="collect this module too"
    )
    parser.add_argument("--no-probe", action="store_true", help="do not ask libcuda about the GPUs")
    parser.add_argument("--root", default="/", metavar="DIR", help="collect from a folder that looks like /")
    parser.add_argument(
        "--pyz", metavar="FILE", help="write the collector itself as one file, and do nothing else"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="say nothing but errors")
    parser.add_argument("-v", "--verbose", action="store_true", help="say every source")
    parser.add_argument("--json", action="store_true", help="write the summary to standard output as JSON")
    parser.add_argument("--debug", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--version", action="version", version=f"gdr collect {VERSION}")
    return parser


def main(argv: Optional[List[str]] = None) -> int:
    """Run with these arguments (the process's own if None); returns the exit code."""
    try:
        arguments = parser().parse_args(argv)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    progress = Progress(sys.stderr, quiet=arguments.quiet, verbose=arguments.verbose)
    try:
        if arguments.pyz:
            return _write_pyz(arguments.pyz, progress)
        return _collect(arguments, progress)
    except KeyboardInterrupt:
        progress.problem("gdr collect: interrupted; nothing was written")
        return INTERRUPTED
    except BrokenPipeError:
        progress.problem("gdr collect: the reader of standard output went away")
        return CANNOT_CREATE


def _write_pyz(path: str, progress: Progress) -> int:
    from .pyz import archive

    try:
        data = archive()
        with open(path, "wb") as stream:
            stream.write(data)
        os.chmod(path, 0o755)
    except OSError as error:
        progress.problem(f"gdr collect: cannot write {path}: {error.strerror or error}")
        return CANNOT_CREATE
    progress.line(f"wrote {path}; copy it to a node and run: sudo python3 {os.path.basename(path)}")
    return 0


def _collect(arguments: argparse.Namespace, progress: Progress) -> int:
    to_stdout = arguments.output == "-"
    if to_stdout and arguments.json:
        progress.problem("gdr collect: --json and -o - both want standard output\n  see gdr collect --help")
        return USAGE
    if to_stdout and sys.stdout.isatty():
        progress.problem("gdr collect: an archive does not go to a terminal; redirect it, or give -o FILE")
        return USAGE
    if not os.path.isdir(arguments.root):
        progress.problem(f"gdr collect: {arguments.root} is no folder")
        return USAGE
    root = os.path.abspath(arguments.root)
    options = CollectOptions(root, arguments.anonymize, tuple(arguments.module), not arguments.no_probe)
    collection = Collection(options, progress)
    path = arguments.output or f"{collection.top}.tar.gz"
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
    _tell(progress, "" if to_stdout else path, size, summary)
    return 0


def _stream(collection: Collection, stream: IO[bytes]) -> CollectSummary:
    summary = collection.write(stream)
    stream.flush()
    return summary


def _file(collection: Collection, path: str) -> Tuple[CollectSummary, int]:
    """Write beside the file and put it in place whole: no half bundle is ever seen. mkstemp makes it
    0600."""
    folder = os.path.dirname(os.path.abspath(path))
    descriptor, partial = tempfile.mkstemp(prefix=".gdr-", suffix=".partial", dir=folder)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            summary = collection.write(stream)
            size = stream.tell()
        if os.path.exists(path) and not os.path.isfile(path):
            raise OSError(22, "there is something else than a file of that name")
        os.replace(partial, path)
    except BaseException:
        os.unlink(partial)
        raise
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


def _tell(progress: Progress, path: str, size: int, summary: CollectSummary) -> None:
    files, commands = summary.files, summary.commands
    kept = sum(files.get(status, 0) for status in ("found", "reduced", "listed"))
    counts = [f"{kept} found", f"{files.get('denied', 0)} denied", f"{files.get('absent', 0)} absent"]
    counts += [f"{files[status]} {status}" for status in ("timed-out", "truncated") if files.get(status)]
    named = f"{path}, {size / 1e6:.1f} MB: " if path else ""
    answered = f"{commands.get('found', 0)} of {sum(commands.values())} commands answered"
    progress.line(f"{named}{', '.join(counts)}; {answered}; {summary.seconds:.1f} s")
    if summary.denied and os.geteuid() != 0:
        some = ", ".join(summary.denied[:3]) + (", ..." if len(summary.denied) > 3 else "")
        progress.line(f"run it as root to see more: {some}")
