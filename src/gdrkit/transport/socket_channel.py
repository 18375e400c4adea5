"""The paths that use sockets and threads: `tcp`, and `peer` (one GPU into another, through CUDA IPC).

Each direction has its own socket and thread. On `tcp` the bytes go through the socket. On `peer` the
receiver sends a handle of its memory; the sender copies into it over NVLink or PCIe, and then notifies the
receiver.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from gdrkit.agent.native.cuda_abi import IPC_LAZY_PEER_ACCESS
from gdrkit.transport.buffers import Buffer, memory
from gdrkit.transport.errors import PeerLost, TransportError
from gdrkit.transport.handshake import read_exactly
from gdrkit.transport.operation import Operation, ThreadedOperation
from gdrkit.transport.staging import Staging, Tickets, recorded

_HEADER = struct.Struct("!QII")  # bytes, CRC-32, the flags below
CHECKED, ON_GPU = 1, 2
"""Flags of a message: it has a CRC-32; the sender's memory is GPU memory."""


class SocketChannel:
    """The common part of both paths: a thread for each direction, in stream order."""

    name = "socket"

    def __init__(self, out: socket.socket, into: socket.socket) -> None:
        self._out, self._into = out, into
        for sock in (out, into):
            sock.settimeout(None)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._senders, self._receivers = _Worker("send"), _Worker("receive")

    def transmit(self, what: Buffer, stream: int | None, crc32: int | None) -> Operation:
        self._prepare(what.device)
        return self._senders.submit(what, stream, lambda staging: self.push(what, staging, crc32))

    def receive(self, into: Buffer, stream: int | None) -> Operation:
        self._prepare(into.device)
        return self._receivers.submit(into, stream, lambda staging: self.pull(into, staging))

    def run(self, what: Buffer, stream: int | None, work: Callable[[Staging | None], None]) -> Operation:
        """Run other work on memory in the sending thread, in stream order."""
        self._prepare(what.device)
        return self._senders.submit(what, stream, work)

    def _prepare(self, device: int | None) -> None:
        # Both directions together: pinning memory may block on a stream that waits for the other direction.
        if device is not None:
            self._senders.prepare(device)
            self._receivers.prepare(device)

    def push(self, what: Buffer, staging: Staging | None, crc32: int | None) -> int | None:
        """Send one message. Runs in the sending thread."""
        raise TransportError(f"{self.name} does not send")

    def pull(self, into: Buffer, staging: Staging | None) -> int | None:
        """Receive one message; returns its CRC-32, or None. Runs in the receiving thread."""
        raise TransportError(f"{self.name} does not receive")

    def announce(self, what: Buffer, crc32: int | None, flags: int = 0) -> None:
        """Send the header of the next message."""
        checked = CHECKED if crc32 is not None else 0
        self.send(_HEADER.pack(what.size_bytes, crc32 or 0, flags | checked))

    def announced(self, into: Buffer) -> tuple[int | None, int]:
        """The CRC-32 (or None) and the flags of the next message. Raises TransportError if its size
        differs.
        """
        size, crc, flags = _HEADER.unpack(read_exactly(self._into, _HEADER.size))
        if size != into.size_bytes:
            raise TransportError(f"message of {size} bytes received where {into.size_bytes} were expected")
        return (crc if flags & CHECKED else None), flags

    def send(self, data: bytes | memoryview) -> None:
        """Send all of the data. Raises PeerLost."""
        _send(self._out, data)

    def answer(self, data: bytes) -> None:
        """Send data back to a sender, on the socket that it sends on. Raises PeerLost."""
        _send(self._into, data)

    def abandon(self) -> None:
        for sock in (self._out, self._into):
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:  # already closed by the other side
                continue

    def close(self) -> None:
        self.abandon()
        self._senders.close()
        self._receivers.close()
        self._out.close()
        self._into.close()


def _send(sock: socket.socket, data: bytes | memoryview) -> None:
    try:
        sock.sendall(data)
    except OSError as error:
        raise PeerLost(f"the connection broke: {error.strerror}") from None


class _Worker:
    """A thread that moves messages one after another, with pinned memory for each device it has used."""

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"gdrkit-{name}")
        self._staging: dict[int, Staging] = {}
        self._tickets = Tickets()

    def prepare(self, device: int) -> None:
        if device not in self._staging:
            self._tickets.prepare(device)
            self._staging[device] = Staging(device)

    def submit(
        self, what: Buffer, stream: int | None, work: Callable[[Staging | None], int | None]
    ) -> Operation:
        if what.device is None:
            return ThreadedOperation(self._thread.submit(work, None))
        staging = self._staging[what.device]
        ready = None if stream is None else recorded(what.device, stream)
        redeem = None if stream is None else self._tickets.issue(what.device, stream)

        def run() -> int | None:
            try:
                staging.begin(ready)
                return work(staging)
            finally:
                if redeem:
                    redeem()

        return ThreadedOperation(self._thread.submit(run))

    def close(self) -> None:
        self._thread.shutdown(wait=True)
        for staging in self._staging.values():
            staging.close()
        self._tickets.close()


