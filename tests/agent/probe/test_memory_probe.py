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
from tests.agent.probe.traced import Traced

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
    assert child.stdout.endswith(b"}\n")
    report = json.loads(child.stdout)

    assert report["schema"] == "gdrkit.probe.memory/1"
    assert report["error"] or report["calls"][0]["call"] == "cuInit"


class TwoDevices(Verbs):
    """The first cannot be opened, the second has no name."""

    def ibv_get_device_list(self, count: Any) -> list[int]:
        count._obj.value = 2
        return [7, 6]

    def ibv_get_device_name(self, device: int) -> bytes | None:
        return b"mlx5_0" if device == 7 else None

    def ibv_open_device(self, device: int) -> int:
        return 0 if device == 7 else super().ibv_open_device(device)


def test_every_call_and_what_frees_it_in_order():
    lines: list[str] = []
    cuda = Cuda((b"A", b"A", b"B"))
    calls = memory_probe.ask(Traced(cuda, lines), Traced(TwoDevices(), lines))
    assert not cuda.contexts and not cuda.memory
    fd = str(cuda.exported[0])
    shown = [line.replace(f", {fd}, 7)", ", FD, 7)") for line in lines]
    assert [line.partition("(")[0] for line in shown[:6]] == [
        "cuInit", "cuDeviceGetCount", "cuDeviceGetName", "cuDeviceGetPCIBusId", "cuDevicePrimaryCtxRetain",
        "cuCtxSetCurrent",
    ]  # fmt: skip
    size = 2 << 20
    assert shown[6:22] == [
        f"cuMemAlloc_v2(&, {size})", f"cuPointerGetAttribute(&, 15, {MEMORY})",
        f"cuMemGetHandleForAddressRange(&, {MEMORY}, {size}, 1, 0)",
        "ibv_get_device_list(&)", "ibv_get_device_name(7)", "ibv_open_device(7)", "ibv_get_device_name(6)",
        "ibv_open_device(6)", "ibv_alloc_pd(8)", f"ibv_reg_dmabuf_mr(9, 0, {size}, {MEMORY}, FD, 7)",
        "ibv_dereg_mr(1)", f"ibv_reg_mr(9, {MEMORY}, {size}, 7)", "ibv_dealloc_pd(9)", "ibv_close_device(8)",
        "ibv_free_device_list([7, 6])", f"cuMemGetHandleForAddressRange(&, {MEMORY}, {size}, 1, 1)",
    ]  # fmt: skip
    assert shown[22:27] == [
        f"cuMemFree_v2({MEMORY})", f"cuMemHostAlloc(&, {size}, 3)",
        f"cuMemGetHandleForAddressRange(&, {HOST}, {size}, 1, 0)", f"cuMemFreeHost({HOST})",
        "cuDevicePrimaryCtxRelease_v2(0)",
    ]  # fmt: skip
    for name, rows in (
        ("GetName", [f"cuDeviceGetName([256], 256, {number})" for number in range(3)]),
        ("Release", [f"cuDevicePrimaryCtxRelease_v2({number})" for number in (0, 2)]),
    ):
        assert [line for line in lines if name in line] == rows
    first = [c for c in calls if c["device"] in ("", "0000:1b:00.0")]
    assert [(c["call"], c["argument"], c["result"], c["value"]) for c in first] == [
        ("cuInit", "0", 0, None), ("cuDeviceGetCount", "", 0, 3), ("cuDevicePrimaryCtxRetain", "0", 0, None),
        ("cuCtxSetCurrent", "", 0, None), ("cuMemAlloc_v2", str(size), 0, None),
        ("cuPointerGetAttribute", "15", 0, 1), ("cuMemGetHandleForAddressRange", "device plain", 0, None),
        ("readlink", "device plain", 0, "/dev/null"), ("ibv_reg_dmabuf_mr", "?", 0, None),
        ("ibv_reg_mr", "?", EFAULT, None), ("cuMemGetHandleForAddressRange", "device pcie", 0, None),
        ("readlink", "device pcie", 0, "/dev/null"), ("cuMemFree_v2", "", 0, None),
        ("cuMemHostAlloc", str(size), 0, None), ("cuMemGetHandleForAddressRange", "host plain", 0, None),
        ("readlink", "host plain", 0, "/dev/null"), ("cuMemFreeHost", "", 0, None),
        ("cuDevicePrimaryCtxRelease_v2", "0", 0, None),
    ]  # fmt: skip
