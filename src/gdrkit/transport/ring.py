"""One direction between two processes of a node: slots of shared memory, and counters that GPUs wait on.

A message is cut into chunks; each takes the next slot. One counter tells how many chunks were put in,
the other how many were taken out. Both only grow (modulo 2**32), so a GPU's copy engine can wait for
them by itself (cuStreamWaitValue32 compares cyclically): no CPU stands between the two copies.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import secrets
from functools import lru_cache

from gdrkit.transport.errors import PathUnavailable, TransportError

SLOTS = 6
SLOT_BYTES = 8 << 20
SMALLEST_CHUNK = 512 << 10
_OVERHEAD_BYTES = 200_000
"""What a copy engine moves in the 3.5 us that one more copy costs it at 55 GB/s: measured on an H200."""
DESCRIPTORS = 64  # messages that may be announced and not yet taken
_HEADER = 8192
_MAGIC = int.from_bytes(b"gdrring1", "little")
_MEMBARRIER = {"aarch64": 283}
_GLOBAL, _WRAP, _POISON = 1, 1 << 32, 1 << 29


class _Descriptor(ctypes.Structure):
    _fields_ = (("size_bytes", ctypes.c_uint64), ("crc32", ctypes.c_uint32), ("checked", ctypes.c_uint32))


class _Header(ctypes.Structure):
    """What both processes see. Each counter has a cache line of its own, so that writers do not disturb
    readers.
    """

    _fields_ = (
        ("magic", ctypes.c_uint64),
        ("slot_bytes", ctypes.c_uint64),
        ("pad", ctypes.c_char * 240),
        ("produced", ctypes.c_uint32 * 32),
        ("consumed", ctypes.c_uint32 * 32),
        ("announced", ctypes.c_uint32 * 32),
        ("taken", ctypes.c_uint32 * 32),
        ("descriptors", _Descriptor * DESCRIPTORS),
    )


class Ring:
    """The shared memory of one direction. `path` is its file, until both have opened it."""

    def __init__(self, descriptor: int, path: str, slot_bytes: int) -> None:
        self.path, self.slot_bytes = path, slot_bytes
        self.size_bytes = _file_bytes(slot_bytes)
        self._map = mmap.mmap(descriptor, self.size_bytes)
        self._base = (ctypes.c_char * self.size_bytes).from_buffer(self._map)
        self.address = ctypes.addressof(self._base)
        self.header = _Header.from_buffer(self._map)
        self._pinned = 0
        self._device_offset = 0

    @classmethod
    def create(cls, folder: str = "/dev/shm", slot_bytes: int = SLOT_BYTES) -> Ring:
        """A new ring, readable by this user alone, with smaller slots where the file system has less room.

        Raises PathUnavailable where there is no room at all (a container's /dev/shm is often 64 MiB).
        """
        descriptor, path = new_file(folder)
        try:
            while True:
                try:
                    # Reserved, not merely sized: a full file system is an error here, and SIGBUS later.
                    os.posix_fallocate(descriptor, 0, _file_bytes(slot_bytes))
                    break
                except OSError as error:
                    slot_bytes //= 2
                    if slot_bytes < 64 << 10:
                        os.unlink(path)
                        raise PathUnavailable(f"{folder}: {error.strerror}") from None
            ring = cls(descriptor, path, slot_bytes)
        finally:
            os.close(descriptor)
        ring.header.slot_bytes = slot_bytes
        ring.header.magic = _MAGIC
        return ring

    @classmethod
    def open(cls, path: str) -> Ring:
        """The ring that the other process made. Raises PathUnavailable where it cannot be seen or is not
        one.
        """
        descriptor = open_file(path)
        try:
            start = os.pread(descriptor, 16, 0)
            slot_bytes = int.from_bytes(start[8:], "little")
            size = _file_bytes(slot_bytes)
            if int.from_bytes(start[:8], "little") != _MAGIC or os.fstat(descriptor).st_size < size:
                raise PathUnavailable(f"{path} is not a ring")
            return cls(descriptor, path, slot_bytes)
        finally:
            os.close(descriptor)

    def unlink(self) -> None:
        """Take its name away; both mappings stay."""
        remove(self.path)

    def slot(self, position: int) -> int:
        """Where chunk number `position` lies in this process."""
        return self.address + _HEADER + position % SLOTS * self.slot_bytes

    def pin(self) -> None:
        """Let CUDA's copy engines reach it, with the current context. Raises CudaError."""
        if self._pinned:
            return
        from gdrkit.native.cuda import REGISTER_DEVICE_MAP, REGISTER_PORTABLE, cuda

        driver = cuda()
        driver.call(
            "cuMemHostRegister_v2", self.address, self.size_bytes, REGISTER_PORTABLE | REGISTER_DEVICE_MAP
        )
        self._pinned = self.address
        self._device_offset = driver.number("cuMemHostGetDevicePointer_v2", self.address, 0) - self.address

    def on_device(self, counter: ctypes.Array[ctypes.c_uint32]) -> int:
        """A counter's address as the GPU knows it."""
        return ctypes.addressof(counter) + self._device_offset

    def poison(self, position: int) -> None:
        """Set both counters far beyond what is queued, so that no stream goes on waiting for a peer that
        is gone.

        To be repeated while streams run: their own writes undo it.
        """
        self.header.produced[0] = self.header.consumed[0] = (position + _POISON) % _WRAP

    def close(self) -> None:
        """Unpin and unmap. Nothing may be using it."""
        self.unlink()
        if self._pinned:
            from gdrkit.native.cuda import cuda

            cuda().call("cuMemHostUnregister", self._pinned)
            self._pinned = 0
        if self.address:
            self.address = 0
            del self.header, self._base
            try:
                self._map.close()
            except (
                BufferError
            ):  # an error that somebody keeps has frames that refer to it: it goes with them
                return


def new_file(folder: str) -> tuple[int, str]:
    """An open file that this user alone may open, and its path. Raises PathUnavailable."""
    path = f"{folder}/gdrkit-{secrets.token_hex(16)}"
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), path
    except OSError as error:
        raise PathUnavailable(f"{folder}: {error.strerror}") from None


