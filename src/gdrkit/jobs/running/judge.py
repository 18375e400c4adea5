"""From a record of running processes to the document of `gdr ps`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from gdrkit.formats import json_text
from gdrkit.formats.errors import FormatError
from gdrkit.formats.plural import plural
from gdrkit.jobs.running.circumstances import (
    HOST_PID_NAMESPACE,
    Circumstances,
    circumstances,
    gpu_rates,
    is_exclusive,
    node_circumstances,
)
from gdrkit.jobs.running.document import (
    DeviceInUse,
    LibraryInUse,
    PsCommunicator,
    PsDiagnostics,
    PsDocument,
    PsJob,
    PsPort,
    PsProcess,
    PsSource,
    PsStatement,
    SocketUse,
)
from gdrkit.jobs.running.holders import SHORTEST_S, Holdings
from gdrkit.jobs.running.record import Number, RasAnswer, RunningRecord
from gdrkit.jobs.running.verdict import judge
from gdrkit.jobs.running.workload import Workload, workload
from gdrkit.programs.nccl.diagnostics import diagnostics
from gdrkit.programs.nccl.log import parse

# -- NCCL's communicators, as its RAS reports them --
# NCCL src/ras/client_support.cc, JSON since 2.28.7.


DIAGNOSTICS = "diagnostics"
NAMED, NAME_LETTERS = 4, 16
"""Processes that a note names; letters of a name, as in /proc/PID/comm."""


class _Rank(Struct, frozen=True):
    host: str
    pid: Number


class _Communicator(Struct, frozen=True):
    size: Number
    ranks: list[_Rank] = []
    missing_ranks: list[Any] = []


class _Status(Struct, frozen=True):
    nccl_version: str
    communicators: list[_Communicator] = []


def communicators(answers: Iterable[RasAnswer], pids: Iterable[int]) -> tuple[PsCommunicator, ...]:
    """The communicators in an answer, with those of the given processes that belong to each. Raises
    FormatError for one that is not in JSON, or is cut off.

    A process is named by its pid in its own namespace: one of a container is not found by it."""
    here = frozenset(pids)
    found = []
    for answer in answers:
        if answer.format == DIAGNOSTICS:
            continue
        if answer.format != "json" or answer.truncated:
            raise FormatError(
                "too long to read whole" if answer.truncated else "only as text, before 2.28.7"
            )
        status = json_text.decode(answer.text.encode(), _Status)
        found += [
            PsCommunicator(
                version=status.nccl_version, ranks=one.size, missing=len(one.missing_ranks),
                hosts=len({rank.host for rank in one.ranks}),
                processes=tuple(sorted({rank.pid for rank in one.ranks} & here)),
            )
            for one in status.communicators
        ]  # fmt: skip
    return tuple(found)


def nccl_diagnostics(answer: RasAnswer) -> PsDiagnostics | None:
    """What a report of NCCL's diagnostics shows; None if the answer is none."""
    if answer.format != DIAGNOSTICS:
        return None
    try:
        found = diagnostics(parse(answer.text).records)
    except FormatError:
        found = None
    if found is None:
        return None
    return PsDiagnostics(
        processes=found.processes, ranks=found.ranks, hosts=found.hosts, gpus=found.gpus,
        direct_path=found.direct_path,
        statements=tuple(
            PsStatement(
                effect=one.effect, check=one.check, text=one.text, codes=one.codes, ranks=one.ranks,
                host=one.host, todo=one.todo,
            )
            for one in found.statements
        ),
    )  # fmt: skip


def _not_diagnosed(reports: Iterable[tuple[RasAnswer, PsDiagnostics | None]]) -> Iterator[str]:
    """Why NCCL gave no report."""
    for answer, report in reports:
        if report is None:
            said = " ".join(answer.text.split())[:100]
            old = said.startswith("ERROR: Unknown command")
            yield f"NCCL's diagnostics: {'not before 2.31.2' if old else said or 'no answer'}"


def document(record: RunningRecord, pid: int | None = None, job: str | None = None) -> PsDocument:
    """The judgement of a record: of all processes, of one, or of those of a job by its id."""
    node = node_circumstances(record)
    every = [_process(circumstances(one, record, node)) for one in record.processes]
    chosen = tuple(
        one
        for one in sorted(every, key=lambda one: (one.job.kind == "", one.job.label, one.pid))
        if (pid is None or one.pid == pid) and (job is None or job in (one.job.id, one.job.label))
    )
    try:
        told, why = communicators(record.ras, (one.pid for one in record.processes)), ""
    except FormatError as error:
        told, why = (), f"NCCL's RAS: {error}"
    reports = [(one, nccl_diagnostics(one)) for one in record.ras if one.format == DIAGNOSTICS]
    nobody = node.holdings.nobody.values()
    return PsDocument(
        as_root=record.uid == 0,
        processes=chosen,
        jobs=_jobs(chosen),
        ports=tuple(
            PsPort(
                device=row.device,
                port=row.port,
                sent_bytes_per_s=int(row.sent / row.seconds),
                received_bytes_per_s=int(row.received / row.seconds),
            )
            for row in record.ports
            if row.seconds >= SHORTEST_S
        ),
        gpus=tuple(gpu_rates(record)),
        communicators=told,
        diagnostics=next((report for _, report in reports if report is not None), None),
        sources=tuple(
            PsSource(name=name, status=state.status, why=state.why, seconds=state.seconds)
            for name, state in sorted(record.sources.items())
        ),
        unowned_regions=sum(len(held.regions) for held in nobody),
        unowned_bytes=sum(held.registered for held in nobody),
        unreadable_processes=record.denied_processes,
        complete=_is_complete(record),
        notes=(*_notes(record, node.holdings.errors), *filter(None, (why,)), *_not_diagnosed(reports)),
    )


