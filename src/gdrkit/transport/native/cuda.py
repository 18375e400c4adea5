"""The CUDA driver functions that data transfers need, with every result checked.

A function that this libcuda does not have fails when it is called, not on import.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from gdrkit.agent.native.cuda import Copy2D, load
from gdrkit.agent.native.cuda_abi import (
    INVALID_VALUE,
    MEMORY_HOST,
    NOT_FOUND,
    NOT_READY,
    POINTER_DEVICE_ORDINAL,
    POINTER_MEMORY_TYPE,
    REGISTER_DEVICE_MAP,
    REGISTER_PORTABLE,
    SUCCESS,
)

_QUEUED_AS_COPY = 32 << 10
_CAPTURE_RELAXED = 2  # cuda.h, CU_STREAM_CAPTURE_MODE_RELAXED


class CudaError(Exception):
    """A CUDA driver call that failed: `call`, the CUresult `number`, and the driver's `name` for it."""

    def __init__(self, call: str, number: int, name: str) -> None:
        super().__init__(f"{call} returned {number} ({name})")
        self.call, self.number, self.name = call, number, name


class CudaNotAvailable(Exception):
    """No usable libcuda; the message gives the reason."""


class Cuda:
    """libcuda, loaded and initialised. Every method raises CudaError if the driver refuses a call.

    Uses the primary contexts, as PyTorch, CuPy and JAX do, so their pointers are valid here.
    """

    def __init__(self) -> None:
        try:
            self._library, _ = load()
        except OSError as error:
            raise CudaNotAvailable(str(error)) from None
        self._contexts: dict[int, int] = {}
        self.call("cuInit", 0)
        # They only use a thread-local variable; releasing the GIL for that would take longer.
        quick = load(keep_lock=True)[0]
        self._get_current = quick.cuCtxGetCurrent
        self.exchange_capture_mode = quick.cuThreadExchangeStreamCaptureMode

    def function(self, name: str) -> Any:
        """The function of that name, with its argument types set. Raises CudaError 500 if libcuda lacks
        it.
        """
        try:
            return getattr(self._library, name)
        except AttributeError:
            raise CudaError(
                name, NOT_FOUND, "CUDA_ERROR_NOT_FOUND: this libcuda has no such function"
            ) from None

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function. Raises CudaError for any result but CUDA_SUCCESS."""
        if result := self.function(name)(*arguments):
            raise self.error(name, result)

    def number(self, name: str, *arguments: Any) -> int:
        """Call a function that writes one number through its first argument, and return that number."""
        out = ctypes.c_uint64()
        if result := self.function(name)(ctypes.byref(out), *arguments):
            raise self.error(name, result)
        return out.value

    def error(self, name: str, result: int) -> CudaError:
        """The exception for a call that returned this number, with the driver's name for it."""
        text = ctypes.c_char_p()
        known = not self._library.cuGetErrorName(result, ctypes.byref(text)) and text.value
        return CudaError(name, result, known.decode("ascii") if known else "unknown to this driver")

    def device_count(self) -> int:
        return self.number("cuDeviceGetCount")

    def attribute(self, device: int, attribute: int) -> int:
        """cuDeviceGetAttribute. Raises CudaError if the driver does not know the attribute."""
        return self.number("cuDeviceGetAttribute", attribute, device)

    def address(self, device: int) -> str:
        """A device's PCI address as Linux writes it."""
        text = ctypes.create_string_buffer(32)
        self.call("cuDeviceGetPCIBusId", text, len(text), device)
        return text.value.decode("ascii").lower()

    def context(self, device: int) -> int:
        """The device's primary context, retained once."""
        if (found := self._contexts.get(device)) is None:
            found = self._contexts[device] = self.number("cuDevicePrimaryCtxRetain", device)
        return found

    def use(self, device: int) -> None:
        """Make the device's primary context current in this thread."""
        self.call("cuCtxSetCurrent", self.context(device))

    def on(self, device: int) -> _On:
        """`use` for a block. Afterwards the thread's previous context is current again.

        Calls in the block are allowed while another stream, of this thread or another one, captures a CUDA
        graph (CUDA driver API, cuThreadExchangeStreamCaptureMode): a query of an event would end the capture
        with an error (seen with PyTorch, whose captures forbid it to all threads).
        """
        return _On(self, self.context(device))

    def current(self) -> int:
        """The context that is current in this thread; 0 means none."""
        out = ctypes.c_uint64()
        if result := self._get_current(ctypes.byref(out)):
            raise self.error("cuCtxGetCurrent", result)
        return out.value

    def copy(self, destination: int, source: int, size_bytes: int, stream: int) -> None:
        """Queue a copy that always uses the copy queues, however small it is.

        cuMemcpyAsync puts copies to a GPU of less than 32 KiB into the queues in which streams wait for
        words. With few such queues (CUDA_DEVICE_MAX_CONNECTIONS) the copy is queued behind a stream that
        may be waiting for it. A copy of two rows is not (both seen on H200s, driver 580.159.04). A single
        byte cannot be two rows: it comes with a neighbour, from a GPU by `read`, and into a GPU by Gpu.land,
        where the stream that waits for it copies it.
        """
        half = size_bytes // 2
        if size_bytes >= _QUEUED_AS_COPY or not half:
            self.call("cuMemcpyAsync", destination, source, size_bytes, stream)
            return
        self.call("cuMemcpy2DAsync_v2", Copy2D.of(destination, source, half, 2), stream)
        if size_bytes % 2:  # copy the last two bytes again
            end = size_bytes - 2
            self.call("cuMemcpy2DAsync_v2", Copy2D.of(destination + end, source + end, 1, 2), stream)

    def read(self, destination: int, source: int, size_bytes: int, stream: int) -> int:
        """Queue a copy from a GPU to host memory, as `copy`. Returns the address at which the bytes will be.

        A single byte comes with a neighbour, so that it is two rows: there must be room for both.
        """
        if size_bytes == 1:
            base, size = self.allocation(source)
            at = min(source, base + size - 2)  # the last byte comes with the one before it
            if at >= base:
                self.copy(destination, at, 2, stream)
                return destination + source - at
        self.copy(destination, source, size_bytes, stream)
        return destination

    def map_host(self, address: int, size_bytes: int) -> int:
        """Register host memory, and return its address on the current device. If that fails, the memory
        does not stay registered.
        """
        self.call("cuMemHostRegister_v2", address, size_bytes, REGISTER_PORTABLE | REGISTER_DEVICE_MAP)
        try:
            return self.number("cuMemHostGetDevicePointer_v2", address, 0)
        except CudaError:
            self.call("cuMemHostUnregister", address)
            raise

    def device_of(self, pointer: int) -> int | None:
        """The device whose memory a pointer is in; None for host memory, registered or not."""
        try:
            kind = self.number("cuPointerGetAttribute", POINTER_MEMORY_TYPE, pointer)
        except CudaError as error:
            if error.number == INVALID_VALUE:  # memory unknown to CUDA
                return None
            raise
        if kind == MEMORY_HOST:
            return None
        return self.number("cuPointerGetAttribute", POINTER_DEVICE_ORDINAL, pointer)

    def allocation(self, pointer: int) -> tuple[int, int]:
        """The start address and the size in bytes of the allocation that a GPU pointer is in."""
        base, size = ctypes.c_uint64(), ctypes.c_size_t()
        self.call("cuMemGetAddressRange_v2", ctypes.byref(base), ctypes.byref(size), pointer)
        return base.value, size.value

    def event_done(self, event: int) -> bool:
        """Whether all work before the event is done. Raises the stream's error."""
        return self._is_ready("cuEventQuery", event)

    def stream_done(self, stream: int) -> bool:
        """Whether all work queued on the stream is done. Raises the stream's error."""
        return self._is_ready("cuStreamQuery", stream)

    def _is_ready(self, name: str, handle: int) -> bool:
        result: int = self.function(name)(handle)
        if result in (SUCCESS, NOT_READY):
            return result == SUCCESS
        raise self.error(name, result)


class _On:
    """A class and not a generator: every message uses it, and it takes a third of a generator's time."""

    __slots__ = ("_before", "_context", "_driver", "_mode")

    def __init__(self, driver: Cuda, context: int) -> None:
        self._driver, self._context = driver, context
        self._mode = ctypes.c_int()

    def __enter__(self) -> None:
        self._mode.value = _CAPTURE_RELAXED
        self._driver.exchange_capture_mode(ctypes.byref(self._mode))
        self._before = self._driver.current()
        if self._before != self._context:
            self._driver.call("cuCtxSetCurrent", self._context)

    def __exit__(self, *error: object) -> None:
        self._driver.exchange_capture_mode(ctypes.byref(self._mode))
        if self._before != self._context:
            self._driver.call("cuCtxSetCurrent", self._before)


@cache
def cuda() -> Cuda:
    """The one libcuda of this process.

    Raises CudaNotAvailable if it cannot be loaded, CudaError if cuInit fails.
    """
    return Cuda()
