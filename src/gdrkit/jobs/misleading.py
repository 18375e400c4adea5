"""Lines that are taken for more than they say, beside the channel lines that tell.

Each is true; each was quoted somewhere as proof of what it does not show. Sources: NCCL src/init.cc,
src/transport/generic.cc, src/graph/topo.cc, src/plugin/net.cc, src/transport/net_ib/common.h;
nccl-rdma-sharp-plugins src/p2p_plugin.c; NVIDIA/nccl-tests issue 245; vllm-project/vllm issue 42750.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gdrkit.jobs.gather import GatheredRanks
from gdrkit.jobs.job import LegCounts, MisleadingLine
from gdrkit.jobs.tally import TallyEntry
from gdrkit.messages import nccl_records as said

Test = Callable[[said.NcclRecord, LegCounts], str]


def _dmabuf_gpu(found: said.NcclRecord, counts: LegCounts) -> str:
    if counts.direct and not counts.bounced:
        return ""
    return "of the GPU and the driver alone: neither NIC nor distance were asked, and nothing was registered"


def _device(found: said.NcclRecord, counts: LegCounts) -> str:
    if not isinstance(found, said.NetDevice):
        return ""
    if found.network == "Socket":
        return "normal: a socket has no direct path, and this says nothing about InfiniBand or RoCE"
    if found.enabled and (counts.bounced or not counts.direct):
        side = "of the NIC's side alone, host-wide for nvidia-peermem"
        plugin = "; the plugin prints it also where the GPU cannot" if found.how else ""
        return f"{side}: the GPU and the distance are not in it{plugin}"
    return ""


def _rings(found: said.NcclRecord, counts: LegCounts) -> str:
    if not isinstance(found, said.Rings):
        return ""
    if found.gdr and not counts.direct:
        return "GDR 1 is an AND over ring legs: it is also printed where there is no leg over a network"
    if not found.gdr and counts.direct:
        return "GDR 0 means that one ring leg at least is not direct, not that none is"
    return ""


def _plugin(found: said.NcclRecord, counts: LegCounts) -> str:
    if not isinstance(found, said.Remark):
        return ""
    if found.form == "no-plugin":
        return "normal: without a plugin, or with one of another version, NCCL uses its own network code"
    if found.form == "hint":
        return "advice for one error is printed after another's as well: trust the error's own number"
    return ""


def _data_direct(found: said.NcclRecord, counts: LegCounts) -> str:
    if isinstance(found, said.DataDirect) and not found.found:
        return "harmless, unless the NIC is a ConnectX-8 with Data Direct: then its fast path is lost"
    return ""


TESTS: dict[type, Test] = {
    said.DmabufGpu: _dmabuf_gpu,
    said.NetDevice: _device,
    said.Rings: _rings,
    said.Remark: _plugin,
    said.DataDirect: _data_direct,
}


def misleading(gathered: GatheredRanks, counts: LegCounts) -> list[MisleadingLine]:
    """Each kind of such a line once, with how many processes and devices have it, and where first."""
    found: dict[str, list[TallyEntry]] = {}
    for truth, entry in _all(gathered, counts):
        found.setdefault(truth, []).append(entry)
    made = []
    for truth, entries in found.items():
        first = min(entries, key=lambda entry: entry.place)
        line = gathered.where(first.place)
        made.append(MisleadingLine(words=first.words, truth=truth, count=len(entries), line=line))
    return sorted(made, key=lambda one: one.line)


def _all(gathered: GatheredRanks, counts: LegCounts) -> Iterator[tuple[str, TallyEntry]]:
    for process in gathered.processes.values():
        for kind, test in TESTS.items():
            for record, entry in process.records.get(kind, {}).items():
                if truth := test(record, counts):
                    yield truth, entry
