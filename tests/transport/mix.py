"""The same messages drawn by two processes: all kinds of memory, on any stream or none."""

from __future__ import annotations

import ctypes
import random
from collections import deque
from functools import lru_cache
from pathlib import Path

from gdrkit.native.cuda import STREAM_NON_BLOCKING, cuda
from gdrkit.transport import Connection, Transfer
from gdrkit.transport.buffers import Buffer

IMPORT_MIX = f"""
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from tests.transport.mix import mix
"""
LARGEST = 24 << 20
SIZES = (0, 1, 4096, 100_000, 1 << 20, 3_000_001, LARGEST - 5, LARGEST)
UNDER_WAY = 6
_PERIOD = 1_000_003  # a prime: no chunk is a multiple of it


def mix(connection: Connection, gpu: int | None, side: int, seed: int, count: int = 200) -> None:
    """Carry out one side's part, and check every byte that comes. Without a GPU all memory is the host's."""
    draw = random.Random(seed)
    streams: list[int | None] = [0, None, None]
    if gpu is not None:
        cuda().use(gpu)
        streams += [cuda().number("cuStreamCreate", STREAM_NON_BLOCKING) for _ in range(3)]
    waiting: deque[tuple[Transfer, Buffer, Buffer, int, bool]] = deque()
    # Made before: to allocate GPU memory may wait for streams, and those for the other side.
    free = [_memory(device) for device in {gpu, None} for _ in range(UNDER_WAY + 1)]
    for index in range(count):
        size, sends = draw.choice(SIZES), draw.randrange(2) == side
        stream = streams[[draw.randrange(6) for _ in range(2)][side] % len(streams)]
        device = gpu if [draw.random() < 0.8 for _ in range(2)][side] else None
        if len(waiting) == UNDER_WAY:
            free.append(_check(*waiting.popleft()))
        memory = next(found for found in free if found.device == device)
        free.remove(memory)
        what = memory.part(0, size)
        if sends:
            _fill(what, index)
        move = connection.send if sends else connection.recv
        waiting.append((move(what, stream=stream), memory, what, index, sends))
    for under_way in waiting:
        _check(*under_way)


def _memory(device: int | None) -> Buffer:
    if device is None:
        room = ctypes.create_string_buffer(LARGEST)
        return Buffer(ctypes.addressof(room), LARGEST, None, room)
    return Buffer(cuda().number("cuMemAlloc_v2", LARGEST), LARGEST, device, None)


def pattern(size: int, seed: int) -> bytes:
    """Bytes that show where they belong: what stands in another place, or in another message, differs."""
    return (_block(seed) * (size // _PERIOD + 1))[:size]


@lru_cache(maxsize=16)
def _block(seed: int) -> bytes:
    return random.Random(seed).randbytes(_PERIOD)


def _fill(what: Buffer, index: int) -> None:
    content = ctypes.create_string_buffer(pattern(what.size_bytes, index), what.size_bytes + 1)
    _copy(what.address, ctypes.addressof(content), what)


def _check(transfer: Transfer, memory: Buffer, what: Buffer, index: int, sent: bool) -> Buffer:
    assert transfer.wait(60) == what.size_bytes
    if not sent:
        room = ctypes.create_string_buffer(what.size_bytes + 1)
        _copy(ctypes.addressof(room), what.address, what)
        assert room.raw[:-1] == pattern(what.size_bytes, index), index
    return memory


def _copy(to: int, of: int, what: Buffer) -> None:
    """On a stream of its own: the default stream may wait for a message."""
    if what.device is None:
        ctypes.memmove(to, of, what.size_bytes)
    elif what.size_bytes:
        stream = cuda().number("cuStreamCreate", STREAM_NON_BLOCKING)
        cuda().call("cuMemcpyAsync", to, of, what.size_bytes, stream)
        cuda().call("cuStreamSynchronize", stream)
        cuda().call("cuStreamDestroy_v2", stream)
