"""A window: memory that two processes of a machine both map, and both their GPUs, where they have one."""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref
from collections.abc import Callable
from typing import Any

from gdrkit.transport import protocol
from gdrkit.transport.errors import PathUnavailable, TransportError
from gdrkit.transport.mapped import MappedMemory
from gdrkit.transport.native.cuda import CudaError, CudaNotAvailable, cuda
from gdrkit.transport.ring import new_file, open_file, remove


class Window(MappedMemory, mmap.mmap):
    """What one process writes there the other reads, by CPU or by GPU, with no transfer at all.

    Nothing orders the two but what the program does: a message after the writes, or flags that a kernel
    accesses with .release and .acquire at system scope. It stays mapped until it is closed, the other
    side's end and the end of the connection notwithstanding.
    """

    _unpin: weakref.finalize[Any, Any] | None

    def __new__(cls, descriptor: int, size_bytes: int, gpu: int | None) -> Window:
        """Map a file, and register it with CUDA for the GPU. Raises TransportError where that is refused."""
        made = super().__new__(cls, descriptor, size_bytes)
        made.address = ctypes.addressof(ctypes.c_char.from_buffer(made))
        made.size_bytes, made.gpu, made.device_address, made._unpin = size_bytes, gpu, 0, None
        if gpu is not None:
            try:
                made._pin(gpu)
            except (CudaNotAvailable, CudaError) as error:
                made.close()
                raise TransportError(f"the window cannot be mapped for GPU {gpu}: {error}") from None
        return made

    def __init__(self, *_: object) -> None:
        """All is done by `__new__`."""

    def _pin(self, gpu: int) -> None:
        with cuda().on(gpu):
            self.device_address = cuda().map_host(self.address, self.size_bytes)
        self._unpin = weakref.finalize(self, _unpin, self.address, gpu)

    def close(self) -> None:
        """Unregister and unmap. No kernel and no transfer may use it any more; BufferError where an array or
        a memoryview made from it does. May be called twice.
        """
        if self._unpin:
            self._unpin()
            self.gpu = None
        super().close()
        self.address = 0

    def __exit__(self, *_: object) -> None:
        self.close()


def agree(
    size_bytes: int,
    gpu: int | None,
    *,
    makes: bool,
    tell: Callable[[protocol.WindowOffer], None],
    told: Callable[[], protocol.WindowOffer],
) -> Window:
    """One window, on both sides; one makes its file, which has lost its name when this returns. Raises
    TransportError, on both sides the same.
    """
    if not makes:
        return _join(told(), size_bytes, gpu, tell)
    try:
        descriptor, path = new_file("/dev/shm")
    except PathUnavailable as error:
        tell(protocol.WindowOffer(size_bytes, "", str(error)))
        raise
    try:
        # Reserved, not merely sized: a full file system is an error here, and SIGBUS later.
        os.posix_fallocate(descriptor, 0, size_bytes)
        made = Window(descriptor, size_bytes, gpu)
    except (OSError, TransportError) as error:
        remove(path)
        words = error.strerror if isinstance(error, OSError) else error
        why = f"no window of {size_bytes} bytes in /dev/shm: {words}"
        tell(protocol.WindowOffer(size_bytes, "", why))
        raise PathUnavailable(why) from None
    finally:
        os.close(descriptor)
    try:
        tell(protocol.WindowOffer(size_bytes, path))
        answer = told()
        if answer.why:
            raise TransportError(answer.why)
    except TransportError:
        made.close()
        raise
    finally:
        remove(path)
    return made


def _join(
    offer: protocol.WindowOffer,
    size_bytes: int,
    gpu: int | None,
    tell: Callable[[protocol.WindowOffer], None],
) -> Window:
    if offer.why:
        raise TransportError(offer.why)
    try:
        if offer.size_bytes != size_bytes:
            raise TransportError(
                f"a window of {offer.size_bytes} bytes on one side, {size_bytes} on the other"
            )
        descriptor = open_file(offer.path)
        try:
            if os.fstat(descriptor).st_size < size_bytes:
                raise PathUnavailable(f"{offer.path} is no window")
            found = Window(descriptor, size_bytes, gpu)
        finally:
            os.close(descriptor)
    except TransportError as error:
        tell(protocol.WindowOffer(size_bytes, "", str(error)))
        raise
    tell(protocol.WindowOffer(size_bytes))
    return found


def _unpin(address: int, gpu: int) -> None:
    with cuda().on(gpu):
        cuda().call("cuMemHostUnregister", address)
