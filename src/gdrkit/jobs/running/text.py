"""The processes that run now, for a terminal of 60 columns: a row for each, then the reasons."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain

from gdrkit.formats.number_ranges import number_ranges
from gdrkit.formats.plural import plural
from gdrkit.jobs.running.decisions import amount
from gdrkit.jobs.running.document import GpuInUse, PsDocument, PsProcess, RunningVerdict
from gdrkit.programs.nccl.diagnostic_statements import PROBLEMS, Effect
from gdrkit.report.terminal import WIDTH, Row, render

STYLES = {
    "head": "bold", "direct": "green", "host-mapped": "green", "nvlink": "green",
    "staged": "red", "socket": "red", "unknown": "magenta", "none": "dim", "quote": "dim", "note": "dim",
}  # fmt: skip
WORDS = {
    "direct": "direct", "staged": "host memory", "socket": "TCP", "host-mapped": "host-mapped",
    "nvlink": "NVLink", "none": "-", "unknown": "unknown",
}  # fmt: skip
ORDER = ("staged", "socket", "unknown", "direct", "host-mapped", "nvlink", "none")
"""Reasons of what to act on first."""
MOVES = {True: "moves", False: "idle", None: "?"}
TABLE = 80
"""Columns of the whole table; a narrower one lacks the job and the number of queue pairs."""
EACH = 8
"""Processes that are named with a reason."""


def text(
    document: PsDocument, *, verbose: bool = False, colour: bool = False, width: int | None = None,
    pid: int | None = None, job: str | None = None,
) -> str:  # fmt: skip
    """The document as lines; `verbose`: with the evidence of each process; `pid` and `job`: which were asked
    for."""
    rows = _detail(document) if verbose else _page(document, (width or WIDTH) < TABLE)
    return shown(chain(_none(document, pid, job), rows), colour=colour, width=width)


def shown(rows: Iterable[Row], *, colour: bool, width: int | None) -> str:
    """Rows for a terminal, each in lines of its own: what is quoted in one adds none."""
    return render(
        ((row[0], row[1], plain(row[2]), *row[3:]) for row in rows), STYLES, colour=colour, width=width
    )


def _none(document: PsDocument, pid: int | None, job: str | None) -> Iterator[Row]:
    if not document.processes:
        no = "no process" if pid is None else f"no process {pid}"
        yield 0, "", f"{no}{f' of {job}' if job else ''} that uses a GPU or an RDMA device is visible"


def _page(document: PsDocument, is_narrow: bool) -> Iterator[Row]:
    if document.processes:
        yield 0, "head", head(is_narrow=is_narrow)
    for process in document.processes:
        yield 0, process.verdict.path, row(process, is_narrow=is_narrow)
    yield from _reasons(document)
    yield from _end(document)


def head(*, is_narrow: bool = False) -> str:
    """The names of the columns."""
    job, pairs, name = ("", "", 7) if is_narrow else (f"{'JOB':<14} ", f"{'QPS':>4} ", 9)
    return f"{'PID':>7} {'NAME':<{name}} {job}{'GPU':<5} {'NIC':<10} {'MEMORY':>7} {pairs}{'NOW':<5} WAY"


def row(process: PsProcess, *, is_narrow: bool = False) -> str:
    """A process in one line of at most 80 columns, or 57."""
    devices = [one.device for one in process.devices]
    nic = _cut(devices[0], 10 - 3 * (len(devices) > 1)) if devices else "-"
    more = f" +{len(devices) - 1}" if len(devices) > 1 else ""
    memory = sum(one.registered_bytes for one in process.devices)
    pairs = sum(one.connected_pairs for one in process.devices)
    verdict = process.verdict
    job = "" if is_narrow else f"{_cut(plain(process.job.label), 14):<14} "
    name = 7 if is_narrow else 9
    connected = "" if is_narrow else f"{pairs or '-':>4} "
    return (
        f"{process.pid:>7} {_cut(plain(process.name), name):<{name}} {job}{_which(process.gpus):<5} "
        f"{nic + more:<10} {amount(memory) if memory else '-':>7} {connected}{MOVES[verdict.moving]:<5} "
        f"{WORDS[verdict.path]}"
    )


def _which(gpus: tuple[GpuInUse, ...]) -> str:
    """The GPUs on which a process computes, in at most five letters: `0`, `0,4-7`, or the bus and device of
    a PCI address; `?` if it has some open, and which of them compute is not known."""
    if any(gpu.computes is None for gpu in gpus):
        return "?"
    indices = [gpu.index for gpu in gpus if gpu.index is not None]
    if len(indices) == len(gpus):
        return _cut(number_ranges(indices).replace(" ", ""), 5) or "-"
    return _cut(",".join(gpu.address[5:10] for gpu in gpus), 5)


def _reasons(document: PsDocument) -> Iterator[Row]:
    """Why, for all processes that share a reason."""
    groups: dict[tuple[str, str], list[PsProcess]] = defaultdict(list)
    for process in document.processes:
        groups[process.verdict.path, process.verdict.because].append(process)
    if groups:
        yield 0, "", ""
    for (path, because), members in sorted(groups.items(), key=lambda group: ORDER.index(group[0][0])):
        some = ", ".join(str(one.pid) for one in members[:EACH]) + (", ..." if len(members) > EACH else "")
        yield 2, path, f"{_sentence(members[0].verdict, because)} ({some})"
    for ask in asks(document):
        yield 2, "note", ask


def asks(document: PsDocument) -> Iterator[str]:
    """What would show more of the processes that are not known: a line for each path, once."""
    for ask in dict.fromkeys(ask for one in document.processes for ask in one.verdict.ask):
        yield f"to find out: {ask}"


def _sentence(verdict: RunningVerdict, because: str) -> str:
    confidence = "" if verdict.confidence is None else verdict.confidence.value
    by = ", ".join(filter(None, (verdict.registered_by, confidence)))
    what = {"none": "no path", "staged": "through host memory"}.get(verdict.path, WORDS[verdict.path])
    return f"{what}{f' ({by})' if by else ''}: {because}"


def communicators(document: PsDocument) -> Iterator[str]:
    """A line for each communicator that NCCL's RAS reported."""
    for one in document.communicators:
        here = ", ".join(map(str, one.processes[:EACH])) or "none of these processes"
        size = f"{plural(one.ranks, 'rank')} on {plural(one.hosts, 'host')}"
        yield f"NCCL {one.version}: {size}, {one.missing} missing ({here})"


