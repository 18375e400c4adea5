"""Messages on a program's CUDA streams: they keep stream order, on every stream."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from gdrkit.agent.native.cuda_abi import LIBRARIES, STREAM_NON_BLOCKING
from gdrkit.transport import PeerLost, TransportError, transfer
from gdrkit.transport.buffers import Buffer
from gdrkit.transport.native.cuda import CudaError, CudaNotAvailable, cuda
from tests.transport import driver_model
from tests.transport.mix import IMPORT_MIX, RING_BYTES, pattern
from tests.transport.peer import peer

SIZE = RING_BYTES // 4
LARGE = 3 * RING_BYTES
ECHO = """
SLEEP = 0
import ctypes
from gdrkit.transport.native.cuda import cuda
from gdrkit.transport.buffers import Buffer
driver = cuda()
driver.use(gpu)
while True:
    message = bytearray(8)
    c.recv(message).wait(60)
    size = int.from_bytes(message, "little")
    time.sleep(SLEEP)
    if not size:
        break
    there = Buffer(driver.number("cuMemAlloc_v2", size), size, gpu, None)
    c.recv(there).wait(60)
    c.send(there).wait(60)
    driver.call("cuMemFree_v2", there.address)
c.send(b"x").wait(60)
sys.stdin.read()
"""


def _gpus() -> int:
    try:
        return cuda().device_count()
    except (CudaNotAvailable, CudaError):
        return 0


REAL_GPUS = _gpus()


@pytest.fixture(scope="module", params=["gpu", "model"], autouse=True)
def driver(request):
    """Real GPUs, then a model of their streams, which has no realistic speed but runs everywhere."""
    if request.param == "gpu":
        if not REAL_GPUS:
            pytest.skip("needs an NVIDIA GPU")
        yield "gpu"
    else:
        driver_model.install(0)
        yield "model"
        driver_model.uninstall()


@pytest.fixture(params=["shared", "tcp", "peer"])
def path(request, driver):
    if request.param == "peer" and driver == "gpu" and REAL_GPUS < 2:
        pytest.skip("needs an NVIDIA GPU, and a second one: a GPU is not its own peer")
    return request.param


@pytest.fixture
def beside(path, driver):
    """`peer` with a path, and a GPU on each side."""
    return partial(_peer, path, driver)


def _peer(path, driver, program):
    gpus = (0, 1 if driver == "model" else REAL_GPUS - 1)
    return peer(program, path, gpus=gpus, model=1 if driver == "model" else None)


def filled(size: int, seed: int) -> Buffer:
    driver = cuda()
    driver.use(0)
    found = Buffer(driver.number("cuMemAlloc_v2", size), size, 0, None)
    source = ctypes.create_string_buffer(pattern(size, seed), size + 1)
    driver.call("cuMemcpy", found.address, ctypes.addressof(source), size)
    driver.call("cuStreamSynchronize", 0)
    return found


def contents(what: Buffer) -> bytes:
    copied = ctypes.create_string_buffer(what.size_bytes)
    cuda().call("cuMemcpy", ctypes.addressof(copied), what.address, what.size_bytes)
    return copied.raw


@pytest.mark.parametrize("size", [1, 4097, 1 << 20, RING_BYTES + 12345, LARGE])
def test_gpu_memory_of_every_size_comes_back_whole(beside, size):
    with beside(ECHO) as other:
        one, two = filled(size, 0x5A), filled(size, 0)
        other.connection.send(size.to_bytes(8, "little")).wait(60)
        other.connection.send(one, integrity=True).wait(60)
        other.connection.recv(two).wait(60)
        assert contents(two) == pattern(size, 0x5A)
        other.connection.send(bytes(8)).wait(60)
        other.connection.recv(bytearray(1)).wait(60)


def test_a_single_byte_comes_from_any_place_of_its_allocation_and_leaves_the_others(beside):
    with beside(ECHO) as other:
        one, two = filled(3, 0x5A), filled(3, 0)
        for offset in (2, 0):
            other.connection.send((1).to_bytes(8, "little")).wait(60)
            other.connection.send(one.part(offset, 1)).wait(60)
            other.connection.recv(two.part(offset, 1)).wait(60)
        sent, kept = pattern(3, 0x5A), pattern(3, 0)
        assert contents(two) == bytes([sent[0], kept[1], sent[2]])
        other.connection.send(bytes(8)).wait(60)
        other.connection.recv(bytearray(1)).wait(60)


@pytest.mark.parametrize("size", [1, 4096, 1 << 20, SIZE])
def test_messages_on_several_streams_arrive_in_the_order_in_which_they_were_sent(beside, size):
    program = f"""{IMPORT_MIX}
