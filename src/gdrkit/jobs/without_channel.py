"""What a rank's network would use, from lines that decide it before any channel exists.

Source: NCCL src/init.cc and src/plugin/net.cc, in the order in which they choose a network.
"""

from __future__ import annotations

from msgspec import UNSET, structs

from gdrkit.jobs.gather import GatheredRanks, JobProcess
from gdrkit.jobs.job import JobPart, Leg, LegDirection, LegReason, LogPosition, Rank
from gdrkit.jobs.reasons import ReasonFinder, not_zero
from gdrkit.programs.nccl import log_records as nccl_records
from gdrkit.programs.nccl.log_records import Carrier

NOWHERE = LogPosition("", 0)


def network_without_channel(why: ReasonFinder, rank: Rank) -> tuple[Carrier | None, tuple[LegReason, ...]]:
    """What would carry a rank's network traffic, and why it is not direct; None if no line decides."""
    process = why.gathered.processes[rank.process]
    if process.records.get(nccl_records.Clique):
        return Carrier.NVLINK, ()
    if _is_socket(why, process):
        leg = Leg(direction=LegDirection.NOT_PRINTED, carried=Carrier.SOCKET, channels=(), line=NOWHERE)
        return Carrier.SOCKET, tuple(_located(why, process, reason) for reason in why.of(rank, leg))
    refused = tuple(why.refused_devices(process))
    devices = process.all(nccl_records.NetDevice)
    if refused and not any(device.enabled for device in devices):
        return Carrier.BOUNCED, refused
    return None, ()


def _is_socket(why: ReasonFinder, process: JobProcess) -> bool:
    """Whether NCCL uses TCP: it says so, or nothing else is left. Where NCCL_NET names another network, TCP
    is not: the job stops (src/plugin/net.cc, src/init.cc before)."""
    named = [network.name for network in process.all(nccl_records.Network)]
    if named:
        return named[-1] in nccl_records.TCP
    demanded, _ = why.variable(process, "NCCL_NET")
    if demanded and demanded not in nccl_records.TCP and demanded.lower() != "socket":
        return False
    if any(device.network in nccl_records.TCP for device in process.all(nccl_records.NetDevice)):
        return True
    disabled, _ = why.variable(process, "NCCL_IB_DISABLE")
    without_verbs = (
        bool(process.records.get(nccl_records.NoIbDevice))
        or bool(process.records.get(nccl_records.VerbsUnavailable))
        or (disabled is not None and not_zero(disabled))
    )
    plugin, sockets = (process.records.get(kind) for kind in (nccl_records.Plugin, nccl_records.SocketsUp))
    return without_verbs and (not plugin or bool(sockets))


def _located(why: ReasonFinder, process: JobProcess, reason: LegReason) -> LegReason:
    """A reason with the line that names the network, if it has none of its own."""
    kinds = (nccl_records.Network, nccl_records.NetDevice, nccl_records.SocketsUp)
    positions = [entry.position for kind in kinds for entry in process.records.get(kind, {}).values()]
    if reason.line is not UNSET or not positions:
        return reason
    return structs.replace(reason, line=why.gathered.where(min(positions)))


def is_local(gathered: GatheredRanks, job: JobPart) -> bool:
    """Whether a job is known to need no network: all its ranks are on one host, or in one NVLink domain. One
    whose sockets are of the loopback interface alone reaches no other host."""
    processes = {rank.process for rank in job.ranks}
    sockets = [found for name in processes for found in gathered.processes[name].all(nccl_records.SocketsUp)]
    if sockets and all(one.loopback for one in sockets):
        return True
    placements = [
        placement for name in processes for placement in gathered.processes[name].all(nccl_records.Placement)
    ]
    if placements:
        return all(placement.nodes == 1 for placement in placements)
    if job.expected == 1:
        return True
    if len({rank.host for rank in job.ranks}) != 1 or not all(":" in name for name in processes):
        return False
    if job.expected is not None:
        return len(job.ranks) >= job.expected
    return len(job.ranks) > 1 and any(rank.legs for rank in job.ranks)


def is_on_one_host(gathered: GatheredRanks, job: JobPart) -> bool:
    """Whether lines prove that all ranks of a job are on one host, and all are in the logs. Peers that no
    line counts may be on others, and an NVLink domain has several. Several hosts can have one name, and the
    pods of one host have one each: where ranks are placed, that decides."""
    ranks, expected = job.ranks, job.expected or 0
    if job.at_least or not len(ranks) >= expected > 0:
        return False
    placed = [
        placement
        for rank in ranks
        for placement in gathered.processes[rank.process].all(nccl_records.Placement)
        if placement.ranks == expected
    ]
    if placed and not any(placement.mnnvl for placement in placed):
        return all(placement.nodes == 1 for placement in placed)
    hosts = {rank.host for rank in ranks}
    is_shown = expected == 1 or any(rank.legs for rank in ranks)
    return is_shown and len(hosts) == 1 and "" not in hosts and is_local(gathered, job)
