"""`gdr nccl LOG...`: what a job's logs prove of its way to the network, and why not."""

from __future__ import annotations

import sys

from gdrkit.cli.arguments import Parser, write


def parser() -> Parser:
    parser = Parser(
        "nccl",
        "What did NCCL do? From the logs of a job, however large: for each rank, GPU, network device and "
        "direction whether GPU memory went straight to the NIC, and if not, why, with the line that proves "
        "it. Only channel lines count as proof; what is not logged is not denied.",
        "  gdr nccl job.log\n"
        "  gdr nccl logs/ 'rank-*.log.gz'        folders, patterns, gzip and zstd\n"
        "  kubectl logs trainer-0 | gdr nccl     standard input\n"
        "  gdr nccl job.log --rank 17            all of one rank, line by line\n"
        "  gdr nccl job.log --json\n\n"
        "The job needs NCCL_DEBUG=INFO; NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH tells the reasons as well.\n\n"
        "exit codes: 0 every channel over the network is direct, 1 likewise with warnings, 2 some are not, "
        "3 the logs do not tell, 64 and above usage and internal errors",
    )
    parser.add_argument(
        "logs", nargs="*", metavar="LOG", help="a file, a folder, a pattern; standard input if - or none"
    )
    parser.output()
    parser.add_argument("--rank", type=int, metavar="N", help="show that rank alone, with every proof")
    parser.add_argument("--all", action="store_true", help="show every rank, with every proof")
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing; the exit code tells")
    return parser


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    from gdrkit.jobs import logs as job_logs
    from gdrkit.jobs import workers as job_workers
    from gdrkit.jobs.analyse import analyse
    from gdrkit.jobs.document import document, encoded, exit_code

    files = job_logs.find(options.logs)
    live = sys.stderr.isatty() and not options.quiet
    counted = job_workers.count(files, _Progress() if live else _silent)
    if live:
        sys.stderr.write("\r\x1b[K")
    for note in counted.notes:
        sys.stderr.write(f"note: {note}\n")
    told = document(analyse(counted.tally, counted.place))
    if options.quiet:
        pass
    elif options.json:
        import msgspec

        write(msgspec.json.format(encoded(told), indent=1).decode() + "\n")
    else:
        from gdrkit.jobs.text import text

        write(text(told, rank=options.rank, every=options.all, colour=sys.stdout.isatty()))
    return exit_code(told)


def _silent(done: int, size: int) -> None:
    pass


WORTH_A_BAR_BYTES = 16 << 20
"""Below this one is done before anybody could read a bar."""


class _Progress:
    """One line that changes with each percent: a bar where the size is known."""

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
        sys.stderr.write(f"\r\x1b[K{words}")
        sys.stderr.flush()
