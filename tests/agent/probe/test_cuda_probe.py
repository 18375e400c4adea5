"""The CUDA probe with a simulated libcuda, and on a machine without libcuda."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from typing import Any

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
