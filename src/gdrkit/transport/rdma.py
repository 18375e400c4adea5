"""The path `verbs`, between machines with RDMA devices, over reliable connections (RC).

The receiver offers memory, the sender writes into it (RDMA WRITE), and the last write carries immediate
data. Only the receiver's completion of that write guarantees that all bytes are in place, by any path.
Offers are sent over a socket. Regions of `exchange` are written and read directly, without any action of the
other process.

GPU memory that cannot be registered is staged: copied piece by piece to pinned memory that the device can
access. Run over rdma_rxe. Never run with GPU memory on a real RDMA device.
"""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from gdrkit.agent.native.verbs_abi import NUMBERS
from gdrkit.transport import protocol
from gdrkit.transport.buffers import Buffer
from gdrkit.transport.errors import (
    PathUnavailable,
    PeerLost,
    RemoteRefused,
    TransportError,
)
from gdrkit.transport.native.verbs import (
    Completion,
    CompletionQueue,
    MemoryRegion,
    QueuePair,
    VerbsDevice,
    VerbsError,
)
from gdrkit.transport.operation import Operation
from gdrkit.transport.registration import Registered, register
from gdrkit.transport.sealed_socket import SealedSocket
from gdrkit.transport.socket_channel import SocketChannel
from gdrkit.transport.staging import Piece, Staging
from gdrkit.transport.steps import Steps, Wait, passed, run, shortly

CHANNELS, DEPTH = 3, 32
_OFFER = struct.Struct("!QIQ")  # address, rkey, bytes
_Parts = Iterator[tuple[Piece, MemoryRegion]]
_LARGEST_WRITE = 1 << 30  # a message of RC is at most 2**31 bytes: InfiniBand specification 1.4, 9.7.2


class Endpoint:
    """An open port of an RDMA device and its registrations. `device` is "mlx5_0" or "mlx5_0:1"."""

    def __init__(self, device: str, gid_index: int | None = None) -> None:
        name, _, number = device.partition(":")
        self.port = int(number or 1)
        self.device = VerbsDevice(name)
        attributes = self.device.port(self.port)
        if attributes["state"] != NUMBERS["IBV_PORT_ACTIVE"]:
            self.device.close()
            raise PathUnavailable(f"{name} port {self.port} is not active (state {attributes['state']})")
        self.mtu, self.lid = attributes["active_mtu"], attributes["lid"]
        infiniband = attributes["link_layer"] == NUMBERS["IBV_LINK_LAYER_INFINIBAND"]
        self.gid_index = (
            gid_index if gid_index is not None else 0 if infiniband else roce_gid(name, self.port)
        )
        self.gid = self.device.gid(self.port, self.gid_index)
        self.pairs = [QueuePair(self.device, DEPTH) for _ in range(CHANNELS)]
        self._kept: dict[tuple[int, int], Registered] = {}
        self._regions: set[MemoryRegion] = set()

    def ends(self) -> tuple[protocol.RdmaEnd, ...]:
        """Our queue pairs, as the other side needs to know them."""
        return tuple(
            protocol.RdmaEnd(pair.number, self.gid.hex(), self.lid, self.mtu) for pair in self.pairs
        )

    def connect(self, ends: tuple[protocol.RdmaEnd, ...]) -> None:
        """Connect every queue pair to the other side's. Raises PathUnavailable."""
        if len(ends) != CHANNELS:
            raise PathUnavailable("the other side named no queue pairs")
        try:
            for pair, end in zip(self.pairs, ends):  # noqa: B905 (Python 3.9)
                mtu = min(self.mtu, end.mtu)
                pair.connect(self.port, self.gid_index, mtu, end.number, bytes.fromhex(end.gid), end.lid)
        except VerbsError as error:
            raise PathUnavailable(str(error)) from None

    def keep(self, what: Buffer) -> Registered:
        """Register memory until the endpoint closes, and keep its owner alive until then."""
        key = (what.address, what.size_bytes)
        if key not in self._kept:
            self._kept[key] = self.register(what)
        return self._kept[key]

    def register(self, what: Buffer) -> Registered:
        """Register memory, as the function `register` does. Raises RegistrationFailed."""
        found = register(self.device, what)
        if found.region:
            self._regions.add(found.region)
        return found

    @contextmanager
    def use(self, what: Buffer) -> Iterator[MemoryRegion | None]:
        """Memory for the duration of one request: the kept registration that contains all of it, or a
        temporary one, or None if it has to be staged.
        """
        end = what.address + what.size_bytes
        for (address, size), kept in self._kept.items():
            if address <= what.address and end <= address + size:
                yield kept.region
                return
        region = self.register(what).region
        try:
            yield region
        finally:
            if region and region in self._regions:
                self._regions.remove(region)
                region.close()

    def close(self) -> None:
        """Release all resources, in the order of their dependencies."""
        for pair in self.pairs:
            pair.close()
        for region in self._regions:  # including those of requests that never completed
            region.close()
        self._regions.clear()
        self._kept.clear()
        self.device.close()


