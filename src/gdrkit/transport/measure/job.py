"""A measurement between this process and another one, on this node or on another node over ssh."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from gdrkit.agent.launch import isolated, ssh
from gdrkit.transport import Connection, TransportError, generate_key, listen
from gdrkit.transport.measure import remote
from gdrkit.transport.measure.peer import PeerTask
from gdrkit.transport.measure.sweep import SECONDS_PER_SIZE, SweepMemory, SweepPoint, lead

if TYPE_CHECKING:
    import subprocess

CONNECT_SECONDS = 60.0
_END_SECONDS = 10.0


class MeasureEnd(NamedTuple):
    """One end of a measurement: a CUDA ordinal or None for host memory, and an RDMA device or None."""

    gpu: int | None = None
    device: str | None = None


def measure(
    path: str,
    here: MeasureEnd,
    there: MeasureEnd,
    sizes: tuple[int, ...],
    *,
    host: str | None = None,
    address: str | None = None,
    on_point: Callable[[SweepPoint], Any] = lambda point: None,
    seconds_per_size: float = SECONDS_PER_SIZE,
) -> list[SweepPoint]:
    """Measure one path with every size. `host` is the ssh destination; None is this node.

    `address` is this node's address to listen on; by default, with `host`, the one that ssh connected from.
    `on_point` and `seconds_per_size` as in `lead`. Raises TransportError with the other side's error.
    """
    with session(path, here, there, sizes, host=host, address=address) as (connection, _):
        return lead(connection, SweepMemory(here.gpu), sizes, on_point, seconds_per_size)


@contextmanager
def session(
    path: str,
    here: MeasureEnd,
    there: MeasureEnd,
    sizes: tuple[int, ...],
    *,
    rounds: tuple[int, ...] = (),
    host: str | None = None,
    address: str | None = None,
) -> Iterator[tuple[Connection, int]]:
    """A connection to the other process, which runs the follower's side, and its process ID. As `measure`;
    with `rounds` the other process follows a proof.
    """
    key = generate_key()
    with _other(host) as (process, client_address):
        own_address = address or client_address or "127.0.0.1"
        with listen(own_address, key=key, gpu=here.gpu, device=here.device, paths=(path,)) as listener:
            task = PeerTask(
                *listener.address, key.hex(), path, list(sizes), there.gpu, there.device, list(rounds)
            )
            remote.tell(process, task.line(), CONNECT_SECONDS)
            try:
                with listener.accept(CONNECT_SECONDS) as connection:
                    yield connection, process.pid
            except TransportError as error:
                raise TransportError(f"{error}{remote.last_words(process)}") from None


@contextmanager
def _other(host: str | None) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """The other process, and this node's address as the other node sees it. The process ends with the
    block. Errors name the host.
    """
    command = isolated("gdrkit.transport.measure.peer") if host is None else ssh(host, remote.COMMAND)
    try:
        with remote.process(command, _END_SECONDS) as process:
            if host is None:
                yield process, ""
            else:
                yield process, remote.client_address(remote.introduce(process, CONNECT_SECONDS))
    except TransportError as error:
        if host is not None:
            error.args = (f"{host}: {error}",)
        raise
