"""Any library's memory as an address, a size and a device: CUDA array interface, DLPack, buffer protocol."""

from __future__ import annotations

import ctypes
import math
import sys
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from gdrkit.agent.native.cuda_abi import STREAM_NON_BLOCKING
from gdrkit.transport.errors import TransportError
from gdrkit.transport.mapped import MappedMemory
from gdrkit.transport.native.cuda import cuda

_CHECK_BYTES = 16 << 20  # GPU memory copied to the host at a time for a CRC
_LEGACY_STREAM = 1  # CUDA array interface, version 3: the default stream
_PY_BUFFER_WORDS = 10  # Py_buffer of CPython's object.h; the first word is the address
_DLPACK_DEVICE_CUDA, _DLPACK_DEVICE_CUDA_HOST = 2, 3  # dlpack.h, DLDeviceType


class Buffer(NamedTuple):
    """A contiguous range of memory. `device` is the CUDA ordinal of its GPU, or None for host memory;
    `owner` keeps the memory alive.
    """

    address: int
    size_bytes: int
    device: int | None
    owner: Any

    def part(self, offset: int, size_bytes: int) -> Buffer:
        """Part of this memory. Raises TransportError if the part extends beyond the end."""
        if offset < 0 or size_bytes < 0 or offset + size_bytes > self.size_bytes:
            raise TransportError(f"{size_bytes} bytes at {offset} do not fit into {self.size_bytes} bytes")
        return Buffer(self.address + offset, size_bytes, self.device, self.owner)

    def crc32(self) -> int:
        """The CRC-32 of the contents. Slow for GPU memory, which is copied to the host first."""
        if self.device is None:
            return zlib.crc32(memory(self.address, self.size_bytes)) if self.size_bytes else 0
        driver, crc = cuda(), 0
        chunk = ctypes.create_string_buffer(min(_CHECK_BYTES, self.size_bytes))
        with driver.on(self.device):
            # A separate stream: the default stream may be waiting for other messages.
            stream = driver.number("cuStreamCreate", STREAM_NON_BLOCKING)
            try:
                for offset in range(0, self.size_bytes, _CHECK_BYTES):
                    size = min(_CHECK_BYTES, self.size_bytes - offset)
                    destination = ctypes.addressof(chunk)
                    driver.call("cuMemcpyAsync", destination, self.address + offset, size, stream)
                    driver.call("cuStreamSynchronize", stream)
                    crc = zlib.crc32(memoryview(chunk)[:size], crc)
            finally:
                driver.call("cuStreamDestroy_v2", stream)
        return crc


def memory(address: int, size_bytes: int) -> memoryview:
    """A memoryview of host memory at an address, for sockets."""
    return memoryview((ctypes.c_char * size_bytes).from_address(address)).cast("B")


def buffer(thing: Any, *, writable: bool = False) -> Buffer:
    """The memory of a tensor, an array, bytes or any other object that exposes its memory.

    Tried in this order: Buffer itself, memory of `host_mapped` and `window`, `__cuda_array_interface__`
    (PyTorch on CUDA, CuPy, Numba), `__dlpack__` on a CUDA device (JAX), the buffer protocol (NumPy,
    bytearray, bytes), `__dlpack__` on the host. Raises TransportError if the memory is not contiguous, is
    read-only although `writable` is true, or is closed, and if the object exposes no memory.

    Source: numba's "CUDA Array Interface (Version 3)", dlpack.h 1.0, PEP 3118.
    """
    if isinstance(thing, Buffer):
        return thing
    if isinstance(thing, MappedMemory):  # host memory, although it has a GPU address too
        if not thing.address:
            raise TransportError("the memory is closed")
        return Buffer(thing.address, thing.size_bytes, None, thing)
    if (interface := _cuda_array_interface(thing)) is not None:
        return _of_interface(thing, interface, writable)
    if hasattr(thing, "__dlpack_device__") and thing.__dlpack_device__()[0] == _DLPACK_DEVICE_CUDA:
        return _of_dlpack(thing)
    try:
        view = memoryview(thing)
    except (TypeError, BufferError):
        if hasattr(thing, "__dlpack__"):
            return _of_dlpack(thing)
        raise TransportError(f"{type(thing).__name__} exposes no memory") from None
    if not view.c_contiguous:
        raise TransportError("the memory is not contiguous")
    if writable and view.readonly:
        raise TransportError("the memory is read-only")
    return Buffer(_address_of(view), view.nbytes, None, (thing, view))


def current_stream(thing: Any) -> int:
    """The stream on which PyTorch works on its tensors now, or a library that names one in the CUDA array
    interface (CuPy); else the default stream, 0.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(thing, torch.Tensor):
        return int(torch.cuda.current_stream(thing.device).cuda_stream) if thing.is_cuda else 0
    stream = (_cuda_array_interface(thing) or {}).get("stream")
    return int(stream) if stream and stream != _LEGACY_STREAM else 0


def _cuda_array_interface(thing: Any) -> dict[str, Any] | None:
    try:
        interface = thing.__cuda_array_interface__
    except (AttributeError, TypeError):  # the property of PyTorch's CPU tensors raises
        return None
    return interface if isinstance(interface, dict) else None


def _of_interface(thing: Any, interface: dict[str, Any], writable: bool) -> Buffer:
    item, shape = int(interface["typestr"][2:]), tuple(interface["shape"])
    if (strides := interface.get("strides")) is not None:
        _check_contiguous(shape, strides, item)
    address, read_only = interface["data"]
    if writable and read_only:
        raise TransportError("the memory is read-only")
    size = item * math.prod(shape)
    return Buffer(address, size, cuda().device_of(address) if address else None, thing)


def _check_contiguous(shape: Sequence[int], strides: Sequence[int], step: int) -> None:
    """Raise TransportError unless each item lies `step` after the one before. The stride of a dimension
    with one item does not matter.
    """
    for length, stride in zip(reversed(shape), reversed(strides)):  # noqa: B905 (Python 3.9)
        if length > 1 and stride != step and 0 not in shape:
            raise TransportError("the memory is not contiguous")
        step *= length


class _Device(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class _DataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    """DLTensor of dlpack.h, the first member of every managed tensor."""

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("device", _Device),
        ("dimensions", ctypes.c_int32),
        ("type", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


def _of_dlpack(thing: Any) -> Buffer:
    capsule = thing.__dlpack__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    tensor = _Tensor.from_address(pointer(capsule, b"dltensor"))
    shape = [tensor.shape[index] for index in range(tensor.dimensions)]
    size = math.prod(shape) * tensor.type.bits * tensor.type.lanes // 8
    if tensor.strides:
        _check_contiguous(shape, tensor.strides[: tensor.dimensions], 1)
    on_gpu = tensor.device.type == _DLPACK_DEVICE_CUDA
    if not on_gpu and tensor.device.type not in (1, _DLPACK_DEVICE_CUDA_HOST):
        raise TransportError(f"DLPack device type {tensor.device.type} is neither host nor CUDA")
    # The capsule is kept, not consumed: its destructor frees the tensor when the Buffer is freed.
    return Buffer(
        tensor.data + tensor.byte_offset, size, tensor.device.id if on_gpu else None, (thing, capsule)
    )


def _address_of(view: memoryview) -> int:
    if not view.nbytes:
        return 0
    if not view.readonly:
        return ctypes.addressof(ctypes.c_char.from_buffer(view.cast("B")))
    raw = (ctypes.c_void_p * _PY_BUFFER_WORDS)()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(view), raw, 0)
    address = raw[0]
    ctypes.pythonapi.PyBuffer_Release(raw)
    return int(address or 0)
