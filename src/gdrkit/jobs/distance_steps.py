"""What to do about a NIC that is too far from its GPU, by what the log shows of why NCCL uses that NIC."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from gdrkit.jobs.gather import GatheredRanks
from gdrkit.jobs.hosts import DIFFERS, FAR
from gdrkit.jobs.job import JobFinding
from gdrkit.jobs.setting_advice import LEVEL, is_plain
from gdrkit.programs.nccl import log_records as nccl_records

HCA = "NCCL_IB_HCA"
_NEEDED = dict(zip(FAR, ("SYS", "PHB"), strict=True))
_LOOK = "`nvidia-smi topo -m` on the host shows whether"


def with_distance_steps(found: Iterable[JobFinding], gathered: GatheredRanks) -> Iterator[JobFinding]:
    """The findings, those about a distance with their step: that of a setting, if one decides."""
    every = list(found)
    deciding = [one.todo for one in every if one.code == DIFFERS and one.status == "failed"]
    for one in every:
        if one.code in FAR:
            one = replace(one, todo=deciding[0] if deciding else _step(one.code, gathered))
        yield one


def _step(code: str, gathered: GatheredRanks) -> str:
    of_process = [process.all(nccl_records.Variable) for process in gathered.processes.values()]
    around = gathered.around.all(nccl_records.Variable)
    printed = [variable for some in (*of_process, around) for variable in some]
    given = {variable.value for variable in printed if variable.name == HCA}
    if given:
        value = given.pop()
        shown = f"{HCA}={value}" if not given and is_plain(value) else HCA
        return f"{_LOOK} {shown} leaves out a NIC nearer to the GPU"
    every_prints = all(any(one.resolved for one in some) for some in of_process)
    left_out = "" if every_prints else f" or {HCA} leaves it out"
    step = f"{_LOOK} a NIC is nearer to the GPU: NCCL takes it unless it is down{left_out}"
    if any(variable.name == LEVEL for variable in printed):
        return step
    return f"{step}; without one, {LEVEL}={_NEEDED[code]} goes farther: measure it against the copy"
