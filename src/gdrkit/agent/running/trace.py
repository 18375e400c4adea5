"""Registrations of memory as they happen, by perf's kprobes: they end with their descriptors, in any case.

Only where perf has none, tracefs is used (`trace_files`). Of a region that exists already this shows
nothing. Root only; where the kernel is locked down to confidentiality it is not tried, since each try would
be a line in its log.

Sources: Linux include/uapi/linux/perf_event.h (perf_event_attr, PERF_ATTR_SIZE_VER5; perf_event_mmap_page);
kernel/events/core.c, perf_kprobe_event_init(); arch/*/include/uapi/asm/perf_regs.h; perf_event_open(2). The
numbers of arm64 were never run.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import platform
import struct
import time
from typing import Dict, Iterator, List, Tuple

from .children import Emit
from .files import text_of
from .probes import PROBES, Probe
from .system import refuse_confidential
from .trace_files import TraceFiles, remove_stale

_SYSCALL = {"x86_64": 298, "aarch64": 241}
_REGISTERS = {"x86_64": (5, 4, 3), "aarch64": (0, 1, 2)}
"""perf's numbers of the registers with the first three arguments."""
_TID, _REGS_INTR = 1 << 1, 1 << 18
_PAGES = 8
_SAMPLE, _LOST = 9, 2
_HEAD_AT, _TAIL_AT = 1024, 1032
_KPROBE_TYPE = "/sys/bus/event_source/devices/kprobe/type"
_MISSING = (errno.ENOENT, errno.EINVAL)
"""For a function that this kernel has not: its driver is not loaded."""


class SampleRing:
    """The samples of one probe on one CPU."""

    def __init__(self, probe: Probe, descriptor: int) -> None:
        self.probe, self._descriptor = probe, descriptor
        self._size = _PAGES * mmap.PAGESIZE
        self._memory = mmap.mmap(descriptor, self._size + mmap.PAGESIZE)

    def close(self) -> None:
        self._memory.close()
        os.close(self._descriptor)

    def take(self) -> Iterator[Tuple[int, bytes]]:
        """Kind and body of each record that has come."""
        head, tail = struct.unpack_from("=QQ", self._memory, _HEAD_AT)
        while tail < head:
            kind, _, length = struct.unpack("=IHH", self._bytes(tail, 8))
            if length < 8:
                break
            yield kind, self._bytes(tail + 8, length - 8)
            tail += length
        struct.pack_into("=Q", self._memory, _TAIL_AT, head)

    def _bytes(self, at: int, length: int) -> bytes:
        start = at % self._size
        end = min(self._size, start + length)
        found = self._memory[mmap.PAGESIZE + start : mmap.PAGESIZE + end]
        return found + self._memory[mmap.PAGESIZE : mmap.PAGESIZE + length - (end - start)]


Counts = Dict[Tuple[int, str], List[int]]
"""By process and kind: how many, and how many bytes."""


class Perf:
    """Probes by perf, on every CPU. Raises NoPerf, or OSError if nothing may be probed."""

    def __init__(self) -> None:
        self._rings = _rings()
        self.probes = sorted({ring.probe.function for ring in self._rings})

    def counts(self) -> Tuple[Counts, int]:
        """What came since the last time, and how much was lost."""
        counts: Counts = {}
        lost = 0
        for ring in self._rings:
            for kind, body in ring.take():
                if kind == _LOST and len(body) >= 16:
                    lost += struct.unpack_from("=QQ", body)[1]
                found = sample(body, ring.probe.length) if kind == _SAMPLE else None
                if found is not None:
                    row = counts.setdefault((found[0], ring.probe.kind), [0, 0])
                    row[0] += 1
                    row[1] += found[1]
        return counts, lost

    def close(self) -> None:
        for ring in self._rings:
            ring.close()


class NoPerf(OSError):
    """This kernel or processor has no kprobes by perf, but perhaps by tracefs."""


