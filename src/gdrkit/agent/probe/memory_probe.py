"""Take a little memory of a GPU, offer it to others as a dma-buf, and print the answers as JSON.

Standard library only, Python 3.8 and later. One GPU of each product is asked: 2 MiB of it, exported plainly
and mapped over PCIe, and 2 MiB of pinned host memory; where there is an RDMA device, that memory is
registered with it by dma-buf and, as nvidia-peermem needs it, by its address. All is given back. A context
costs a few hundred MB of the GPU while this runs.

Source: man ibv_reg_mr(3). A GPU and an RDMA device were never seen together by this script.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from typing import Any, Dict, List, Optional

from ..native.cuda import load as load_cuda
from ..native.cuda_abi import (
    HANDLE_DMA_BUF,
    MAP_PCIE,
    MAP_PLAIN,
    POINTER_RDMA_CAPABLE,
    REGISTER_DEVICE_MAP,
    REGISTER_PORTABLE,
)
from ..native.library import complaint
from ..native.verbs import REMOTE_ACCESS
from ..native.verbs import load as load_verbs

SCHEMA = "gdrkit.probe.memory/1"
SIZE_BYTES = 2 << 20  # the granularity of GPU memory: cuMemGetAllocationGranularity
DEVICES_LIMIT = 64

NUMBER, SIZE = ctypes.c_uint64, ctypes.c_size_t


class MemoryCalls:
    """The calls made, in order, with what came back."""

    def __init__(self, cuda: Any) -> None:
        self.cuda = cuda
        self.made: List[Dict[str, Any]] = []

    def add(self, call: str, argument: str, device: str, result: int, value: Any = None) -> None:
        self.made.append(
            {"call": call, "argument": argument, "device": device, "result": result, "value": value}
        )

    def call(self, name: str, argument: str, device: str, *words: Any) -> int:
        """Call libcuda and note the CUresult; -1 where it has no such function."""
        function = getattr(self.cuda, name, None)  # an older libcuda lacks some
        result = -1 if function is None else int(function(*words))
        self.add(name, argument, device, result)
        return result

    def note(self, value: Any) -> None:
        """What the last call gave, where it succeeded."""
        if self.made[-1]["result"] == 0:
            self.made[-1]["value"] = value


def ask(cuda: Any, verbs: Any) -> List[Dict[str, Any]]:
    """Every call of the probe. `verbs` is None where there is no libibverbs."""
    probe = MemoryCalls(cuda)
    if probe.call("cuInit", "0", "", 0):
        return probe.made
    count = ctypes.c_int(0)
    result = probe.call("cuDeviceGetCount", "", "", ctypes.byref(count))
    probe.note(count.value)
    seen = set()
    for ordinal in range(min(count.value, DEVICES_LIMIT) if result == 0 else 0):
        name = ctypes.create_string_buffer(256)
        if cuda.cuDeviceGetName(name, len(name), ordinal) or name.value in seen:
            continue
        seen.add(name.value)
        ask_device(probe, verbs, ordinal)
    return probe.made


def ask_device(probe: MemoryCalls, verbs: Any, ordinal: int) -> None:
    """One GPU: a context, memory, its exports, and all back."""
    place = ctypes.create_string_buffer(32)
    if probe.cuda.cuDeviceGetPCIBusId(place, len(place), ordinal):
        device = f"#{ordinal}"
    else:
        device = place.value.decode("ascii", "replace").lower()[-12:]  # 0000:1b:00.0
    context = NUMBER(0)
    if probe.call("cuDevicePrimaryCtxRetain", str(ordinal), device, ctypes.byref(context), ordinal):
        return
    try:
        if probe.call("cuCtxSetCurrent", "", device, context) == 0:
            ask_memory(probe, verbs, device)
            ask_host_memory(probe, device)
    finally:
        probe.call("cuDevicePrimaryCtxRelease_v2", str(ordinal), device, ordinal)


def ask_memory(probe: MemoryCalls, verbs: Any, device: str) -> None:
    """GPU memory, as cuMemAlloc gives it."""
    memory = NUMBER(0)
    if probe.call("cuMemAlloc_v2", str(SIZE_BYTES), device, ctypes.byref(memory), SIZE(SIZE_BYTES)):
        return
    try:
        capable = ctypes.c_uint(0)
        probe.call(
            "cuPointerGetAttribute", str(POINTER_RDMA_CAPABLE), device, ctypes.byref(capable),
            POINTER_RDMA_CAPABLE, memory,
        )  # fmt: skip
        probe.note(capable.value)
        fd = export(probe, memory, MAP_PLAIN, "device plain", device)
        if verbs is not None:
            register(probe, verbs, memory.value, fd, device)
        close(fd)
        close(export(probe, memory, MAP_PCIE, "device pcie", device))
    finally:
        probe.call("cuMemFree_v2", "", device, memory)


def ask_host_memory(probe: MemoryCalls, device: str) -> None:
    """Pinned host memory, as a GPU without memory of its own could lend it."""
    pointer = NUMBER(0)
    words = (ctypes.byref(pointer), SIZE(SIZE_BYTES), REGISTER_PORTABLE | REGISTER_DEVICE_MAP)
    if probe.call("cuMemHostAlloc", str(SIZE_BYTES), device, *words):
        return
    close(export(probe, pointer, MAP_PLAIN, "host plain", device))
    probe.call("cuMemFreeHost", "", device, pointer)


def export(probe: MemoryCalls, memory: Any, flags: int, argument: str, device: str) -> Optional[int]:
    """The file descriptor of an export, None where it was refused; what it is, the kernel's name tells."""
    fd = ctypes.c_int(-1)
    result = probe.call(
        "cuMemGetHandleForAddressRange", argument, device, ctypes.byref(fd), memory, SIZE(SIZE_BYTES),
        HANDLE_DMA_BUF, ctypes.c_ulonglong(flags),
    )  # fmt: skip
    if result or fd.value < 0:
        return None
    try:
        name = os.readlink(f"/proc/self/fd/{fd.value}")
    except OSError as error:
        probe.add("readlink", argument, device, error.errno or -1)
    else:
        probe.add("readlink", argument, device, 0, name)  # /dmabuf: for a dma-buf, drivers/dma-buf/dma-buf.c
    return fd.value


