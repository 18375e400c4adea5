"""The paths that use sockets and threads: `tcp`, and `peer` (one GPU into another, through CUDA IPC).

Each direction has its own socket and thread. On `tcp` the bytes go through the socket. On `peer` the
receiver sends a handle of its memory; the sender copies into it over NVLink or PCIe, and then notifies the
receiver.
"""

from __future__ import annotations

import hmac
import struct
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from gdrkit.agent.native.cuda_abi import IPC_LAZY_PEER_ACCESS
from gdrkit.transport.buffers import Buffer, memory
from gdrkit.transport.errors import PeerLost, TransportError
from gdrkit.transport.handshake import read_exactly, send_all
from gdrkit.transport.operation import Operation, ThreadedOperation
from gdrkit.transport.sealed_socket import TAG_BYTES, SealedSocket, check
from gdrkit.transport.staging import Staging, Tickets, recorded

_HEADER = struct.Struct("!QII")  # bytes, CRC-32, the flags below
_MAC_PIECE = 256 << 10
CHECKED, ON_GPU = 1, 2
"""Flags of a message: it has a CRC-32; the sender's memory is GPU memory."""


class SocketChannel:
    """The common part of both paths: a thread for each direction, in stream order."""

    name = "socket"

    def __init__(self, out: SealedSocket, into: SealedSocket) -> None:
        self._out, self._into = out, into
        for sealed in (out, into):
            sealed.deadline = None
            sealed.sock.settimeout(None)
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
        self._out.send(_HEADER.pack(what.size_bytes, crc32 or 0, flags | checked))

    def announced(self, into: Buffer) -> tuple[int | None, int]:
        """The CRC-32 (or None) and the flags of the next message. Raises TransportError if its size
        differs.
        """
        size, crc, flags = _HEADER.unpack(self._into.receive(_HEADER.size))
        if size != into.size_bytes:
            raise TransportError(f"message of {size} bytes received where {into.size_bytes} were expected")
        return (crc if flags & CHECKED else None), flags

    def abandon(self) -> None:
        for sealed in (self._out, self._into):
            sealed.shut_down()

    def close(self) -> None:
        self.abandon()
        self._senders.close()
        self._receivers.close()
        self._out.sock.close()
        self._into.sock.close()


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
    """Bytes over TCP. GPU memory is staged through pinned memory; copies and socket I/O overlap.

    With `authenticate` a message's bytes are followed by their tag, which `pull` checks at the end: the
    memory is written before that, but the message is not done.
    """

    name = "tcp"

    def __init__(self, out: SealedSocket, into: SealedSocket, authenticate: bool = False) -> None:
        super().__init__(out, into)
        self._authenticate = authenticate

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
        mac = self._out.data_sent() if self._authenticate else None
        for piece in staging.out_of(what) if staging is not None else _of_host(what, mac is not None):
            if mac:
                mac.update(piece)
            send_all(self._out.sock, piece)
        if mac:
            send_all(self._out.sock, mac.digest())

    def pull_bytes(self, into: Buffer, staging: Staging | None) -> None:
        """Receive the contents from the socket."""
        mac = self._into.data_received() if self._authenticate else None
        if staging is not None:
            staging.into(into, lambda target: self._fill(target, mac))
        elif into.size_bytes:
            self._fill(memory(into.address, into.size_bytes), mac)
        if mac:
            check(mac, read_exactly(self._into.sock, TAG_BYTES))

    def _fill(self, target: memoryview, mac: hmac.HMAC | None) -> None:
        while target:
            try:
                count = self._into.sock.recv_into(target)
            except OSError as error:
                raise PeerLost(f"the connection broke: {error.strerror}") from None
            if not count:
                raise PeerLost("the other side closed the connection")
            if mac:
                mac.update(target[:count])
            target = target[count:]


def _of_host(what: Buffer, in_pieces: bool) -> Iterator[memoryview]:
    """Host memory to send: as a whole, or in pieces that a CPU's cache still holds after hashing them."""
    step = _MAC_PIECE if in_pieces else what.size_bytes
    for offset in range(0, what.size_bytes, step or 1):
        yield memory(what.address + offset, min(step, what.size_bytes - offset))


_OFFER = struct.Struct("!64sQ")  # the allocation's IPC handle, offset into it
_NO_HANDLE = bytes(64)


class PeerChannel(TcpChannel):
    """One GPU's copy engine writes into the other's memory: over NVLink if there is one, else over PCIe.

    Both ends must be memory of cudaMalloc or cuMemAlloc: CUDA has no IPC handles for memory of cuMemCreate
    (which PyTorch uses with expandable segments). Source: CUDA driver API, cuIpcGetMemHandle. A message with
    host memory at either end goes through the socket.
    """

    name = "peer"

    def __init__(self, out: SealedSocket, into: SealedSocket, authenticate: bool = False) -> None:
        super().__init__(out, into, authenticate)
        self._opened: dict[bytes, int] = {}

    def push(self, what: Buffer, staging: Staging | None, crc32: int | None) -> int | None:
        from gdrkit.agent.native.cuda import IpcHandle
        from gdrkit.transport.native.cuda import cuda

        self.announce(what, crc32, ON_GPU if staging else 0)
        if staging is None:
            self.push_bytes(what, None)
            return None
        handle, offset = _OFFER.unpack(self._out.receive(_OFFER.size))
        if handle == _NO_HANDLE:
            self.push_bytes(what, staging)
            return None
        if handle not in self._opened:
            opened = IpcHandle.from_buffer_copy(handle)
            self._opened[handle] = cuda().number("cuIpcOpenMemHandle_v2", opened, IPC_LAZY_PEER_ACCESS)
        staging.copy(self._opened[handle] + offset, what.address, what.size_bytes)
        self._out.send(b"\0")
        return None

    def pull(self, into: Buffer, staging: Staging | None) -> int | None:
        crc, flags = self.announced(into)
        if flags & ON_GPU:
            self._into.send(_OFFER.pack(*(_ipc_handle(into) if staging else (_NO_HANDLE, 0))))
            if staging:
                self._into.receive(1)
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
