"""What the threads of sockets and RDMA devices need for GPU memory: pinned memory for staging, and GPU
streams that wait for a thread.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from gdrkit.agent.native.cuda_abi import REGISTER_DEVICE_MAP, REGISTER_PORTABLE, WAIT_GEQ
from gdrkit.transport.buffers import Buffer
from gdrkit.transport.gpu import Gpu
from gdrkit.transport.native.cuda import cuda
from gdrkit.transport.operation import until

CHUNK_BYTES = 4 << 20
HALVES = 2


class Staging:
    """Two pinned halves and a stream of one device: while one half is on the wire, the other is copied.

    A stream that waits for the thread waits for a ticket, which the thread redeems. So a thread's work keeps
    its position in stream order, as a copy on that stream would. The tickets are numbers in a pinned word.
    """

    def __init__(self, device: int) -> None:
        """Allocates: call this while no stream waits for a thread."""
        self._driver, self._device, self._issued = cuda(), device, 0
        self._gpu = Gpu(device)
        with self._driver.on(device):
            self._address = self._pinned(HALVES * CHUNK_BYTES)
            self._word = ctypes.c_uint32.from_address(self._pinned(4096))
            self._word.value = 0
            self._word_on_device = self._driver.number(
                "cuMemHostGetDevicePointer_v2", ctypes.addressof(self._word), 0
            )

    def _pinned(self, size_bytes: int) -> int:
        return self._driver.number("cuMemHostAlloc", size_bytes, REGISTER_DEVICE_MAP | REGISTER_PORTABLE)

    def enter(self, stream: int | None) -> AbstractContextManager[None]:
        """Take a position in the order of a stream, or none. Returns a context for the thread, which begins
        once the work before the position is done; then the stream goes on. Enter the contexts in order.

        A copy is queued by the thread only when it can run. A copy that waits in a stream blocks all copies
        that share its hardware queue (CUDA_DEVICE_MAX_CONNECTIONS; seen on H200s), including those it waits
        for.
        """
        if stream is None:
            return self._turn(None)
        self._issued = ticket = (self._issued + 1) % (1 << 32)
        with self._driver.on(self._device):
            ready = self._gpu.record(stream)
            self._driver.call("cuStreamWaitValue32_v2", stream, self._word_on_device, ticket, WAIT_GEQ)
            self._gpu.mark(stream)
        return self._turn(ready, ticket)

    @contextmanager
    def _turn(self, ready: int | None, ticket: int = 0) -> Iterator[None]:
        try:
            self._driver.use(self._device)
            if ready is not None:
                until(lambda: self._gpu.passed(ready))
            yield
        finally:
            if ready is not None:
                self._word.value = ticket

    def out_of(self, what: Buffer) -> Iterator[tuple[int, int]]:
        """The contents of GPU memory, piece by piece: an address in pinned memory, and a size in bytes. Each
        is valid until the next one is requested.
        """
        copying: deque[tuple[int, int, int]] = deque()
        for half, offset, size in self._pieces(what):
            self._driver.copy(half, what.address + offset, size, self._gpu.stream)
            copying.append((self._gpu.record(self._gpu.stream), half, size))
            if len(copying) == HALVES:
                yield self._arrived(*copying.popleft())
        while copying:
            yield self._arrived(*copying.popleft())

    def into(self, what: Buffer) -> Iterator[tuple[int, int]]:
        """What to fill with the contents of GPU memory, piece by piece, as `out_of`: the caller has filled
        a piece when it requests the next one. All bytes are in place at the end.
        """
        copying: deque[int] = deque()
        for half, offset, size in self._pieces(what):
            if len(copying) == HALVES:
                self._arrived(copying.popleft())
            yield half, size
            self._driver.copy(what.address + offset, half, size, self._gpu.stream)
            copying.append(self._gpu.record(self._gpu.stream))
        self._driver.call("cuStreamSynchronize", self._gpu.stream)
        while copying:
            self._arrived(copying.popleft())

    def _pieces(self, what: Buffer) -> Iterator[tuple[int, int, int]]:
        """Of each piece: the half that holds it, its offset and its size in bytes."""
        for index, offset in enumerate(range(0, what.size_bytes, CHUNK_BYTES)):
            half = self._address + index % HALVES * CHUNK_BYTES
            yield half, offset, min(CHUNK_BYTES, what.size_bytes - offset)

    def _arrived(self, event: int, half: int = 0, size_bytes: int = 0) -> tuple[int, int]:
        # Yields the GIL: ctypes releases it for each call, and the copy of a piece takes 80 us at 50 GB/s.
        while not self._gpu.passed(event):
            continue
        return half, size_bytes

    def close(self) -> None:
        """Free everything after the last stream has passed. All tickets must be redeemed."""
        self._gpu.close()
        with self._driver.on(self._device):
            self._driver.call("cuMemFreeHost", self._address)
            self._driver.call("cuMemFreeHost", ctypes.addressof(self._word))
