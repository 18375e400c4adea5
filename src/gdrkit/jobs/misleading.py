"""Lines that are often read as more than they show; only channel lines show the path.

Each is true, and was quoted somewhere as proof of something it does not show. Sources: NCCL src/init.cc,
src/transport/generic.cc, src/graph/topo.cc, src/plugin/net.cc, src/transport/net_ib/common.h;
nccl-rdma-sharp-plugins src/p2p_plugin.c; NVIDIA/nccl-tests issue 245; vllm-project/vllm issue 42750.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gdrkit.jobs.gather import GatheredRanks, JobProcess
from gdrkit.jobs.job import LegCounts, MisleadingLine
from gdrkit.jobs.line_counts import TallyEntry
from gdrkit.programs.nccl import log_records as nccl_records
from gdrkit.programs.nccl.network_messages import NO_PLUGIN

Test = Callable[[nccl_records.NcclRecord, LegCounts], str]


def _dmabuf_gpu(found: nccl_records.NcclRecord, counts: LegCounts) -> str:
    if counts.direct and not counts.bounced:
        return ""
    return "only about the GPU and the driver: NIC and distance were not tested, and nothing was registered"


def _device(found: nccl_records.NcclRecord, counts: LegCounts) -> str:
    if not isinstance(found, nccl_records.NetDevice):
        return ""
    if not found.enabled and counts.nvlink and not counts.bounced:
        return "harmless while all traffic stays in one NVLink domain"
    if found.network in nccl_records.TCP:
        return "normal: a socket has no direct path; the line is not about InfiniBand or RoCE"
    if found.enabled and (counts.bounced or not counts.direct):
        side = "only about the NIC's side, host-wide for nvidia-peermem"
        plugin = "; the plugin prints it even if the GPU has no support" if found.how else ""
        return f"{side}: GPU and distance are not tested{plugin}"
    return ""


def _rings(found: nccl_records.NcclRecord, counts: LegCounts) -> str:
    if not isinstance(found, nccl_records.Rings):
        return ""
    if found.gdr and not counts.direct:
        return "GDR 1 is an AND over ring legs: it is also printed without any leg over a network"
    if not found.gdr and counts.direct:
        return "GDR 0 means that at least one ring leg is not direct, not that none is"
    return ""


REMARKS = {
    "hint": "this advice is for one error but printed after others, too: rely on the error number",
    "qp-retry": "a retry, not yet a failure: NCCL tries for about a minute, and warns without `retrying` at "
    "the end",
    "failover": "NCCL goes on with its other NICs: a failure only if a warning follows",
    "nic-replaced": "the NIC of this leg is not the one in its channel line",
    "network-refused": "NCCL tries the next network: a failure only if a warning says `any NET plugin`",
    "nic-counts": "the check for equal numbers of NICs is off: such a job can hang without a message",
    "rails-crossed": "a connection crosses rails: slower, and possible only where switches route it",
}
"""Lines that are neither a failure nor the whole truth, by their form."""


WITHOUT_PLUGIN = "normal: without a plugin, or with one of another version, NCCL uses its own network code"


def _plugin(found: nccl_records.NcclRecord, counts: LegCounts) -> str:
    if not isinstance(found, nccl_records.Remark):
        return ""
    if found.form == "no-plugin":
        return WITHOUT_PLUGIN
    return REMARKS.get(found.form, "")


def _socket(found: nccl_records.NcclRecord, counts: LegCounts) -> str:
    if not isinstance(found, nccl_records.Network) or found.name not in nccl_records.TCP:
        return ""
    if counts.nvlink and not counts.socket:
        return "harmless while all traffic stays in one NVLink domain; to another domain it goes over TCP"
    return ""


def _data_direct(found: nccl_records.NcclRecord, counts: LegCounts) -> str:
    if isinstance(found, nccl_records.DataDirect) and not found.found:
        return "harmless, unless the NIC is a ConnectX-8 with Data Direct, whose fast path is then not used"
    return ""


TESTS: dict[type, Test] = {
    nccl_records.DmabufGpu: _dmabuf_gpu,
    nccl_records.NetDevice: _device,
    nccl_records.Rings: _rings,
    nccl_records.Remark: _plugin,
    nccl_records.DataDirect: _data_direct,
    nccl_records.Network: _socket,
}


def misleading(gathered: GatheredRanks, counts: LegCounts) -> list[MisleadingLine]:
    """Each kind of misleading line once, with the number of processes and devices, and the first line."""
    found: dict[str, list[TallyEntry]] = {}
    for truth, entry in _all(gathered, counts):
        found.setdefault(truth, []).append(entry)
    made = []
    for truth, entries in found.items():
        first = min(entries, key=lambda entry: entry.position)
        line = gathered.where(first.position)
        made.append(MisleadingLine(words=first.words, truth=truth, count=len(entries), line=line))
    return sorted(made, key=lambda one: one.line)


def _all(gathered: GatheredRanks, counts: LegCounts) -> Iterator[tuple[str, TallyEntry]]:
    for process in gathered.processes.values():
        lacks_plugin = gathered.tally.failures.efa or _lacks_plugin(process)
        for kind, test in TESTS.items():
            for record, entry in process.records.get(kind, {}).items():
                truth = test(record, counts)
                if truth and not (lacks_plugin and truth == WITHOUT_PLUGIN):
                    yield truth, entry


def _lacks_plugin(process: JobProcess) -> bool:
    """Whether a process needs a plugin that it does not find, or has one that cannot be loaded."""
    needed = any(failure.call == NO_PLUGIN for failure in process.all(nccl_records.Failure))
    return needed or any(warned.program == NO_PLUGIN for warned in process.all(nccl_records.Warned))
