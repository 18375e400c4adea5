"""One direction between two processes of a node: a ring in shared memory, and counters that GPUs wait on.

A message occupies the next bytes of the ring, in whole units of 4 KiB. The producer's counter is the
number of units written, the consumer's the number of units read; each side splits a message into chunks
independently. Both counters only grow (modulo 2**32), so a GPU's copy engine can wait on them without help
(cuStreamWaitValue32 compares cyclically): no CPU is involved between the two copies.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import os
from collections.abc import Iterator
from functools import lru_cache

from gdrkit.transport.errors import PathUnavailable, TransportError
from gdrkit.transport.native.cuda import cuda
from gdrkit.transport.protocol import VERSION
from gdrkit.transport.shared_file import FOLDER, SharedFile, open_file, remove

RING_BYTES = 64 << 20
UNIT_BYTES = 4096
SMALLEST_CHUNK = 512 << 10
_SMALLEST_RING = 512 << 10
_CHUNKS = 4  # the fewest in a ring: one being written, one being read, and some to spare
_OVERHEAD_BYTES = 200_000
"""What a copy engine copies at 55 GB/s in the 3.5 us that each further chunk costs it: measured on an
H200.
"""
SLOTS = 64  # messages that may be posted or announced, and not yet received
_HEADER = 16384
_MAGIC = int.from_bytes(b"gdrring%c" % VERSION, "little")
_MEMBARRIER = {"aarch64": 283}
WRAP = 1 << 32
"""Counters are modulo this."""
_GLOBAL, _POISON = 1, 1 << 29
_MAP_POPULATE = 0x8000  # asm-generic/mman-common.h; not in Python 3.9


class Slot(ctypes.Structure):
    """A message: where the receiver wants it (on the path `peer`), then what the sender sends. Each side
    writes its own cache lines, and last the word that shows the number of the message, plus one: `posted`
    by the receiver, `announced` by the sender, `arrived` by the sender if it `copied` the message into the
    receiver's memory, else by the receiver. `byte` is for the receiver alone.
    """

    _fields_ = (
        ("handle", ctypes.c_uint8 * 64),
        ("offset", ctypes.c_uint64),
        ("posted_bytes", ctypes.c_uint64),
        ("posted", ctypes.c_uint32),
        ("byte", ctypes.c_uint8),
        ("pad", ctypes.c_char * 43),
        ("size_bytes", ctypes.c_uint64),
        ("crc32", ctypes.c_uint32),
        ("checked", ctypes.c_uint32),
        ("copied", ctypes.c_uint32),
        ("announced", ctypes.c_uint32),
        ("arrived", ctypes.c_uint32),
        ("pad2", ctypes.c_char * 36),
    )


class _Header(ctypes.Structure):
    """The shared header. Each counter has its own cache line, so that writers do not disturb readers."""

    _fields_ = (
        ("magic", ctypes.c_uint64),
        ("ring_bytes", ctypes.c_uint64),
        ("given_up", ctypes.c_uint32),
        ("pad", ctypes.c_char * 236),
        ("produced", ctypes.c_uint32 * 32),
        ("consumed", ctypes.c_uint32 * 32),
        ("acknowledged", ctypes.c_uint32 * 32),
        ("slots", Slot * SLOTS),
    )


class Ring:
    """The shared memory of one direction. `path` is its name, until both have opened it; `file` is the
    creator's. Raises PathUnavailable if it cannot be mapped, as under a limit of address space.
    """

    def __init__(self, descriptor: int, path: str, ring_bytes: int, file: SharedFile | None = None) -> None:
        self.path, self._file, self.units = path, file, ring_bytes // UNIT_BYTES
        self.largest_step = self.units // _CHUNKS * UNIT_BYTES  # bytes of the largest chunk
        self.size_bytes = _HEADER + ring_bytes
        try:
            # With its page tables: the faults of 64 KiB take longer than its copy.
            self._map = mmap.mmap(descriptor, self.size_bytes, mmap.MAP_SHARED | _MAP_POPULATE)
        except OSError as error:
            if file:
                file.unlink()
            size = f"{self.size_bytes >> 20} MiB of shared memory"
            raise PathUnavailable(f"{size} cannot be mapped: {error.strerror}") from None
        self._base = (ctypes.c_char * self.size_bytes).from_buffer(self._map)
        self.address = ctypes.addressof(self._base)
        self.header = _Header.from_buffer(self._map)
        self.produced, self.consumed = self.header.produced, self.header.consumed
        self._acknowledged = self.header.acknowledged
        self.slots: list[Slot] = list(self.header.slots)
        self.barrier = Barrier()
        self._pinned_by: int | None = None
        self._device_offset = 0

    @classmethod
    def create(cls, folder: str = FOLDER, ring_bytes: int = RING_BYTES, *, anonymous: bool = False) -> Ring:
        """A new ring, readable only by this user, and smaller if there is too little space.
        `anonymous` as in SharedFile.

        Raises PathUnavailable if there is not enough space even for the smallest ring (a container's
        /dev/shm is often 64 MiB).
        """
        file = SharedFile(folder, anonymous=anonymous)
        while True:
            try:
                file.reserve(_HEADER + ring_bytes)
                break
            except OSError as error:
                ring_bytes //= 2
                if ring_bytes < _SMALLEST_RING:
                    file.unlink()
                    raise PathUnavailable(f"{folder}: {error.strerror}") from None
        ring = cls(file.descriptor, file.path, ring_bytes, file)
        ring.header.ring_bytes = ring_bytes
        ring.header.magic = _MAGIC
        return ring

    @classmethod
    def open(cls, path: str) -> Ring:
        """The ring that the other process created. Raises PathUnavailable if the file cannot be opened or
        is not a ring.
        """
        descriptor = open_file(path)
        try:
            start = os.pread(descriptor, 16, 0)
            ring_bytes = int.from_bytes(start[8:], "little")
            valid = int.from_bytes(start[:8], "little") == _MAGIC and ring_bytes >= _SMALLEST_RING
            if not valid or ring_bytes % UNIT_BYTES or os.fstat(descriptor).st_size < _HEADER + ring_bytes:
                raise PathUnavailable(f"{path} is not a ring")
            return cls(descriptor, path, ring_bytes)
        finally:
            os.close(descriptor)

    def unlink(self) -> None:
        """Remove the file's name; both mappings remain."""
        if self._file:
            self._file.unlink()
        else:
            remove(self.path)

    @property
    def filled(self) -> int:
        """The unit before which everything is written, modulo WRAP, as far as a CPU can know now: the GPU's
        count in `produced`, or the sender's acknowledgement where that is ahead of it.
        """
        produced: int = self.produced[0]
        ahead = (self._acknowledged[0] - produced) % WRAP
        return (produced + ahead) % WRAP if ahead <= self.units else produced

    def counters(self) -> tuple[int, int, int]:
        """All values that change when bytes have moved."""
        return self.produced[0], self.consumed[0], self._acknowledged[0]

    def acknowledge(self, position: int) -> None:
        """Tell the other side that everything before that unit is written."""
        self._acknowledged[0] = position % WRAP

    def locate(self, position: int) -> tuple[int, int]:
        """The unit's address, and the bytes from there to the ring's end."""
        unit = position % self.units
        return self.address + _HEADER + unit * UNIT_BYTES, (self.units - unit) * UNIT_BYTES

    def step(self, size_bytes: int, *, busy: bool) -> int:
        """The size in bytes of the chunks for a message of `size_bytes`.

        The receiver's copy starts when the first chunk has arrived, so large chunks cost time. But each
        chunk pauses a copy engine, so many chunks cost time too. The sum is smallest for chunks of
        sqrt(message x bytes copied in one pause). If earlier messages are still in flight (`busy`), the
        first cost is already paid, and chunks are twice as large. A message that wraps around the ring is
        divided so that a whole number of chunks fills the ring, none larger than the others.
        """
        return _step(size_bytes, self.units, self.largest_step, busy)

    def pieces(self, position: int, size_bytes: int, step: int) -> Iterator[tuple[int, int, int, int]]:
        """A message's chunks from a unit on: the unit after its end, address, offset in the message, size.

        `step`, a whole number of units, is the largest chunk size. The part before the ring's end is divided
        evenly: a small last chunk would cost the same pause as a full one.
        """
        offset = 0
        while offset < size_bytes:
            address, most = self.locate(position)
            lap = min(size_bytes - offset, most)
            took = units(-(-lap // -(-lap // step)))
            took -= took > 1 and lap - took * UNIT_BYTES == 1  # no single byte is left: Cuda.copy
            size, position = min(took * UNIT_BYTES, lap), position + took
            yield position, address, offset, size
            offset += size

    def pin(self, device: int) -> None:
        """Make the ring accessible to CUDA copy engines, of that device or another. Raises CudaError."""
        if self._pinned_by is not None:
            return
        with cuda().on(device):
            self._device_offset = cuda().map_host(self.address, self.size_bytes) - self.address
        self._pinned_by = device

    def on_device(self, memory: ctypes._CData, field: str = "") -> int:
        """The address of a counter, or of a field of a slot, in the GPU's address space."""
        offset: int = getattr(Slot, field).offset if field else 0
        return ctypes.addressof(memory) + offset + self._device_offset

    @property
    def given_up(self) -> bool:
        """Whether a side has given up: what is in the ring since then may be wrong."""
        return bool(self.header.given_up)

    def poison(self, counter: ctypes.Array[ctypes.c_uint32], position: int) -> None:
        """Give up: set a counter far beyond the queued work, so that no stream keeps waiting for the other
        side.

        Our queued copies then go on as if there were space, or as if all had arrived: that is marked first.
        Only the counter that our own streams wait for is set. Repeat this while they run: the other side may
        still count.
        """
        self.header.given_up = 1
        counter[0] = (position + _POISON) % WRAP

    def poison_slots(self, begun: int) -> None:
        """Let no stream wait any more for one of the messages begun so far. No CPU takes it for an arrival;
        what has arrived stays so.
        """
        for index, slot in enumerate(self.slots):
            latest = begun - (begun - 1 - index) % SLOTS  # the word of the latest message in this slot
            if slot.arrived != latest % WRAP:
                slot.arrived = (begun + _POISON) % WRAP

    def close(self) -> None:
        """Unpin and unmap the ring. Nothing may be using it."""
        self.unlink()
        if self._pinned_by is not None:
            with cuda().on(self._pinned_by):
                cuda().call("cuMemHostUnregister", self.address)
            self._pinned_by = None
        if self.address:
            self.address = 0
            self.slots.clear()
            del self.produced, self.consumed, self._acknowledged, self.header, self._base
            try:
                self._map.close()
            except BufferError:  # the frames of a stored exception still refer to it, and free it in the end
                return


@lru_cache(maxsize=64)
def _step(size_bytes: int, ring_units: int, most: int, busy: bool) -> int:
    wanted = min(most, max(SMALLEST_CHUNK, math.isqrt(size_bytes * _OVERHEAD_BYTES)) << busy)
    divided = min(size_bytes, ring_units * UNIT_BYTES)
    count = -(-divided // wanted) or 1
    return min(most, max(1, -(-divided // (count * UNIT_BYTES))) * UNIT_BYTES)


def units(size_bytes: int) -> int:
    """The number of units of a ring that a message occupies."""
    return -(-size_bytes // UNIT_BYTES)


def reached(counter: int, wanted: int) -> bool:
    """Whether a counter is at `wanted` or beyond, compared as the GPU does: (int)(counter - wanted) >= 0."""
    return (counter - wanted) % WRAP < WRAP // 2


class Barrier:
    """Orders this CPU's writes of data before its write of a counter. x86-64 guarantees that order (Intel
    SDM 3A, 9.2.2: stores are seen in order); 64-bit Arm does not, so membarrier(2) is called there.
    """

    def __init__(self) -> None:
        machine = os.uname().machine
        self._syscall = None
        if machine != "x86_64":
            if machine not in _MEMBARRIER:
                raise TransportError(f"the path shared does not support this architecture: {machine}")
            self._number = _MEMBARRIER[machine]
            self._syscall = ctypes.CDLL(None, use_errno=True).syscall

    def __call__(self) -> None:
        if self._syscall and self._syscall(ctypes.c_long(self._number), _GLOBAL, 0, 0):
            raise TransportError(f"membarrier: {os.strerror(ctypes.get_errno())}")
