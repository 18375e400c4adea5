"""Memory of any library: the supported interfaces, and what is refused."""

import array
import sys
from types import ModuleType, SimpleNamespace

import pytest

from gdrkit.transport import TransportError, buffer
from gdrkit.transport.buffers import current_stream, memory


@pytest.mark.parametrize(
    "thing", [b"12345678", bytearray(8), memoryview(bytearray(8)), array.array("d", [1.0])]
)
def test_the_buffer_protocol_gives_address_and_size(thing):
    found = buffer(thing)
    assert (found.size_bytes, found.device) == (8, None)
    assert bytes(memory(found.address, 8)) == bytes(memoryview(thing).cast("B"))


def test_an_empty_buffer_has_no_bytes():
    assert buffer(b"").size_bytes == 0


def test_the_memory_lives_as_long_as_the_buffer():
    found = buffer(bytearray(b"abcdefgh"))
    assert bytes(memory(found.address, 8)) == b"abcdefgh"


def test_strided_memory_is_refused():
    with pytest.raises(TransportError, match="not contiguous"):
        buffer(memoryview(bytearray(16))[::2])


def test_read_only_memory_is_refused_for_receiving():
    with pytest.raises(TransportError, match="read-only"):
        buffer(b"constant", writable=True)


def test_an_object_without_memory_is_refused():
    with pytest.raises(TransportError, match="int exposes no memory"):
        buffer(5)


def test_a_part_cannot_extend_beyond_the_memory():
    whole = buffer(bytearray(10))
    assert whole.part(4, 6).address == whole.address + 4
    for offset, size in [(5, 6), (-1, 2), (0, 11)]:
        with pytest.raises(TransportError, match="do not fit"):
            whole.part(offset, size)


class _OnGpu:
    """The interface of a GPU array, for refusals that need no driver."""

    def __init__(
        self, shape: tuple[int, ...], strides: tuple[int, ...] | None, read_only: bool = False
    ) -> None:
        self.__cuda_array_interface__ = {
            "shape": shape, "strides": strides, "typestr": "<f4", "data": (0, read_only), "version": 3,
        }  # fmt: skip


def test_a_strided_gpu_array_is_refused():
    with pytest.raises(TransportError, match="not contiguous"):
        buffer(_OnGpu((4, 4), (32, 4)))


def test_a_read_only_gpu_array_is_refused_for_receiving():
    with pytest.raises(TransportError, match="read-only"):
        buffer(_OnGpu((4,), None, read_only=True), writable=True)


def test_a_read_only_gpu_array_can_be_sent():
    assert buffer(_OnGpu((4,), None, read_only=True)).size_bytes == 16


@pytest.mark.parametrize(("shape", "strides", "size"), [((1, 4), (999, 4), 16), ((0, 4), (1, 1), 0)])
def test_strides_without_a_next_item_do_not_matter(shape, strides, size):
    assert buffer(_OnGpu(shape, strides)).size_bytes == size


class _Current:
    """An object with the CUDA array interface of a library that says which stream is current."""

    def __init__(self, stream):
        self.__cuda_array_interface__ = {"shape": (1,), "typestr": "|u1", "data": (1, False), "version": 3}
        if stream != "none said":
            self.__cuda_array_interface__["stream"] = stream


@pytest.mark.parametrize(
    ("said", "stream"), [(140_000, 140_000), (1, 0), (2, 2), (None, 0), ("none said", 0)]
)
def test_the_current_stream_is_what_the_library_says(said, stream):
    assert current_stream(_Current(said)) == stream


def test_the_current_stream_of_a_tensor_is_that_of_pytorch_on_its_device(monkeypatch):
    torch = ModuleType("torch")
    torch.Tensor = type("Tensor", (), {"is_cuda": True, "device": "cuda:1"})
    streams = {"cuda:1": SimpleNamespace(cuda_stream=77)}
    torch.cuda = SimpleNamespace(current_stream=streams.__getitem__)
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert current_stream(torch.Tensor()) == 77
    torch.Tensor.is_cuda = False
    assert current_stream(torch.Tensor()) == 0


def test_host_memory_has_no_stream():
    assert current_stream(bytearray(1)) == current_stream(memoryview(b"x")) == 0