class RdmaChannel(SocketChannel):
    """Messages and direct access over one queue pair."""

    def __init__(self, out: SealedSocket, into: SealedSocket, endpoint: Endpoint, index: int) -> None:
        super().__init__((out,), (into,))
        self._endpoint, self._pair = endpoint, endpoint.pairs[index]
        self._gone = threading.Event()
        self._requests = self._outstanding = 0
        self._finished: dict[int, Completion] = {}
        self._posting = threading.RLock()

    def push(self, what: Buffer, staging: Staging | None, crc32: int | None) -> Steps:
        yield from self._out[0].write(b"", head=self.header(what, crc32))
        done = 0
        while done < what.size_bytes:
            address, rkey, size = _OFFER.unpack((yield from self._out[0].frame(_OFFER.size)))
            if not 0 < size <= what.size_bytes - done:
                raise TransportError(f"invalid offer of {size} bytes; {what.size_bytes - done} are left")
            parts = self._parts(what.part(done, size), staging)
            yield from self._move("IBV_WR_RDMA_WRITE", parts, address, rkey, notify_at=address + size)
            done += size
        return None

    def pull(self, into: Buffer, staging: Staging | None) -> Steps:
        crc = yield from self.announced(into)
        if into.size_bytes:
            for part, region in self._parts(into, staging, receiving=True):
                if part.ready:
                    yield from passed(part.ready)
                if part.size_bytes:
                    self._pair.post_receive()
                    offer = _OFFER.pack(part.address, region.rkey, part.size_bytes)
                    yield from self._into[0].write(self._into[0].sealed.sealed(offer))
                    yield from self._until(self._received_notification)
        return crc

    def access(
        self, what: Buffer, stream: int | None, region: protocol.Region, offset: int, *, write: bool
    ) -> Operation:
        """Write to, or read from, memory that the other side has exposed. Raises RemoteRefused beyond its
        end.
        """
        if offset < 0 or offset + what.size_bytes > region.size_bytes:
            raise RemoteRefused(
                f"{what.size_bytes} bytes at {offset} do not fit into {region.size_bytes} bytes"
            )

        remote, rkey = region.address + offset, region.rkey
        if what.device is None and what.size_bytes <= _LARGEST_WRITE:
            # Posted at once, so that several can be in flight; waits only while the queue is full.
            using = ExitStack()
            here = using.enter_context(self._endpoint.use(what))
            assert here
            opcode = "IBV_WR_RDMA_WRITE" if write else "IBV_WR_RDMA_READ"
            request = self._post(opcode, what.address, what.size_bytes, here.lkey, remote, rkey)
            return _Posted(self, request, using)

        def work(staging: Staging | None) -> Steps:
            parts = self._parts(what, staging, receiving=not write)
            yield from self._move("IBV_WR_RDMA_WRITE" if write else "IBV_WR_RDMA_READ", parts, remote, rkey)
            return None

        return self.run(what, stream, work)

    def _move(
        self, opcode: str, parts: _Parts, remote: int, rkey: int, notify_at: int = 0
    ) -> Generator[Wait, None, None]:
        """Write memory to the other side's, or read it from there. The write up to the address `notify_at`
        notifies the other side.
        """
        for part, region in parts:
            if part.ready:
                yield from passed(part.ready)
            if part.size_bytes:
                end = remote + part.size_bytes
                name = f"{opcode}_WITH_IMM" if end == notify_at else opcode
                request = self._post(name, part.address, part.size_bytes, region.lkey, remote, rkey)
                yield from self._until(partial(self.sent, request))
                remote = end

    def _parts(self, what: Buffer, staging: Staging | None, *, receiving: bool = False) -> _Parts:
        """Memory as parts of at most _LARGEST_WRITE bytes, with their registration. Memory that cannot be
        registered is staged. With `receiving` the caller fills each part before the next one.
        """
        with self._endpoint.use(what) as region:
            if region:
                for offset in range(0, what.size_bytes, _LARGEST_WRITE):
                    yield Piece(what.address + offset, min(_LARGEST_WRITE, what.size_bytes - offset)), region
                return
        assert staging is not None
        with self._endpoint.use(staging.pinned) as region:
            assert region
            for piece in (staging.into if receiving else staging.out_of)(what):
                yield piece, region

    def _post(self, opcode: str, address: int, size: int, lkey: int, remote: int, rkey: int) -> int:
        run(self._until(self._has_room))
        with self._posting:
            self._requests += 1
            try:
                self._pair.post(opcode, self._requests, address, size, lkey, remote, rkey)
            except VerbsError as error:
                raise TransportError(str(error)) from None
            self._outstanding += 1
            return self._requests

    def _has_room(self) -> bool:
        if self._outstanding >= DEPTH:
            self._reap()
        return self._outstanding < DEPTH

    def sent(self, request: int) -> bool:
        """Whether a request has completed. Raises TransportError if it completed with an error."""
        if request not in self._finished:
            self._reap()
        if request not in self._finished:
            return False
        self._check(self._finished.pop(request))
        return True

    def _reap(self) -> None:
        """Move all completions from the queue to `_finished`, where waiting threads find them."""
        with self._posting:
            while (completion := self._poll(self._pair.sends)) is not None:
                self._finished[completion.request] = completion
                self._outstanding -= 1

    def _received_notification(self) -> bool:
        completion = self._poll(self._pair.receives)
        if completion is not None:
            self._check(completion)
        return completion is not None

    def _poll(self, queue: CompletionQueue) -> Completion | None:
        try:
            return queue.poll()
        except VerbsError as error:
            raise PeerLost(f"the RDMA device failed: {error}") from None

    def _check(self, completion: Completion) -> None:
        if not completion.error:
            return
        if self._gone.is_set():
            raise PeerLost("the other process is gone")
        raise TransportError(f"the RDMA device reports: {completion.error}")

    def _until(self, condition: Callable[[], bool]) -> Generator[Wait, None, None]:
        while not condition():
            if self._gone.is_set():
                raise PeerLost("the other process is gone")
            yield shortly

    def abandon(self) -> None:
        self._gone.set()
        super().abandon()


