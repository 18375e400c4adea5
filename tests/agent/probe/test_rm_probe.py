"""The resource-manager probe with a simulated resource manager, in the layouts of every driver branch.

Its rules are those of thirdpartyp2pConstruct_IMPL (src/nvidia/src/kernel/gpu/bus/third_party_p2p.c)."""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from gdrkit.agent.probe import rm_probe
from gdrkit.agent.probe.program import program

HERE = Path(__file__).parent
ABI = json.loads((HERE / "rm_abi.json").read_text())

ADDRESS = "0000:1b:00.0"
ENOENT, EPERM, EINVAL = 2, 1, 22
NOT_SUPPORTED, INVALID_ARGUMENT, INVALID_CLASS, PERMISSIONS = 0x56, 0x1F, 0x22, 0x1B


class Driver:
    """nvidia.ko, as far as the probe uses it: it checks handles, parents and sizes."""

    def __init__(
        self, status_at: int = 28, coherent: bool = False, refuses: int = 0, gpus: int = 1, denied: str = "",
        known: bool = True,
    ) -> None:  # fmt: skip
        self.status_at, self.coherent, self.refuses, self.gpus = status_at, coherent, refuses, gpus
        self.denied, self.known = denied, known
        self.files: dict[int, str] = {}
        self.registered: set[int] = set()
        self.objects: dict[int, tuple[int, int]] = {}  # handle: class, parent
        self.client = 0
        self.freed: list[int] = []

    # -- DeviceFiles -----------------------------------------------------------------------------

    def open(self, path: str) -> int:
        if path == self.denied:
            raise PermissionError(EPERM, "no")
        if path != "/dev/nvidiactl" and path not in {f"/dev/nvidia{n}" for n in range(self.gpus)}:
            raise FileNotFoundError(ENOENT, "no such file")
        fd = 100 + len(self.files)
        self.files[fd] = path
        return fd

    def close(self, fd: int) -> None:
        del self.files[fd]

    def address(self, data: bytearray) -> int:
        return rm_probe.DeviceFiles().address(data)

    def ioctl(self, fd: int, request: int, data: bytearray) -> None:
        assert request >> 30 == 3
        assert (request >> 16) & 0x3FFF == len(data)
        assert (request >> 8) & 0xFF == ord("F")
        handlers = {200: self._cards, 201: self._register, 0x29: self._free, 0x2A: self._control,
                    0x2B: self._allocate}  # fmt: skip
        handlers[request & 0xFF](self.files[fd], data)

    # -- the calls ---------------------------------------------------------------------------------

    def _cards(self, path: str, data: bytearray) -> None:
        assert path == "/dev/nvidiactl" and len(data) == 72 * 32
        for n in range(self.gpus):
            struct.pack_into("=B3xIBBBxHH", data, 72 * n, 1, 0, 0x1B + n, 0, 0, 0x10DE, 0x2335)
            struct.pack_into("=I", data, 72 * n + 16, 0x1B00 + n)
            struct.pack_into("=QI", data, 72 * n + 48, 256 << 30, n)

    def _register(self, path: str, data: bytearray) -> None:
        assert path.startswith("/dev/nvidia") and path != "/dev/nvidiactl"
        (control,) = struct.unpack("=i", data)
        assert self.files[control] == "/dev/nvidiactl"
        self.registered.add(int(path[len("/dev/nvidia") :]))

    def _control(self, path: str, data: bytearray) -> None:
        client, thing, command, _, pointer, size, _ = struct.unpack("=IIIIQII", data)
        assert path == "/dev/nvidiactl" and client == thing == self.client
        assert (command, size) == (0x205, 32)
        parameters = (ctypes.c_char * size).from_address(pointer)
        gpu_id = int.from_bytes(parameters.raw[:4], "little")
        known = gpu_id - 0x1B00 in range(self.gpus) and self.known
        if known:
            parameters[8:12] = (gpu_id - 0x1B00).to_bytes(4, "little")
        struct.pack_into("=I", data, 28, 0 if known else 0x57)

    def _allocate(self, path: str, data: bytearray) -> None:
        root, parent, handle, kind, pointer = struct.unpack_from("=IIIIQ", data)
        assert path == "/dev/nvidiactl"
        status = self._judged(root, parent, handle, kind, pointer)
        if status == 0:
            if kind == 0x41:
                handle = self.client = 0xC1D00039
                struct.pack_into("=I", data, 8, handle)
            self.objects[handle] = kind, parent
        struct.pack_into("=I", data, self.status_at, status)

    def _judged(self, root: int, parent: int, handle: int, kind: int, pointer: int) -> int:
        if kind == 0x41:
            return 0 if (root, parent, handle) == (0, 0, 0) else INVALID_ARGUMENT
        if root != self.client or handle in self.objects or not handle:
            return 0x33
        wanted = {0x80: 0x41, 0x2080: 0x80, 0x503C: 0x2080}.get(kind)
        if wanted is None or self.objects[parent][0] != wanted:
            return 0x36
        words = ctypes.string_at(pointer, 8)
        if kind == 0x80:
            instance, share = struct.unpack("=II", words)
            assert share == self.client
            return 0 if instance in self.registered else 0x57
        if kind == 0x503C:
            return self._third_party(struct.unpack_from("=I", words)[0])
        return 0

    def _third_party(self, flags: int) -> int:
        if self.refuses:
            return self.refuses
        if flags == 1:
            return INVALID_ARGUMENT if self.coherent else 0
        if flags == 2:
            return 0 if self.coherent else 0x40
        return NOT_SUPPORTED

    def _free(self, path: str, data: bytearray) -> None:
        root, parent, thing, _ = struct.unpack("=IIII", data)
        assert (root, parent, thing) == (self.client, 0, self.client)
        self.freed += self.objects
        self.objects.clear()
        struct.pack_into("=I", data, 12, 0)


