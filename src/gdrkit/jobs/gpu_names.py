"""The GPUs that a log names, and what their names leave of the causes of a line.

nccl-tests prints them with host and process before it starts NCCL (src/common.cu, since 2025 src/util.cu,
writeDeviceReport()); people paste `nvidia-smi -L` above a log.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from gdrkit.facts.gpu_ids import is_consumer_name, is_data_centre_name, is_integrated_name
from gdrkit.formats.gpu_listing import numbered_gpu_in
from gdrkit.formats.regex import regex
from gdrkit.programs.nccl.log_records import GpuName

_OF_PROCESS = regex(
    r"[^#]{0,80}# +Rank +\d{1,7} .{0,20}?Pid +(?P<pid>\d{1,10}) on +(?P<host>[^\s:]{1,255}) device ",
    re.ASCII,
)
INTEGRATED, CONSUMER = "gpu-integrated", "gpu-consumer"
OF_HARDWARE = (INTEGRATED, CONSUMER)


def named_gpu(line: str) -> tuple[str, GpuName] | None:
    """The process, "" if the line names none, and its GPU; None for any other line."""
    owner = _OF_PROCESS.match(line)
    found = numbered_gpu_in(line[line.find("#") :] if owner else line)  # mpirun and srun put a tag before
    if found is None or found.number is None:
        return None
    process = f"{owner['host']}:{owner['pid']}" if owner else ""
    return process, GpuName(found.number, found.name)


def left_by(codes: tuple[str, ...], products: Collection[str]) -> tuple[str, ...]:
    """The causes of a line that GPUs of these names can have, the likeliest first. Names of other kinds, or
    none, leave all: not every integrated GPU has a name that says so. What a name excludes proves no other
    cause, since lines about the distance may be missing."""
    if not products:
        return codes
    if all(map(is_integrated_name, products)):
        return (INTEGRATED,) if INTEGRATED in codes else codes
    if all(map(is_data_centre_name, products)):
        rest = tuple(code for code in codes if code not in OF_HARDWARE)
        return rest if len(rest) > 1 else codes
    if all(map(is_consumer_name, products)) and CONSUMER in codes:
        return (CONSUMER, *(code for code in codes if code not in OF_HARDWARE))
    return codes