def _is_complete(record: RunningRecord) -> bool:
    """Whether every process that uses a GPU is seen: by its descriptors, or by NVML, or there is no GPU."""
    if record.state("processes").status != "found":
        return False
    listed = record.state("nvml").status == "found" and not any(row.error for row in record.nvml)
    without_gpu = record.state("node").status == "found" and not any(row.gpu for row in record.node)
    return record.lists_all() or listed or without_gpu


def _process(found: Circumstances) -> PsProcess:
    process = found.process
    tcp = process.tcp
    return PsProcess(
        pid=process.pid,
        started=process.started,
        name=process.name,
        user_id=process.uid,
        job=workload(process.cgroup, process.environment),
        gpus=found.gpus,
        devices=tuple(_device(found, held) for _, held in sorted(found.holdings.items())),
        open_devices=tuple(sorted({*process.devices, *process.mapped_devices})),
        libraries=tuple(
            LibraryInUse(name=one.name, version=one.version, path=one.path, deleted=one.deleted)
            for one in process.libraries
        ),
        settings=process.environment,
        tcp=SocketUse(
            sockets=tcp.sockets, to_others=tcp.sent + tcp.received,
            to_this_node=tcp.sent_here + tcp.received_here,
        ) if found.tcp_known and "fd" not in process.denied else None,
        closed=tuple(process.denied),
        verdict=judge(found),
    )  # fmt: skip


def _device(found: Circumstances, held: Holdings) -> DeviceInUse:
    regions, size = _of_gpu(found, held.device)
    return DeviceInUse(
        device=held.device,
        regions=len(held.regions),
        registered_bytes=held.registered,
        dmabuf_regions=regions,
        dmabuf_bytes=size,
        connected_pairs=held.connected,
        other_pairs=held.other_pairs,
        pairs_to_themselves=len(held.to_themselves),
        packets_per_s=held.packets_per_s,
        port_bytes_per_s=found.node.port_rates.get(held.device),
    )


def _of_gpu(found: Circumstances, device: str) -> tuple[int | None, int | None]:
    """How many regions on a device are dma-bufs of GPU memory, at least, and of how many bytes; None: not
    known."""
    share = found.node.shares.get(device, {}).get(found.process.pid)
    if share is None or found.node.buffers is None or not share.explained:
        return None, None
    return share.at_least, share.bytes_at_least


def _jobs(processes: Iterable[PsProcess]) -> tuple[PsJob, ...]:
    """The jobs of processes that belong to one, each with the paths that its processes take."""
    paths: dict[Workload, Counter[str]] = {}
    for one in processes:
        if one.job.kind in ("slurm", "pod", "container"):
            paths.setdefault(one.job, Counter())[one.verdict.path] += 1
    return tuple(PsJob(job=job, processes=found.total(), paths=dict(found)) for job, found in paths.items())


def _unreadable(record: RunningRecord) -> str:
    """Which processes root may not read, and why."""
    named = [f"{one.pid} {one.name[:NAME_LETTERS]}: {one.why or 'no reason'}" for one in record.unreadable]
    if not named:
        return ""
    more = f", and {left} more" if (left := record.denied_processes - len(named[:NAMED])) > 0 else ""
    words = f" ({', '.join(named[:NAMED])}{more})"
    if any(one.why in ("EACCES", "EPERM") for one in record.unreadable):
        words += "; the kernel asks for CAP_SYS_PTRACE, which root in a container may lack"
    return words


def _notes(record: RunningRecord, errors: Iterable[str]) -> Iterable[str]:
    """What the record does not show, and why."""
    for name, state in sorted(record.sources.items()):
        if state.status not in ("found", "absent"):
            why = f": {state.why}" if state.why else ""
            yield f"{name}: {state.status}{why}"
    yield from errors
    if record.denied_processes:
        processes = plural(record.denied_processes, "process")
        root = f"{processes} cannot be read, although root looks{_unreadable(record)}"
        yield root if record.uid == 0 else f"{processes} of other users cannot be read; as root: sudo gdr ps"
    if record.hidden_processes:
        advice = "" if record.uid == 0 else "; as root: sudo gdr ps"
        yield f"/proc leaves out processes of other users (mount option hidepid){advice}"
    if record.namespaces.get("pid", HOST_PID_NAMESPACE) != HOST_PID_NAMESPACE:
        yield "seen from a pid namespace of its own: objects of processes outside it have no owner here"
    if is_exclusive(record):
        yield "RDMA devices belong to one network namespace each: others are not visible (rdma system)"
