"""A window: memory that two processes of a machine map, each also for its GPU if it has one."""

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
from gdrkit.transport.shared_file import SharedFile, open_file


class Window(MappedMemory, mmap.mmap):
    """One process writes to it and the other reads, with the CPU or a GPU, without any transfer.

    The program must order the accesses itself: with a message after the writes, or with flags that a
    kernel accesses with .release and .acquire at system scope. The window stays mapped until it is closed,
    even if the other process or the connection ends.
    """

    _unpin: weakref.finalize[Any, Any] | None

    def __new__(cls, descriptor: int, size_bytes: int, gpu: int | None) -> Window:
        """Map a file, and register it with CUDA for the GPU. Raises TransportError if CUDA refuses."""
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
        """Do nothing: `__new__` does all the work."""

    def _pin(self, gpu: int) -> None:
        with cuda().on(gpu):
            self.device_address = cuda().map_host(self.address, self.size_bytes)
        self._unpin = weakref.finalize(self, _unpin, self.address, gpu)

    def close(self) -> None:
        """Unregister and unmap. No kernel or transfer may use it any more. Raises BufferError while an
        array or a memoryview made from it exists. May be called twice.
        """
        if self._unpin:
            self._unpin()
            self.gpu = None
        super().close()
        self.address = 0

    def __exit__(self, *_: object) -> None:
        self.close()


def open_window(
    size_bytes: int,
    gpu: int | None,
    *,
    creates: bool,
    anonymous: bool,
    send: Callable[[protocol.WindowOffer], None],
    receive: Callable[[], protocol.WindowOffer],
) -> Window:
    """The same window on both sides. The side with `creates` creates the memory (`anonymous` as in
    SharedFile), whose name is removed again before this returns. Raises TransportError, the same on both
    sides.
    """
    if not creates:
        return _join(receive(), size_bytes, gpu, send)
    try:
        file = SharedFile(anonymous=anonymous)
    except PathUnavailable as error:
        send(protocol.WindowOffer(size_bytes, "", str(error)))
        raise
    try:
        file.reserve(size_bytes)
        made = Window(file.descriptor, size_bytes, gpu)
    except (OSError, TransportError) as error:
        file.unlink()
        reason = error.strerror if isinstance(error, OSError) else error
        why = f"cannot create a window of {size_bytes} bytes in /dev/shm: {reason}"
        send(protocol.WindowOffer(size_bytes, "", why))
        raise PathUnavailable(why) from None
    try:
        send(protocol.WindowOffer(size_bytes, file.path))
        answer = receive()
        if answer.why:
            raise TransportError(answer.why)
    except TransportError:
        made.close()
        raise
    finally:
        file.unlink()
    return made


def _join(
    offer: protocol.WindowOffer,
    size_bytes: int,
    gpu: int | None,
    send: Callable[[protocol.WindowOffer], None],
) -> Window:
    if offer.why:
        raise TransportError(offer.why)
    try:
        if offer.size_bytes != size_bytes:
            raise TransportError(
                f"window sizes differ: {offer.size_bytes} bytes on one side, {size_bytes} on the other"
            )
        descriptor = open_file(offer.path)
        try:
            if os.fstat(descriptor).st_size < size_bytes:
                raise PathUnavailable(f"{offer.path} is too small for the window")
            found = Window(descriptor, size_bytes, gpu)
        finally:
            os.close(descriptor)
    except TransportError as error:
        send(protocol.WindowOffer(size_bytes, "", str(error)))
        raise
    send(protocol.WindowOffer(size_bytes))
    return found


def _unpin(address: int, gpu: int) -> None:
    with cuda().on(gpu):
        cuda().call("cuMemHostUnregister", address)
