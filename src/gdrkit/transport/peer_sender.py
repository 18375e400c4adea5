"""The sender's side of the path `peer`."""

from __future__ import annotations

import time

from gdrkit.agent.native.cuda import IpcHandle
from gdrkit.agent.native.cuda_abi import IPC_LAZY_PEER_ACCESS
from gdrkit.transport.gpu import few_queues
from gdrkit.transport.native.cuda import CudaError, cuda
from gdrkit.transport.operation import pause
from gdrkit.transport.peer_direction import PeerDirection, PeerMessage
from gdrkit.transport.ring import Ring

NO_HANDLE = bytes(64)
_SHORT_SECONDS = 50e-6  # NVLink moves 1 MiB in a fifth of it


class PeerSender(PeerDirection):
    """Copies each message once its memory is ready and the receiver has posted where it goes to."""

    def __init__(self, ring: Ring) -> None:
        super().__init__(ring, sending=True)
        self._opened: dict[tuple[int, bytes], tuple[int, int]] = {}  # first address, and last or 0

    def _interval(self, waited: float) -> float:
        return pause(waited)  # shorter: the other side waits for this thread

    def has_news(self, message: PeerMessage) -> bool:
        return bool(self._moving) or message.slot.posted == message.word

    def _advance_shortly(self) -> None:
        end = time.monotonic() + _SHORT_SECONDS
        while self._moving and not self._waiting and time.monotonic() < end:
            self._advance()

    def _has_moved(self, message: PeerMessage) -> bool:
        if message.staged is not None:
            return message.staged.done() and message.slot.arrived == message.word
        with message.context():
            if not message.is_ready():
                return False
        message.finish()
        return True

    def _start(self, message: PeerMessage) -> bool:
        if message.slot.posted != message.word or (self._moving and self._moving[-1].staged is not None):
            return False
        with message.context():
            if not message.is_ready():
                return False
            if message.gpu and (target := self._target(message)):
                message.announce(copied=True)
                cuda().copy(target, message.what.address, message.what.size_bytes, message.gpu.stream)
                message.ready = message.gpu.record(message.gpu.stream)
                return True
        if self._moving:  # a staged one moves alone
            return False
        message.announce()
        message.staged = self.staging.add(message.what, message.gpu)
        return True

    def _target(self, message: PeerMessage) -> int:
        """The address to copy to, or 0 if the message has to be staged. The context must be current."""
        what, handle, offset = message.what, bytes(message.slot.handle), message.slot.offset
        if handle == NO_HANDLE or what.size_bytes == 1 or message.slot.posted_bytes != what.size_bytes:
            return 0
        key = (what.device or 0, handle)
        if key not in self._opened:
            opened = IpcHandle.from_buffer_copy(handle)
            try:
                address = cuda().number("cuIpcOpenMemHandle_v2", opened, IPC_LAZY_PEER_ACCESS)
                # A copy within a GPU is not queued among the copies. With few queues it may be queued behind
                # the stream that waits for it (seen on an H200).
                here = few_queues() and cuda().device_of(address) == what.device
                self._opened[key] = address, 0 if here else sum(cuda().allocation(address))
            except CudaError:
                self._opened[key] = 0, 0
        first, last = self._opened[key]
        return first + offset if first + offset + what.size_bytes <= last else 0

    def close(self) -> None:
        self.release()
        self.abandon()
        for (device, _), (address, _) in self._opened.items():
            with cuda().on(device):
                cuda().call("cuStreamSynchronize", self.gpus[device].stream)
                if address:
                    cuda().call("cuIpcCloseMemHandle", address)
        self._opened.clear()
        super().close()
