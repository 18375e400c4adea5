"""A job by its hosts: which of them do not go directly, how they differ from the others, what to do there.

A rank's legs are proof (`Leg`); a host is as its worst leg. What no line shows stays unknown.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator

from msgspec import Struct

from gdrkit.facts.cable_halves import other_half
from gdrkit.formats.plural import plural
from gdrkit.formats.regex import regex
from gdrkit.jobs.document import NAMED, NcclDocument
from gdrkit.jobs.gpu_names import OF_HARDWARE
from gdrkit.jobs.job import (
    HostPath,
    JobFinding,
    Leg,
    LegDirection,
    LoneSetting,
    Rank,
    ShortNicList,
    ranks_by_host,
)
from gdrkit.programs.nccl.consumer import NCCL
from gdrkit.programs.nccl.log_records import INDIRECT, OVER_NETWORK, Carrier
from gdrkit.programs.setting_codes import codes_of
from gdrkit.report.summary import clip

DIFFERS = "env-differs-between-ranks"
SLOWER: tuple[HostPath, ...] = ("staged", "socket")
GOES: dict[HostPath, str] = {
    "staged": "through host memory", "socket": "over TCP", "direct": "directly", "nvlink": "over NVLink",
    "unknown": "by a path that no line shows",
}  # fmt: skip
_HOST = regex(r"[A-Za-z0-9][\w.-]{0,252}", re.ASCII)
"""What may be part of a command: a log is written by others. RFC 1035 has the length."""

_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_POD = regex(rf"-(?:(?:worker|master|launcher)-\d{{1,5}}|(?=\d?[a-z])[{_LETTERS}]{{5}})$", re.ASCII)
"""The end of a pod's name: a replica of an MPIJob or PyTorchJob, or the suffix of a ReplicaSet, DaemonSet or
Job. Sources: kubeflow/trainer pkg/common/util, GenGeneralName(); Kubernetes apimachinery pkg/util/rand."""
NOT_IN_POD = "rdma-device-not-in-container"


class JobHosts(Struct, frozen=True, kw_only=True):
    """Hosts of a job that are alike, and what is so on each of them."""

    path: HostPath
    hosts: tuple[str, ...]
    devices: tuple[str, ...]  # network devices that the legs use which are not direct; of direct hosts, all
    of_devices: int  # network devices that any leg uses, on the host that uses most
    direction: LegDirection  # send or receive, if only that is not direct
    ranks: int  # of all these hosts: those with such legs; of direct hosts, all


def by_host(document: NcclDocument) -> tuple[JobHosts, ...]:
    """The hosts in groups of equal ones, what to act on first."""
    ranks = ranks_by_host(rank for job in document.jobs for rank in job.ranks)
    groups: dict[tuple[HostPath, tuple[str, ...], LegDirection], list[tuple[str, int, int]]] = defaultdict(
        list
    )
    for host, members in ranks.items():
        path = host_path(members)
        legs = [(rank, leg) for rank in members for leg in rank.legs if _counts(leg, path)]
        directions = {leg.direction for _, leg in legs}
        one = directions.pop() if path in SLOWER and len(directions) == 1 else None
        devices = tuple(sorted({device(leg) for _, leg in legs}, key=_natural))
        number = len({id(rank) for rank, _ in legs}) or len(members)
        used = {device(leg) for rank in members for leg in rank.legs if leg.carried in OVER_NETWORK}
        groups[path, devices, one or LegDirection.BOTH].append((host, number, len(used)))
    order = list(GOES)
    return tuple(
        JobHosts(
            path=path, hosts=tuple(sorted((host for host, _, _ in found), key=_natural)), devices=devices,
            of_devices=max(used for _, _, used in found), direction=direction,
            ranks=sum(number for _, number, _ in found),
        )
        for (path, devices, direction), found in sorted(
            groups.items(), key=lambda group: (order.index(group[0][0]), -len(group[1]), group[0][1])
        )
    )  # fmt: skip


def headline(groups: tuple[JobHosts, ...]) -> str:
    """`2 of 16 hosts go through host memory: gpu05, gpu11 (all 8 NICs, 16 ranks)`; "" for one host, or where
    no host is slower."""
    slower = [group for group in groups if group.path in SLOWER]
    every = {host for group in groups for host in group.hosts}
    if not slower or len(every) < 2 or "" in every:
        return ""
    taken = [path for path in SLOWER if any(group.path == path for group in slower)]
    some = sorted({host for group in slower for host in group.hosts}, key=_natural)
    verb = "goes" if len(some) == 1 else "go"
    many = f"{len(some)} of {len(every)}"
    if len(some) == len(every):
        many = "both" if len(some) == 2 else f"all {len(some)}"
    parts = {_part(group) for group in slower}
    what = f"{part}, " if len(parts) == 1 and (part := parts.pop()) else ""
    inside = f"{what}{plural(sum(group.ranks for group in slower), 'rank')}"
    named = "" if len(some) == len(every) else f": {names(some)}"
    return f"{many} hosts {verb} {' or '.join(GOES[path] for path in taken)}{named} ({inside})"


def host_line(group: JobHosts) -> str:
    """`through host memory: gpu05, gpu11 (all 8 NICs, 16 ranks)`."""
    part = f"{_part(group)}, " if group.path in SLOWER and _part(group) else ""
    inside = f"{part}{plural(group.ranks, 'rank')}"
    return f"{GOES[group.path]}: {names(group.hosts)} ({inside})"


def contrast(document: NcclDocument, groups: tuple[JobHosts, ...]) -> str:
    """What the log shows of the hosts that go directly beside the slower ones; "" if there are none."""
    slower = {host for group in groups if group.path in SLOWER for host in group.hosts}
    mates = _mates(document, slower)
    direct = [host for group in groups if group.path == "direct" for host in group.hosts if host in mates]
    if not direct or not headline(groups):
        return ""
    others = f"{plural(len(direct), 'other host')} {'goes' if len(direct) == 1 else 'go'} directly"
    compared = {finding.subject for finding in document.findings if finding.code == DIFFERS}
    lone = [one for one in document.lone_settings if one.name not in compared]
    if lone := [one for one in lone if not set(one.hosts) & set(direct)]:
        some = [f"only {names(one.hosts)} {_prints(one)}" for one in lone[:MOST_SETTINGS]]
        return f"{others}; {', '.join(some)}"
    if _settings_differ(document):
        return f"{others}; settings of the ranks differ"
    if lacking := sorted(
        host for one in document.without_dmabuf for host in one.hosts if one.path in SLOWER
    ):
        gets = "gets" if len(lacking) == 1 else "get"
        return f"{others}; only {names(lacking)} {gets} no dma-buf from the GPUs"
    versions = {version for job in document.jobs for version in job.nccl_versions}
    same = ["no other version of NCCL"] if len(versions) == 1 else []
    selected = any(one.selected for one in document.short_nic_lists)
    alike = document.logged.env and not (document.lone_settings or selected)
    same += ["no setting that differs"] if alike else []
    shows = f", and the log shows {' and '.join(same)}" if same else ""
    return f"{others}{shows}: look for what differs between the hosts"


def _mates(document: NcclDocument, hosts: Container[str]) -> set[str]:
    """The hosts of the jobs in which any of these takes part. Those of another job, with other GPUs or NCCL,
    are not compared with them."""
    jobs = ({rank.host for rank in job.ranks} for job in document.jobs)
    return {host for job in jobs if any(one in hosts for one in job) for host in job}


LEFT = "what is left: NVIDIA supports no direct path from such a GPU"
MOST_SETTINGS, SETTING_CHARACTERS = 3, 120
UNSELECTED = "hca-not-selected"


def _prints(one: LoneSetting) -> str:
    return f"{'prints' if len(one.hosts) == 1 else 'print'} {one.name}={one.value}"


def _settings_differ(document: NcclDocument) -> bool:
    return any(finding.code == DIFFERS for finding in document.findings)


def next_steps(document: NcclDocument, groups: tuple[JobHosts, ...]) -> Iterator[str]:
    """What to do first: about causes that are certain; then, if a setting is not the only one, what to run
    on the first slower host, beside one that goes directly if there is one."""
    halves = (one.todo for one in document.findings if one.code == UNSELECTED and other_half(one.subject))
    yield from dict.fromkeys(halves)
    certain = [finding for finding in document.findings if _certain(finding)]
    yield from dict.fromkeys(one.todo for one in certain if one.todo and one.code not in FAR)
    yield from (nic_list_step(one) for one in document.short_nic_lists if one.selected)
    if any(why.codes[:1] == (UNSELECTED,) for why in document.why_not_direct):
        yield (
            "`ls /sys/class/infiniband` in the job lists the names that NCCL_IB_HCA has to match; unset, "
            "NCCL takes every NIC that is up"
        )
    for one in document.lone_settings:
        if one.closes:
            yield f"unset {one.name} on {names(one.hosts)}"
    if not a_setting_decides(document):
        yield from dict.fromkeys(finding.todo for finding in certain if finding.code in FAR)
    unset = {finding.code: name for finding in certain if (name := _closing(finding))}
    for name in dict.fromkeys(unset.values()):
        if name not in {one.name for one in document.lone_settings if one.closes}:
            yield f"unset {name} on all ranks, in the job and in /etc/nccl.conf"
    for code in dict.fromkeys(finding.code for finding in certain if not finding.todo):
        if code not in unset:
            yield f"`gdr codes {code}` says {LEFT if code in OF_HARDWARE else 'what to do'}"
    slow = _first(groups, *SLOWER)
    good = _first(groups, "direct", among=_mates(document, (slow,)))
    if hardware := hardware_of(document):
        if hardware not in {finding.code for finding in certain}:
            yield f"`gdr codes {hardware}` says {LEFT}"
        return
    causes = {code for why in document.why_not_direct for code in why.codes or ("",)}
    if not slow or (causes and causes <= unset.keys()):
        return
    is_pod = slow in document.logged.pods or _POD.search(slow) is not None
    if is_pod and any(NOT_IN_POD in why.codes for why in document.why_not_direct):
        yield (
            "a pod has the RDMA devices that it asks for, and no others: `gdr config container --form "
            "kubernetes` writes the resource and IPC_LOCK, `gdr config check POD.yaml` judges yours"
        )
    yield _judge(slow, good, slurm=document.logged.slurm, is_pod=is_pod)
    if rest := _of_other_causes(document, groups, slow):
        yield f"the same for {names(rest)}: the path or its causes are others there"


def _closing(finding: JobFinding) -> str:
    """The variable that a finding is about, as the log shows it; "" if it is about none that closes a
    path."""
    name, _, value = finding.seen.partition(" ")[0].partition("=")
    return name if finding.code in codes_of((NCCL,), name, value) else ""


def nic_list_step(one: ShortNicList) -> str:
    """What to do about NICs that NCCL does not list on some hosts."""
    if not one.selected:
        return f"`ibv_devinfo -d {one.missing[0]}` on {one.hosts[0]} shows whether a port is active"
    return (
        f"NCCL_IB_HCA={clip(one.selected, SETTING_CHARACTERS)} on {names(one.hosts)} leaves out "
        f"{names(one.missing)}: unset it there, or set it as on the other hosts"
    )


def _judge(slow: str, good: str, *, slurm: bool, is_pod: bool) -> str:
    """The one way to judge a host, beside a good one if there is one, that fits who runs the job: the name
    of a pod is not that of its node."""
    if is_pod:
        node = f"`kubectl get pod {slow} -o wide`"
        return f"`gdr fleet doctor --kubernetes NODE` judges the node of the pod, which {node} names"
    why = f"compares {slow} with {good}" if good else f"judges {slow}"
    hosts = [host for host in (slow, good) if host]
    if slurm:
        return f"`gdr fleet doctor --slurm {' '.join(hosts)}` {why}"
    return f"`gdr doctor {' '.join(f'ssh://{host}' for host in hosts)}` {why}; nothing is installed there"


def _of_other_causes(document: NcclDocument, groups: Iterable[JobHosts], first: str) -> list[str]:
    """A host of each kind of the slower ones, by path and causes, beside that of the first."""
    paths = {host: group.path for group in groups if group.path in SLOWER for host in group.hosts}
    kinds: dict[str, set[object]] = {host: {path} for host, path in paths.items()}
    for rank in (rank for job in document.jobs for rank in job.ranks if rank.host in paths):
        reasons = (*rank.network_reasons, *(reason for leg in rank.legs for reason in leg.reasons))
        kinds[rank.host] |= {reason.codes for reason in reasons}
    seen, found = [kinds.get(first)], []
    for host in sorted(kinds, key=_natural):
        if kinds[host] not in seen:
            seen.append(kinds[host])
            found.append(host)
    return found


def hardware_of(document: NcclDocument) -> str:
    """The kind of GPU that is the first cause of all legs that are not direct; "" if another one is, or if
    no name of a GPU decides between the kinds."""
    first = {(*why.codes[:1], *(set(why.codes[1:]) & set(OF_HARDWARE))) for why in document.why_not_direct}
    kinds = first.pop() if len(first) == 1 else ()
    return kinds[0] if len(kinds) == 1 and kinds[0] in OF_HARDWARE else ""


FAR = ("pair-cross-socket", "pair-distant")


def a_setting_decides(document: NcclDocument) -> bool:
    """Whether ranks are not direct because they lack a setting of others: distance is then not a cause."""
    return any(one.code == DIFFERS and one.status == "failed" for one in document.findings)


def _certain(finding: JobFinding) -> bool:
    """Whether a finding is a cause, or a setting that may be one."""
    return finding.status == "failed" or finding.code == DIFFERS


def _first(groups: Iterable[JobHosts], *paths: HostPath, among: Container[str] | None = None) -> str:
    """The first host, among some, that takes one of these paths, and that a command may name; "" if there is
    none."""
    hosts = (host for group in groups if group.path in paths for host in group.hosts)
    hosts = (host for host in hosts if among is None or host in among)
    return next((host for host in hosts if _HOST.fullmatch(host)), "")


def device(leg: Leg) -> str:
    """The network device of a leg, by name if a line shows it."""
    if leg.device:
        return leg.device
    return f"{leg.network} {leg.index}" if leg.index is not None else leg.network


def names(some: Iterable[str]) -> str:
    """The first names, and how many more there are."""
    every = list(some)
    more = f" and {len(every) - NAMED} more" if len(every) > NAMED else ""
    return ", ".join(every[:NAMED]) + more


_PATHS: tuple[tuple[Carrier, HostPath], ...] = (
    (Carrier.SOCKET, "socket"), (Carrier.BOUNCED, "staged"), (Carrier.DIRECT, "direct"),
    (Carrier.NVLINK, "nvlink"),
)  # fmt: skip
"""Worst first."""


def host_path(ranks: Iterable[Rank]) -> HostPath:
    """What the worst rank of a host does. One without a leg over a network counts by what other lines
    show."""
    seen = {leg.carried for rank in ranks for leg in rank.legs}
    seen |= {rank.network_path for rank in ranks if rank.network_path is not None}
    for carried, path in _PATHS:
        if carried in seen:
            return path
    return "unknown"


def _counts(leg: Leg, path: HostPath) -> bool:
    """Whether a leg is one by which a host takes its path."""
    if path in SLOWER:
        return leg.carried in INDIRECT
    return leg.carried in OVER_NETWORK


def _part(group: JobHosts) -> str:
    """`all 8 NICs`, `2 of 8 NICs`, `sending, all 8 NICs`; "" if no leg names one."""
    number = len(group.devices)
    if not number:
        return ""
    only = {LegDirection.SEND: "sending, ", LegDirection.RECEIVE: "receiving, "}.get(group.direction, "")
    noun = "device" if group.path == "socket" else "NIC"
    if number < group.of_devices:
        return f"{only}{number} of {group.of_devices} {noun}s"
    every = {1: f"1 {noun}", 2: f"both {noun}s"}
    return only + every.get(number, f"all {number} {noun}s")


def _natural(name: str) -> list[tuple[int, str]]:
    """Sorts gpu2 before gpu10."""
    parts = re.split(r"(\d{1,9})", name, flags=re.ASCII)
    return [(int(part), "") if part.isascii() and part.isdigit() else (-1, part) for part in parts]
