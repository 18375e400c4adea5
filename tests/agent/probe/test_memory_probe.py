"""The memory probe with a simulated libcuda and libibverbs."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from errno import EFAULT
from pathlib import Path
from typing import Any

import pytest

from gdrkit.agent.probe import memory_probe
from gdrkit.agent.probe.program import program

HERE = Path(__file__).parent
NOT_SUPPORTED, OUT_OF_MEMORY, INVALID_VALUE = 801, 2, 1
MEMORY, HOST = 0x7F00_0000_0000, 0x7E00_0000_0000


class Cuda:
    """Two GPUs; allocations are counted. An export is a real file descriptor, of /dev/null."""

    def __init__(self, names=(b"NVIDIA H200", b"NVIDIA H200"), refuse=None) -> None:
        self.names = names
        self.refuse = refuse or {}  # call or export: CUresult
        self.contexts: list[int] = []
        self.memory: list[int] = []
        self.exported: list[int] = []

    def cuInit(self, flags: int) -> int:
        return self.refuse.get("cuInit", 0)

    def cuDeviceGetCount(self, count: Any) -> int:
        count._obj.value = len(self.names)
        return 0

    def cuDeviceGetName(self, name: Any, size: int, ordinal: int) -> int:
        name.value = self.names[ordinal]
        return 0

    def cuDeviceGetPCIBusId(self, place: Any, size: int, ordinal: int) -> int:
        place.value = b"00000000:1B:00.0" if ordinal == 0 else b"0000:1C:00.0"
        return 0

    def cuDevicePrimaryCtxRetain(self, context: Any, ordinal: int) -> int:
        if code := self.refuse.get("cuDevicePrimaryCtxRetain", 0):
            return code
        self.contexts.append(ordinal)
        return 0

    def cuDevicePrimaryCtxRelease_v2(self, ordinal: int) -> int:
        self.contexts.remove(ordinal)
        return 0

    def cuCtxSetCurrent(self, context: Any) -> int:
        return 0

    def cuMemAlloc_v2(self, memory: Any, size: Any) -> int:
        if code := self.refuse.get("cuMemAlloc_v2", 0):
            return code
        memory._obj.value = MEMORY
        self.memory.append(MEMORY)
        return 0

    def cuMemFree_v2(self, memory: Any) -> int:
        self.memory.remove(memory.value)
        return 0

    def cuMemHostAlloc(self, pointer: Any, size: Any, flags: int) -> int:
        pointer._obj.value = HOST
        self.memory.append(HOST)
        return 0

    def cuMemFreeHost(self, pointer: Any) -> int:
        self.memory.remove(pointer.value)
        return 0

    def cuPointerGetAttribute(self, word: Any, number: int, memory: Any) -> int:
        assert (number, memory.value) == (15, MEMORY)
        word._obj.value = 1
        return 0

    def cuMemGetHandleForAddressRange(self, fd: Any, memory: Any, size: Any, kind: int, flags: Any) -> int:
        assert (kind, size.value) == (1, 2 << 20)
        what = "host" if memory.value == HOST else "pcie" if flags.value else "plain"
        if code := self.refuse.get(what, 0):
            return code
        fd._obj.value = os.open("/dev/null", os.O_RDONLY)
        self.exported.append(fd._obj.value)
        return 0


class Verbs:
    """One RDMA device that registers dma-bufs, but no GPU addresses."""

    def __init__(self) -> None:
        self.regions: list[int] = []
        self.opened = 0

    def ibv_get_device_list(self, count: Any) -> list[int]:
        count._obj.value = 1
        return [7]

    def ibv_free_device_list(self, devices: list[int]) -> None:
        pass

    def ibv_get_device_name(self, device: int) -> bytes:
        return b"mlx5_0"

    def ibv_open_device(self, device: int) -> int:
        self.opened += 1
        return 8

    def ibv_close_device(self, context: int) -> int:
        self.opened -= 1
        return 0

    def ibv_alloc_pd(self, context: int) -> int:
        return 9

    def ibv_dealloc_pd(self, domain: int) -> int:
        assert not self.regions
        return 0

    def ibv_reg_dmabuf_mr(self, domain: int, offset: int, size: int, iova: int, fd: int, access: int) -> int:
        os.fstat(fd)  # still open
        assert (offset, size, iova, access) == (0, 2 << 20, MEMORY, 7)
        self.regions.append(1)
        return 1

    def ibv_reg_mr(self, domain: int, address: int, size: int, access: int) -> None:
        assert address == MEMORY
        ctypes.set_errno(EFAULT)

    def ibv_dereg_mr(self, region: int) -> int:
        self.regions.remove(region)
        return 0


def asked(cuda, verbs=None):
    calls = memory_probe.ask(cuda, verbs)
    assert not cuda.contexts, "a context was kept"
    assert not cuda.memory, "memory was kept"
    for fd in cuda.exported:
        with pytest.raises(OSError):
            os.fstat(fd)  # closed
    return calls


def results(calls, name):
    return {c["argument"]: c["result"] for c in calls if c["call"] == name}


def test_one_gpu_of_each_product_is_used_and_everything_is_freed():
    calls = asked(Cuda())

    assert {c["device"] for c in calls} == {"", "0000:1b:00.0"}
    assert results(calls, "cuMemGetHandleForAddressRange") == {
        "device plain": 0, "device pcie": 0, "host plain": 0,
    }  # fmt: skip


def test_gpus_of_two_products_are_both_used():
    assert {c["device"] for c in asked(Cuda((b"A", b"B")))} == {"", "0000:1b:00.0", "0000:1c:00.0"}


def test_the_kernels_name_of_an_export_is_recorded():
    names = {c["argument"]: c["value"] for c in asked(Cuda()) if c["call"] == "readlink"}

    assert names["device plain"] == "/dev/null"


def test_errors_of_an_h200_are_recorded_by_number():
    calls = asked(Cuda(refuse={"pcie": NOT_SUPPORTED, "host": INVALID_VALUE}))

    assert results(calls, "cuMemGetHandleForAddressRange") == {
        "device plain": 0, "device pcie": 801, "host plain": 1,
    }  # fmt: skip
    assert list(results(calls, "readlink")) == ["device plain"]


@pytest.mark.parametrize("call", ["cuInit", "cuDevicePrimaryCtxRetain", "cuMemAlloc_v2"])
def test_a_failed_call_stops_what_needs_it_and_everything_is_freed(call):
    calls = asked(Cuda(refuse={call: OUT_OF_MEMORY}))

    assert {c["result"] for c in calls if c["call"] == call} == {OUT_OF_MEMORY}
    assert "device plain" not in results(calls, "cuMemGetHandleForAddressRange")


def test_a_libcuda_without_exports_gives_minus_one_not_zero():
    cuda = Cuda()
    cuda.cuMemGetHandleForAddressRange = None  # type: ignore[assignment]

    assert set(results(asked(cuda), "cuMemGetHandleForAddressRange").values()) == {-1}


def test_memory_is_registered_with_every_rdma_device_by_dmabuf_and_address():
    verbs = Verbs()
    calls = asked(Cuda(), verbs)

    assert results(calls, "ibv_reg_dmabuf_mr") == {"mlx5_0": 0}
    assert results(calls, "ibv_reg_mr") == {"mlx5_0": EFAULT}
    assert (verbs.regions, verbs.opened) == ([], 0)


def test_without_an_export_only_the_address_is_registered():
    calls = asked(Cuda(refuse={"plain": NOT_SUPPORTED}), Verbs())

    assert results(calls, "ibv_reg_dmabuf_mr") == {}
    assert results(calls, "ibv_reg_mr") == {"mlx5_0": EFAULT}


def test_recorded_answers_of_an_h200():
    """Recorded on driver 580.159.04, CUDA 13.0."""
    calls = json.loads((HERE / "h200" / "memory.json").read_text())["calls"]

    assert results(calls, "cuMemGetHandleForAddressRange") == {
        "device plain": 0, "device pcie": 801, "host plain": 1,
    }  # fmt: skip
    assert [c["value"] for c in calls if c["call"] == "readlink"] == ["/dmabuf:"]
    assert [c["value"] for c in calls if c["call"] == "cuPointerGetAttribute"] == [1]


def test_alone_on_this_machine_it_answers_in_json():
    child = subprocess.run(
        [sys.executable, "-I", "-c", program("memory_probe")], capture_output=True, check=True
    )
    report = json.loads(child.stdout)

    assert report["schema"] == "gdrkit.probe.memory/1"
    assert report["error"] or report["calls"][0]["call"] == "cuInit"
