"""Messages among a program's CUDA streams: they run in their place, on whichever stream they are given."""

import ctypes

import pytest

from gdrkit.native.cuda import LIBRARY, STREAM_NON_BLOCKING, CudaError, NoCuda, cuda
from gdrkit.transport import TransportError
from gdrkit.transport.buffers import Buffer
from tests.transport.peer import peer

SIZE = 8 << 20
ECHO = """
import ctypes
from gdrkit.native.cuda import cuda
from gdrkit.transport.buffers import Buffer
driver = cuda()
driver.use(gpu)
while True:
    told = bytearray(8)
    c.recv(told).wait(20)
    size = int.from_bytes(told, "little")
    if not size:
        break
    there = Buffer(driver.number("cuMemAlloc_v2", size), size, gpu, None)
    c.recv(there).wait(20)
    c.send(there).wait(20)
    driver.call("cuMemFree_v2", there.address)
c.send(b"x").wait(20)
"""


def _gpus() -> int:
    try:
        return cuda().device_count()
    except (NoCuda, CudaError):
        return 0


GPUS = (0, max(0, _gpus() - 1))
pytestmark = pytest.mark.skipif(not _gpus(), reason="needs an NVIDIA GPU")
# One GPU cannot be its own peer.
PATHS = ["shared", "tcp"] + (["peer"] if _gpus() > 1 else [])
on_each_path = pytest.mark.parametrize("path", PATHS)


def filled(size: int, byte: int) -> Buffer:
    driver = cuda()
    driver.use(0)
    found = Buffer(driver.number("cuMemAlloc_v2", size), size, 0, None)
    driver.call("cuMemsetD8_v2", found.address, byte, size)
    return found


def contents(what: Buffer) -> bytes:
    room = ctypes.create_string_buffer(what.size_bytes)
    cuda().call("cuMemcpy", ctypes.addressof(room), what.address, what.size_bytes)
    return room.raw


@on_each_path
@pytest.mark.parametrize("size", [1, 4097, 1 << 20, (64 << 20) + 12345, 200 << 20])
def test_gpu_memory_of_every_size_comes_back_whole(path, size):
    with peer(ECHO, path, gpus=GPUS) as other:
        one, two = filled(size, 0x5A), filled(size, 0)
        other.connection.send(size.to_bytes(8, "little")).wait(20)
        other.connection.send(one, integrity=True).wait(20)
        other.connection.recv(two).wait(20)
        assert contents(two) == b"\x5a" * size
        other.connection.send(bytes(8)).wait(20)
        other.connection.recv(bytearray(1)).wait(20)


@on_each_path
@pytest.mark.parametrize("size", [4096, 1 << 20, SIZE])
def test_messages_on_several_streams_arrive_in_the_order_in_which_they_were_sent(path, size):
    program = f"""
from gdrkit.native.cuda import STREAM_NON_BLOCKING, cuda
from gdrkit.transport.buffers import Buffer
driver = cuda()
driver.use(gpu)
streams = [driver.number("cuStreamCreate", STREAM_NON_BLOCKING) for _ in range(3)] + [0]
there = [Buffer(driver.number("cuMemAlloc_v2", {size}), {size}, gpu, None) for _ in range(24)]
for index, memory in enumerate(there):
    driver.call("cuMemsetD8_v2", memory.address, index, {size})
waiting = [c.send(memory, stream=streams[index % 4]) for index, memory in enumerate(there)]
for transfer in waiting:
    transfer.wait(20)
c.recv(bytearray(1)).wait(20)
"""
    with peer(program, path, gpus=GPUS) as other:
        driver = cuda()
        driver.use(0)
        streams = [driver.number("cuStreamCreate", STREAM_NON_BLOCKING) for _ in range(5)] + [0]
        here = [filled(size, 0xFF) for _ in range(24)]
        transfers = [
            other.connection.recv(memory, stream=streams[index % 6]) for index, memory in enumerate(here)
        ]
        for transfer in transfers:
            transfer.wait(20)
        for index, memory in enumerate(here):
            assert contents(memory) == bytes([index]) * size
        other.connection.send(b"x").wait(20)


@on_each_path
@pytest.mark.parametrize("size", [4096, SIZE])
def test_work_queued_behind_a_message_finds_it_with_no_wait_on_the_host(path, size):
    with peer(ECHO, path, gpus=GPUS) as other:
        driver = cuda()
        one, two, copied = filled(size, 7), filled(size, 0), filled(size, 0)
        stream = driver.number("cuStreamCreate", STREAM_NON_BLOCKING)
        other.connection.send(size.to_bytes(8, "little")).wait(20)
        sent = other.connection.send(one, stream=stream)
        arrived = other.connection.recv(two, stream=stream)
        driver.call("cuMemcpyAsync", copied.address, two.address, size, stream)
        driver.call("cuStreamSynchronize", stream)
        assert contents(copied) == b"\x07" * size
        sent.wait(20)
        arrived.wait(20)
        other.connection.send(bytes(8)).wait(20)
        other.connection.recv(bytearray(1)).wait(20)


def test_a_stream_that_records_a_graph_is_refused_and_the_connection_goes_on():
    with peer(ECHO, "shared", gpus=GPUS) as other:
        driver = cuda()
        one = filled(4096, 7)
        stream = driver.number("cuStreamCreate", STREAM_NON_BLOCKING)
        library = ctypes.CDLL(LIBRARY)
        handle = ctypes.c_void_p(stream)
        assert library.cuStreamBeginCapture_v2(handle, 0) == 0
        try:
            with pytest.raises(TransportError, match="graph"):
                other.connection.send(one, stream=stream)
            with pytest.raises(TransportError, match="graph"):
                other.connection.recv(one, stream=stream)
        finally:
            assert library.cuStreamEndCapture(handle, ctypes.byref(ctypes.c_void_p())) == 0
        other.connection.send((4096).to_bytes(8, "little")).wait(20)
        other.connection.send(one, stream=stream).wait(20)
        other.connection.recv(one, stream=stream).wait(20)
        other.connection.send(bytes(8)).wait(20)
        other.connection.recv(bytearray(1)).wait(20)