import ctypes
from tests.transport.mix import pattern
from gdrkit.agent.native.cuda_abi import STREAM_NON_BLOCKING
from gdrkit.transport.native.cuda import cuda
from gdrkit.transport.buffers import Buffer
driver = cuda()
driver.use(gpu)
streams = [driver.number("cuStreamCreate", STREAM_NON_BLOCKING) for _ in range(3)] + [0]
there = [Buffer(driver.number("cuMemAlloc_v2", {size}), {size}, gpu, None) for _ in range(24)]
for index, memory in enumerate(there):
    source = ctypes.create_string_buffer(pattern({size}, index), {size} + 1)
    driver.call("cuMemcpy", memory.address, ctypes.addressof(source), {size})
driver.call("cuStreamSynchronize", 0)
waiting = [c.send(memory, stream=streams[index % 4]) for index, memory in enumerate(there)]
for transfer in waiting:
    transfer.wait(60)
c.recv(bytearray(1)).wait(60)
"""
    with beside(program) as other:
        driver = cuda()
        driver.use(0)
        streams = [driver.number("cuStreamCreate", STREAM_NON_BLOCKING) for _ in range(5)] + [0]
        here = [filled(size, 0xFF) for _ in range(24)]
        transfers = [
            other.connection.recv(memory, stream=streams[index % 6]) for index, memory in enumerate(here)
        ]
        for transfer in transfers:
            transfer.wait(60)
        for index, memory in enumerate(here):
            assert contents(memory) == pattern(size, index)
        other.connection.send(b"x").wait(60)


@pytest.mark.parametrize(("connections", "seed"), [(1, 1), (8, 2)])
def test_mixed_messages_of_all_kinds_and_streams_arrive_whole(path, driver, connections, seed):
    """Also if all streams share one hardware queue, in which a waiting copy blocks all others."""
    both_sides("mix", path, driver, connections, seed)


@pytest.mark.parametrize("connections", [1, 8])
def test_mixed_messages_arrive_whole_between_two_processes_on_one_gpu(path, driver, connections):
    """A copy within a GPU is not queued among the copies: with one hardware queue it would be queued behind
    the stream that waits for it.
    """
    both_sides("mix", path, driver, connections, 3, ("0", "0"))


@pytest.mark.parametrize("connections", [1, 8])
def test_without_stream_order_both_sides_may_receive_first(path, driver, connections):
    both_sides("exchange", path, driver, connections, 1)


def both_sides(what, path, driver, connections, seed, gpus=None):
    """Run `tests.transport.mix` in processes with this number of hardware queues."""
    gpus = gpus or ("0", "1" if driver == "model" else str(REAL_GPUS - 1))
    command = [sys.executable, "-m", "tests.transport.mix", what, path, str(seed), *gpus]
    running = subprocess.Popen(
        command + [str(seed)] * (driver == "model"),
        env={**os.environ, "CUDA_DEVICE_MAX_CONNECTIONS": str(connections)},
        cwd=Path(__file__).parents[2],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        words = running.communicate(timeout=60)[1]
    except subprocess.TimeoutExpired:
        os.killpg(running.pid, signal.SIGKILL)  # including the process that it has started
        words = running.communicate()[1]
    assert running.returncode == 0, words[-2000:]


def test_a_message_without_stream_order_arrives_even_if_no_thread_waits_for_it(beside):
    with beside(ECHO) as other:
        size = LARGE
        one, two = filled(size, 0x33), filled(size, 0)
        other.connection.send(size.to_bytes(8, "little")).wait(60)
        other.connection.send(one, stream=None).wait(60)
        arriving = other.connection.recv(two, stream=None)
        end, deadline = two.part(size - 64, 64), time.monotonic() + 60
        while contents(end) != pattern(size, 0x33)[-64:] and time.monotonic() < deadline:
            time.sleep(0.01)
        assert contents(end) == pattern(size, 0x33)[-64:]
        other.connection.send(bytes(8)).wait(60)
        assert arriving.wait(60) == size
        assert contents(two) == pattern(size, 0x33)
        other.connection.recv(bytearray(1)).wait(60)


def test_a_program_may_wait_for_its_messages_in_any_order(beside):
    """More of them than can be announced at a time (64), the last one first."""
    program = """