class _Posted(Operation):
    """A request that was posted to the device."""

    def __init__(self, channel: RdmaChannel, request: int, using: ExitStack) -> None:
        self._channel, self._request, self._using = channel, request, using
        self._done = False

    def done(self) -> bool:
        if not self._done and self._channel.sent(self._request):
            self._done = True
            self._using.close()
        return self._done


def roce_gid(name: str, port: int) -> int:
    """The GID index to use on Ethernet: RoCE v2 with an IPv4 address, else any RoCE v2, else 0.

    Source: Documentation/ABI/stable/sysfs-class-infiniband, gid_attrs/types.
    """
    folder = f"/sys/class/infiniband/{name}/ports/{port}"
    found: list[tuple[int, int]] = []
    try:
        for index in sorted(int(entry) for entry in os.listdir(f"{folder}/gid_attrs/types")):
            try:
                with open(f"{folder}/gid_attrs/types/{index}", encoding="ascii") as file:
                    kind = file.read().strip()
                with open(f"{folder}/gids/{index}", encoding="ascii") as file:
                    gid = file.read().strip()
            except OSError:  # reading an empty entry fails with EINVAL
                continue
            if kind == "RoCE v2" and gid.replace(":", "").strip("0"):
                found.append((0 if gid.startswith("0000:0000:0000:0000:0000:ffff:") else 1, index))
    except OSError as error:
        raise PathUnavailable(f"{folder}: {error.strerror}") from None
    return min(found)[1] if found else 0
