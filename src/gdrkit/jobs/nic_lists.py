"""Hosts on which NCCL lists fewer NICs than on the others of the job, or than they have GPUs.

Source: NCCL src/transport/net_ib/init.cc: it lists the devices with an active port that NCCL_IB_HCA selects
and that it can open. So a name that is absent has one of three reasons, and the list does not show which.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from gdrkit.catalogue import Code
from gdrkit.formats.plural import plural
from gdrkit.jobs.gather import GatheredRanks
from gdrkit.jobs.hosts import names
from gdrkit.jobs.job import JobPart, LogPosition, Rank, SharedNics, ShortNicList, ranks_by_host
from gdrkit.programs.nccl import log_records as nccl_records
from gdrkit.programs.nccl.log_records import OVER_NETWORK
from gdrkit.programs.nccl.settings import selects
from gdrkit.report.summary import WIDTH, clip
from gdrkit.report.terminal import Row

UNLISTED: tuple[Code, ...] = ("port-down", "rdma-device-not-in-container", "hca-not-selected")


def short_nic_lists(gathered: GatheredRanks, jobs: Iterable[JobPart]) -> tuple[ShortNicList, ...]:
    """The hosts whose list lacks names of the list that most hosts have. Where half of several hosts have a
    shorter one, they are machines of another kind."""
    ranks = ranks_by_host(rank for job in jobs for rank in job.ranks)
    lists = {host: found for host, own in ranks.items() if (found := _listed(gathered, own)) and host}
    kinds = Counter(frozenset(found) for found in lists.values())
    if len(kinds) < 2:
        return ()
    usual = max(kinds, key=lambda kind: (kinds[kind], len(kind)))
    lacking: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for host, found in lists.items():
        if set(found) < usual and (2 * kinds[frozenset(found)] < len(lists) or len(lists) == 2):
            lacking[tuple(sorted(usual - set(found)))].append(host)
    given = {missing: _selected(gathered, ranks[hosts[0]]) for missing, hosts in lacking.items()}
    return tuple(
        ShortNicList(
            hosts=tuple(sorted(hosts)), missing=missing, usual=len(usual), usual_hosts=kinds[usual],
            shared=tuple(sorted(set.union(*(_shared(ranks[host]) for host in hosts)))),
            selected=_leaving_out(given[missing], missing), codes=_causes(given[missing], missing),
            line=gathered.where(min(position for host in hosts for position in lists[host].values())),
        )
        for missing, hosts in lacking.items()
    )  # fmt: skip


def _leaving_out(given: set[str], missing: tuple[str, ...]) -> str:
    """The value of NCCL_IB_HCA that selects none of the missing NICs; "" if none is printed."""
    return min((one for one in given if not any(selects(one, nic) for nic in missing)), default="")


def _causes(given: set[str], missing: tuple[str, ...]) -> tuple[Code, ...]:
    """Why NICs may be missing: a value of NCCL_IB_HCA that selects them is none of the causes."""
    if _leaving_out(given, missing):
        return UNLISTED[-1:]
    selected = any(all(selects(one, nic) for nic in missing) for one in given)
    return UNLISTED[:-1] if selected else UNLISTED


def short_list_words(one: ShortNicList) -> str:
    """`gpu13 lists 7 NICs, 15 hosts list 8: mlx5_8 is missing; ranks there share mlx5_9`."""
    lists = "lists" if len(one.hosts) == 1 else "list"
    others = (
        f"{plural(one.usual_hosts, 'other host')} {'lists' if one.usual_hosts == 1 else 'list'} {one.usual}"
    )
    verb = "is" if len(one.missing) == 1 else "are"
    shared = f"; ranks there share {', '.join(one.shared)}" if one.shared else ""
    own = plural(one.usual - len(one.missing), "NIC")
    return f"{names(one.hosts)} {lists} {own}, {others}: {names(one.missing)} {verb} missing{shared}"


def shared_nics(gathered: GatheredRanks, jobs: Iterable[JobPart]) -> tuple[SharedNics, ...]:
    """The hosts whose ranks have more GPUs than NCCL lists NICs there, by what they share. That is as it
    should be on many machines: only a setting that names these NICs shows a choice. Ranks of the host that
    are not in the logs could only share more."""
    found: dict[tuple[int, tuple[str, ...], str], list[tuple[LogPosition, str]]] = defaultdict(list)
    for job in jobs:
        hosts = {} if job.on_one_host else ranks_by_host(job.ranks)
        for host, ranks in hosts.items():
            listed = _listed(gathered, ranks)
            gpus = len({rank.gpu for rank in ranks} - {""})
            if host and 0 < len(listed) < gpus:
                given = [gathered.processes[rank.process].variable("NCCL_IB_HCA") for rank in ranks]
                setting, position = min(filter(None, given), default=("", min(listed.values())))
                key = gpus, tuple(sorted(listed)), setting
                found[key].append((gathered.where(position), host))
    return tuple(
        SharedNics(
            hosts=tuple(sorted(host for _, host in places)), gpus=gpus, nics=nics, setting=setting,
            keeps={one.partition(":")[0] for one in setting.removeprefix("=").split(",")} <= set(nics),
            line=min(places)[0],
        )
        for (gpus, nics, setting), places in found.items()
    )  # fmt: skip


def shared_nics_words(one: SharedNics) -> str:
    """`on each of gpu1, gpu2, 8 GPUs share 2 NICs (mlx5_0, mlx5_1): NCCL_IB_HCA is set so (job.log:2)`."""
    each = "each of " if len(one.hosts) > 1 else ""
    why = f": NCCL_IB_HCA is {'set so' if one.keeps else clip(one.setting, WIDTH)}" if one.setting else ""
    nics = f"{plural(len(one.nics), 'NIC')} ({names(one.nics)})"
    return f"on {each}{names(one.hosts)}, {one.gpus} GPUs share {nics}{why} ({one.line})"


def shared_nics_rows(shared: Iterable[SharedNics]) -> Iterator[Row]:
    """What hosts share, and how to find out whether they have more NICs."""
    for one in shared:
        yield 2, "warning" if one.keeps else "", shared_nics_words(one)
        if one.setting:
            more = f"`ibv_devices` on {one.hosts[0]} shows whether it has more"
            yield 6, "", f"{more}; if so: `gdr codes {UNLISTED[-1]}`"


def _listed(gathered: GatheredRanks, ranks: list[Rank]) -> dict[str, int]:
    """The names in the lists of a host's processes, with the position of the first."""
    found: dict[str, int] = {}
    for name in {rank.process for rank in ranks}:
        for hcas, entry in gathered.processes[name].all(nccl_records.Hcas).items():
            for part in (part for hca in hcas.devices for part in hca.name.split("+")):
                found[part] = min(entry.position, found.get(part, entry.position))
    return found


def _selected(gathered: GatheredRanks, ranks: list[Rank]) -> set[str]:
    """What a host's processes print of NCCL_IB_HCA."""
    values = (gathered.processes[rank.process].variable("NCCL_IB_HCA", resolved=True) for rank in ranks)
    return {value[0] for value in values if value is not None}


def _shared(ranks: list[Rank]) -> set[str]:
    """The NICs that several ranks of a host use, if each rank uses one: those of others are of PXN."""
    used = [
        {leg.device for leg in rank.legs if leg.carried in OVER_NETWORK and leg.device} for rank in ranks
    ]
    if any(len(devices) != 1 for devices in used):
        return set()
    counts = Counter(device for devices in used for device in devices)
    return {device for device, count in counts.items() if count > 1}