def follow(emit: Emit, seconds: float, every_s: float = 0.5) -> None:
    """Emit which probes are set, then what each process registered in each interval. Raises OSError if the
    kernel allows no such probe."""
    parent = os.getppid()
    refuse_confidential()
    for group in remove_stale():
        emit({"removed": group})
    source = _source()
    try:
        emit({"probes": source.probes})
        end = time.monotonic() + seconds
        while time.monotonic() < end and os.getppid() == parent:  # another one: it was killed
            time.sleep(every_s)
            counts, lost = source.counts()
            for (pid, meaning), (count, size) in sorted(counts.items()):
                emit({"pid": pid, "kind": meaning, "count": count, "bytes": size})
            if lost:
                emit({"lost": lost})
    finally:
        source.close()


def _source() -> "Perf | TraceFiles":
    try:
        return Perf()
    except NoPerf as error:
        try:
            return TraceFiles()
        except FileNotFoundError:
            raise error from None


def sample(body: bytes, argument: int, machine: str = "") -> "Tuple[int, int] | None":
    """The process and the length of a call: PERF_SAMPLE_TID, then PERF_SAMPLE_REGS_INTR in the order of the
    registers' numbers. None if the kernel gave no registers."""
    numbers = _REGISTERS[machine or platform.machine()]
    if len(body) < 16 + 8 * len(numbers):
        return None
    pid, _, abi = struct.unpack_from("=IIQ", body)
    if not abi:
        return None
    values = struct.unpack_from("=%dQ" % len(numbers), body, 16)
    return pid, values[sorted(numbers).index(numbers[argument - 1])] if argument else 0


def _rings() -> List[SampleRing]:
    """A ring for each function that this kernel has, on each CPU. Raises OSError if there is none."""
    machine = platform.machine()
    if machine not in _SYSCALL:
        raise NoPerf(errno.EOPNOTSUPP, "registers of %s are not known" % machine)
    kind = int(text_of(_KPROBE_TYPE) or "-1")
    if kind < 0:
        raise NoPerf(errno.ENOENT, "this kernel has no kprobes")
    rings: List[SampleRing] = []
    try:
        for probe in PROBES:
            for cpu in cpus(text_of("/sys/devices/system/cpu/online")):
                try:
                    rings.append(SampleRing(probe, _open(kind, probe.function, cpu, machine)))
                except OSError as error:
                    if error.errno not in _MISSING:
                        raise
                    break
    except BaseException:
        for ring in rings:
            ring.close()
        raise
    if not rings:
        raise OSError(errno.ENOENT, "no driver of an RDMA device is loaded")
    return rings


def _open(kind: int, function: str, cpu: int, machine: str) -> int:
    """perf_event_open(2) for a kprobe at the entry of a function. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    name = ctypes.create_string_buffer(function.encode())
    mask = sum(1 << number for number in _REGISTERS[machine])
    fields = (
        kind,
        112,
        0,
        1,
        _TID | _REGS_INTR,
        0,
        0,
        1,
        0,
        ctypes.addressof(name),
        0,
        0,
        0,
        0,
        0,
        mask,
        0,
        0,
        0,
    )
    attributes = ctypes.create_string_buffer(struct.pack("=IIQQQQQIIQQQQIiQIHH", *fields), 112)
    descriptor = int(libc.syscall(_SYSCALL[machine], attributes, -1, cpu, -1, ctypes.c_ulong(8)))
    if descriptor < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return descriptor


def cpus(text: str) -> List[int]:
    """The CPUs of a list such as 0-3,8: Documentation/admin-guide/cputopology.rst."""
    found: List[int] = []
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and (last or first).isdigit() and int(last or first) < 1 << 14:
            found += range(int(first), int(last or first) + 1)
    return found


def raise_limit() -> None:
    """As many descriptors as this user may have: one for each probe and CPU."""
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
