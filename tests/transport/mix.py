"""Random messages, the same in two processes: all kinds of memory, on any stream or none.

    python -m tests.transport.mix mix|exchange PATH SEED GPU GPU [MODEL]

runs both sides; MODEL is a seed for `driver_model`, used instead of libcuda.
"""

from __future__ import annotations

import ctypes
import os
import random
import sys
from collections import deque
from functools import cache
from pathlib import Path

from gdrkit.agent.native.cuda_abi import REGISTER_PORTABLE, STREAM_NON_BLOCKING
from gdrkit.transport import Connection, Transfer, negotiation
from gdrkit.transport.buffers import Buffer
from gdrkit.transport.native.cuda import cuda
from tests.transport import driver_model
from tests.transport.peer import peer

IMPORT_MIX = f"""
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from tests.transport.mix import exchange, mix
"""
RING_BYTES = 8 << 20
"""Of the largest rings here, an eighth of what a program has: a short message wraps around them, too."""
LARGEST = 3 << 20
ONE_QUEUE = os.environ.get("CUDA_DEVICE_MAX_CONNECTIONS") == "1"
# A byte alone, behind whole pieces of either kind of staging, and after a ring's end: Cuda.copy.
SIZES = (0, 1, 4096, 100_000, (512 << 10) + 1, (1 << 20) + 1, LARGEST - 5, LARGEST)
IN_FLIGHT = 6
_PERIOD = 1_000_003  # a prime: no chunk is a multiple of it
_STEP = 104_729  # nor of this one


def mix(connection: Connection, gpu: int | None, side: int, seed: int, count: int = 60) -> None:
    """Run one side, and check every received byte. Without a GPU all memory is host memory."""
    draw = random.Random(seed)
    streams: list[int | None] = [0, None, None]
    if gpu is not None:
        cuda().use(gpu)
        streams += [cuda().number("cuStreamCreate", STREAM_NON_BLOCKING) for _ in range(3)]
    waiting: deque[tuple[Transfer, Buffer, Buffer, int, bool]] = deque()
    # Allocated first: allocating GPU memory can block on streams that wait for the other side.
    free = [_memory(device) for device in {gpu, None} for _ in range(IN_FLIGHT + 1)]
    if gpu is not None:
        _pinned(), _stream()
        for stream in filter(None, streams):  # the hardware queue that a stream used last matters: Gpu.wait
            cuda().call("cuMemcpyAsync", _pinned(), _memory(gpu).address, 64 << 10, stream)
            cuda().call("cuStreamSynchronize", stream)
    for index in range(count):
        size, sends = draw.choice(SIZES), draw.randrange(2) == side
        stream = streams[[draw.randrange(6) for _ in range(2)][side] % len(streams)]
        if ONE_QUEUE and size == 1 and not sends and stream is None:
            stream = streams[-1]  # else it may block, since other streams wait: Cuda.copy
        device = gpu if [draw.random() < 0.8 for _ in range(2)][side] else None
        if len(waiting) == IN_FLIGHT:
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


def exchange(connection: Connection, gpu: int | None, side: int, seed: int) -> None:
    """Both sides receive first and then send, without stream order: neither waits for the other."""
    if gpu is not None:
        cuda().use(gpu)
    out, into = _memory(gpu), _memory(gpu)
    for index, size in enumerate(SIZES * 3):
        coming = connection.recv(into.part(0, size), stream=None)
        _fill(out.part(0, size), 2 * index + side + seed)
        going = connection.send(out.part(0, size), stream=None)
        _check(coming, into, into.part(0, size), 2 * index + (1 - side) + seed, False)
        assert going.wait(60) == size


def _memory(device: int | None) -> Buffer:
    if device is None:
        memory = ctypes.create_string_buffer(LARGEST)
        return Buffer(ctypes.addressof(memory), LARGEST, None, memory)
    return Buffer(cuda().number("cuMemAlloc_v2", LARGEST), LARGEST, device, None)


def pattern(size: int, seed: int) -> bytes:
    """Bytes that depend on offset and message, so that misplaced bytes are found: random ones, from a place
    that no other message begins at."""
    begin = seed * _STEP % _PERIOD
    return _periods(max(size, LARGEST) // _PERIOD + 2)[begin : begin + size]


@cache
def _periods(count: int) -> bytes:
    return random.Random(0).randbytes(_PERIOD) * count


def _fill(what: Buffer, index: int) -> None:
    content = pattern(what.size_bytes, index)
    if what.device is None:
        ctypes.memmove(what.address, content, what.size_bytes)
    else:
        ctypes.memmove(_pinned(), content, what.size_bytes)
        _copy(what.address, _pinned(), what.size_bytes)


def _check(transfer: Transfer, memory: Buffer, what: Buffer, index: int, sent: bool) -> Buffer:
    assert transfer.wait(60) == what.size_bytes
    if not sent:
        address = what.address
        if what.device is not None:
            address = _pinned()
            _copy(address, what.address, what.size_bytes)
        assert ctypes.string_at(address, what.size_bytes) == pattern(what.size_bytes, index), index
    return memory


@cache
def _pinned() -> int:
    """Pinned memory. A copy between a GPU and other memory holds the driver's lock while it is queued, so no
    thread could queue the work that it waits for (seen on H200s).
    """
    return cuda().number("cuMemHostAlloc", LARGEST, REGISTER_PORTABLE)


@cache
def _stream() -> int:
    """A separate stream: the default stream may be waiting for a message."""
    return cuda().number("cuStreamCreate", STREAM_NON_BLOCKING)


def _copy(destination: int, source: int, size_bytes: int) -> None:
    if size_bytes:
        # As soak's: with one hardware queue a short plain copy would wait for streams that wait.
        cuda().copy(destination, source, max(2, size_bytes), _stream())
        cuda().call("cuStreamSynchronize", _stream())


def main() -> None:
    negotiation.RING_BYTES = RING_BYTES
    what, path, *numbers = sys.argv[1:]
    seed, here, there, *model = (int(number) for number in numbers)
    if model:
        driver_model.install(model[0])
    program = f"{IMPORT_MIX}\n{what}(c, gpu, 1, {seed})\nc.recv(bytearray(1)).wait(30)"
    with peer(program, path, gpus=(here, there), model=model[0] + 1 if model else None) as other:
        {"mix": mix, "exchange": exchange}[what](other.connection, here, 0, seed)
        other.connection.send(b"x").wait(30)
        assert other.finish() == 0


if __name__ == "__main__":
    main()
