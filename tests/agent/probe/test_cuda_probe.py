"""The CUDA probe with a simulated libcuda, and on a machine without libcuda."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from typing import Any

import pytest

from gdrkit.agent.native.cuda_abi import DEVICE_ATTRIBUTES
from gdrkit.agent.probe import cuda_probe
from gdrkit.agent.probe.program import program

INVALID_VALUE, NO_DEVICE = 1, 100  # cuda.h, CUresult


class Libcuda:
    """Gives the answers of an H200 machine (driver 580.159.04), without attributes above 141."""

    def __init__(self, devices: int = 1, init: int = 0) -> None:
        self.devices, self.init = devices, init
        self.attributes = {18: 0, 33: 0x1B, 34: 0, 50: 1, 116: 1, 124: 1, 118: 100}

    def cuDriverGetVersion(self, version: Any) -> int:
        version._obj.value = 13000
        return 0

    def cuInit(self, flags: int) -> int:
        return self.init

    def cuDeviceGetCount(self, count: Any) -> int:
        count._obj.value = self.devices
        return 0

    def cuDeviceGet(self, handle: Any, ordinal: int) -> int:
        handle._obj.value = ordinal
        return 0

    def cuDeviceGetName(self, name: Any, size: int, handle: ctypes.c_int) -> int:
        name.value = b"NVIDIA H200"
        return 0

    def cuDeviceGetAttribute(self, value: Any, number: int, handle: ctypes.c_int) -> int:
        if number > 141:
            return INVALID_VALUE
        value._obj.value = self.attributes.get(number, 0)
        return 0


def test_attributes_are_recorded_with_the_gpus_address():
    calls = cuda_probe.ask(Libcuda())
    attributes = {call["argument"]: call for call in calls if call["call"] == "cuDeviceGetAttribute"}

    assert attributes["116"] == {
        "call": "cuDeviceGetAttribute", "argument": "116", "device": "0001:1b:00.0", "result": 0, "value": 1,
    }  # fmt: skip
    assert len(attributes) == len(DEVICE_ATTRIBUTES)


def test_an_attribute_unknown_to_libcuda_is_recorded():
    calls = cuda_probe.ask(Libcuda())
    unknown = next(call for call in calls if call["argument"] == "146")

    assert (unknown["result"], unknown["value"]) == (INVALID_VALUE, None)


def test_version_count_and_name():
    calls = {call["call"]: call for call in cuda_probe.ask(Libcuda(devices=1))}

    assert calls["cuDriverGetVersion"]["value"] == 13000
    assert calls["cuDeviceGetCount"]["value"] == 1
    assert calls["cuDeviceGetName"]["value"] == "NVIDIA H200"


def test_without_a_device_nothing_is_queried():
    calls = cuda_probe.ask(Libcuda(init=NO_DEVICE))

    assert calls[-1] == {
        "call": "cuInit",
        "argument": "0",
        "device": "",
        "result": NO_DEVICE,
        "value": None,
    }


def test_without_libcuda_the_json_has_an_error():
    code = "import ctypes\nctypes.CDLL = lambda name: (_ for _ in ()).throw(OSError(name))\n"
    code += program("cuda_probe")

    child = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert child.stdout.endswith(b"}\n")
    report = json.loads(child.stdout)

    assert report["library"] is None
    assert report["error"].startswith("no libcuda: ")
    assert report["calls"] == []


DOMAIN, BUS, SLOT = (DEVICE_ATTRIBUTES[f"PCI_{name}"] for name in ("DOMAIN_ID", "BUS_ID", "DEVICE_ID"))


@pytest.mark.parametrize(
    ("domain", "bus", "slot", "found"),
    [
        (0, 0x1B, 0, "0000:1b:00.0"),
        (0, 0, 0, "0000:00:00.0"),
        (0x10000, 0xFF, 0x1F, "10000:ff:1f.0"),
        (-1, 0x1FF, 0x3F, "ffffffff:ff:1f.0"),
        (None, 1, 2, "#7"),
        (1, None, 2, "#7"),
        (1, 2, None, "#7"),
    ],
)
def test_the_address_of_a_gpu_is_whole_or_its_number(domain, bus, slot, found):
    answers = {DOMAIN: (0, domain), BUS: (0, bus), SLOT: (0, slot)}
    assert cuda_probe.address(answers, 7) == found


def test_every_call_in_order_with_a_device_that_refuses():
    class Refusing(Libcuda):
        def cuDeviceGet(self, handle: Any, ordinal: int) -> int:
            return 101 if ordinal == 1 else super().cuDeviceGet(handle, ordinal)

        def cuDeviceGetName(self, name: Any, size: int, handle: ctypes.c_int) -> int:
            return 999 if handle.value == 2 else super().cuDeviceGetName(name, size, handle)

    calls = [tuple(call.values()) for call in cuda_probe.ask(Refusing(devices=3))]
    named = [call for call in calls if call[0] != "cuDeviceGetAttribute"]
    assert named == [
        ("cuDriverGetVersion", "", "", 0, 13000), ("cuInit", "0", "", 0, None),
        ("cuDeviceGetCount", "", "", 0, 3), ("cuDeviceGet", "0", "0001:1b:00.0", 0, 0),
        ("cuDeviceGetName", "", "0001:1b:00.0", 0, "NVIDIA H200"),
        ("cuDeviceGet", "1", "#1", 101, None), ("cuDeviceGet", "2", "0001:1b:00.0", 0, 2),
        ("cuDeviceGetName", "", "0001:1b:00.0", 999, None),
    ]  # fmt: skip
    assert len(calls) == len(named) + 2 * len(DEVICE_ATTRIBUTES)


@pytest.mark.parametrize(("devices", "asked"), [(64, 64), (65, 64), (-1, 0), (0, 0)])
def test_no_more_than_64_devices_are_asked(devices, asked):
    calls = cuda_probe.ask(Libcuda(devices=devices))
    assert sum(call["call"] == "cuDeviceGetName" for call in calls) == asked


@pytest.mark.parametrize("function", ["cuDriverGetVersion", "cuDeviceGetCount"])
def test_a_call_that_fails_has_no_value(function):
    libcuda = Libcuda()
    setattr(libcuda, function, lambda value: 35)
    found = [call for call in cuda_probe.ask(libcuda) if call["call"] == function]
    assert [(call["result"], call["value"]) for call in found] == [(35, None)]
    gpus = any(call["call"] == "cuDeviceGet" for call in cuda_probe.ask(libcuda))
    assert gpus is (function == "cuDriverGetVersion")
