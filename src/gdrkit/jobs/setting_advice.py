"""What to do about a variable that differs between the ranks of a job, or that only some hosts print."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

from gdrkit.formats.regex import regex
from gdrkit.jobs.gather import GatheredRanks
from gdrkit.jobs.hosts import FAR, names
from gdrkit.jobs.job import JobPart, LoneSetting, Rank
from gdrkit.programs.nccl import log_records as nccl_records
from gdrkit.programs.nccl.consumer import NCCL
from gdrkit.programs.nccl.log import COMPARED
from gdrkit.programs.nccl.log_records import INDIRECT, Carrier
from gdrkit.programs.nccl.settings import gdr_level
from gdrkit.programs.setting_codes import codes_of

UNSET = "unset"
LEVEL = "NCCL_NET_GDR_LEVEL"
OF_THE_PATH = (
    LEVEL, "NCCL_NET_GDR_READ", "NCCL_NET_GDR_C2C", "NCCL_DMABUF_ENABLE", "NCCL_IB_DISABLE", "NCCL_NET",
    "NCCL_NET_PLUGIN",
)  # fmt: skip
"""Variables that decide whether a path is direct."""
WITH_CARE = ("SYS",)
"""Levels with which traffic crosses sockets, where some CPUs forward it more slowly than a copy costs."""
_PLAIN = regex(r"[\w.,:^=-]{1,80}", re.ASCII)
"""A value that a shell reads as it stands: a log is written by others."""


def is_plain(value: str) -> bool:
    return _PLAIN.fullmatch(value) is not None


def setting_advice(name: str, values: Mapping[str, Iterable[str]], job: JobPart) -> tuple[str, bool]:
    """The step that makes the ranks alike, and whether the difference is why some are not direct. `values`:
    the processes that have each value, of which one may be `unset`."""
    closing = [value for value in values if value != UNSET and codes_of((NCCL,), name, value)]
    if closing:
        return f"unset {name} on {_hosts(one for value in closing for one in values[value])}", False
    slow = {rank.process for rank in job.ranks if _is_slow(rank)}
    fast = {rank.process for rank in job.ranks if any(leg.carried is Carrier.DIRECT for leg in rank.legs)}
    good = {value for value, some in values.items() if (fast - slow).intersection(some)}
    bad = {value for value, some in values.items() if slow.intersection(some)}
    if name not in OF_THE_PATH or len(good) != 1 or len(bad) != 1 or good == bad:
        return f"give all ranks the same {name}", False
    (value,), (other,) = good, bad
    hosts = _hosts(values[other])
    decides = name == LEVEL and all(_is_far(rank) for rank in job.ranks if _is_slow(rank))
    if value == UNSET:
        return f"unset {name} on {hosts}", decides
    if not is_plain(value):
        return f"give all ranks the same {name}", decides
    several = "," in hosts
    lacks = (
        ("lack it" if several else "lacks it")
        if other == UNSET
        else f"{'have' if several else 'has'} {other}"
    )
    far = name == LEVEL and gdr_level(value, "") in WITH_CARE
    caution = "; across sockets it is slower on some machines: `gdr bench` compares" if far else ""
    return f"set {name}={value} on all ranks: {hosts} {lacks}{caution}", decides


def _hosts(processes: Iterable[str]) -> str:
    return names(sorted({process.rpartition(":")[0] or process for process in processes}))


def _is_slow(rank: Rank) -> bool:
    return rank.network_path in INDIRECT or any(leg.carried in INDIRECT for leg in rank.legs)


def _is_far(rank: Rank) -> bool:
    """Whether the distance, which the level compares, is why a rank's legs are not direct."""
    return any(code in FAR for leg in rank.legs for reason in leg.reasons for code in reason.codes)


def lone_settings(gathered: GatheredRanks, jobs: list[JobPart]) -> tuple[LoneSetting, ...]:
    """Settings that some hosts of a job print, where another host prints none at all: whether it has them is
    not known."""
    found: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for job in jobs:
        printing: dict[str, bool] = {}
        for name in {rank.process for rank in job.ranks}:
            variables = gathered.processes[name].all(nccl_records.Variable)
            host = gathered.processes[name].host
            printing[host] = printing.get(host, False) or any(one.resolved for one in variables)
        if all(printing.values()):
            continue
        for name in {rank.process for rank in job.ranks}:
            for one, entry in gathered.processes[name].all(nccl_records.Variable).items():
                if one.resolved and one.name in COMPARED:
                    hosts = found[one.name, one.value]
                    host = gathered.processes[name].host
                    hosts[host] = min(entry.position, hosts.get(host, entry.position))
    return tuple(
        LoneSetting(
            name=name, value=value, hosts=tuple(sorted(hosts)), line=gathered.where(min(hosts.values())),
            closes=bool(codes_of((NCCL,), name, value)),
        )
        for (name, value), hosts in sorted(found.items())
    )  # fmt: skip
