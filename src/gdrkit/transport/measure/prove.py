"""Collects the evidence of a proof: moves known bytes over one path, and reads every counter before and
after.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import cast

import msgspec

from gdrkit.agent.native.cuda_abi import DEVICE_ATTRIBUTES
from gdrkit.transport import Buffer, Connection
from gdrkit.transport.measure.counters import Counters, CounterValue
from gdrkit.transport.measure.job import MeasureEnd, session
from gdrkit.transport.measure.prove_peer import CRC_BYTES, REGISTRATION_BYTES, WAIT_SECONDS
from gdrkit.transport.measure.sweep import SweepMemory, fill_pattern
from gdrkit.transport.native.cuda import cuda
from gdrkit.transport.path_names import PathName
from gdrkit.transport.proof.evidence import CounterReading, MemorySearch, Registration, TrafficWindow, Trial
from gdrkit.transport.proof.table import REGISTRATION_COUNTERS

# -- searches another process's memory for bytes, to see whether they passed through it --

_STEP = 16 << 20
_KERNELS_OWN = ("[vvar]", "[vvar_vclock]", "[vsyscall]", "[vdso]")
"""Pages that the kernel maps into every process (proc_pid_maps(5)); they hold no data of the process."""
_HIGHEST = 1 << 62  # the address of vsyscall is too large an offset for pread(2)


def search(process: int, wanted: bytes) -> MemorySearch:
    """Search all readable mappings of a process, including pinned and shared memory. `unreadable` has the
    reason if this process has no permission (ptrace(2), "Ptrace access mode checking").

    Memory that is mapped but was never touched reads as zeros. NVIDIA's pinned memory can be read this way.
    """
    try:
        return _search(process, wanted)
    except OSError as error:
        return MemorySearch(0, 0, unreadable=f"/proc/{process}/mem: {error.strerror}")


def _search(process: int, wanted: bytes) -> MemorySearch:
    count = searched = unread = 0
    with open(f"/proc/{process}/maps", encoding="utf-8", errors="replace") as file:
        maps = file.read().splitlines()
    memory = os.open(f"/proc/{process}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        for line in maps:
            fields = line.split(None, 5)
            start, end = (int(word, 16) for word in fields[0].split("-"))
            if "r" not in fields[1] or end > _HIGHEST or fields[-1] in _KERNELS_OWN:
                continue
            tail = b""
            for offset in range(start, end, _STEP):
                size = min(_STEP, end - offset)
                data = _read(memory, offset, size)
                searched += len(data)
                unread += size - len(data)
                count += (tail + data).count(wanted)
                tail = data[-(len(wanted) - 1) :] if len(wanted) > 1 else b""
    finally:
        os.close(memory)
    return MemorySearch(count, searched, unread)


def _read(memory: int, offset: int, size: int) -> bytes:
    """The bytes from `offset` on; fewer if a page cannot be read."""
    parts = []
    done = 0
    while done < size:
        try:
            part = os.pread(memory, size - done, offset + done)
        except OSError:  # EIO: memory of a device
            break
        if not part:
            break
        parts.append(part)
        done += len(part)
    return b"".join(parts)


IDLE_SECONDS = 0.3
SETTLE_SECONDS = 0.15
"""On an H200 NVML's values were up to date at once; other drivers refresh them every 100 ms."""


