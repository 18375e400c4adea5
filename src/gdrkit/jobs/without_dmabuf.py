"""Hosts whose GPUs offer NCCL no dma-buf, where those of other hosts of the job do.

Source: NCCL src/init.cc, dmaBufSupported(): it prints `DMA-BUF is available on GPU device` for a GPU that
offers it, behind `Using network` and before the line of the communicator, all of the subsystem INIT. So a
process that prints the other two and not this one has none; of a log without them nothing is known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from gdrkit.catalogue import Code
from gdrkit.formats.plural import plural
from gdrkit.formats.whole_number import integer
from gdrkit.jobs.document import NcclDocument
from gdrkit.jobs.gather import GatheredRanks, JobProcess
from gdrkit.jobs.hosts import GOES, SLOWER, host_path, names
from gdrkit.jobs.job import HostPath, HostsWithoutDmabuf, JobPart, Rank, ranks_by_host
from gdrkit.programs.nccl import log_records as nccl_records
from gdrkit.report.terminal import Row

CAUSES: tuple[Code, ...] = ("driver-proprietary", "gpu-unsupported", "gpu-consumer")
"""Why CUDA says that a GPU cannot be exported: CUDA driver API, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED."""
OFF: Code = "dmabuf-disabled-by-env"


def without_dmabuf(gathered: GatheredRanks, jobs: Iterable[JobPart]) -> tuple[HostsWithoutDmabuf, ...]:
    """The hosts of each job, by the path that they take."""
    return tuple(one for job in jobs for one in _of_job(gathered, job))


def _of_job(gathered: GatheredRanks, job: JobPart) -> list[HostsWithoutDmabuf]:
    ranks = ranks_by_host(job.ranks)
    processes = {host: [gathered.processes[name] for name in _names(own)] for host, own in ranks.items()}
    shown = {host: _offers(own) for host, own in processes.items() if host}
    having = [host for host, offers in shown.items() if offers]
    alike = {_networks(processes[host]) for host in having}
    unread = gathered.tally.damaged + gathered.cut_lines  # the line may be one of those
    lacking: dict[HostPath, list[str]] = defaultdict(list)
    for host, offers in shown.items():
        same = alike == {_networks(processes[host])} and len(job.nccl_versions) == 1
        if offers is False and same and len(processes[host]) > unread:
            lacking[host_path(ranks[host])].append(host)
    return [
        HostsWithoutDmabuf(
            hosts=tuple(sorted(hosts)), path=path, others=len(having),
            codes=_causes(process for host in hosts for process in processes[host]),
            line=gathered.where(min(_of_communicator(one) for host in hosts for one in processes[host])),
        )
        for path, hosts in lacking.items()
    ]  # fmt: skip


def _names(ranks: Iterable[Rank]) -> list[str]:
    return sorted({rank.process for rank in ranks})


def _offers(processes: Iterable[JobProcess]) -> bool | None:
    """Whether all processes of a host print the line; None if some do, or if the log has not the lines
    before and behind it."""
    found = {_offers_one(process) for process in processes}
    return found.pop() if len(found) == 1 else None


def _offers_one(process: JobProcess) -> bool | None:
    if process.records.get(nccl_records.DmabufGpu):
        return True
    network = [entry.position for entry in process.all(nccl_records.Network).values()]
    set_off = (process.variable("NCCL_DMABUF_ENABLE") or ("", 0))[0]
    if not network or min(network) > _of_communicator(process) or integer(set_off) == 0:
        return None
    return False


def _of_communicator(process: JobProcess) -> int:
    positions = (entry.position for entry in process.all(nccl_records.Communicator).values())
    return min(positions, default=-1)


def _networks(processes: Iterable[JobProcess]) -> frozenset[str]:
    return frozenset(one.name for process in processes for one in process.all(nccl_records.Network))


def _causes(processes: Iterable[JobProcess]) -> tuple[Code, ...]:
    """A setting is a cause only where the log prints none at all."""
    prints = all(any(one.resolved for one in process.all(nccl_records.Variable)) for process in processes)
    return CAUSES if prints else (*CAUSES, OFF)


def dmabuf_rows(document: NcclDocument) -> Iterator[Row]:
    """A section about these hosts."""
    if not document.without_dmabuf:
        return
    yield 0, "head", "dma-buf"
    for one in document.without_dmabuf:
        yield 2, "note" if one.path == "direct" else "warning", _words(one)
        yield 6, "", f"possible causes: {', '.join(one.codes)}"
        yield 6, "quote", f"{one.line}, before which that line would be"
    yield 0, "", ""


def _words(one: HostsWithoutDmabuf) -> str:
    """`gpu-2 prints no `DMA-BUF is available`, 3 other hosts do: ...`"""
    prints, its = ("prints", "its") if len(one.hosts) == 1 else ("print", "their")
    others = f"{plural(one.others, 'other host')} {'does' if one.others == 1 else 'do'}"
    which = f"{names(one.hosts)} {prints} no `DMA-BUF is available`, {others}"
    return f"{which}: NCCL gets no dma-buf from {its} GPUs. {_leads_to(one.path)}"


def _leads_to(path: HostPath) -> str:
    if path == "direct":
        return "GPU memory goes directly all the same, so by nvidia-peermem"
    if path in SLOWER:
        return f"Without nvidia-peermem as well, GPU memory goes {GOES[path]}"
    return "No channel line shows whether nvidia-peermem serves them instead, or host memory"
