"""What messages of GPU memory over sockets and RDMA devices need: pinned memory for staging, and GPU streams
that wait for a message.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import NamedTuple

from gdrkit.agent.native.cuda_abi import REGISTER_DEVICE_MAP, REGISTER_PORTABLE
from gdrkit.transport.buffers import Buffer
from gdrkit.transport.gpu import Gpu
from gdrkit.transport.native.cuda import cuda
from gdrkit.transport.ring import SLOTS
from gdrkit.transport.steps import Steps, passed

_PINNED_BYTES, _PIECE = 8 << 20, 4 << 20
_PAGE = 4096
_SMALL_PIECE = 512 << 10  # of a message that no threads move: its copies overlap with the wire
_LARGEST_SMALL = 2 << 20


class Piece(NamedTuple):
    """Memory of the host that can be used once the event `ready` has passed, or at once."""

    address: int
    size_bytes: int
    ready: Callable[[], bool] | None = None


class Staging:
    """Pinned memory and a stream of one device: while one piece is on the wire, others are copied.

    A stream that waits for a message waits for a ticket, which is redeemed when the message has moved. So it
    keeps its position in stream order, as a copy on that stream would. The tickets are numbers in a pinned
    word.
    """

    def __init__(self, device: int) -> None:
        """Allocates: call this while no stream waits for a message."""
        self._driver, self._device, self._issued = cuda(), device, 0
        self._gpu = Gpu(device)
        with self._driver.on(device):
            self._address = self._pinned(_PINNED_BYTES)
            page = self._pinned(_PAGE)
            self._word = ctypes.c_uint32.from_address(page)
            self._word.value = 0
            self._word_on_device = self._driver.number(
                "cuMemHostGetDevicePointer_v2", ctypes.addressof(self._word), 0
            )
        self._byte_at = page + _PAGE // 2  # with its neighbour: Gpu.land
        self._spare = deque(range(SLOTS))

    def _pinned(self, size_bytes: int) -> int:
        return self._driver.number("cuMemHostAlloc", size_bytes, REGISTER_DEVICE_MAP | REGISTER_PORTABLE)

    @property
    def pinned(self) -> Buffer:
        """The memory that all pieces are in."""
        return Buffer(self._address, _PINNED_BYTES, None, self)

    def context(self) -> AbstractContextManager[object]:
        """The context that all steps need."""
        return self._driver.on(self._device)

    def in_turn(self, stream: int | None, steps: Steps) -> Steps:
        """Take a position in the order of a stream, or none. Returns steps that begin once the work before
        the position is done; after them the stream goes on. Take them in the order of the calls.

        A copy is queued only when it can run. A copy that waits in a stream blocks all copies that share its
        hardware queue (CUDA_DEVICE_MAX_CONNECTIONS; seen on H200s), including those it waits for.
        """
        if stream is None:
            return steps
        self._issued = ticket = (self._issued + 1) % (1 << 32)
        with self.context():
            ready = self._gpu.record(stream)
            self._gpu.wait(stream, self._word_on_device, ticket)
            self._gpu.mark(stream)
        return self._turn(ready, ticket, steps)

    def _turn(self, ready: int, ticket: int, steps: Steps) -> Steps:
        try:
            yield from passed(partial(self._gpu.passed, ready))
            return (yield from steps)
        finally:
            self._word.value = ticket

    def byte_in_turn(
        self, stream: int, into: Buffer, pull: Callable[[Buffer, Staging | None], Steps]
    ) -> Steps:
        """`in_turn` for a single byte that is received: `pull` puts it into host memory, our stream brings
        it to the GPU with a neighbour, and the program's stream copies it there. A plain copy of a byte to
        the GPU would be queued behind streams that wait: Cuda.copy.
        """
        if not self._spare:
            return self.in_turn(stream, pull(into, self))
        index = self._spare.popleft()
        at = self._byte_at + 2 * index
        turn = self.in_turn(stream, self._land(pull(Buffer(at, 1, None, self), None), at, index))
        with self.context():
            copied = self._gpu.take_landed(into.address, index, stream)
            self._gpu.mark(stream)
        return self._byte_turn(turn, copied, index)

    def _land(self, steps: Steps, at: int, index: int) -> Steps:
        crc32 = yield from steps
        yield from passed(self._gpu.land(at, index))
        return crc32

    def _byte_turn(self, turn: Steps, copied: int, index: int) -> Steps:
        crc32 = yield from turn
        yield from passed(partial(self._gpu.passed, copied))
        self._spare.append(index)
        return crc32

    def out_of(self, what: Buffer) -> Iterator[Piece]:
        """The contents of GPU memory, piece by piece. Each is valid until the next one is requested."""
        before: Piece | None = None  # is sent while the next one is copied
        for address, offset, size, _ in self._pieces(what):
            at, ready = self._gpu.read(address, what.address + offset, size)
            piece = Piece(at, size, ready)
            if before:
                yield before
            before = piece
        if before:
            yield before

    def into(self, what: Buffer) -> Iterator[Piece]:
        """What to fill with the contents of GPU memory, piece by piece, as `out_of`: the caller has filled
        a piece when it requests the next one. The last ones are empty: all bytes are in place once they are
        ready.
        """
        copying: deque[Callable[[], bool]] = deque()
        for address, offset, size, pieces in self._pieces(what):
            yield Piece(address, size, copying.popleft() if len(copying) == pieces else None)
            copying.append(self._gpu.copied(what.address + offset, address, size))
        while copying:
            yield Piece(self._address, 0, copying.popleft())

    def _pieces(self, what: Buffer) -> Iterator[tuple[int, int, int, int]]:
        """Of each piece: its pinned memory, its offset and its size in bytes, and how many the pinned
        memory holds.
        """
        step = _PIECE if what.size_bytes >= _LARGEST_SMALL else _SMALL_PIECE
        pieces = _PINNED_BYTES // step
        index = offset = 0
        while left := what.size_bytes - offset:
            size = min(step, left)
            size -= left - size == 1  # so that no single byte is left: Cuda.copy
            yield self._address + index % pieces * step, offset, size, pieces
            index, offset = index + 1, offset + size

    def close(self) -> None:
        """Free everything after the last stream has passed. All tickets must be redeemed."""
        self._gpu.close()
        with self._driver.on(self._device):
            self._driver.call("cuMemFreeHost", self._address)
            self._driver.call("cuMemFreeHost", ctypes.addressof(self._word))
