"""Which processes compute on which GPU, and what those GPUs move over NVLink and PCIe, by libnvidia-ml.

It attaches no GPU that the driver has not started, and it is not loaded where the driver is not: that would
load the driver. In a container NVML may list no process: that is not told.
"""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Dict, Iterable, List, Mapping, Tuple

from ..native.nvml import (
    ALL_LINKS,
    NO_ATTACH,
    NVLINK_DATA_RX,
    NVLINK_DATA_TX,
    PCIE_RX_BYTES,
    PCIE_TX_BYTES,
    PCIE_WRAPS_AT,
    Nvml,
    NvmlError,
)

Emit = Callable[[Mapping[str, Any]], None]

DRIVER = "/proc/driver/nvidia/version"
WINDOW_S = 0.02
"""Between two looks at the counters of PCIe: at 63 GB/s (Gen5 x16) they wrap after 68 ms."""
_KIB = 1024
_NVLINK = (("nvlink_sent", NVLINK_DATA_TX), ("nvlink_received", NVLINK_DATA_RX))
_PCIE = (("pcie_sent", PCIE_TX_BYTES), ("pcie_received", PCIE_RX_BYTES))


def read(emit: Emit, interval_s: float) -> None:
    """Emit each process that computes on a GPU, then the bytes that these GPUs moved in the interval.
    Raises OSError where there is no driver, or a call fails."""
    os.stat(DRIVER)
    try:
        library = Nvml(NO_ATTACH)
        gpus = library.gpus()
    except NvmlError as error:
        raise OSError(5 if error.number else 2, str(error)) from None
    busy = []
    for gpu in gpus:
        try:
            found = library.processes(gpu)
        except NvmlError as error:
            emit({"gpu": gpu, "error": error.number})
            continue
        for pid, size in found:
            emit({"gpu": gpu, "pid": pid, "bytes": size})
        if found:
            busy.append(gpu)
    emit_rates(library, busy, emit, interval_s)


def emit_rates(library: Any, gpus: List[str], emit: Emit, interval_s: float) -> None:
    """Emit what GPUs moved, without what this GPU or driver does not count. PCIe is seen in windows of its
    own; if one takes so long that a counter wraps, it is a lower bound."""
    before = {gpu: _counters(library, gpu, _NVLINK, ALL_LINKS) for gpu in gpus}
    last = {gpu: _counters(library, gpu, _PCIE, 0) for gpu in gpus}
    moved = {gpu: dict.fromkeys(counters, 0) for gpu, counters in last.items()}
    began = time.monotonic()
    while gpus and time.monotonic() < began + interval_s:
        time.sleep(WINDOW_S)
        for gpu in gpus:
            now = _counters(library, gpu, _PCIE, 0)
            for name in now.keys() & last[gpu].keys():
                moved[gpu][name] += (now[name] - last[gpu][name]) % PCIE_WRAPS_AT
            last[gpu] = now
    for gpu in gpus:
        after = _counters(library, gpu, _NVLINK, ALL_LINKS)
        for name in after.keys() & before[gpu].keys():
            moved[gpu][name] = max(0, after[name] - before[gpu][name]) * _KIB
        emit({"gpu": gpu, "seconds": round(time.monotonic() - began, 4), **moved[gpu]})


def _counters(library: Any, gpu: str, fields: Iterable[Tuple[str, int]], scope: int) -> Dict[str, int]:
    """The counters that this GPU has: one without NVLink has none of it."""
    found = {}
    for name, field in fields:
        try:
            found[name] = library.field(gpu, field, scope)
        except NvmlError:
            continue
    return found
