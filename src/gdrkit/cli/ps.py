"""`gdr ps`: the path that each process takes which uses a GPU or an RDMA device now."""

from __future__ import annotations

from gdrkit.cli.arguments import Parser, colours, matching, number, text_width, write, write_json
from gdrkit.cli.exit import UNKNOWN

MOST_PID = (1 << 22) - 1
"""PID_MAX_LIMIT: Linux include/linux/threads.h."""


def parser() -> Parser:
    parser = Parser(
        "ps",
        "Show which path the processes take that run now: directly, through host memory, or over sockets. "
        "Nothing is restarted or changed. Root sees more: the table of dma-bufs, other users' processes.",
        "  sudo gdr ps                    a row for each process, and why\n"
        "  sudo gdr ps -v --job 4711      the evidence for the processes of a job\n"
        "  gdr ps ssh://root@node17       of another node; nothing is installed there\n"
        "  gdr ps node.tar.gz             of a bundle: when it was collected\n"
        "  gdr ps --record > node17.json  what the node shows, not judged\n"
        "  gdr ps node17.json             judge what it showed then\n\n"
        "exit codes: 0 no process takes a slower path, 2 some do, 3 it is not known for some, or "
        "no process is the one asked for, 64 and above usage and internal errors",
    )
    parser.target()
    parser.output()
    parser.add_argument("-v", "--verbose", action="store_true", help="show the evidence of each process")
    parser.add_argument("--pid", type=number(1, MOST_PID), metavar="PID", help="show only this process")
    parser.add_argument(
        "--job", metavar="ID", type=matching(r"\w[\w.:@-]{0,99}", "the id of a job, a pod or a container"),
        help="show only the processes of this job, pod or container",
    )  # fmt: skip
    add_ras(parser, "; NCCL 2.31.2 and newer also compare their nodes, which takes longer")
    parser.add_argument(
        "--record", action="store_true", help="print what the node shows as JSON, not judged"
    )
    parser.one_output("--json", "--verbose", "--record")
    for option in ("--pid", "--job"):
        parser.never_with(option, "--record")
    return parser


def add_ras(parser: Parser, more: str = "") -> None:
    """The option of this command and of `gdr watch` to ask NCCL."""
    parser.add_argument(
        "--ras", action="store_true",
        help=f"also ask NCCL's RAS, which asks all processes of the job: not on many nodes at once{more}",
    )  # fmt: skip


def main(arguments: list[str]) -> int:
    options = parser().parse(arguments)
    from gdrkit.agent.running.options import RAS, RAS_DIAGNOSTICS
    from gdrkit.evidence.errors import TargetError
    from gdrkit.evidence.running import record_of
    from gdrkit.facts.commands import RUNNING
    from gdrkit.formats.errors import FormatError
    from gdrkit.jobs.running.document import exit_code
    from gdrkit.jobs.running.judge import document
    from gdrkit.jobs.running.record import decode

    content = record_of(options.target, RUNNING, [RAS, RAS_DIAGNOSTICS] if options.ras else [])
    try:
        record = decode(content)
    except FormatError as error:
        raise TargetError(f"not a record of processes: {error}", "collect it again") from None
    if options.record:
        write_json(content)
        return 0
    found = document(record, options.pid, options.job)
    if options.json:
        write_json(found)
    else:
        from gdrkit.jobs.running.text import text

        colour, width = colours(), text_width()
        shown = text(
            found, verbose=options.verbose, colour=colour, width=width, pid=options.pid, job=options.job
        )
        write(shown, styled=colour)
    if (options.pid is not None or options.job is not None) and not found.processes:
        return UNKNOWN
    return exit_code(found)