def trial(
    path: PathName,
    here: MeasureEnd,
    there: MeasureEnd,
    size_bytes: int,
    repeats: int,
    *,
    host: str | None = None,
    address: str | None = None,
    watched: tuple[int, int] | None = None,
) -> Trial:
    """Send messages of `size_bytes` in two rounds, of `repeats` and twice as many messages.

    `watched` are the GPUs whose counters are read, by default those of the two ends; a control run watches
    GPUs that it does not use. Raises TransportError, CudaNotAvailable, CudaError.
    """
    rounds = (1, repeats, 2 * repeats)
    gpus = watched or (here.gpu, there.gpu if host is None else None)
    base = Trial(
        path=path,
        source="host" if here.gpu is None else "gpu",
        destination="host" if there.gpu is None else "gpu",
        one_gpu=here.gpu is not None and here.gpu == there.gpu and host is None,
        one_node=host is None,
        integrated=here.gpu is not None and cuda().attribute(here.gpu, DEVICE_ATTRIBUTES["INTEGRATED"]) == 1,
    )
    source, destination = (None if gpu is None else cuda().address(gpu) for gpu in gpus)
    counters = Counters(source, destination, here.device)
    try:
        with session(path, here, there, (size_bytes,), rounds=rounds, host=host, address=address) as (
            connection,
            process,
        ):
            return _run(connection, process, base, counters, SweepMemory(here.gpu), size_bytes, repeats)
    finally:
        counters.close()


def _run(
    connection: Connection,
    process: int,
    base: Trial,
    counters: Counters,
    memory: SweepMemory,
    size_bytes: int,
    repeats: int,
) -> Trial:
    """The trial `base`, completed with everything that needs the connection."""
    held = counters.held()
    what = memory.take(size_bytes)
    registered, rdma = connection.register(what), connection.path == "verbs"
    registered_there = _receive_registration(connection)
    _sender(connection, what, 1)()
    mark = fill_pattern(what)
    windows = []
    for count in (repeats, 2 * repeats):
        windows.append(_window(counters, held, 0, lambda: time.sleep(IDLE_SECONDS)))
        windows.append(_window(counters, held, count * size_bytes, _sender(connection, what, count)))
    searched = search(process, mark) if base.one_node else None
    right = _compare(connection, what)
    memory.give_back(what)
    return msgspec.structs.replace(
        base,
        path=cast(PathName, connection.path),
        registered=cast(Registration, registered) if rdma else "",
        registered_there=cast(Registration, registered_there) if rdma else "",
        bytes_right=right,
        windows=tuple(windows),
        search=searched,
        refusals=tuple(f"{it.path}: {it.call}: {it.words}" for it in connection.refusals),
    )


def _receive_registration(connection: Connection) -> str:
    name = bytearray(REGISTRATION_BYTES)
    connection.recv(name).wait(WAIT_SECONDS)
    return name.decode("ascii").strip()


def _sender(connection: Connection, what: Buffer, count: int) -> Callable[[], None]:
    """Returns once the receiver is ready; the returned function sends, and waits until all has arrived."""

    def ready() -> None:
        connection.recv(bytearray(1)).wait(WAIT_SECONDS)

    def send() -> None:
        for _ in range(count):
            connection.send(what, stream=None).wait(WAIT_SECONDS)
        ready()

    ready()
    return send


def _compare(connection: Connection, what: Buffer) -> bool:
    """Whether both ends have the same bytes. This copies them into host memory, so search that first."""
    connection.send(b"\0").wait(WAIT_SECONDS)
    crc = bytearray(CRC_BYTES)
    connection.recv(crc).wait(WAIT_SECONDS)
    equal = int.from_bytes(crc, "little") == what.crc32()
    connection.send(b"\0").wait(WAIT_SECONDS)
    return equal


def _window(
    counters: Counters, held: dict[str, CounterValue], count: int, work: Callable[[], None]
) -> TrafficWindow:
    """The counters around `work`. Registrations are compared with their number before ours."""
    before = counters.read()
    begun = time.monotonic()
    work()
    if count:
        time.sleep(SETTLE_SECONDS)
    seconds = time.monotonic() - begun
    after = counters.read()
    if count:
        before |= {name: held[name] for name in REGISTRATION_COUNTERS}
    return TrafficWindow(count, seconds, tuple(_reading(name, before[name], after[name]) for name in after))


def _reading(name: str, before: CounterValue, after: CounterValue) -> CounterReading:
    why = before.unreadable or after.unreadable
    return CounterReading(name, before.value, after.value, after.wraps_at, why)  # type: ignore[arg-type]