def asked(driver):
    calls = rm_probe.ask(driver)
    assert not driver.files, "a file was left open"
    assert not driver.objects, "an object was left"
    return calls


def objects(calls):
    return [
        (c["argument"], c["device"], c["result"])
        for c in calls
        if c["argument"].startswith("NV50_THIRD_PARTY_P2P")
    ]


# -- the ABI ---------------------------------------------------------------------------------------


def test_one_number_changed_between_branches_515_and_595():
    """tools/rm_abi.py, by a C compiler: the offset of the status in NVOS21."""
    old, new = ABI["runs"]
    changed = {key for key in old["numbers"] if old["numbers"][key] != new["numbers"].get(key)}

    assert (ABI["tags"][0], ABI["tags"][-1]) == ("515.43.04", "595.45.04")
    assert (old["until"], new["since"]) == ("530.41.03", "535.43.02")
    assert changed == {"NVOS21_PARAMETERS.status"}
    assert old["numbers"].keys() == new["numbers"].keys()


@pytest.mark.parametrize("run", ABI["runs"], ids=lambda run: run["since"])
def test_the_probe_uses_the_compilers_numbers(run):
    n = run["numbers"]

    assert n["NVOS21_PARAMETERS.status"] in (rm_probe.OLD_STATUS, rm_probe.NEW_STATUS)
    assert n["nv_ioctl_card_info_t"] == rm_probe.CARD_BYTES
    assert n["NV0080_ALLOC_PARAMETERS"] == rm_probe.DEVICE_BYTES
    assert n["NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS"] == rm_probe.ID_INFO_BYTES
    assert n["NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2"] == rm_probe.GET_ID_INFO_V2
    assert (n["NV_ESC_CARD_INFO"], n["NV_ESC_REGISTER_FD"]) == (rm_probe.CARD_INFO, rm_probe.REGISTER_FD)
    assert (n["NV_ESC_RM_FREE"], n["NV_ESC_RM_CONTROL"], n["NV_ESC_RM_ALLOC"]) == (
        rm_probe.RM_FREE, rm_probe.RM_CONTROL, rm_probe.RM_ALLOC,
    )  # fmt: skip
    assert {n[name]: name for name in rm_probe.CLASSES.values()} == rm_probe.CLASSES
    assert n["NV503C_ALLOC_PARAMETERS_FLAGS_TYPE_BAR1"] == rm_probe.BAR1
    assert n["NV503C_ALLOC_PARAMETERS_FLAGS_TYPE_NVLINK"] == rm_probe.NVLINK
    assert (n["NVOS00_PARAMETERS"], n["NVOS21_PARAMETERS"], n["NVOS54_PARAMETERS"]) == (16, 32, 32)
    card = {k.partition(".")[2]: v for k, v in n.items() if k.startswith("nv_ioctl_card_info_t.")}
    assert card == {
        "valid": 0, "pci_info.domain": 4, "pci_info.bus": 8, "pci_info.slot": 9, "pci_info.function": 10,
        "gpu_id": 16, "fb_size": 48, "minor_number": 56,
    }  # fmt: skip


