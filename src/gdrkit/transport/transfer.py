"""The result of `send`, `recv`, `write` and `read`: poll it with `done`, or `wait` for it."""

from __future__ import annotations

import time
from collections.abc import Callable

from gdrkit.transport import protocol
from gdrkit.transport.buffers import Buffer
from gdrkit.transport.errors import IntegrityFailed, PeerLost, RemoteRefused, TimedOut, TransportError
from gdrkit.transport.operation import ConnectionState, Operation

GRACE_SECONDS = 5.0
"""How long messages that the other side sent before an orderly close may take to arrive."""


class Transfer:
    """One message, read or write in flight."""

    def __init__(
        self, connection: ConnectionState, operation: Operation, memory: Buffer, *, received: bool
    ) -> None:
        self.size_bytes = memory.size_bytes
        self._connection, self._operation = connection, operation
        self._memory, self._received = memory, received
        self._finished = False

    def done(self) -> bool:
        """Whether it is finished: a received message is in place, sent memory may be overwritten.

        Raises PeerLost, IntegrityFailed, RemoteRefused, or TransportError for a message of another size.
        """
        if not self._finished and self._over():
            self._finish()
        return self._finished

    def _over(self) -> bool:
        try:
            return self._operation.done()
        except RemoteRefused:
            raise
        except TransportError as error:
            self._connection.break_(error)
            raise (self._connection.broken or error) from None  # the first error, not its consequences

    def _finish(self) -> None:
        self._finished = True
        expected = self._operation.expected_crc32() if self._received else None
        if expected is not None and (found := self._memory.crc32()) != expected:
            raise IntegrityFailed(
                f"CRC-32 of the received bytes is {found:08x}, of the sent bytes {expected:08x}"
            )

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it is finished; returns its size in bytes. Raises what `done` raises, and TimedOut
        after `timeout` seconds; that breaks the connection.
        """
        if not self._finished:
            if not self._over():
                with self._operation.progressing():
                    self._wait(timeout)
            self._finish()
        return self.size_bytes

    def _wait(self, timeout: float | None) -> None:
        begun = time.monotonic()
        broken: TransportError | None = None
        while not self._over():
            if broken:  # since before the last look: what had arrived until then counts
                raise broken
            now, broken = time.monotonic(), self._connection.broken
            closed = self._connection.peer_closed_at
            if closed is not None and now - max(closed, begun) > GRACE_SECONDS:
                self._connection.break_(
                    PeerLost("the other side closed the connection before this was finished")
                )
            elif timeout is not None and now - begun > timeout:
                self._connection.break_(TimedOut(f"not done after {timeout} s"))
            self._operation.back_off(now - begun)


class OneSided(Operation):
    """A read or write that the other side has to grant first; then `begin` starts our half of it."""

    def __init__(self, begin: Callable[[], Operation], *, needs_done: bool) -> None:
        self._begin, self._needs_done = begin, needs_done
        self._operation: Operation | None = None
        self._error: TransportError | None = None
        self.open = True

    def take(
        self, message: protocol.RequestGranted | protocol.RequestRefused | protocol.RequestDone
    ) -> None:
        """Handle the other side's answer. Our halves start in the order of the answers, which is the order
        of the other side's halves.
        """
        if isinstance(message, protocol.RequestRefused):
            self._error, self.open = RemoteRefused(message.why), False
        elif isinstance(message, protocol.RequestGranted):
            self._operation = self._begin()
            self.open = self._needs_done
        else:
            self.open = False
            if message.why:
                self._error = TransportError(f"the other side: {message.why}")

    def done(self) -> bool:
        if self._error:
            raise self._error
        if self._operation is None or (self._needs_done and self.open):
            return False
        return self._operation.done()

    def expected_crc32(self) -> int | None:
        return self._operation.expected_crc32() if self._operation else None
