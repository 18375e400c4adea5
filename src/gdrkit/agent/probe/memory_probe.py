"""Export a little GPU memory as a dma-buf, register it with RDMA devices, and print the results as JSON.

The script needs only Python 3.8 and its standard library. It uses one GPU of each product: it exports 2 MiB
of its memory, plainly and mapped over PCIe, and 2 MiB of pinned host memory. It registers the GPU memory
with each RDMA device by dma-buf and by its address, as with nvidia-peermem. Then it frees everything.
Meanwhile, the context takes a few hundred MB of the GPU.

Source: man ibv_reg_mr(3). This script has not been tested on a machine with both a GPU and an RDMA device.
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
from .record import Calls

SCHEMA = "gdrkit.probe.memory/1"
SIZE_BYTES = 2 << 20  # the granularity of GPU memory: cuMemGetAllocationGranularity
DEVICES_LIMIT = 64

NUMBER, SIZE = ctypes.c_uint64, ctypes.c_size_t


class MemoryCalls(Calls):
    """Calls of libcuda, which may lack some of its functions."""

    def __init__(self, cuda: Any) -> None:
        super().__init__()
        self.cuda = cuda

    def call(self, name: str, argument: str, device: str, *arguments: Any) -> int:
        """Call libcuda and record the CUresult; -1 if it does not have the function."""
        function = getattr(self.cuda, name, None)  # older versions of libcuda have fewer functions
        result = -1 if function is None else int(function(*arguments))
        self.add(name, argument, device, result)
        return result

    def note(self, value: Any) -> None:
        """Record the value of the last call, if it succeeded."""
        if self.made[-1]["result"] == 0:
            self.made[-1]["value"] = value


def ask(cuda: Any, verbs: Any) -> List[Dict[str, Any]]:
    """Every call of the probe. `verbs` is None without libibverbs."""
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
    """Use one GPU: create a context, allocate and export memory, and free everything."""
    bus_id = ctypes.create_string_buffer(32)
    if probe.cuda.cuDeviceGetPCIBusId(bus_id, len(bus_id), ordinal):
        device = f"#{ordinal}"
    else:
        device = bus_id.value.decode("ascii", "replace").lower()[-12:]  # 0000:1b:00.0
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
    """Allocate GPU memory with cuMemAlloc, export it and register it."""
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
    """Allocate pinned host memory and export it, as a GPU without its own memory could."""
    pointer = NUMBER(0)
    arguments = (ctypes.byref(pointer), SIZE(SIZE_BYTES), REGISTER_PORTABLE | REGISTER_DEVICE_MAP)
    if probe.call("cuMemHostAlloc", str(SIZE_BYTES), device, *arguments):
        return
    close(export(probe, pointer, MAP_PLAIN, "host plain", device))
    probe.call("cuMemFreeHost", "", device, pointer)


def export(probe: MemoryCalls, memory: Any, flags: int, argument: str, device: str) -> Optional[int]:
    """The file descriptor of an export, None if it failed. Records the kernel's name for it."""
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
        probe.add("readlink", argument, device, 0, name)  # /dmabuf: for a dma-buf: drivers/dma-buf/dma-buf.c
    return fd.value


def close(fd: Optional[int]) -> None:
    if fd is not None:
        os.close(fd)


def register(probe: MemoryCalls, verbs: Any, memory: int, fd: Optional[int], device: str) -> None:
    """Register the memory with every RDMA device, by dma-buf and by address; records the errno of a
    failure."""
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


def verbs_or_none() -> Optional[Any]:
    """libibverbs; None if it is not usable."""
    try:
        return load_verbs()
    except (OSError, AttributeError):
        return None


def main() -> int:
    """Print the results and return 0, even without libcuda: the JSON then has an error."""
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)  # all GPUs of the machine, not those of a job
    report: Dict[str, Any] = {"schema": SCHEMA, "library": None, "error": "", "calls": []}
    try:
        cuda, report["library"] = load_cuda()
    except OSError as error:
        report["error"] = f"no libcuda: {complaint(error)}"
    else:
        try:
            report["calls"] = ask(cuda, verbs_or_none())
        except AttributeError as error:  # a library of that name without the functions
            report["error"] = str(error)
    json.dump(report, sys.stdout)
    sys.stdout.write("\n")
    return 0
