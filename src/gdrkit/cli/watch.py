"""`gdr watch`: `gdr ps` again and again, with what changed."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gdrkit.cli.arguments import Parser, colours, matching, number, text_rows, text_width, write
from gdrkit.cli.ps import add_ras

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from gdrkit.jobs.running.document import PsCommunicator, PsDocument

INTERVAL_S = 2
PAIRS_EVERY_S = 60
"""How often all queue pairs are listed if they are many: each is a firmware command."""


def parser() -> Parser:
    parser = Parser(
        "watch",
        "Show which path the processes take that run now, again and again, with what changed: as a live "
        "screen in a terminal, which q ends, else a line for each change. Looks only, as gdr ps does.",
        "  sudo gdr watch                             a live screen\n"
        "  sudo gdr watch --job 4711                  only the processes of a job\n"
        "  sudo gdr watch --interval 10 --count 6     once in ten seconds, for a minute\n"
        "  sudo gdr watch --trace                     also what is registered meanwhile\n"
        "  gdr watch ssh://root@node17                another node\n\n"
        "exit codes: as of gdr ps, for the last look",
    )
    parser.add_argument(
        "target", nargs="?", metavar="TARGET", help="ssh://[user@]host; this machine if omitted"
    )
    parser.add_argument(
        "--interval", metavar="S", type=number(1, 3600), default=INTERVAL_S, help="seconds between two looks"
    )
    parser.add_argument("--count", metavar="N", type=number(1, 1 << 30), help="end after N looks")
    parser.add_argument("--pid", type=number(1, (1 << 22) - 1), metavar="PID", help="only this process")
    parser.add_argument(
        "--job", metavar="ID", type=matching(r"\w[\w.:@-]{0,99}", "the id of a job, a pod or a container"),
        help="only the processes of this job, pod or container",
    )  # fmt: skip
    add_ras(parser)
    parser.add_argument(
        "--trace",
        action="store_true",
        help="also follow registrations of memory by perf, as root on this machine; leaves nothing behind",
    )
    return parser


def main(arguments: list[str]) -> int:
    options = parser().parse(arguments)
    from gdrkit.evidence.errors import TargetError
    from gdrkit.jobs.running.changes import lines, looks, remarks
    from gdrkit.jobs.running.document import exit_code
    from gdrkit.jobs.running.text import communicators, plain

    if options.target is not None and not options.target.startswith("ssh://"):
        raise TargetError(f"not a running machine: {options.target}", "gdr ps shows a bundle or a record")
    if options.trace and options.target is not None:
        parser().error("--trace has no effect with TARGET")
    with _trace(options.trace) as registered:
        if sys.stdout.isatty() and colours():
            return _live(options, registered)
        before, code, said = None, 0, set[str]()
        for found in _documents(options, time.sleep):
            clock = time.strftime("%H:%M:%S")
            more = (*(f"n {line}" for line in communicators(found)), *(f"r {line}" for line in registered()))
            new = [line for line in more if line not in said]
            unseen = (f"? {line}" for line in remarks(before, found))
            for line in (
                *lines(looks(before, found), clock),
                *(f"{clock} {line}" for line in (*unseen, *new)),
            ):
                write(plain(line) + "\n")
            sys.stdout.flush()
            said.update(new)
            before, code = found, exit_code(found)
    return code


@contextmanager
def _trace(wanted: bool) -> Iterator[Callable[[], list[str]]]:
    """A function that returns what was registered since the start, in lines."""
    if not wanted:
        yield list
        return
    from gdrkit.evidence.running import Trace
    from gdrkit.facts.commands import RUNNING
    from gdrkit.jobs.running.registrations import Registrations

    trace, sums = Trace(RUNNING), Registrations()

    def registered() -> list[str]:
        for line in trace.lines():
            sums.add(line)
        return [*sums.lines()]

    try:
        yield registered
    finally:
        trace.close()


def _documents(options: argparse.Namespace, wait: Callable[[float], object]) -> Iterator[PsDocument]:
    """A document after each interval, until `wait` returns true. NCCL is asked at the first look only.
    Raises TargetError, EvidenceMissing."""
    from msgspec.structs import replace

    from gdrkit.agent.running.options import FEW_PAIRS, RAS
    from gdrkit.evidence.errors import TargetError
    from gdrkit.evidence.running import record_of
    from gdrkit.facts.commands import RUNNING
    from gdrkit.formats.errors import FormatError
    from gdrkit.jobs.running.judge import document
    from gdrkit.jobs.running.record import decode

    number, listed = 0, float("-inf")
    told: tuple[PsCommunicator, ...] = ()
    while options.count is None or number < options.count:
        began = time.monotonic()
        pairs = began - listed >= PAIRS_EVERY_S
        listed = began if pairs else listed
        try:
            asked = [RAS] if options.ras and not number else []
            record = decode(record_of(options.target, RUNNING, [*asked, *([] if pairs else [FEW_PAIRS])]))
            found = document(record, options.pid, options.job)
            told = told if number else found.communicators
            yield replace(found, communicators=told)
        except FormatError as error:
            raise TargetError(f"not a record of processes: {error}") from None
        number += 1
        if number != options.count and wait(max(0.0, began + options.interval - time.monotonic())):
            return


def _live(options: argparse.Namespace, registered: Callable[[], list[str]]) -> int:
    """A screen that changes in place. What is quoted on it has passed `visible` (report/terminal.py)."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from gdrkit.cli.keys import ended_by_q
    from gdrkit.jobs.running.changes import CHANGES_SHOWN, changes, looks, screen
    from gdrkit.jobs.running.document import exit_code

    console = Console(file=_Screen(), force_terminal=True, highlight=False, emoji=False, markup=False)  # type: ignore[arg-type]
    before, code = None, 0
    changed: deque[str] = deque(maxlen=CHANGES_SHOWN)
    with (
        ended_by_q() as wait,
        Live(console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False) as live,
    ):
        for found in _documents(options, wait):
            now, marked = time.strftime("%H:%M:%S"), looks(before, found)
            if before is not None:
                changed.extendleft(changes(marked, now))
            text = screen(
                found, marked, clock=f"{now}  every {options.interval} s, q ends", colour=True,
                width=text_width(), registered=registered(), height=text_rows(), changed=changed,
            )  # fmt: skip
            live.update(Text.from_ansi(text), refresh=True)
            before, code = found, exit_code(found)
    return code


class _Screen:
    """The file that rich draws on: standard output, which lets the cursor move."""

    encoding = "utf-8"

    def write(self, text: str) -> int:
        from gdrkit.agent.streams import SafeStream

        return sys.stdout.screen(text) if isinstance(sys.stdout, SafeStream) else sys.stdout.write(text)

    def flush(self) -> None:
        sys.stdout.flush()

    def isatty(self) -> bool:
        return True