def open_file(path: str) -> int:
    """The file that the other process made. Raises PathUnavailable where it cannot be seen, or where its
    name is none of ours.
    """
    if not path.startswith("/dev/shm/gdrkit-") or "/" in path.removeprefix("/dev/shm/"):
        raise PathUnavailable(f"{path} is not a ring's name")
    try:
        return os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise PathUnavailable(f"{path}: {error.strerror}") from None


def remove(path: str) -> None:
    """Take a file's name away, if it has one."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def _file_bytes(slot_bytes: int) -> int:
    """How large a ring's file is: its header, and then the slots."""
    return _HEADER + SLOTS * slot_bytes


def reached(counter: int, wanted: int) -> bool:
    """Whether a counter is at `wanted` or beyond, as the GPU compares them: (int)(counter - wanted) >= 0."""
    return (counter - wanted) % _WRAP < _WRAP // 2


@lru_cache(maxsize=64)
def chunks(size_bytes: int, slot_bytes: int) -> tuple[tuple[int, int], ...]:
    """(offset, bytes) of a message's chunks: the same on both sides, whatever moves them.

    The second copy begins when the first chunk is there, so large chunks cost time; each chunk costs a
    copy engine a pause, so many do, too. Their sum is least at chunks of sqrt(message x what the pause
    would move).
    """
    step = min(slot_bytes, max(SMALLEST_CHUNK, math.isqrt(size_bytes * _OVERHEAD_BYTES)))
    count = -(-size_bytes // step)
    step = -(-size_bytes // max(1, count) // 4096) * 4096
    return tuple((offset, min(step, size_bytes - offset)) for offset in range(0, size_bytes, step or 1))


class Barrier:
    """Orders this CPU's writes of data before its write of a counter. x86-64 does so by itself (Intel
    SDM 3A, 9.2.2: stores are seen in order); 64-bit Arm does not, and there membarrier(2) does.
    """

    def __init__(self) -> None:
        machine = os.uname().machine
        self._syscall = None
        if machine != "x86_64":
            if machine not in _MEMBARRIER:
                raise TransportError(f"shared memory was not written for {machine}")
            self._number = _MEMBARRIER[machine]
            self._syscall = ctypes.CDLL(None, use_errno=True).syscall

    def __call__(self) -> None:
        if self._syscall and self._syscall(ctypes.c_long(self._number), _GLOBAL, 0, 0):
            raise TransportError(f"membarrier: {os.strerror(ctypes.get_errno())}")