def diagnosed(document: PsDocument) -> Iterator[str]:
    """A line for each problem that NCCL's diagnostics show or leave open, and for the direct path."""
    found = document.diagnostics
    if found is None:
        return
    for one in found.statements:
        if one.effect in (*PROBLEMS, Effect.OPEN):
            codes = f"{' or '.join(one.codes)}: " if one.codes else ""
            yield f"NCCL's diagnostics: {one.effect.value}: {codes}{one.text}"
    yield f"NCCL's diagnostics do not show the direct path: {found.direct_path}"


def _end(document: PsDocument) -> Iterator[Row]:
    for line in (*communicators(document), *diagnosed(document), *unseen(document)):
        yield 2, "note", line


def unseen(document: PsDocument) -> Iterator[str]:
    """A line for each thing that could not be seen."""
    if document.unowned_regions:
        size = amount(document.unowned_bytes)
        yield f"{plural(document.unowned_regions, 'region')}, {size}, of processes that are not visible"
    for note in document.notes:
        yield f"note: {note}"


def _detail(document: PsDocument) -> Iterator[Row]:
    for process in document.processes:
        verdict = process.verdict
        yield 0, "head", f"{process.pid} {process.name}, user {process.user_id}, {process.job.label}"
        yield 2, verdict.path, _sentence(verdict, verdict.because) + f"; {_now(verdict)}"
        for line in verdict.evidence:
            yield 6, "quote", line
        for limit in verdict.limits:
            yield 6, "quote", f"but: {limit}"
        for ask in verdict.ask:
            yield 6, "quote", f"to find out: {ask}"
        yield from _holds(process)
    yield from rates(document)
    yield 0, "head", "Sources"
    for source in document.sources:
        why = f": {source.why}" if source.why else ""
        yield 2, "note", f"{source.name}  {source.status}, {source.seconds:.2f} s{why}"
    yield from _end(document)


def rates(document: PsDocument) -> Iterator[Row]:
    """What each port and each GPU moves."""
    if document.ports:
        yield 0, "head", "Ports, of all processes"
    for port in document.ports:
        sent, received = amount(port.sent_bytes_per_s), amount(port.received_bytes_per_s)
        yield 2, "", f"{port.device}:{port.port}  sends {sent}/s, receives {received}/s"

    if document.gpus:
        yield 0, "head", "GPUs, of all processes"
    for gpu in document.gpus:
        moves = [
            f"{name} sends {_rate(sent)}, receives {_rate(received)}"
            for name, sent, received in (
                ("NVLink", gpu.nvlink_sent, gpu.nvlink_received),
                ("PCIe", gpu.pcie_sent, gpu.pcie_received),
            )
            if sent is not None or received is not None
        ]
        yield 2, "", f"{gpu.address}  {'; '.join(moves) or 'has no counters'}"


def _rate(number: int | None) -> str:
    return "?" if number is None else f"{amount(number)}/s"


def _now(verdict: RunningVerdict) -> str:
    return {True: "data moves now", False: "nothing moves now", None: "whether data moves is not known"}[
        verdict.moving
    ]


def _holds(process: PsProcess) -> Iterator[Row]:
    for gpu in process.gpus:
        how = "open" if gpu.computes is None else "computes"
        memory = f", {amount(gpu.memory_bytes)}" if gpu.memory_bytes is not None else ""
        name = gpu.address if gpu.index is None else f"{gpu.index} ({gpu.address})"
        yield 2, "", f"GPU {name}: {how}{memory}"
    for one in process.devices:
        known = "" if one.dmabuf_regions is None else f", {one.dmabuf_regions} of them GPU memory"
        rate = "" if one.packets_per_s is None else f", {one.packets_per_s} packets/s"
        port = "" if one.port_bytes_per_s is None else f"; port: {amount(one.port_bytes_per_s)}/s of all"
        yield (
            2,
            "",
            f"{one.device}: {plural(one.regions, 'region')}, {amount(one.registered_bytes)}{known}; "
            f"{plural(one.connected_pairs, 'queue pair')} connected, {one.other_pairs} not{rate}{port}",
        )
    if process.tcp is not None and process.tcp.sockets:
        others, here = amount(process.tcp.to_others), amount(process.tcp.to_this_node)
        yield 2, "", f"TCP: {others}/s with other nodes, {here}/s on this node"
    for library in process.libraries:
        deleted = " (deleted)" if library.deleted else ""
        yield 2, "", f"{library.name} {library.version or 'of unknown version'}{deleted}"
    if process.settings:
        yield 2, "", " ".join(f"{name}={value}" for name, value in sorted(process.settings.items()))
    if process.closed:
        yield 2, "note", f"not readable: {', '.join(process.closed)}"


def plain(text: str) -> str:
    """A text in which what would break its line, or move the cursor, is a question mark."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _cut(name: str, width: int) -> str:
    from rich.cells import cell_len, set_cell_size

    return name if cell_len(name) <= width else set_cell_size(name, width - 1).rstrip() + "~"