from gdrkit.transport.buffers import Buffer
from gdrkit.transport.native.cuda import cuda
cuda().use(gpu)
what = Buffer(cuda().number("cuMemAlloc_v2", 4096), 4096, gpu, None)
for _ in range(200):
    c.send(what, stream=None).wait(60)
c.send(b"x").wait(60)
sys.stdin.read()
"""
    with beside(program) as other:
        into = filled(4096, 0)
        for _ in range(4):
            arriving = [other.connection.recv(into, stream=None) for _ in range(50)]
            for transfer in reversed(arriving):
                transfer.wait(60)
        other.connection.recv(bytearray(1)).wait(60)


@pytest.mark.parametrize("stream", [0, None])
def test_the_death_of_the_other_process_ends_all_waits_for_it(beside, stream):
    with beside("sys.stdin.read()") as other:
        one, two = filled(LARGE, 1), filled(SIZE, 2)
        waiting = [other.connection.send(one, stream=stream) for _ in range(2)]
        waiting += [other.connection.recv(two, stream=stream) for _ in range(3)]
        other.kill()
        for transfer in waiting:
            with pytest.raises(PeerLost):
                transfer.wait(60)
        other.connection.close()
        cuda().call("cuStreamSynchronize", 0)


def test_a_program_keeps_its_current_gpu(beside):
    """PyTorch and others use the thread's current context as the device that their program has chosen."""
    with beside(ECHO) as other:
        driver = cuda()
        one = filled(SIZE, 1)
        if driver.device_count() < 2:
            pytest.skip("needs an NVIDIA GPU, and a second one")
        driver.use(1)
        chosen = driver.number("cuCtxGetCurrent")
        other.connection.send(SIZE.to_bytes(8, "little")).wait(60)
        for stream in (0, None):
            other.connection.send(one, stream=stream, integrity=True).wait(60)
            assert driver.number("cuCtxGetCurrent") == chosen
            other.connection.recv(one, stream=stream).wait(60)
            assert driver.number("cuCtxGetCurrent") == chosen
            other.connection.send((0 if stream is None else SIZE).to_bytes(8, "little")).wait(60)
        other.connection.recv(bytearray(1)).wait(60)
    assert driver.number("cuCtxGetCurrent") == chosen


def test_a_sender_does_not_overwrite_what_the_receiver_has_not_read(beside):
    with beside(ECHO.replace("SLEEP = 0", "SLEEP = 0.3")) as other:
        size = LARGE
        one, two = filled(size, 1), filled(size, 0)
        for stream in (0, None):
            other.connection.send(size.to_bytes(8, "little")).wait(60)
            other.connection.send(one, stream=stream).wait(60)
            other.connection.recv(two, stream=stream).wait(60)
            assert contents(two) == pattern(size, 1)
        other.connection.send(bytes(8)).wait(60)
        other.connection.recv(bytearray(1)).wait(60)


def test_a_change_of_the_kind_of_memory_does_not_wait_for_a_process_that_is_gone(beside):
    with beside("sys.stdin.read()") as other:
        killing = threading.Timer(0.5, other.kill)
        killing.start()
        with pytest.raises(PeerLost):
            other.connection.recv(filled(SIZE, 0))
            other.connection.recv(bytearray(1)).wait(60)
        killing.join()


CLOSES_EARLY = """
import ctypes, threading
from gdrkit.transport.buffers import Buffer
from gdrkit.transport.native.cuda import cuda
from tests.transport.mix import pattern
driver = cuda()
driver.use(gpu)
size = int.from_bytes(sys.stdin.buffer.read(4), "little")
what = Buffer(driver.number("cuMemAlloc_v2", size), size, gpu, None)
content = ctypes.create_string_buffer(pattern(size, 9))
driver.call("cuMemcpy", what.address, ctypes.addressof(content), size)
gate = driver.number("cuMemHostAlloc", 4096, 3)
ctypes.memset(gate, 0, 4096)
stream = driver.number("cuStreamCreate", 1)
driver.call("cuStreamWaitValue32_v2", stream, gate, 1, 0)
c.send(what, stream=stream)
threading.Timer(0.3, ctypes.memset, (gate, 1, 1)).start()
c.close()
sys.stdin.read()
"""