def close(fd: Optional[int]) -> None:
    if fd is not None:
        os.close(fd)


def register(probe: MemoryCalls, verbs: Any, memory: int, fd: Optional[int], device: str) -> None:
    """The memory with every RDMA device, both ways; the errno of a refusal is the answer."""
    count = ctypes.c_int(0)
    devices = verbs.ibv_get_device_list(ctypes.byref(count))
    for index in range(count.value if devices else 0):
        name = (verbs.ibv_get_device_name(devices[index]) or b"?").decode("utf-8", "replace")
        context = verbs.ibv_open_device(devices[index])
        domain = verbs.ibv_alloc_pd(context) if context else None
        if domain:
            if fd is not None and hasattr(verbs, "ibv_reg_dmabuf_mr"):
                ctypes.set_errno(0)
                region = verbs.ibv_reg_dmabuf_mr(domain, 0, SIZE_BYTES, memory, fd, REMOTE_ACCESS)
                registered(probe, verbs, "ibv_reg_dmabuf_mr", name, device, region)
            ctypes.set_errno(0)
            region = verbs.ibv_reg_mr(domain, memory, SIZE_BYTES, REMOTE_ACCESS)
            registered(probe, verbs, "ibv_reg_mr", name, device, region)
            verbs.ibv_dealloc_pd(domain)
        if context:
            verbs.ibv_close_device(context)
    if devices:
        verbs.ibv_free_device_list(devices)


def registered(probe: MemoryCalls, verbs: Any, call: str, name: str, device: str, region: Any) -> None:
    probe.add(call, name, device, 0 if region else ctypes.get_errno())
    if region:
        verbs.ibv_dereg_mr(region)


def verbs_if_there() -> Optional[Any]:
    """libibverbs, or None."""
    try:
        return load_verbs()
    except (OSError, AttributeError):
        return None


def main() -> int:
    """Print the answers; 0 even where there is no libcuda, which the JSON then says."""
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)  # the machine's GPUs, not a job's
    report: Dict[str, Any] = {"schema": SCHEMA, "library": None, "error": "", "calls": []}
    try:
        cuda, report["library"] = load_cuda()
    except OSError as error:
        report["error"] = f"no libcuda: {complaint(error)}"
    else:
        try:
            report["calls"] = ask(cuda, verbs_if_there())
        except AttributeError as error:  # a library of that name without the functions
            report["error"] = str(error)
    json.dump(report, sys.stdout)
    sys.stdout.write("\n")
    return 0
