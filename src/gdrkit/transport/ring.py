"""One direction between two processes of a node: a ring of shared memory, and counters that GPUs wait on.

A message takes the next bytes of the ring, whole units of 4 KiB. One counter tells how many units were
put in, the other how many were taken out; each side cuts a message into chunks as it likes. Both only
grow (modulo 2**32), so a GPU's copy engine can wait for them by itself (cuStreamWaitValue32 compares
cyclically): no CPU stands between the two copies.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import secrets
from collections.abc import Iterator
from functools import lru_cache

from gdrkit.transport.errors import PathUnavailable, TransportError

RING_BYTES = 64 << 20
UNIT_BYTES = 4096
SMALLEST_CHUNK = 512 << 10
_SMALLEST_RING = 512 << 10
_CHUNKS = 4  # at least so many lie in a ring: one being filled, one being emptied, and some to spare
_OVERHEAD_BYTES = 200_000
"""What a copy engine moves in the 3.5 us that one more chunk costs it at 55 GB/s: measured on an H200."""
DESCRIPTORS = 64  # messages that may be announced and not yet taken
_HEADER = 8192
_MAGIC = int.from_bytes(b"gdrring3", "little")
_MEMBARRIER = {"aarch64": 283}
WRAP = 1 << 32
"""Where counters start again."""
_GLOBAL, _POISON = 1, 1 << 29


class _Descriptor(ctypes.Structure):
    _fields_ = (("size_bytes", ctypes.c_uint64), ("crc32", ctypes.c_uint32), ("checked", ctypes.c_uint32))


class _Header(ctypes.Structure):
    """What both processes see. Each counter has a cache line of its own, so that writers do not disturb
    readers.
    """

    _fields_ = (
        ("magic", ctypes.c_uint64),
        ("ring_bytes", ctypes.c_uint64),
        ("pad", ctypes.c_char * 240),
        ("produced", ctypes.c_uint32 * 32),
        ("consumed", ctypes.c_uint32 * 32),
        ("announced", ctypes.c_uint32 * 32),
        ("taken", ctypes.c_uint32 * 32),
        ("noticed", ctypes.c_uint32 * 32),
        ("descriptors", _Descriptor * DESCRIPTORS),
    )


class Ring:
    """The shared memory of one direction. `path` is its file, until both have opened it."""

    def __init__(self, descriptor: int, path: str, ring_bytes: int) -> None:
        self.path, self.units = path, ring_bytes // UNIT_BYTES
        self.largest_step = self.units // _CHUNKS * UNIT_BYTES  # bytes of the largest chunk
        self.size_bytes = _HEADER + ring_bytes
        self._map = mmap.mmap(descriptor, self.size_bytes)
        self._base = (ctypes.c_char * self.size_bytes).from_buffer(self._map)
        self.address = ctypes.addressof(self._base)
        self.header = _Header.from_buffer(self._map)
        self.produced, self.consumed = self.header.produced, self.header.consumed
        self._noticed = self.header.noticed
        self._pinned_by: int | None = None
        self._device_offset = 0

    @classmethod
    def create(cls, folder: str = "/dev/shm", ring_bytes: int = RING_BYTES) -> Ring:
        """A new ring, readable by this user alone, and smaller where the file system has less room.

        Raises PathUnavailable where there is no room at all (a container's /dev/shm is often 64 MiB).
        """
        descriptor, path = new_file(folder)
        try:
            while True:
                try:
                    # Reserved, not merely sized: a full file system is an error here, and SIGBUS later.
                    os.posix_fallocate(descriptor, 0, _HEADER + ring_bytes)
                    break
                except OSError as error:
                    ring_bytes //= 2
                    if ring_bytes < _SMALLEST_RING:
                        os.unlink(path)
                        raise PathUnavailable(f"{folder}: {error.strerror}") from None
            ring = cls(descriptor, path, ring_bytes)
        finally:
            os.close(descriptor)
        ring.header.ring_bytes = ring_bytes
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
            ring_bytes = int.from_bytes(start[8:], "little")
            right = int.from_bytes(start[:8], "little") == _MAGIC and ring_bytes >= _SMALLEST_RING
            if not right or ring_bytes % UNIT_BYTES or os.fstat(descriptor).st_size < _HEADER + ring_bytes:
                raise PathUnavailable(f"{path} is not a ring")
            return cls(descriptor, path, ring_bytes)
        finally:
            os.close(descriptor)

    def unlink(self) -> None:
        """Take its name away; both mappings stay."""
        remove(self.path)

    @property
    def filled(self) -> int:
        """The unit before which all is put in, modulo WRAP, as far as a processor can know by now: what
        GPUs count in `produced`, or what the sender's processor has noticed before.
        """
        produced: int = self.produced[0]
        ahead = (self._noticed[0] - produced) % WRAP
        return (produced + ahead) % WRAP if ahead <= self.units else produced

    def counters(self) -> tuple[int, int, int]:
        """All that changes when bytes have moved."""
        return self.produced[0], self.consumed[0], self._noticed[0]

    def acknowledge(self, position: int) -> None:
        """Tell the other side that all before that unit is put in."""
        self._noticed[0] = position % WRAP

    def place(self, position: int) -> tuple[int, int]:
        """Where that unit lies, and the bytes from there to the ring's end."""
        unit = position % self.units
        return self.address + _HEADER + unit * UNIT_BYTES, (self.units - unit) * UNIT_BYTES

    def step(self, size_bytes: int, *, busy: bool) -> int:
        """Bytes of a chunk for a message of that size.

        The second copy begins when the first chunk is there, so large chunks cost time; each chunk costs a
        copy engine a pause, so many do, too. Their sum is least at chunks of sqrt(message x what the pause
        would move). Where messages before this one are still under way the first cost is paid, and chunks
        are twice as large. What goes round the ring is cut so that the ring holds a whole number of chunks:
        none is larger than the others.
        """
        return _step(size_bytes, self.units, self.largest_step, busy)

    def piece(self, position: int, size_bytes: int, step: int) -> tuple[int, int, int]:
        """The first chunk of what is left of a message: the unit it ends before, its address, its bytes.

        `step`, a whole number of units, is the most that a chunk has. What lies before the ring's end is
        divided evenly: a small rest would cost a pause as a whole chunk does.
        """
        place, most = self.place(position)
        lap = min(size_bytes, most)
        took = units(-(-lap // -(-lap // step)))
        return position + took, place, min(took * UNIT_BYTES, lap)

    def pieces(self, position: int, size_bytes: int, step: int) -> Iterator[tuple[int, int, int, int]]:
        """A message's chunks as `piece` has them, each with its offset before its bytes."""
        offset = 0
        while offset < size_bytes:
            position, place, size = self.piece(position, size_bytes - offset, step)
            yield position, place, offset, size
            offset += size

    def pin(self, device: int) -> None:
        """Let CUDA's copy engines reach it, through that device or another. Raises CudaError."""
        if self._pinned_by is not None:
            return
        from gdrkit.transport.native.cuda import cuda

        with cuda().on(device):
            self._device_offset = cuda().map_host(self.address, self.size_bytes) - self.address
        self._pinned_by = device

    def on_device(self, counter: ctypes.Array[ctypes.c_uint32]) -> int:
        """A counter's address as the GPU knows it."""
        return ctypes.addressof(counter) + self._device_offset

    def poison(self, position: int) -> None:
        """Set both counters far beyond what is queued, so that no stream goes on waiting for a peer that
        is gone.

        To be repeated while streams run: their own writes undo it.
        """
        self.produced[0] = self.consumed[0] = (position + _POISON) % WRAP

    def close(self) -> None:
        """Unpin and unmap. Nothing may be using it."""
        self.unlink()
        if self._pinned_by is not None:
            from gdrkit.transport.native.cuda import cuda

            with cuda().on(self._pinned_by):
                cuda().call("cuMemHostUnregister", self.address)
            self._pinned_by = None
        if self.address:
            self.address = 0
            del self.produced, self.consumed, self._noticed, self.header, self._base
            try:
                self._map.close()
            except (
                BufferError
            ):  # an error that somebody keeps has frames that refer to it: it goes with them
                return


@lru_cache(maxsize=64)
def _step(size_bytes: int, ring_units: int, most: int, busy: bool) -> int:
    wanted = min(most, max(SMALLEST_CHUNK, math.isqrt(size_bytes * _OVERHEAD_BYTES)) << busy)
    divided = min(size_bytes, ring_units * UNIT_BYTES)
    count = -(-divided // wanted) or 1
    return min(most, max(1, -(-divided // (count * UNIT_BYTES))) * UNIT_BYTES)


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


def units(size_bytes: int) -> int:
    """How many units of a ring a message takes."""
    return -(-size_bytes // UNIT_BYTES)


def reached(counter: int, wanted: int) -> bool:
    """Whether a counter is at `wanted` or beyond, as the GPU compares them: (int)(counter - wanted) >= 0."""
    return (counter - wanted) % WRAP < WRAP // 2


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
