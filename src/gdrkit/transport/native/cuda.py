"""The CUDA driver's functions that moving bytes needs, each with its result checked.

A function that this libcuda lacks is an error of the call, not of the import.
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


class CudaError(Exception):
    """A call that the driver refused: `call`, the CUresult `number`, and the driver's `name` for it."""

    def __init__(self, call: str, number: int, name: str) -> None:
        super().__init__(f"{call} returned {number} ({name})")
        self.call, self.number, self.name = call, number, name


class CudaNotAvailable(Exception):
    """There is no usable libcuda; the message says why."""


class Cuda:
    """libcuda, loaded and initialised. Every method raises CudaError on a refusal.

    Contexts are the primary ones, which PyTorch, CuPy and JAX use too, so their pointers are valid here.
    """

    def __init__(self) -> None:
        try:
            self._library, _ = load()
        except OSError as error:
            raise CudaNotAvailable(str(error)) from None
        self._contexts: dict[int, int] = {}
        self.call("cuInit", 0)
        # It only reads a variable of this thread: to give up the interpreter's lock for that takes longer.
        self._get_current = load(keep_lock=True)[0].cuCtxGetCurrent

    def function(self, name: str) -> Any:
        """The function of that name, with its argument types set; CudaError 500 where libcuda lacks it."""
        try:
            return getattr(self._library, name)
        except AttributeError:
            raise CudaError(
                name, NOT_FOUND, "CUDA_ERROR_NOT_FOUND: this libcuda has no such function"
            ) from None

    def call(self, name: str, *arguments: Any) -> None:
        """Call it; anything but CUDA_SUCCESS is raised."""
        if result := self.function(name)(*arguments):
            raise self.error(name, result)

    def number(self, name: str, *arguments: Any) -> int:
        """Call what writes one number through its first argument, and return that number."""
        out = ctypes.c_uint64()
        if result := self.function(name)(ctypes.byref(out), *arguments):
            raise self.error(name, result)
        return out.value

    def error(self, name: str, result: int) -> CudaError:
        """What to raise for a call that returned this number, with the driver's name for it."""
        text = ctypes.c_char_p()
        known = not self._library.cuGetErrorName(result, ctypes.byref(text)) and text.value
        return CudaError(name, result, known.decode("ascii") if known else "unknown to this driver")

    def device_count(self) -> int:
        return self.number("cuDeviceGetCount")

    def attribute(self, device: int, attribute: int) -> int:
        """cuDeviceGetAttribute; CudaError where the driver does not know the number."""
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
        """`use` for a block. Afterwards the thread is on the device that its program had chosen."""
        return _On(self, self.context(device))

    def current(self) -> int:
        """The context that is current in this thread; 0 is none."""
        out = ctypes.c_uint64()
        if result := self._get_current(ctypes.byref(out)):
            raise self.error("cuCtxGetCurrent", result)
        return out.value

    def copy(self, to: int, of: int, size_bytes: int, stream: int) -> None:
        """A copy that takes its turn among copies, however small it is.

        cuMemcpyAsync puts less than 32 KiB for a GPU where streams wait for words: with few such queues
        (CUDA_DEVICE_MAX_CONNECTIONS) it stands behind a stream that may be waiting for it. Copies of two
        rows do not (both seen on H200s, driver 580.159.04). A single byte has no two rows.
        """
        half = size_bytes // 2
        if size_bytes >= _QUEUED_AS_COPY or not half:
            self.call("cuMemcpyAsync", to, of, size_bytes, stream)
            return
        self.call("cuMemcpy2DAsync_v2", Copy2D.of(to, of, half, 2), stream)
        if size_bytes % 2:  # the last two bytes once more
            end = size_bytes - 2
            self.call("cuMemcpy2DAsync_v2", Copy2D.of(to + end, of + end, 1, 2), stream)

    def map_host(self, address: int, size_bytes: int) -> int:
        """Register host memory, and return where the current device reaches it. None stays registered where
        that is refused."""
        self.call("cuMemHostRegister_v2", address, size_bytes, REGISTER_PORTABLE | REGISTER_DEVICE_MAP)
        try:
            return self.number("cuMemHostGetDevicePointer_v2", address, 0)
        except CudaError:
            self.call("cuMemHostUnregister", address)
            raise

    def release(self) -> None:
        """Give back every primary context that was retained here."""
        while self._contexts:
            device, _ = self._contexts.popitem()
            self.call("cuDevicePrimaryCtxRelease_v2", device)

    def device_of(self, pointer: int) -> int | None:
        """The device whose memory a pointer is in; None for host memory, registered or not."""
        try:
            kind = self.number("cuPointerGetAttribute", POINTER_MEMORY_TYPE, pointer)
        except CudaError as error:
            if error.number == INVALID_VALUE:  # memory that CUDA never heard of
                return None
            raise
        if kind == MEMORY_HOST:
            return None
        return self.number("cuPointerGetAttribute", POINTER_DEVICE_ORDINAL, pointer)

    def allocation(self, pointer: int) -> tuple[int, int]:
        """Where the allocation begins that a pointer into GPU memory lies in, and its bytes."""
        base, size = ctypes.c_uint64(), ctypes.c_size_t()
        self.call("cuMemGetAddressRange_v2", ctypes.byref(base), ctypes.byref(size), pointer)
        return base.value, size.value

    def event_done(self, event: int) -> bool:
        """Whether all that was recorded before the event is done; raises what the stream failed with."""
        return self._is_ready("cuEventQuery", event)

    def stream_done(self, stream: int) -> bool:
        """Whether all that was queued on the stream is done; raises what it failed with."""
        return self._is_ready("cuStreamQuery", stream)

    def _is_ready(self, name: str, handle: int) -> bool:
        result: int = self.function(name)(handle)
        if result in (SUCCESS, NOT_READY):
            return result == SUCCESS
        raise self.error(name, result)


class _On:
    """A class, and no generator: it stands in the way of every message, and takes a third of the time."""

    __slots__ = ("_before", "_context", "_driver")

    def __init__(self, driver: Cuda, context: int) -> None:
        self._driver, self._context = driver, context

    def __enter__(self) -> None:
        self._before = self._driver.current()
        if self._before != self._context:
            self._driver.call("cuCtxSetCurrent", self._context)

    def __exit__(self, *error: object) -> None:
        if self._before != self._context:
            self._driver.call("cuCtxSetCurrent", self._before)


@cache
def cuda() -> Cuda:
    """The one libcuda of this process.

    Raises NoCuda where it cannot be loaded, CudaError where cuInit refuses.
    """
    return Cuda()