@pytest.mark.parametrize("size", [4096, SIZE])
@pytest.mark.parametrize("stream", [0, None])
def test_a_message_whose_sender_closes_before_it_is_sent_arrives_whole_or_not(
    beside, size, stream, monkeypatch
):
    monkeypatch.setattr(transfer, "GRACE_SECONDS", 1.0)
    with beside(CLOSES_EARLY) as other:
        into = filled(size, 0)
        arriving = other.connection.recv(into, stream=stream)
        other.process.stdin.write(size.to_bytes(4, "little"))
        other.process.stdin.flush()
        try:
            arriving.wait(60)
        except PeerLost:
            return
        assert contents(into) == pattern(size, 9)


@pytest.mark.parametrize("size", [4096, SIZE])
def test_a_message_comes_after_earlier_work_on_its_stream(beside, size):
    with beside(ECHO) as other:
        driver = cuda()
        one, into, old = filled(size, 9), filled(size, 0), filled(size, 5)
        word = driver.number("cuMemHostAlloc", 4096, 3)
        ctypes.memset(word, 0, 4096)
        stream = driver.number("cuStreamCreate", STREAM_NON_BLOCKING)
        other.connection.send(size.to_bytes(8, "little")).wait(60)
        driver.call("cuStreamWaitValue32_v2", stream, word, 1, 0)
        driver.call("cuMemcpyAsync", into.address, old.address, size, stream)
        arriving = other.connection.recv(into, stream=stream)
        other.connection.send(one, stream=None).wait(60)
        time.sleep(0.1)
        assert contents(into) == pattern(size, 0)  # the message may have arrived, but must not be copied yet
        ctypes.c_uint32.from_address(word).value = 1
        arriving.wait(60)
        assert contents(into) == pattern(size, 9)
        other.connection.send(bytes(8)).wait(60)
        other.connection.recv(bytearray(1)).wait(60)


@pytest.mark.parametrize("size", [4096, SIZE])
def test_work_queued_after_a_message_sees_it_without_a_wait_on_the_host(beside, size):
    with beside(ECHO) as other:
        driver = cuda()
        one, two, copied = filled(size, 7), filled(size, 0), filled(size, 0)
        stream = driver.number("cuStreamCreate", STREAM_NON_BLOCKING)
        other.connection.send(size.to_bytes(8, "little")).wait(60)
        sent = other.connection.send(one, stream=stream)
        arrived = other.connection.recv(two, stream=stream)
        driver.call("cuMemcpyAsync", copied.address, two.address, size, stream)
        driver.call("cuStreamSynchronize", stream)
        assert contents(copied) == pattern(size, 7)
        sent.wait(60)
        arrived.wait(60)
        other.connection.send(bytes(8)).wait(60)
        other.connection.recv(bytearray(1)).wait(60)


def test_a_stream_that_captures_a_graph_is_refused_and_the_connection_still_works(beside, driver):
    if driver == "model":
        pytest.skip("needs an NVIDIA GPU")
    with beside(ECHO) as other:
        driver = cuda()
        one = filled(4096, 7)
        stream = driver.number("cuStreamCreate", STREAM_NON_BLOCKING)
        library = ctypes.CDLL(LIBRARIES[0])
        handle = ctypes.c_void_p(stream)
        assert library.cuStreamBeginCapture_v2(handle, 0) == 0
        try:
            with pytest.raises(TransportError, match="graph"):
                other.connection.send(one, stream=stream)
            with pytest.raises(TransportError, match="graph"):
                other.connection.recv(one, stream=stream)
        finally:
            assert library.cuStreamEndCapture(handle, ctypes.byref(ctypes.c_void_p())) == 0
        other.connection.send((4096).to_bytes(8, "little")).wait(60)
        other.connection.send(one, stream=stream).wait(60)
        other.connection.recv(one, stream=stream).wait(60)
        other.connection.send(bytes(8)).wait(60)
        other.connection.recv(bytearray(1)).wait(60)
