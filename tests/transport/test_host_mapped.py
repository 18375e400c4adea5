"""Host memory that a kernel reads and writes in place, with another process at the other end."""

from __future__ import annotations

import array
import gc
import struct
import subprocess
import sys

import pytest

from gdrkit.transport import TransportError, buffer, generate_key, host_mapped, listen
from gdrkit.transport.native.cuda import CudaError, CudaNotAvailable, cuda
from tests.transport.kernel import HEAD_BYTES, Answer
from tests.transport.peer import PRELUDE, peer


def _gpus() -> int:
    try:
        return cuda().device_count()
    except (CudaNotAvailable, CudaError):
        return 0


GPUS = _gpus()
needs_gpu = pytest.mark.skipif(not GPUS, reason="needs an NVIDIA GPU")
COUNT = 100_000
SIZE = HEAD_BYTES + 4 * COUNT
ANSWERS = array.array("I", (3 * n + 1 for n in range(COUNT))).tobytes()


def test_memory_of_no_size_is_refused() -> None:
    with pytest.raises(TransportError, match="not a valid size: 0 bytes"):
        host_mapped(0, 0)


@pytest.mark.skipif(GPUS > 0, reason="there is a GPU")
def test_without_cuda_it_raises_an_error() -> None:
    with pytest.raises((CudaNotAvailable, CudaError)):
        host_mapped(4096, 0)


@needs_gpu
def test_both_interfaces_show_the_same_memory() -> None:
    with host_mapped(4096, 0) as memory:
        view = memoryview(memory).cast("B")
        view[:4] = b"here"
        assert buffer(memory)[:3] == (memory.address, 4096, None)
        interface = memory.__cuda_array_interface__
        assert (interface["shape"], interface["data"]) == ((4096,), (memory.device_address, False))
        assert cuda().device_of(memory.device_address) is None  # it is host memory
        view.release()
    with pytest.raises(TransportError, match="closed"):
        buffer(memory)
    assert not hasattr(memory, "__cuda_array_interface__")


@needs_gpu
def test_memory_that_was_not_closed_is_freed_with_its_last_reference() -> None:
    memory = host_mapped(1 << 20, 0)
    address = memory.address
    view = memoryview(memory)
    del memory
    gc.collect()
    with cuda().on(0):
        assert cuda().number("cuMemHostGetDevicePointer_v2", address, 0)
        view.release()
        del view
        gc.collect()
        with pytest.raises(CudaError, match="INVALID_VALUE"):
            cuda().number("cuMemHostGetDevicePointer_v2", address, 0)


@needs_gpu
@pytest.mark.parametrize("path", ["shared", "tcp"])
def test_a_kernel_changes_a_received_message_in_place_and_it_is_sent_back(path: str) -> None:
    program = f"""
import array
c.send(b"\\1\\0\\0\\0" + bytes({HEAD_BYTES - 4}) + array.array("I", range({COUNT})).tobytes()).wait(20)
back = bytearray({SIZE})
c.recv(back).wait(20)
assert back[{HEAD_BYTES}:] == array.array("I", (3 * n + 1 for n in range({COUNT}))).tobytes()
c.send(b"!").wait(20)
sys.stdin.read()
"""
    kernel = Answer(0)
    with peer(program, path) as other, host_mapped(SIZE, 0) as memory:
        other.connection.recv(memory).wait(20)
        kernel.launch(memory.device_address, COUNT)
        other.connection.send(memory, stream=kernel.stream).wait(20)
        other.connection.recv(bytearray(1)).wait(20)
    kernel.close()


OTHER = f"""
import array, struct
w = c.window({SIZE})
c.recv(bytearray(1)).wait(20)
assert w[4:8] == bytes(4)
w[{HEAD_BYTES}:] = array.array("I", range({COUNT})).tobytes()
w[:4] = struct.pack("<I", 1)
begun = time.monotonic()
while w[4:8] == bytes(4):
    assert time.monotonic() - begun < 60, "the kernel does not answer"
assert w[{HEAD_BYTES}:] == array.array("I", (3 * n + 1 for n in range({COUNT}))).tobytes()
c.send(b"!").wait(20)
sys.stdin.read()
"""


@needs_gpu
def test_a_running_kernel_answers_another_process_through_a_window() -> None:
    """They communicate only through the memory: the kernel waits for the process, and vice versa."""
    key, kernel = generate_key(), Answer(0)
    with listen("127.0.0.1", key=key, gpu=0, paths=("shared",)) as listener:
        program = PRELUDE + OTHER
        arguments = [str(listener.address[1]), key.hex(), "shared", str(GPUS - 1)]
        process = subprocess.Popen([sys.executable, "-c", program, *arguments], stdin=subprocess.PIPE)
        with listener.accept(30) as connection:
            window = connection.window(SIZE)
            kernel.launch(window.device_address, COUNT)
            connection.send(b"!").wait(20)
            connection.recv(bytearray(1)).wait(20)
            assert struct.unpack_from("<II", window) == (1, 1)
            assert window[HEAD_BYTES:] == ANSWERS
            kernel.close()
            window.close()
        assert process.stdin
        process.stdin.close()
        assert process.wait(20) == 0
