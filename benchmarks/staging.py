"""What keeps one message through host memory below the rate of a plain copy, on two GPUs.

    python -m benchmarks.staging [--gpus 0,1] [--json FILE]

One process, pinned memory for the whole message, and no protocol: the further work of a transport can only
make it slower. Work is queued while its stream is blocked, and timed from its release on. So Python's time
counts only where a chunk is queued after the one before it has arrived. For sixteen copy sizes it also
shows how the end of a copy is detected: how much later from a word that another stream writes, and from an
event, than from a word that the copying stream writes. `batch` needs cuMemcpyBatchAsync of CUDA 13 (driver
580 or later). A batch does not show when its parts are complete, so a second copy could not follow them.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from gdrkit.agent.native.cuda import load
from gdrkit.agent.native.cuda_abi import EVENT_DISABLE_TIMING, REGISTER_PORTABLE, STREAM_NON_BLOCKING
from gdrkit.transport.native.cuda import cuda

SIZE_BYTES = 256 << 20
CHUNKS_MIB = (1, 2, 4, 6, 8, 12, 16)
DETECTED_BYTES = tuple((1 << 20) + step * (96 << 10) for step in range(16))  # 1.8 us from one to the next
_DETECTIONS = 30
_REPEATS = 9
_GO, _ARRIVED, _TAKEN = 0, 256, 512
"""Offsets of the words that streams wait for, each in its own cache line."""
_SETTLE_SECONDS = 0.002
_IN_STREAM_ORDER = 1  # CU_MEMCPY_SRC_ACCESS_ORDER_STREAM
_T = TypeVar("_T")
Cuts = list[tuple[int, int]]
"""The offset and the size in bytes of each chunk."""


class _Attributes(ctypes.Structure):
    """CUmemcpyAttributes of cuda.h: two CUmemLocation between the order and the flags."""

    _fields_ = (("order", ctypes.c_int), ("locations", ctypes.c_int * 4), ("flags", ctypes.c_uint))


class Machine:
    """The memory of a message on both GPUs and in between, and streams."""

    def __init__(self, out: int, into: int) -> None:
        self.driver, self.out, self.into = cuda(), out, into
        self.words = self._host(4096)
        self.host = self._host(SIZE_BYTES)
        self.memory, self.streams, self.events = dict[int, int](), dict[int, list[int]](), dict[int, int]()
        for device in (out, into):
            self.driver.use(device)
            self.memory[device] = self.driver.number("cuMemAlloc_v2", SIZE_BYTES)
            self.streams[device] = [
                self.driver.number("cuStreamCreate", STREAM_NON_BLOCKING) for _ in range(3)
            ]
            self.events[device] = self.driver.number("cuEventCreate", EVENT_DISABLE_TIMING)

    def _host(self, size: int) -> int:
        self.driver.use(self.out)
        address = self.driver.number("cuMemHostAlloc", size, REGISTER_PORTABLE)
        ctypes.memset(address, 0, size)
        return address

    def word(self, offset: int) -> ctypes.c_uint32:
        return ctypes.c_uint32.from_address(self.words + offset)

    def wait(self, stream: int, offset: int, value: int) -> None:
        self.driver.call("cuStreamWaitValue32_v2", stream, self.words + offset, value, 0)

    def sides(self, device: int, gpu: _T, host: _T) -> tuple[_T, _T]:
        """Destination and source: from the sending GPU, or to the receiving one."""
        return (host, gpu) if device == self.out else (gpu, host)

    def copy(self, device: int, offset: int, size: int, stream: int) -> None:
        """Queue one chunk."""
        destination, source = self.sides(device, self.memory[device] + offset, self.host + offset)
        self.driver.call("cuMemcpyAsync", destination, source, size, stream)

    def count(self, device: int, stream: int, offset: int, value: int) -> None:
        """Set a word after a stream's work so far, on another stream, so that the first one's copies
        continue.
        """
        counting = self.streams[device][2]
        self.driver.call("cuEventRecord", self.events[device], stream)
        self.driver.call("cuStreamWaitEvent", counting, self.events[device], 0)
        self.driver.call("cuStreamWriteValue32_v2", counting, self.words + offset, value, 0)

    def seconds(self, queue: Callable[[], object], follow: Callable[[], object] = lambda: None) -> float:
        """Seconds from the release of the work that `queue` queues to the end of all streams, median of
        some runs.

        `follow` runs after the release.
        """
        samples = []
        for _ in range(_REPEATS):
            self.settle()
            for offset in (_GO, _ARRIVED, _TAKEN):
                self.word(offset).value = 0
            for device, streams in self.streams.items():
                self.driver.use(device)
                for stream in streams[:2]:
                    self.wait(stream, _GO, 1)
            queue()
            time.sleep(_SETTLE_SECONDS)
            begun = time.perf_counter()
            self.word(_GO).value = 1
            follow()
            self.settle()
            samples.append(time.perf_counter() - begun)
        return statistics.median(samples)

    def settle(self) -> None:
        """Wait for all queued work."""
        for device in (self.out, self.into):
            self.driver.use(device)
            for stream in self.streams[device]:
                self.driver.call("cuStreamSynchronize", stream)


def whole(machine: Machine, device: int) -> float:
    def queue() -> None:
        machine.driver.use(device)
        machine.copy(device, 0, SIZE_BYTES, machine.streams[device][0])

    return machine.seconds(queue)


def chunked(machine: Machine, device: int, cuts: Cuts, streams: int) -> float:
    """All chunks of one direction, alternating between that many streams."""

    def queue() -> None:
        machine.driver.use(device)
        for number, (offset, size) in enumerate(cuts):
            machine.copy(device, offset, size, machine.streams[device][number % streams])

    return machine.seconds(queue)


def batch(machine: Machine, device: int, cuts: Cuts) -> float | None:
    """All chunks of one direction in one call, or None if the driver has no such call."""
    function = getattr(load()[0], "cuMemcpyBatchAsync_v2", None)
    if function is None:
        return None
    function.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_size_t] + [ctypes.c_void_p] * 2
    function.argtypes += [ctypes.c_size_t, ctypes.c_uint64]
    count = len(cuts)
    gpu = (ctypes.c_uint64 * count)(*(machine.memory[device] + offset for offset, _ in cuts))
    host = (ctypes.c_uint64 * count)(*(machine.host + offset for offset, _ in cuts))
    sizes = (ctypes.c_size_t * count)(*(size for _, size in cuts))
    attributes, first = _Attributes(order=_IN_STREAM_ORDER), ctypes.c_size_t(0)
    destination, source = machine.sides(device, gpu, host)

    def queue() -> None:
        machine.driver.use(device)
        stream = machine.streams[device][0]
        result = function(
            destination, source, sizes, count, ctypes.byref(attributes), ctypes.byref(first), 1, stream
        )
        if result:
            raise machine.driver.error("cuMemcpyBatchAsync_v2", result)

    return machine.seconds(queue)


def chain(machine: Machine, cuts: Cuts, *, waits: str, ring: int = 0) -> float:
    """Both directions: each chunk goes in when it is out. `waits` says who sees that: gpu or host.

    With a ring of so many chunks the receiver counts, too, and the sender's GPU waits for half of it.
    """
    out, into, driver = machine.out, machine.into, machine.driver
    arrived = machine.word(_ARRIVED)

    def send() -> None:
        driver.use(out)
        copying = machine.streams[out][0]
        for number, (offset, size) in enumerate(cuts):
            if ring and number >= ring and number % (ring // 2) == 0:
                machine.wait(copying, _TAKEN, number - ring // 2)
            machine.copy(out, offset, size, copying)
            machine.count(out, copying, _ARRIVED, number + 1)

    def receive(number: int, stream: int) -> None:
        machine.copy(into, *cuts[number], stream)
        if ring:
            machine.count(into, stream, _TAKEN, number + 1)

    def both() -> None:
        send()
        driver.use(into)
        for number in range(len(cuts)):
            stream = machine.streams[into][number % 2]
            machine.wait(stream, _ARRIVED, number + 1)
            receive(number, stream)

    def follow() -> None:
        driver.use(into)
        for number in range(len(cuts)):
            while arrived.value <= number:
                pass
            receive(number, machine.streams[into][0])

    return machine.seconds(both) if waits == "gpu" else machine.seconds(send, follow)


def detected(machine: Machine, device: int, size: int, way: str) -> float:
    """Seconds from the call of one copy until this CPU detects its end, median of some: by a word that the
    copying stream writes (`its stream`), by a word that another one writes (`another stream`), or by `an
    event`.
    """
    driver, word, samples = machine.driver, machine.word(_ARRIVED), []
    query, copying = driver.function("cuEventQuery"), machine.streams[device][0]
    driver.use(device)
    for number in range(1, _DETECTIONS + 1):
        begun = time.perf_counter()
        machine.copy(device, 0, size, copying)
        if way == "an event":
            driver.call("cuEventRecord", machine.events[device], copying)
            while query(machine.events[device]):
                pass
        else:
            if way == "its stream":
                driver.call("cuStreamWriteValue32_v2", copying, machine.words + _ARRIVED, number, 0)
            else:
                machine.count(device, copying, _ARRIVED, number)
            while word.value != number:
                pass
        samples.append(time.perf_counter() - begun)
        machine.settle()
    word.value = 0
    return statistics.median(samples)


def even(chunk: int) -> Cuts:
    count = -(-SIZE_BYTES // chunk)
    step = -(-SIZE_BYTES // count // 4096) * 4096
    return list(_cut(step for _ in range(count + 1)))


def varied(first: int, last: int) -> Cuts:
    """Chunks that grow or shrink evenly from the first to the last."""
    count = 2 * SIZE_BYTES // (first + last)
    return list(_cut(first + (last - first) * number // count for number in range(2 * count)))


def _cut(steps: Iterator[int]) -> Iterator[tuple[int, int]]:
    offset = 0
    for step in steps:
        size = min(max(step // 4096 * 4096, 512 << 10), SIZE_BYTES - offset)
        if size <= 0:
            return
        yield offset, size
        offset += size


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gpus", default="0,1", help="the sending and the receiving GPU")
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    options = parser.parse_args()
    out, into = (int(number) for number in options.gpus.split(","))
    machine, kept = Machine(out, into), dict[str, float]()
    bound = 0.0

    def show(name: str, seconds: float | None, base: float = 0.0, pauses: int = 0) -> None:
        if seconds is None:
            print(f"{name:<44} not supported by this driver")
            return
        kept[name] = seconds
        rate = f"{SIZE_BYTES / seconds / 1e9:6.1f} GB/s"
        share = f"{bound / seconds:7.1%}" if bound else " " * 7
        pause = f"{(seconds - base) / pauses * 1e6:7.2f} us a chunk" if pauses else ""
        print(f"{name:<44}{seconds * 1e3:8.3f} ms {rate} {share} {pause}", flush=True)

    ways = {"out": out, "in": into}
    alone = {way: whole(machine, device) for way, device in ways.items()}
    for way, seconds in alone.items():
        show(f"{way}, one copy", seconds)
    bound = max(alone.values())
    for way, device in ways.items():
        for mebibytes in (1, 4, 8):
            cuts = even(mebibytes << 20)
            for streams in (1, 2):
                seconds = chunked(machine, device, cuts, streams)
                show(f"{way}, {mebibytes} MiB, {streams} stream(s)", seconds, alone[way], len(cuts) - 1)
            show(
                f"{way}, {mebibytes} MiB, one batch", batch(machine, device, cuts), alone[way], len(cuts) - 1
            )
    for way, device in ways.items():
        its_stream = [detected(machine, device, size, "its stream") for size in DETECTED_BYTES]
        for other in ("another stream", "an event"):
            later = [
                (detected(machine, device, size, other) - base) * 1e6
                for size, base in zip(DETECTED_BYTES, its_stream, strict=True)
            ]
            kept[f"{way}, us later by {other}"] = statistics.mean(later)
            print(
                f"{way}, later by {other} than on its own".ljust(44),
                " ".join(f"{delay:.1f}" for delay in later),
                "us",
                flush=True,
            )
    for waits in ("gpu", "host"):
        for mebibytes in CHUNKS_MIB:
            show(
                f"out and in, {mebibytes} MiB, the {waits} waits",
                chain(machine, even(mebibytes << 20), waits=waits),
            )
        for mebibytes in (4, 6, 8):
            cuts = even(mebibytes << 20)
            seconds = chain(machine, cuts, waits=waits, ring=64 // mebibytes // 2 * 2)
            show(f"out and in, {mebibytes} MiB, ring of 64 MiB, the {waits} waits", seconds)
            seconds = chain(machine, cuts, waits=waits, ring=1 << 20)
            show(f"out and in, {mebibytes} MiB, counted, the {waits} waits", seconds)
        for first, last in ((8, 2), (12, 2), (2, 8), (4, 8), (8, 4)):
            cuts = varied(first << 20, last << 20)
            show(f"out and in, {first} to {last} MiB, the {waits} waits", chain(machine, cuts, waits=waits))
    if options.json:
        options.json.write_text(json.dumps(kept, indent=1))


if __name__ == "__main__":
    main()
