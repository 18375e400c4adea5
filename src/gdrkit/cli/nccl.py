"""`gdr nccl LOG...`: what a job's logs prove about GPUDirect RDMA, and why it is not used."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from gdrkit.cli.arguments import Parser, colours, number, status, text_width, write, write_json

if TYPE_CHECKING:
    from gdrkit.jobs.document import NcclDocument

MOST_RANKS = 1 << 20


def parser() -> Parser:
    parser = Parser(
        "nccl",
        "Show whether NCCL used GPUDirect RDMA, from a job's logs of any size: for each rank, GPU, network "
        "device and direction, and if not, why, with the line that proves it. Only channel lines count as "
        "proof; a missing line proves nothing. Of jobs that use UCX, the tables of UCX_PROTO_INFO are read.",
        "  gdr nccl job.log\n"
        "  gdr nccl logs/ 'rank-*.log.gz'        folders, patterns, gzip and zstd\n"
        "  kubectl logs trainer-0 | gdr nccl     standard input\n"
        "  gdr nccl job.log --rank 17            one rank, line by line\n"
        "  gdr nccl job.log --node node17.tar.xz  rates of NCCL's diagnostics and the node's ceilings\n"
        "  gdr nccl job.log --json\n\n"
        "The job needs NCCL_DEBUG=INFO; NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH adds the reasons.\n\n"
        "exit codes: 0 every channel over the network is direct, or none can be with such a GPU, 1 the same "
        "with warnings, 2 some are not, 3 the logs do not show it, or not of all ranks, 64 and above usage "
        "and internal errors",
    )
    parser.add_argument(
        "logs", nargs="*", metavar="LOG", help="file, folder or pattern; standard input if - or none"
    )
    parser.output()
    parser.add_argument(
        "--rank",
        type=number(0, MOST_RANKS),
        metavar="N",
        help="show only this rank, with every proving line",
    )
    parser.add_argument("--all", action="store_true", help="show every rank, with every proving line")
    parser.add_argument(
        "--node",
        metavar="TARGET",
        help="also compare the rates of NCCL's diagnostics with the ceilings of one of the job's nodes, "
        "named as for gdr estimate; local is this machine",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing, only set the exit code")
    parser.one_output("--json", "--rank", "--all", "--quiet")
    parser.never_with("--node", "--json", "--rank", "--all", "--quiet")
    return parser


def main(arguments: list[str]) -> int:
    options = parser().parse(arguments)
    from gdrkit.jobs import logs as job_logs
    from gdrkit.jobs import workers as job_workers
    from gdrkit.jobs.analyse import analyse
    from gdrkit.jobs.document import document, encode, exit_code
    from gdrkit.jobs.separate_reports import separate_reports

    files = job_logs.find(options.logs)
    live = sys.stderr.isatty() and not options.quiet
    counted = job_workers.count(files, _Progress() if live else _silent)
    if live:
        status("")
    for note in counted.notes:
        sys.stderr.write(f"note: {note}\n")
    _check_one_job(separate_reports(counted.tally, counted.position))
    report = document(analyse(counted.tally, counted.position))
    if options.quiet:
        pass
    elif options.json:
        write_json(encode(report))
    else:
        from gdrkit.jobs.text import text

        terminal = colours()
        words = text(report, rank=options.rank, every=options.all, colour=terminal, width=text_width())
        if report.verdict.state == "unknown" and not report.logged.channels and len(files) == 1:
            words += _otherwise(files[0], colour=terminal)
        if options.node:
            words += _against_node(options.node, report, colour=terminal)
        write(words, styled=terminal)
    return exit_code(report)


def _check_one_job(files: tuple[str, ...]) -> None:
    """Raises TargetError if these files, one of each, have NCCL's diagnostics of several jobs."""
    from gdrkit.evidence.errors import TargetError

    if len(files) > 1:
        raise TargetError(
            f"the logs have NCCL's diagnostics of {len(files)} jobs, with different communicators and hosts",
            f"judge one at a time: gdr nccl {files[0]}",
        )


def _otherwise(file: str, *, colour: bool) -> str:
    """What `gdr explain` finds in a log that has nothing of NCCL to judge; "" if it finds nothing either."""
    from gdrkit.cli.explain import explained
    from gdrkit.cli.files import STDIN
    from gdrkit.evidence.errors import TargetError
    from gdrkit.explain.explanation import AnswerKind
    from gdrkit.explain.text import text

    if file == STDIN:  # it is read
        return ""
    try:
        explanation, job, _ = explained(file)
    except TargetError:
        return ""
    if job is not None or explanation.answer.kind in (AnswerKind.NOTHING, AnswerKind.NO_OUTPUT):
        return ""
    return text(explanation, colour=colour, width=text_width())


def _against_node(target: str, report: NcclDocument, *, colour: bool) -> str:
    """The rates of the diagnostics and the ceilings of a node, as text. Raises TargetError."""
    from gdrkit.cli.estimate import links_of_target
    from gdrkit.fabric.ceilings.document import document
    from gdrkit.fabric.ceilings.nccl_diagnostics import compare
    from gdrkit.fabric.ceilings.text import measured_text

    found = report.diagnostics
    if found is None or not found.bandwidths:
        sys.stderr.write("note: --node: the logs have no rate of NCCL's diagnostics (net bw)\n")
        return ""
    links = links_of_target(None if target == "local" else target)
    if links is None:
        return ""
    readings = compare(links, found)
    return "\n" + measured_text(document(links, readings=readings), colour=colour, width=text_width())


def _silent(done: int, size: int) -> None:
    pass


WORTH_A_BAR_BYTES = 16 << 20
"""Below this size counting ends before a bar could be read."""


class _Progress:
    """One line that changes with each percent, with a bar if the size is known."""

    def __init__(self) -> None:
        self.shown = -1

    def __call__(self, done: int, size: int) -> None:
        percent = min(100, 100 * done // size) if size else done // WORTH_A_BAR_BYTES
        if max(done, size) < WORTH_A_BAR_BYTES or percent == self.shown:
            return
        self.shown = percent
        if size:
            words = f"[{'#' * (percent * 3 // 10):<30}] {percent:3} % of {size / 1e6:,.0f} MB"
        else:
            words = f"{done / 1e6:,.0f} MB"
        status(words)
