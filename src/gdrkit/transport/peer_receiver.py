"""The receiver's side of the path `peer`."""

from __future__ import annotations

import ctypes

from gdrkit.agent.native.cuda import IpcHandle
from gdrkit.agent.native.cuda_abi import POINTER_BUFFER_ID, WRITE_DEFAULT
from gdrkit.transport.buffers import Buffer
from gdrkit.transport.gpu import Gpu
from gdrkit.transport.native.cuda import CudaError, cuda
from gdrkit.transport.peer_direction import PeerDirection, PeerMessage
from gdrkit.transport.peer_sender import NO_HANDLE
from gdrkit.transport.ring import SLOTS, Ring, Slot


class PeerReceiver(PeerDirection):
    """Posts where each message goes to once its memory is ready."""

    needs_thread = False

    def __init__(self, ring: Ring) -> None:
        super().__init__(ring, sending=False)
        self._handles: dict[int, tuple[bytes, int]] = {}  # of allocations, and their addresses
        self._posting: dict[int, tuple[PeerMessage, int]] = {}  # by slot: events after what streams post

    def has_news(self, message: PeerMessage) -> bool:
        slot = message.slot
        return slot.arrived == message.word or (slot.announced == message.word and not slot.copied)

    def _enter(self, message: PeerMessage, gpu: Gpu, stream: int) -> None:
        """Let the stream post the message itself, unless that can be done at once."""
        if message.is_ready() or not self._has_slot(message):
            return
        self._describe(message)
        address = self.ring.on_device(message.slot, "posted")
        cuda().call("cuStreamWriteValue32_v2", stream, address, message.word, WRITE_DEFAULT)
        self._posting[message.number % SLOTS] = message, gpu.record(stream)

    def _leave(self, message: PeerMessage, gpu: Gpu, stream: int) -> None:
        """Let the stream copy a single byte that we bring to the GPU by then: Cuda.copy."""
        if message.what.size_bytes == 1:
            message.landing = Buffer(ctypes.addressof(message.slot) + Slot.byte.offset, 1, None, self.ring)
            message.landed = gpu.take_landed(message.what.address, message.number % SLOTS, stream)

    def _has_slot(self, message: PeerMessage) -> bool:
        """Whether the message SLOTS before it is received, and no stream is left to post that one."""
        first = (self._moving or self._waiting or (message,))[0]
        if message.number - first.number >= SLOTS:
            return False
        posting, event = self._posting.get(message.number % SLOTS, (message, 0))
        if posting is not message:
            with posting.context():
                if posting.gpu and not posting.gpu.passed(event):
                    return False
            del self._posting[message.number % SLOTS]
        return True

    def _start(self, message: PeerMessage) -> bool:
        with message.context():
            if not (message.is_ready() and self._has_slot(message)):
                return False
            if message.slot.posted != message.word:
                self._describe(message)
                message.slot.posted = message.word
        return True

    def _describe(self, message: PeerMessage) -> None:
        slot, what = message.slot, message.what
        handle, slot.offset = self._handle(what) if message.gpu and what.size_bytes else (NO_HANDLE, 0)
        ctypes.memmove(slot.handle, handle, len(handle))
        slot.posted_bytes = what.size_bytes
        self.ring.barrier()

    def _handle(self, what: Buffer) -> tuple[bytes, int]:
        """The IPC handle of the allocation that contains a buffer, and the buffer's offset in it.

        Memory that was freed and allocated again has another ID.
        """
        try:
            key = cuda().number("cuPointerGetAttribute", POINTER_BUFFER_ID, what.address)
            if key not in self._handles:
                handle = IpcHandle()
                base, _ = cuda().allocation(what.address)
                cuda().call("cuIpcGetMemHandle", ctypes.byref(handle), base)
                self._handles[key] = bytes(handle), base
        except CudaError:  # memory of cuMemCreate
            return NO_HANDLE, 0
        found, base = self._handles[key]
        return found, what.address - base

    def _has_moved(self, message: PeerMessage) -> bool:
        """As in the base class. Raises TransportError for a message of another size."""
        if message.staged is None:
            if not (self.has_news(message) and message.accept()):
                return False
            if message.slot.copied:
                return True
            where = (message.landing, None) if message.landing else (message.what, message.gpu)
            message.staged = self.staging.add(*where)
        if not message.staged.done():
            return False
        if message.slot.arrived != message.word:
            if not self._is_on_gpu(message):
                return False
            message.finish()
        return self._has_landed(message)

    def _is_on_gpu(self, message: PeerMessage) -> bool:
        """Whether a single byte for a stream is where the stream takes it from."""
        if message.landing is None or message.gpu is None:
            return True
        with message.context():
            if message.crossed is None:
                message.crossed = message.gpu.land(message.landing.address, message.number % SLOTS)
            return message.crossed()

    def _has_landed(self, message: PeerMessage) -> bool:
        """Whether a stream has copied a single byte, if it is to."""
        if message.gpu and message.landed is not None:
            with message.context():
                if message.gpu.passed(message.landed):
                    message.landed = None
        return message.landed is None