def test_requests_are_those_of_the_kernels_macros():
    assert rm_probe.request(rm_probe.CARD_INFO, 72 * 32) == 0xC90046C8
    assert rm_probe.request(rm_probe.REGISTER_FD, 4) == 0xC00446C9
    assert rm_probe.request(rm_probe.RM_ALLOC, 32) == 0xC020462B


# -- the objects ---------------------------------------------------------------------------------


@pytest.mark.parametrize("status_at", [24, 28])
def test_the_object_is_created_and_freed_on_old_and_new_drivers(status_at):
    driver = Driver(status_at)
    calls = asked(driver)

    assert objects(calls) == [("NV50_THIRD_PARTY_P2P BAR1", ADDRESS, 0)]
    assert len(driver.freed) == 4
    assert {c["value"] for c in calls if c["call"] == "NVOS21.status"} == {status_at}
    assert {c["value"] for c in calls if c["call"] == "BAR1"} == {256 << 30}


@pytest.mark.parametrize("status_at", [24, 28])
@pytest.mark.parametrize("status", [NOT_SUPPORTED, INVALID_CLASS, PERMISSIONS])
def test_a_failure_is_never_read_as_a_success(status_at, status):
    """At offset 24, every status of a driver since 535 would read as 0."""
    assert objects(asked(Driver(status_at, refuses=status))) == [
        ("NV50_THIRD_PARTY_P2P BAR1", ADDRESS, status)
    ]


def test_a_coherent_gpu_gets_the_other_type():
    assert objects(asked(Driver(coherent=True))) == [
        ("NV50_THIRD_PARTY_P2P BAR1", ADDRESS, INVALID_ARGUMENT),
        ("NV50_THIRD_PARTY_P2P NVLINK", ADDRESS, 0),
    ]


def test_every_gpu_has_its_own_handles():
    found = objects(asked(Driver(gpus=3)))

    assert [device for _, device, _ in found] == ["0000:1b:00.0", "0000:1c:00.0", "0000:1d:00.0"]
    assert {status for *_, status in found} == {0}


def test_a_gpu_without_device_file_does_not_affect_the_others():
    calls = asked(Driver(gpus=2, denied="/dev/nvidia0"))

    assert [device for _, device, _ in objects(calls)] == ["0000:1c:00.0"]
    assert {
        "call": "open",
        "argument": "/dev/nvidia0",
        "device": ADDRESS,
        "result": EPERM,
        "value": None,
    } in calls


def test_without_the_control_file_nothing_is_queried():
    assert [(c["call"], c["result"]) for c in asked(Driver(denied="/dev/nvidiactl"))] == [("open", EPERM)]


def test_a_gpu_unknown_to_the_resource_manager_is_skipped():
    calls = asked(Driver(known=False))

    assert objects(calls) == []
    assert next(c for c in calls if c["call"] == "NV_ESC_RM_CONTROL")["result"] == 0x57


def test_a_size_that_the_driver_refuses_gives_an_errno_and_everything_is_closed():
    driver = Driver()

    def refuse(path, data):
        raise OSError(EINVAL, "no")

    driver._allocate = refuse
    calls = asked(driver)

    assert (calls[-1]["call"], calls[-1]["result"]) == ("ioctl", EINVAL)


def test_an_exception_leaves_no_file_open():
    driver = Driver()

    def broken(path, data):
        raise ValueError("broken")

    driver._control = broken
    with pytest.raises(ValueError, match="broken"):
        rm_probe.ask(driver)
    assert not driver.files
    assert not driver.objects


def test_recorded_answers_of_two_h200s():
    """Recorded on driver 580.159.04: two GPUs of one virtual machine."""
    calls = json.loads((HERE / "h200" / "rm.json").read_text())["calls"]

    assert [status for *_, status in objects(calls)] == [0, 0]
    assert calls[-1]["call"] == "NV_ESC_RM_FREE"
    assert calls[-1]["result"] == 0
    assert next(c for c in calls if c["call"] == "NVOS21.status")["value"] == 28


