"""Which processes compute on which GPU, and what those GPUs move over NVLink and PCIe, by libnvidia-ml.

To ask NVML about a GPU starts that GPU, and to load NVML loads the driver. So only GPUs are asked about that
run: the driver does not know the BIOS of another. (With NVML_INIT_FLAG_NO_ATTACH, NVML listed no GPU on two
H200s, driver 580.159.) In a container NVML may list no process: that is not told.
"""

from __future__ import annotations

import os
import re
import time
from typing import Any, Dict, Iterable, List, Tuple

from ..native.nvml import (
    ALL_LINKS,
    NVLINK_DATA_RX,
    NVLINK_DATA_TX,
    PCIE_RX_BYTES,
    PCIE_TX_BYTES,
    PCIE_WRAPS_AT,
    Nvml,
    NvmlError,
)
from .children import Emit

GPUS = "proc/driver/nvidia/gpus"
MOST_GPUS = 64
_BIOS = re.compile(rb"^Video BIOS:[ \t]*(\S{1,40})", re.MULTILINE)
WINDOW_S = 0.02
"""Between two looks at the counters of PCIe: at 63 GB/s (Gen5 x16) they wrap after 68 ms."""
_KIB = 1024
_NVLINK = (("nvlink_sent", NVLINK_DATA_TX), ("nvlink_received", NVLINK_DATA_RX))
_PCIE = (("pcie_sent", PCIE_TX_BYTES), ("pcie_received", PCIE_RX_BYTES))


def read(emit: Emit, interval_s: float, root: str = "/") -> None:
    """Emit each process that computes on a GPU, then the bytes that these GPUs moved in the interval.
    Raises OSError where there is no driver, or a call fails."""
    gpus = started(root)
    if not gpus:
        return
    try:
        library = Nvml()
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


def started(root: str = "/") -> List[str]:
    """The PCI addresses of the GPUs that run. Raises OSError where there is no driver.

    Source: NVIDIA's kernel-open/nvidia/nv-procfs.c, which prints question marks for the BIOS of others."""
    found = []
    for address in sorted(os.listdir(root + GPUS))[:MOST_GPUS]:
        with open("%s%s/%s/information" % (root, GPUS, address), "rb") as stream:
            bios = _BIOS.search(stream.read(1 << 12))
        if bios is not None and b"?" not in bios[1]:
            found.append(address.lower())
    return found


def emit_rates(library: Any, gpus: List[str], emit: Emit, interval_s: float) -> None:
    """Emit what GPUs moved, as far as the GPU and its driver count it. PCIe is sampled in separate windows;
    where one lasts so long that a counter wraps, the value is a lower bound."""
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
        if after:
            moved[gpu]["nvlink_ever"] = sum(after.values()) * _KIB
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
