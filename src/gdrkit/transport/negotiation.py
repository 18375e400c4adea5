"""What each side offers, the path that both can use, and the channels of that path."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from gdrkit.transport import protocol
from gdrkit.transport.buffers import Buffer
from gdrkit.transport.errors import PathUnavailable, TransportError
from gdrkit.transport.native.cuda import CudaError, CudaNotAvailable, cuda
from gdrkit.transport.native.verbs import VerbsError, VerbsNotAvailable
from gdrkit.transport.operation import Channel, Operation
from gdrkit.transport.path_names import PATHS
from gdrkit.transport.peer_direction import PeerDirection
from gdrkit.transport.peer_receiver import PeerReceiver
from gdrkit.transport.peer_sender import PeerSender
from gdrkit.transport.rdma import Endpoint, RdmaChannel
from gdrkit.transport.ring import RING_BYTES, Ring
from gdrkit.transport.sealed_socket import SealedSocket
from gdrkit.transport.shared import SharedDirection
from gdrkit.transport.shared_file import pid_namespace
from gdrkit.transport.socket_channel import TcpChannel

# -- a channel between two processes of a machine: one direction each way, over shared memory --


class LocalChannel(Channel):
    """Messages in both directions, on the path `shared` or `peer`."""

    def __init__(self, out: SharedDirection | PeerDirection, into: SharedDirection | PeerDirection) -> None:
        super().__init__((out, into))
        self.out, self.into = out, into
        self._pair()

    def prepare(self, device: int | None) -> None:
        if device is not None and device not in self.prepared:
            super().prepare(device)
            self._pair()

    def _pair(self) -> None:
        """Let a thread that waits for one direction drive both."""
        for one, other in zip(self.out.drivers(), self.into.drivers()):  # noqa: B905 (Python 3.9)
            one.partner, other.partner = other, one

    def transmit(self, what: Buffer, stream: int | None, crc32: int | None) -> Operation:
        self.prepare(what.device)
        return self.out.begin(what, stream, crc32)

    def receive(self, into: Buffer, stream: int | None) -> Operation:
        self.prepare(into.device)
        return self.into.begin(into, stream, None)


DIRECTIONS = 6
"""Three channels with two directions each; each direction needs a socket or a ring."""
_MORE_SOCKETS = 3
"""On `tcp`, for each direction of messages, after the DIRECTIONS."""
_SERVICE_SHARE = 4  # the rings for one-sided access are smaller than those for messages
_SMALL_SHARE = 4  # on `peer` few messages need a ring; between CPUs a CPU's cache should hold it
_Link = TypeVar("_Link")


class LocalSide(NamedTuple):
    """What one process offers: the CUDA ordinal of its GPU, its RDMA device, the paths it allows, and
    whether data on sockets must carry a MAC.
    """

    gpu: int | None
    device: str | None
    gid_index: int | None
    paths: tuple[str, ...]
    authenticate_data: bool = False

    def hello(self) -> protocol.Hello:
        address = ""
        if self.gpu is not None:
            address = cuda().address(self.gpu)
        return protocol.Hello(
            _boot_id(), pid_namespace(), address, self.device or "", self.paths, self.authenticate_data
        )


class PreparedPath:
    """One side's resources for a path, before it is known whether the other side can use it."""

    def __init__(self, path: str, side: LocalSide, mine: protocol.Hello, theirs: protocol.Hello) -> None:
        self.path, self.gpu = path, side.gpu
        self.anonymous = mine.pid_namespace == theirs.pid_namespace != ""
        self._large_rings = path == "shared" and bool(mine.gpu or theirs.gpu)
        self._authenticate_data = mine.authenticate_data or theirs.authenticate_data
        self.rings: list[Ring] = []
        self.sockets: dict[int, SealedSocket] = {}  # by index
        self.endpoint: Endpoint | None = None
        if path == "verbs":
            try:
                self.endpoint = Endpoint(side.device or "", side.gid_index)
            except (VerbsNotAvailable, VerbsError) as error:
                raise PathUnavailable(str(error)) from None

    @property
    def needed_sockets(self) -> int:
        return 0 if self._needs_rings else DIRECTIONS + 2 * _MORE_SOCKETS * (self.path == "tcp")

    @property
    def _needs_rings(self) -> bool:
        return self.path in ("peer", "shared")

    def make_rings(self) -> None:
        """Create the shared memory; the listener does this. Raises PathUnavailable."""
        if self._needs_rings:
            for index in range(DIRECTIONS):
                share = 1 if index < 2 else _SERVICE_SHARE
                share *= 1 if self._large_rings else _SMALL_SHARE
                self.rings.append(Ring.create(ring_bytes=RING_BYTES // share, anonymous=self.anonymous))

    def open_rings(self, names: Sequence[str]) -> None:
        """Open the shared memory; the connector does this. Raises PathUnavailable."""
        if self._needs_rings:
            if len(names) != DIRECTIONS:
                raise PathUnavailable("the other side named no rings")
            for name in names:
                self.rings.append(Ring.open(name))

    def ends(self) -> tuple[protocol.RdmaEnd, ...]:
        return self.endpoint.ends() if self.endpoint else ()

    def connect(self, ends: tuple[protocol.RdmaEnd, ...]) -> None:
        """Connect the queue pairs, if the path has any."""
        if self.endpoint:
            self.endpoint.connect(ends)

    def release(self) -> None:
        """Release the resources of a path that is not used."""
        for ring in self.rings:
            ring.close()
        for sealed in self.sockets.values():
            sealed.sock.close()
        if self.endpoint:
            self.endpoint.close()

    def channels(self, *, listening: bool) -> tuple[Channel, Channel, Channel]:
        """The channels for messages, for our requests and for the other side's requests."""
        for ring in self.rings:
            ring.unlink()
        rings = _directions(self.rings, listening)
        pairs = _directions([sealed for _, sealed in sorted(self.sockets.items())], listening)
        made: list[Channel]
        if self.path == "shared":
            made = [
                LocalChannel(SharedDirection(out, True), SharedDirection(into, False)) for out, into in rings
            ]
        elif self.path == "peer":
            made = [LocalChannel(PeerSender(out), PeerReceiver(into)) for out, into in rings]
        elif self.endpoint:
            made = [RdmaChannel(*pair, self.endpoint, index) for index, pair in enumerate(pairs)]
        else:
            made = []
            for lanes in ([pairs[0], *pairs[3:]], pairs[1:2], pairs[2:3]):
                outs, intos = zip(*lanes)  # noqa: B905 (Python 3.9)
                made.append(TcpChannel(outs, intos, self._authenticate_data))
        # The second channel is for the listener's requests, the third for the connector's.
        return (made[0], made[1], made[2]) if listening else (made[0], made[2], made[1])


def _directions(links: Sequence[_Link], listening: bool) -> list[tuple[_Link, _Link]]:
    """(out, in) of each channel; the listener sends on the links with even indices."""
    pairs = [(links[index], links[index + 1]) for index in range(0, len(links), 2)]
    return pairs if listening else [(into, out) for out, into in pairs]


def check_possible(path: str, mine: protocol.Hello, theirs: protocol.Hello) -> None:
    """Raise PathUnavailable if the two sides' hellos rule a path out."""
    if path not in mine.paths or path not in theirs.paths:
        raise PathUnavailable("not allowed on both sides")
    if path in ("peer", "shared") and mine.boot_id != theirs.boot_id:
        raise PathUnavailable("the two processes are on different machines")
    if path == "verbs" and (mine.authenticate_data or theirs.authenticate_data):
        raise PathUnavailable("an RDMA device does not authenticate data")
    if path == "verbs" and not (mine.device and theirs.device):
        raise PathUnavailable("both sides must name an RDMA device")
    if path == "peer":
        if not (mine.gpu and theirs.gpu):
            raise PathUnavailable("both sides must name a GPU")
        _check_peer_access(mine.gpu, theirs.gpu)


def check_paths(paths: tuple[str, ...]) -> None:
    """Raise TransportError for an unknown path name."""
    if unknown := [path for path in paths if path not in PATHS]:
        raise TransportError(f"no such path: {unknown[0]} (of {', '.join(PATHS)})")


def _check_peer_access(mine: str, theirs: str) -> None:
    try:
        driver = cuda()
        here, there = (driver.number("cuDeviceGetByPCIBusId", gpu.encode()) for gpu in (mine, theirs))
        if here != there and not driver.number("cuDeviceCanAccessPeer", here, there):
            raise PathUnavailable(f"{mine} cannot access the memory of {theirs}")
    except (CudaNotAvailable, CudaError) as error:
        raise PathUnavailable(f"{theirs} is not visible here: {error}") from None


def _boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:  # in a sandbox: assume that the two processes do not share a kernel
        return os.urandom(16).hex()