def test_alone_on_this_machine_it_answers_in_json():
    child = subprocess.run(
        [sys.executable, "-I", "-c", program("rm_probe")], capture_output=True, check=True
    )
    report = json.loads(child.stdout)

    assert report["schema"] == "gdrkit.probe.rm/1"
    assert report["calls"][0]["call"] == "open"


# -- the machine's own files -----------------------------------------------------------------------


def test_device_files_are_opened_to_write_not_inherited_and_closed(tmp_path):
    path, files = tmp_path / "nvidiactl", rm_probe.DeviceFiles()
    path.write_bytes(b"abc")
    fd = files.open(str(path))
    assert fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDWR
    assert not os.get_inheritable(fd)
    files.close(fd)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_an_ioctl_writes_into_the_data_and_may_point_to_more():
    """FIONREAD writes the number of bytes that a pipe holds: ioctl_tty(2)."""
    files = rm_probe.DeviceFiles()
    reader, writer = os.pipe()
    os.write(writer, b"four")
    data = bytearray(4)
    files.ioctl(reader, termios.FIONREAD, data)
    assert struct.unpack("=i", data) == (4,)
    assert ctypes.string_at(files.address(data), 4) == bytes(data)
    for end in (reader, writer):
        os.close(end)


CALLS = ("NV_ESC_CARD_INFO", "NV_ESC_RM_ALLOC NV01_ROOT_CLIENT", "NV_ESC_REGISTER_FD", "NV_ESC_RM_CONTROL",
         "NV_ESC_RM_ALLOC NV01_DEVICE_0", "NV_ESC_RM_ALLOC NV20_SUBDEVICE_0",
         "NV_ESC_RM_ALLOC NV50_THIRD_PARTY_P2P BAR1", "NV_ESC_RM_FREE")  # fmt: skip


class Failing(Driver):
    """Its ioctl of this number, from 0, fails."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.left = number

    def ioctl(self, fd: int, request: int, data: bytearray) -> None:
        self.left -= 1
        if self.left == -1:
            raise OSError(EINVAL, "no")
        super().ioctl(fd, request, data)


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_an_ioctl_that_fails_is_recorded_and_ends_what_needs_it(number):
    driver = Failing(number)
    calls = rm_probe.ask(driver)
    assert not driver.files, "a file was left open"
    device = "" if number in (0, 1, 7) else ADDRESS
    failed = {"call": "ioctl", "argument": CALLS[number], "device": device, "result": EINVAL, "value": None}
    freed = [c["call"] for c in calls[calls.index(failed) + 1 :]]
    assert freed == (["NV_ESC_RM_FREE"] if 1 < number < 7 else [])
    if number != 7:
        assert not driver.objects


def test_every_call_of_a_machine_with_two_gpus():
    rows = [(c["call"], c["argument"], c["device"], c["result"], c["value"]) for c in asked(Driver(gpus=2))]
    second = "0000:1c:00.0"
    assert rows == [
        ("open", "/dev/nvidiactl", "", 0, None), ("NV_ESC_CARD_INFO", "32", "", 0, 2),
        ("NV_ESC_RM_ALLOC", "NV01_ROOT_CLIENT", "", 0, None), ("NVOS21.status", "offset", "", 0, 28),
        *(row for number, device in enumerate((ADDRESS, second)) for row in (
            ("BAR1", "bytes", device, 0, 256 << 30), ("open", f"/dev/nvidia{number}", device, 0, None),
            ("NV_ESC_RM_CONTROL", "GPU_GET_ID_INFO_V2", device, 0, number),
            ("NV_ESC_RM_ALLOC", "NV01_DEVICE_0", device, 0, None),
            ("NV_ESC_RM_ALLOC", "NV20_SUBDEVICE_0", device, 0, None),
            ("NV_ESC_RM_ALLOC", "NV50_THIRD_PARTY_P2P BAR1", device, 0, None),
        )),
        ("NV_ESC_RM_FREE", "NV01_ROOT_CLIENT", "", 0, None),
    ]  # fmt: skip
