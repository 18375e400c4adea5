"""Findings on all ranks of a job, with doctor's codes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from msgspec import UNSET

from gdrkit.catalogue import Code, rule_of
from gdrkit.facts.cable_halves import other_half
from gdrkit.facts.gpu_ids import is_integrated_name
from gdrkit.formats.whole_number import integer
from gdrkit.jobs.diagnostics import findings_of
from gdrkit.jobs.distance_steps import with_distance_steps
from gdrkit.jobs.errors import BLOCKING
from gdrkit.jobs.gather import GatheredRanks, JobProcess
from gdrkit.jobs.job import (
    JobError,
    JobFinding,
    JobPart,
    LegReason,
    LogPosition,
    Rank,
    Status,
    ranks_by_host,
)
from gdrkit.jobs.setting_advice import LEVEL, setting_advice
from gdrkit.jobs.without_channel import is_local
from gdrkit.programs.mnnvl.consumer import MNNVL
from gdrkit.programs.nccl import log_records as nccl_records
from gdrkit.programs.nccl.diagnostic_statements import Diagnostics
from gdrkit.programs.nccl.library_rules import OWN_OR_NEEDED
from gdrkit.programs.nccl.log import COMPARED
from gdrkit.programs.nccl.releases import release
from gdrkit.programs.nccl.settings import gdr_level
from gdrkit.programs.setting_codes import OF_MNNVL

JUDGED = frozenset(
    (
        "env-differs-between-ranks", "versions-differ-between-ranks", "net-plugin-replaced",
        "gdr-level-ignored", "gdr-level-too-low", "gdr-level-pxb-on-c2c", "gdr-read-off", "pair-distant",
        "pair-cross-socket", "hca-not-selected", "ib-disabled-by-env", "dmabuf-disabled-by-env",
        "retry-exceeded", "rail-unreachable", *OF_MNNVL.values(),
    )
)  # fmt: skip
"""Codes about which the analysis of a log decides alone: the rules of a node see one log of it, without the
ranks that it has, and without the legs that show whether a setting mattered."""
NVLINK, FABRIC = nccl_records.Carrier.NVLINK, MNNVL.switches[1]
RDMA = (nccl_records.Carrier.DIRECT, nccl_records.Carrier.BOUNCED)
QUOTED = 4
"""The most positions named for one finding."""


def findings(
    gathered: GatheredRanks, jobs: list[JobPart], errors: list[JobError], reports: Diagnostics | None
) -> tuple[JobFinding, ...]:
    """All findings, those that keep ranks from the direct path first."""
    found = [
        *_of_reasons(jobs),
        *(one for job in jobs for one in _without_channel(gathered, job)),
        *(one for job in jobs for one in _of_job(gathered, job)),
        *_versions(gathered, jobs),
        *_level_ignored(gathered, jobs),
        *(one for error in errors for one in _of_error(error)),
    ]
    known = {(one.code, one.subject) for one in found}
    if reports is not None:
        shown = findings_of(reports, gathered)
        found += [one for one in shown if (one.code, one.subject) not in known]
    order = ("failed", "warning", "note")  # of each first what this job needs
    return tuple(
        sorted(
            with_distance_steps(found, gathered),
            key=lambda one: (order.index(one.status), not one.todo, -one.ranks, one.code, one.subject),
        )
    )


def _found(
    *, code: Code, status: Status, subject: str, seen: str, expected: str, ranks: int,
    lines: tuple[LogPosition, ...], todo: str = "",
) -> JobFinding:  # fmt: skip
    """A finding, with layer, cost and references of its rule."""
    rule = rule_of(code)
    return JobFinding(
        code=code, layer=rule.layer, status=status, subject=subject, seen=seen, expected=expected,
        cost=rule.cost, ranks=ranks, lines=lines, references=rule.references, todo=todo,
    )  # fmt: skip


def _of_job(gathered: GatheredRanks, job: JobPart) -> Iterator[JobFinding]:
    processes = [gathered.processes[name] for name in sorted({rank.process for rank in job.ranks})]
    yield from _environment(gathered, job, processes)
    yield from _unused(gathered, job)
    yield from _half_cables(gathered, job)
    yield from _plugin(gathered, job, processes)
    yield from _without_effect(gathered, job, processes)
    yield from _level_on_c2c(gathered, job, processes)
    yield from _fabric_off(gathered, job, processes)


# -- reasons that are certain ----------------------------------------------------------------------------


def _of_reasons(jobs: list[JobPart]) -> Iterator[JobFinding]:
    """One finding for each code that is the only possible cause of legs not being direct."""
    found: dict[str, dict[str, tuple[Rank, LegReason]]] = defaultdict(dict)
    for rank in (rank for job in jobs for rank in job.ranks):
        for leg in rank.legs:
            for reason in leg.reasons:
                if reason.sure:
                    found[reason.codes[0]].setdefault(f"{rank.process} {rank.cuda_device}", (rank, reason))
    for code, ranks in found.items():
        first = min(
            (pair for pair in ranks.values()), key=lambda p: (p[1].line is UNSET, p[1].line, p[0].name)
        )
        positions = sorted({reason.line for _, reason in ranks.values() if reason.line is not UNSET})
        yield _found(
            code=code, status="failed", subject=first[0].name, seen=first[1].text,
            expected="a channel with GDRDMA", ranks=len(ranks), lines=tuple(positions[:QUOTED]),
        )  # fmt: skip


def _without_channel(gathered: GatheredRanks, job: JobPart) -> Iterator[JobFinding]:
    """One finding for each code that is the only reason why networks are not direct, without a channel that
    shows it. A job on one host needs no network."""
    found: dict[str, list[tuple[Rank, LegReason]]] = defaultdict(list)
    for rank in job.ranks:
        for reason in rank.network_reasons:
            if reason.sure:
                found[reason.codes[0]].append((rank, reason))
    for code, ranks in found.items():
        rank, reason = ranks[0]
        positions = sorted({one.line for _, one in ranks if one.line is not UNSET})
        yield _found(
            code=code, status="note" if is_local(gathered, job) else "failed", subject=rank.name,
            seen=reason.text, expected="a network with GPUDirect RDMA", ranks=len(ranks),
            lines=tuple(positions[:QUOTED]),
        )  # fmt: skip


# -- ranks that differ -----------------------------------------------------------------------------------


def _environment(gathered: GatheredRanks, job: JobPart, processes: list[JobProcess]) -> Iterator[JobFinding]:
    """Variables with different values, or set only on some ranks, among ranks that print any."""
    printing = [
        process
        for process in processes
        if any(variable.resolved for variable in process.all(nccl_records.Variable))
    ]
    for name in COMPARED:
        values: dict[str, list[tuple[str, LogPosition | None]]] = defaultdict(list)
        for process in printing:
            value = process.variable(name, resolved=True)
            position = None if value is None else gathered.where(value[1])
            values["unset" if value is None else value[0]].append((process.name, position))
        if len(values) < 2:
            continue
        common = max(values, key=lambda value: (len(values[value]), value))
        others = sorted(value for value in values if value != common)
        words = [f"{value} on {_names(values[value])}" for value in (common, *others)]
        positions = sorted(
            position for value in values.values() for _, position in value[:1] if position is not None
        )
        members = {value: [process for process, _ in some] for value, some in values.items()}
        todo, decides = setting_advice(name, members, job)
        yield _found(
            code="env-differs-between-ranks", status="failed" if decides else "warning", subject=name,
            seen=f"{name} is {', '.join(words)}", expected="one value on all ranks",
            ranks=sum(len(values[value]) for value in others), lines=tuple(positions[:QUOTED]), todo=todo,
        )  # fmt: skip


def _names(members: list[tuple[str, LogPosition | None]]) -> str:
    first = min(name for name, _ in members)
    return first if len(members) == 1 else f"{first} and {len(members) - 1} more"


def _versions(gathered: GatheredRanks, jobs: list[JobPart]) -> Iterator[JobFinding]:
    """NCCL's own warning, of any process; without one, the versions that a job's processes print."""
    mixed = sorted(
        (entry.position, found.text)
        for process in gathered.processes.values()
        for found, entry in process.all(nccl_records.MixedVersions).items()
    )
    if mixed:
        yield _found(
            code="versions-differ-between-ranks", status="warning", subject="job", seen=mixed[0][1],
            expected="one version", ranks=len(mixed),
            lines=tuple(gathered.where(position) for position, _ in mixed[:QUOTED]),
        )  # fmt: skip
        return
    for job in jobs:
        if len(job.nccl_versions) > 1:
            positions = sorted(
                gathered.where(entry.position)
                for process in gathered.processes.values()
                for found, entry in process.all(nccl_records.Version).items()
                if found.text in job.nccl_versions
            )
            yield _found(
                code="versions-differ-between-ranks", status="warning", subject=f"job {job.number}",
                seen=f"NCCL {' and '.join(job.nccl_versions)}", expected="one version", ranks=len(job.ranks),
                lines=tuple(positions[:QUOTED]),
            )  # fmt: skip


# -- devices and networks --------------------------------------------------------------------------------


def _unused(gathered: GatheredRanks, job: JobPart) -> Iterator[JobFinding]:
    """Devices that NCCL lists on a host without using them in a channel there, though it uses others and has
    a rank for each: fewer ranks use fewer of them by design. Of a host whose ranks the log does not show
    whole, nothing is known to be absent."""
    if job.expected is not None and not job.at_least and job.expected > len(job.ranks):
        return
    hosts = {host: ranks for host, ranks in ranks_by_host(job.ranks).items() if not _is_cut(ranks)}
    idle: dict[tuple[str, ...], list[tuple[str, int, LogPosition]]] = defaultdict(list)
    for host, ranks in hosts.items():
        listed: dict[str, int] = {}
        for name in {rank.process for rank in ranks}:
            for hcas, entry in gathered.processes[name].all(nccl_records.Hcas).items():
                for part in (part for hca in hcas.devices for part in hca.name.split("+")):
                    listed[part] = min(entry.position, listed.get(part, entry.position))
        legs = [leg for rank in ranks for leg in rank.legs if leg.carried in nccl_records.OVER_NETWORK]
        used = {part for leg in legs for part in leg.device.split("+")}
        unused = tuple(sorted(set(listed) - used))
        if unused and used and "" not in used and len(ranks) >= len(listed):
            idle[unused].append((host, len(ranks), gathered.where(min(listed.values()))))
    for names, positions in idle.items():
        more = f" and {len(positions) - 1} more hosts" if len(positions) > 1 else ""
        yield _found(
            code="hca-not-selected", status="warning", subject=", ".join(names),
            seen=f"no channel uses {', '.join(names)} on {min(positions)[0]}{more}; NCCL lists it as usable",
            expected="channels over every device that should carry data",
            ranks=sum(ranks for _, ranks, _ in positions),
            lines=tuple(sorted(position for *_, position in positions)[:QUOTED]),
            todo="NCCL_DEBUG_SUBSYS=INIT,GRAPH prints the distances and channels by which NCCL chose",
        )  # fmt: skip


def _half_cables(gathered: GatheredRanks, job: JobPart) -> Iterator[JobFinding]:
    """RDMA devices of a Spark that carry data without the other device of their cable."""
    halves: dict[str, list[Rank]] = defaultdict(list)
    for ranks in ranks_by_host(job.ranks).values():
        products = [gathered.products(gathered.processes[rank.process]) for rank in ranks]
        legs = [leg for rank in ranks for leg in rank.legs if leg.carried in RDMA]
        used = {part for leg in legs for part in leg.device.split("+")}
        other = {half: other_half(half) for half in sorted(used)}
        if all(named and all(map(is_integrated_name, named)) for named in products) and used:
            for half in (half for half, twin in other.items() if twin and twin not in used):
                halves[half].extend(ranks)
    for half, ranks in sorted(halves.items()):
        lines = sorted(leg.line for rank in ranks for leg in rank.legs if half in leg.device.split("+"))
        both = ",".join(sorted((half, other_half(half)), reverse=True))
        yield _found(
            code="hca-not-selected", status="warning", subject=half,
            seen=f"{half} carries all, one of the two RDMA devices of a cable, without {other_half(half)}",
            expected="both: each has a PCIe link of x4, which is half of the cable", ranks=len(ranks),
            lines=tuple(lines[:QUOTED]),
            todo=f"NCCL_IB_HCA={both} on all nodes: this job used one of the two RDMA devices of the cable, "
            "which is half of it; the interface of each needs an address in a network of its own",
        )  # fmt: skip


def _is_cut(ranks: list[Rank]) -> bool:
    """Whether the log ends before all ranks of a host have printed their channels: each is in all rings."""
    channels = [{channel for leg in rank.legs for channel in leg.channels} for rank in ranks]
    return any(some != channels[0] for some in channels)


def _plugin(gathered: GatheredRanks, job: JobPart, processes: list[JobProcess]) -> Iterator[JobFinding]:
    names: dict[str, list[LogPosition]] = defaultdict(list)
    for process in processes:
        for network, entry in process.all(nccl_records.Network).items():
            if network.name not in ("IB", *nccl_records.TCP):
                names[network.name].append(gathered.where(entry.position))
    for name, positions in names.items():
        yield _found(
            code="net-plugin-replaced", status="note", subject=f"job {job.number}",
            seen=f"Using network {name}", expected=OWN_OR_NEEDED, ranks=len(positions),
            lines=tuple(sorted(positions)[:QUOTED]),
        )  # fmt: skip


# -- settings --------------------------------------------------------------------------------------------


def _without_effect(
    gathered: GatheredRanks, job: JobPart, processes: list[JobProcess]
) -> Iterator[JobFinding]:
    """dma-buf switched off, if it is not among the reasons that were found."""
    blamed = {code for r in job.ranks for leg in r.legs for reason in leg.reasons for code in reason.codes}
    off = [
        (process, value)
        for process in (*processes, gathered.around)
        if (value := process.variable("NCCL_DMABUF_ENABLE")) is not None and integer(value[0]) == 0
    ]
    if off and "dmabuf-disabled-by-env" not in blamed:
        yield _found(
            code="dmabuf-disabled-by-env", status="note", subject=f"job {job.number}",
            seen="NCCL_DMABUF_ENABLE=0", expected="unset: only nvidia-peermem is left", ranks=len(off),
            lines=tuple(sorted(gathered.where(value[1]) for _, value in off)[:QUOTED]),
        )  # fmt: skip


def _level_on_c2c(
    gathered: GatheredRanks, job: JobPart, processes: list[JobProcess]
) -> Iterator[JobFinding]:
    """PXB or PIX on a machine with NVLink-C2C, where newer versions forbid what older ones allowed."""
    if len(job.nccl_versions) != 1 or not release(job.nccl_versions[0]).compares_p2c:
        return
    coherent = _is_coherent(job, processes)
    for process in processes:
        value = process.variable(LEVEL)
        if coherent and value is not None and gdr_level(value[0], job.nccl_versions[0]) in ("PIX", "PXB"):
            yield _found(
                code="gdr-level-pxb-on-c2c", status="warning", subject=LEVEL, seen=f"{LEVEL}={value[0]}",
                expected="unset, or P2C", ranks=len(job.ranks), lines=(gathered.where(value[1]),),
            )  # fmt: skip
            return


def _is_coherent(job: JobPart, processes: list[JobProcess]) -> bool:
    """Whether the log shows NVLink-C2C, as GH200, GB200 and GB300 have."""
    return any(leg.forced_pcie for rank in job.ranks for leg in rank.legs) or any(
        found.form == "c2c" for process in processes for found in process.all(nccl_records.Remark)
    )


def _fabric_off(gathered: GatheredRanks, job: JobPart, processes: list[JobProcess]) -> Iterator[JobFinding]:
    """NVLink between hosts switched off in a job that uses NICs between several. Whether it has such NVLink,
    a log shows only by C2C, or by the setting that asks for it; elsewhere the setting is a note."""
    legs = [leg for rank in job.ranks for leg in rank.legs]
    if len({rank.host for rank in job.ranks}) < 2 or any(leg.carried is NVLINK for leg in legs):
        return
    asked = [one for process in processes if (one := process.variable(FABRIC.name)) is not None]
    has = _is_coherent(job, processes) or any(integer(value) == 1 for value, _ in asked)
    for switch in MNNVL.switches:
        given = [one for process in processes if (one := process.variable(switch.name)) is not None]
        if off := [position for value, position in given if switch.off(value)]:
            yield _found(
                code=OF_MNNVL[switch.name], status="warning" if has else "note", subject=f"job {job.number}",
                seen=f"{switch.name}=0: no NVLink between hosts",
                expected="unset, on GPUs that NVLink joins with other hosts, as in GB200 NVL72",
                ranks=len(off), lines=tuple(sorted(map(gathered.where, off))[:QUOTED]),
            )  # fmt: skip


def _level_ignored(gathered: GatheredRanks, jobs: list[JobPart]) -> Iterator[JobFinding]:
    """A level that was given but is not valid, or that no rank reports, though ranks report settings."""
    version = next((job.nccl_versions[0] for job in jobs if len(job.nccl_versions) == 1), "")
    printed = [
        variable.name
        for process in gathered.processes.values()
        for variable in process.all(nccl_records.Variable)
        if variable.resolved
    ]
    for process in gathered.processes.values():
        for variable, entry in process.all(nccl_records.Variable).items():
            if variable.name != LEVEL or variable.resolved:
                continue
            level = gdr_level(variable.value, version)
            if level is None:
                seen, expected = f"{LEVEL}={variable.value!r}", "LOC, PIX, PXB, PHB or SYS"
            elif printed and LEVEL not in printed and (not version or release(version).prints_level):
                seen = f"{LEVEL}={variable.value} is given, but no rank reports it"
                expected = f"{LEVEL} set by environment to {level}"
            else:
                continue
            yield _found(
                code="gdr-level-ignored", status="warning", subject=LEVEL, seen=seen, expected=expected,
                ranks=sum(len(job.ranks) for job in jobs), lines=(gathered.where(entry.position),),
            )  # fmt: skip


def _of_error(error: JobError) -> Iterator[JobFinding]:
    """A finding for an error with a single possible cause."""
    if len(error.codes) == 1 and error.decides:
        yield _found(
            code=error.codes[0], status="failed" if error.call in BLOCKING else "warning",
            subject=error.call, seen=error.words, expected="no such error", ranks=error.ranks,
            lines=(error.line,),
        )  # fmt: skip
