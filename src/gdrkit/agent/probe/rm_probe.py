"""Ask NVIDIA's kernel module whether third parties may map GPU memory, and print the results as JSON.

The script needs only Python 3.8 and its standard library, not CUDA. For each GPU it creates and frees the
object by which libcuda opens memory to nvidia-peermem (class NV50_THIRD_PARTY_P2P). It allocates no GPU
memory. Opening a GPU wakes it, which takes seconds without persistence mode.

A success proves that the resource manager gives this process that object, so the kernel side of
nvidia_p2p_get_pages() is available. It does not prove that the product is supported (GeForce GPUs may give
the same result; CUDA's attribute 116 shows it), that nvidia-peermem is loaded, or that a NIC can reach the
GPU.

Sources: NVIDIA open-gpu-kernel-modules (MIT), nv-ioctl.h, nv-ioctl-numbers.h, nv_escape.h, nvos.h,
class/cl*.h, ctrl/ctrl0000/ctrl0000gpu.h. tools/rm_abi.py checks them at 30 tags of 15 branches, 515.43.04
to 595.45.04: all numbers here are the same in all of them, except the offset of the status in NVOS21 (24
through branch 530, 28 since 535), which the result shows.
"""

from __future__ import annotations

import json
import os
import struct
import sys
from typing import Any, Dict, List, NamedTuple, Optional

from .record import Calls

SCHEMA = "gdrkit.probe.rm/1"

CONTROL = "/dev/nvidiactl"
CARDS = 32  # NV_MAX_DEVICES, nv.h
CARD_BYTES = 72  # nv_ioctl_card_info_t

CARD_INFO, REGISTER_FD, RM_FREE, RM_CONTROL, RM_ALLOC = 200, 201, 0x29, 0x2A, 0x2B
"""Escapes: nv-ioctl-numbers.h and nv_escape.h."""

ROOT_CLIENT, DEVICE, SUBDEVICE, THIRD_PARTY_P2P = 0x41, 0x80, 0x2080, 0x503C
CLASSES = {
    ROOT_CLIENT: "NV01_ROOT_CLIENT",
    DEVICE: "NV01_DEVICE_0",
    SUBDEVICE: "NV20_SUBDEVICE_0",
    THIRD_PARTY_P2P: "NV50_THIRD_PARTY_P2P",
}
GET_ID_INFO_V2, ID_INFO_BYTES = 0x205, 32
BAR1, NVLINK = 1, 2  # NV503C_ALLOC_PARAMETERS_FLAGS_TYPE
COHERENT = 0x1F  # NV_ERR_INVALID_ARGUMENT: from a coherent GPU, thirdpartyp2pConstruct

DEVICE_BYTES = 56  # NV0080_ALLOC_PARAMETERS
OLD_STATUS, NEW_STATUS = 24, 28  # in NVOS21_PARAMETERS
UNWRITTEN = 0xFFFFFFFF  # not an NV_STATUS: nvstatuscodes.h ends at 0xFFFF

HANDLE = 0xCAF00000  # first handle of our objects; the driver chooses the client's


class ListedGpuCard(NamedTuple):
    """One GPU that the driver lists."""

    address: str
    gpu_id: int
    minor: int
    bar1_bytes: int


class DeviceFiles:
    """Access to device files. Tests replace it by a simulated resource manager."""

    def open(self, path: str) -> int:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def close(self, fd: int) -> None:
        os.close(fd)

    def ioctl(self, fd: int, request: int, data: bytearray) -> None:
        """Run an ioctl, which writes to `data`; it may point to further bytearrays of the caller."""
        import fcntl

        fcntl.ioctl(fd, request, data, True)

    def address(self, data: bytearray) -> int:
        """The address of a buffer, for a pointer in another one."""
        import ctypes

        return ctypes.addressof((ctypes.c_char * len(data)).from_buffer(data))


def request(number: int, size: int) -> int:
    """_IOWR('F', number, size): asm-generic/ioctl.h."""
    return 3 << 30 | size << 16 | ord("F") << 8 | number


class Session(Calls):
    """One client of the resource manager, and its calls."""

    def __init__(self, kernel: Any) -> None:
        super().__init__()
        self.kernel = kernel
        self.opened: List[int] = []
        self.client = 0
        self.objects = 0
        self.status_at: Optional[int] = None  # offset in NVOS21, known after the first result

    def open(self, path: str, device: str = "") -> Optional[int]:
        try:
            fd: int = self.kernel.open(path)
        except OSError as error:
            self.add("open", path, device, error.errno or -1)
            return None
        self.opened.append(fd)
        self.add("open", path, device, 0)
        return fd

    def ioctl(self, fd: int, number: int, data: bytearray, name: str, device: str) -> bool:
        """Whether the ioctl succeeded; records the errno if not."""
        try:
            self.kernel.ioctl(fd, request(number, len(data)), data)
        except OSError as error:
            self.add("ioctl", name, device, error.errno or -1)
            return False
        return True

    def allocate(
        self, fd: int, parent: int, kind: int, parameters: bytearray, device: str, note: str
    ) -> int:
        """Create an object; returns its handle, 0 if that failed.

        The status in NVOS21 is at offset 24 or 28. Drivers that use 24 never write to 28, which shows which
        one it is."""
        handle = 0 if kind == ROOT_CLIENT else HANDLE + self.objects
        self.objects += 1
        pointer = self.kernel.address(parameters) if parameters else 0
        data = bytearray(
            struct.pack("=IIIIQII", self.client, parent, handle, kind, pointer, 0, UNWRITTEN)
        )  # paramsSize 0: the driver uses the size of the class, entry_points or rmapi alloc.c
        argument = f"{CLASSES[kind]} {note}".strip()
        if not self.ioctl(fd, RM_ALLOC, data, f"NV_ESC_RM_ALLOC {argument}", device):
            return 0
        at_old, at_new = struct.unpack_from("=II", data, OLD_STATUS)
        self.status_at = OLD_STATUS if at_new == UNWRITTEN else NEW_STATUS
        status = at_old if self.status_at == OLD_STATUS else at_new
        self.add("NV_ESC_RM_ALLOC", argument, device, status)
        return int(struct.unpack_from("=I", data, 8)[0]) if status == 0 else 0

    def close(self) -> None:
        """Free the client, and with it all its objects, and close every file."""
        if self.client and self.opened:
            data = bytearray(struct.pack("=IIII", self.client, 0, self.client, UNWRITTEN))
            if self.ioctl(self.opened[0], RM_FREE, data, "NV_ESC_RM_FREE", ""):
                self.add("NV_ESC_RM_FREE", CLASSES[ROOT_CLIENT], "", struct.unpack_from("=I", data, 12)[0])
        for fd in reversed(self.opened):
            self.kernel.close(fd)