class TcpChannel(SocketChannel):
    """Bytes over TCP. GPU memory is staged through pinned memory; copies and socket I/O overlap."""

    name = "tcp"

    def push(self, what: Buffer, staging: Staging | None, crc32: int | None) -> int | None:
        self.announce(what, crc32)
        self.push_bytes(what, staging)
        return None

    def pull(self, into: Buffer, staging: Staging | None) -> int | None:
        crc, _ = self.announced(into)
        self.pull_bytes(into, staging)
        return crc

    def push_bytes(self, what: Buffer, staging: Staging | None) -> None:
        """Send the contents through the socket."""
        if staging is not None:
            for piece in staging.out_of(what):
                self.send(piece)
        elif what.size_bytes:
            self.send(memory(what.address, what.size_bytes))

    def pull_bytes(self, into: Buffer, staging: Staging | None) -> None:
        """Receive the contents from the socket."""
        if staging is not None:
            staging.into(into, self._fill)
        elif into.size_bytes:
            self._fill(memory(into.address, into.size_bytes))

    def _fill(self, target: memoryview) -> None:
        while target:
            try:
                count = self._into.recv_into(target)
            except OSError as error:
                raise PeerLost(f"the connection broke: {error.strerror}") from None
            if not count:
                raise PeerLost("the other side closed the connection")
            target = target[count:]


_OFFER = struct.Struct("!64sQ")  # the allocation's IPC handle, offset into it
_NO_HANDLE = bytes(64)


class PeerChannel(TcpChannel):
    """One GPU's copy engine writes into the other's memory: over NVLink if there is one, else over PCIe.

    Both ends must be memory of cudaMalloc or cuMemAlloc: CUDA has no IPC handles for memory of cuMemCreate
    (which PyTorch uses with expandable segments). Source: CUDA driver API, cuIpcGetMemHandle. A message with
    host memory at either end goes through the socket.
    """

    name = "peer"

    def __init__(self, out: socket.socket, into: socket.socket) -> None:
        super().__init__(out, into)
        self._opened: dict[bytes, int] = {}

    def push(self, what: Buffer, staging: Staging | None, crc32: int | None) -> int | None:
        from gdrkit.agent.native.cuda import IpcHandle
        from gdrkit.transport.native.cuda import cuda

        self.announce(what, crc32, ON_GPU if staging else 0)
        if staging is None:
            self.push_bytes(what, None)
            return None
        handle, offset = _OFFER.unpack(read_exactly(self._out, _OFFER.size))
        if handle == _NO_HANDLE:
            self.push_bytes(what, staging)
            return None
        if handle not in self._opened:
            opened = IpcHandle.from_buffer_copy(handle)
            self._opened[handle] = cuda().number("cuIpcOpenMemHandle_v2", opened, IPC_LAZY_PEER_ACCESS)
        staging.copy(self._opened[handle] + offset, what.address, what.size_bytes)
        self.send(b"\0")
        return None

    def pull(self, into: Buffer, staging: Staging | None) -> int | None:
        crc, flags = self.announced(into)
        if flags & ON_GPU:
            self.answer(_OFFER.pack(*(_ipc_handle(into) if staging else (_NO_HANDLE, 0))))
            if staging:
                read_exactly(self._into, 1)
                return crc
        self.pull_bytes(into, staging)
        return crc

    def close(self) -> None:
        super().close()
        if self._opened:
            from gdrkit.transport.native.cuda import cuda

            for pointer in self._opened.values():
                cuda().call("cuIpcCloseMemHandle", pointer)


def _ipc_handle(buffer: Buffer) -> tuple[bytes, int]:
    """The IPC handle of the allocation that contains a buffer, and the buffer's offset in it. Raises
    CudaError.
    """
    import ctypes

    from gdrkit.agent.native.cuda import IpcHandle
    from gdrkit.transport.native.cuda import cuda

    driver, handle = cuda(), IpcHandle()
    base, _ = driver.allocation(buffer.address)
    driver.call("cuIpcGetMemHandle", ctypes.byref(handle), base)
    return bytes(handle), buffer.address - base
