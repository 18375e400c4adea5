"""What a log of NCCL, perftest or UCX proves about the path of bytes: less than its lines suggest."""

from __future__ import annotations

from msgspec import Struct

from gdrkit.formats.errors import FormatError
from gdrkit.formats.ucx_proto import read_tables
from gdrkit.programs.nccl import log as nccl_log
from gdrkit.programs.nccl.log import JobLog
from gdrkit.programs.nccl.log_records import Carrier
from gdrkit.programs.ucx.proto_tables import verdict
from gdrkit.programs.verbs import perftest_log
from gdrkit.programs.verbs.perftest_log import PerftestRun


class LogProof(Struct, frozen=True, kw_only=True):
    """A verdict on another program's output. `direct` None: not shown; `claim` has the reason."""

    name: str
    claim: str
    direct: bool | None
    decided_by: tuple[str, ...] = ()


def judge_log(text: str, name: str) -> LogProof:
    """The verdict on a log of NCCL, perftest or UCX, whose tables UCX_PROTO_INFO prints. Raises FormatError
    if it is from none of them."""
    tables = verdict(read_tables(text))
    if tables is not None:
        return LogProof(name=name, claim=tables.claim, direct=tables.direct, decided_by=tables.decided_by)
    try:
        run = perftest_log.parse(text, name)
    except FormatError:
        return of_nccl(nccl_log.parse(text, name), name)
    return of_perftest(run, name)


def of_nccl(log: JobLog, name: str) -> LogProof:
    """The verdict on an NCCL log. Only channel lines count: `DMA-BUF is available` and `Enabled for HCA`
    each describe one side only.

    Source: NCCL src/transport/net.cc, sendSetup and recvSetup print the line of a channel.
    """
    legs = log.legs
    if not legs:
        return LogProof(name=name, claim="inconclusive: no NCCL channel line over a network", direct=None)
    direct = sum(leg.record.via.carried is Carrier.DIRECT for leg in legs)
    without_tcp = ", not counting TCP" if sum(leg.record.via.gdr for leg in legs) > direct else ""
    lines = (f"{direct} of {len(legs)} channel lines over a network have /GDRDMA{without_tcp}",)
    if direct == len(legs):
        claim = "NCCL registered GPU memory with the NIC on every channel that it logged"
    elif direct:
        claim = "NCCL used GPU memory directly on some channels, and staged through host memory on others"
    else:
        claim = "NCCL staged through host memory on every channel that it logged"
    return LogProof(name=name, claim=claim, direct=direct == len(legs), decided_by=lines)


def of_perftest(run: PerftestRun, name: str) -> LogProof:
    """The verdict on a perftest log. A result only shows that memory could be registered in the way that the
    command line requests.

    On an integrated GPU --use_cuda allocates host memory (perftest src/cuda_memory.c).
    """
    error = run.registration_errno
    for applies, why in (
        (error is not None, f"perftest could not register the memory (error {error}): nothing moved"),
        (not run.bandwidth_shown, "perftest printed no result"),
        (run.integrated_gpu, "the GPU is integrated, so perftest allocated host memory"),
        (not run.uses_gpu, "perftest used host memory"),
        (run.uses_dmabuf is None, "the log does not show how GPU memory was registered"),
    ):
        if applies:
            return LogProof(name=name, claim=f"inconclusive: {why}", direct=None)
    how = "as a dma-buf" if run.uses_dmabuf else "by address, through nvidia-peermem"
    return LogProof(
        name=name,
        claim=f"perftest moved GPU memory that this end's NIC had registered {how}",
        direct=True,
        decided_by=("a result line, from a GPU with its own memory",),
    )