def ask(kernel: Any) -> List[Dict[str, Any]]:
    """Every call of the probe. All objects are freed, also after an error."""
    session = Session(kernel)
    try:
        control = session.open(CONTROL)
        if control is not None:
            _ask_cards(session, control)
    finally:
        session.close()
    return session.made


def _ask_cards(session: Session, control: int) -> None:
    data = bytearray(CARDS * CARD_BYTES)
    if not session.ioctl(control, CARD_INFO, data, "NV_ESC_CARD_INFO", ""):
        return
    found = cards(bytes(data))
    session.add("NV_ESC_CARD_INFO", str(CARDS), "", 0, len(found))
    session.client = session.allocate(control, 0, ROOT_CLIENT, bytearray(), "", "")
    if not session.client:
        return
    session.add("NVOS21.status", "offset", "", 0, session.status_at)
    for card in found:
        session.add("BAR1", "bytes", card.address, 0, card.bar1_bytes)
        _ask_card(session, control, card)


def cards(data: bytes) -> List[ListedGpuCard]:
    """The valid entries of nv_ioctl_card_info_t[]."""
    found = []
    for at in range(0, len(data) - CARD_BYTES + 1, CARD_BYTES):
        if data[at]:
            domain, bus, slot, function = struct.unpack_from("=IBBB", data, at + 4)
            (gpu_id,) = struct.unpack_from("=I", data, at + 16)
            bar1_bytes, minor = struct.unpack_from("=QI", data, at + 48)
            address = f"{domain:04x}:{bus:02x}:{slot:02x}.{function:x}"
            found.append(ListedGpuCard(address, gpu_id, minor, bar1_bytes))
    return found


def _ask_card(session: Session, control: int, card: ListedGpuCard) -> None:
    """From the GPU's file to the object. Each step needs the previous one."""
    file = session.open(f"/dev/nvidia{card.minor}", card.address)
    if file is None:
        return
    number = bytearray(struct.pack("=i", control))
    if not session.ioctl(file, REGISTER_FD, number, "NV_ESC_REGISTER_FD", card.address):
        return
    instance = _instance(session, control, card)
    if instance is None:
        return
    parameters = bytearray(DEVICE_BYTES)
    struct.pack_into("=II", parameters, 0, instance, session.client)  # deviceId, hClientShare
    device = session.allocate(control, session.client, DEVICE, parameters, card.address, "")
    if not device:
        return
    subdevice = session.allocate(control, device, SUBDEVICE, bytearray(4), card.address, "")
    if not subdevice:
        return
    for kind, note in ((BAR1, "BAR1"), (NVLINK, "NVLINK")):
        flags = bytearray(struct.pack("=I", kind))
        session.allocate(control, subdevice, THIRD_PARTY_P2P, flags, card.address, note)
        if session.made[-1]["result"] != COHERENT:  # only a coherent GPU needs the other type
            break


def _instance(session: Session, control: int, card: ListedGpuCard) -> Optional[int]:
    """The resource manager's device instance of this GPU; None if the call failed."""
    parameters = bytearray(ID_INFO_BYTES)
    struct.pack_into("=I", parameters, 0, card.gpu_id)
    pointer = session.kernel.address(parameters)
    data = bytearray(
        struct.pack(
            "=IIIIQII", session.client, session.client, GET_ID_INFO_V2, 0, pointer, ID_INFO_BYTES, UNWRITTEN
        )
    )
    if not session.ioctl(control, RM_CONTROL, data, "NV_ESC_RM_CONTROL", card.address):
        return None
    (status,) = struct.unpack_from("=I", data, 28)
    (instance,) = struct.unpack_from("=I", parameters, 8)
    session.add(
        "NV_ESC_RM_CONTROL", "GPU_GET_ID_INFO_V2", card.address, status, instance if status == 0 else None
    )
    return int(instance) if status == 0 else None


def main() -> int:
    """Print the results and return 0, even without a driver: the JSON then has an error."""
    report: Dict[str, Any] = {"schema": SCHEMA, "library": None, "error": "", "calls": []}
    if struct.calcsize("P") != 8:
        report["error"] = "a 32-bit Python: the driver's structures hold 64-bit pointers"
    else:
        report["calls"] = ask(DeviceFiles())
    json.dump(report, sys.stdout)
    sys.stdout.write("\n")
    return 0
