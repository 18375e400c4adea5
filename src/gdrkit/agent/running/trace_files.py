"""Registrations of memory as they happen, by tracefs: for kernels and processors whose perf has no kprobes.

It writes to tracefs: probes in a group of its own, and an instance, both named for this process and its
start. They are removed at the end. After SIGKILL they stay, and write into a buffer that is not read;
the next run removes them. Sources: Linux Documentation/trace/kprobetrace.rst ($argN, at the entry
of a function), ftrace.rst; kernel/trace/trace_output.c, trace_print_context(): the name of a thread has 16
columns, then `-` and its number.
"""

from __future__ import annotations

import errno
import os
import re
from typing import Dict, List, Tuple

from .files import names_in, start_of, text_of
from .probes import PROBES, Probe
from .rdma import thread_group

FOLDERS = ("/sys/kernel/tracing", "/sys/kernel/debug/tracing")
_MISSING = (errno.ENOENT, errno.EINVAL)
"""For a function that this kernel has not: 6.1 and 6.12 say EINVAL."""
_GROUP = re.compile(r"gdr_(\d{1,10})_(\d{1,20})")
_IN_EVENTS = re.compile(r"^[pr]\d*:(gdr_\d{1,10}_\d{1,20})/(\w{1,80}) ", re.MULTILINE | re.ASCII)
_NAME_BYTES = 16
_CALL = re.compile(
    rb"-(\d{1,10}) +\[\d+\] \S+ +[\d.]+: (\w{1,80}): \([^()]{1,200}\)(?: length=0x([0-9a-f]{1,16}))?"
)
_BUFFER_KIB = 256
_READ_BYTES, _MOST_BYTES = 1 << 16, 1 << 24


class TraceFiles:
    """Probes of a group of this process. Raises FileNotFoundError where tracefs is not mounted or has no
    kprobes, and OSError where nothing may be probed."""

    def __init__(self, folder: str = "") -> None:
        self._folder = folder or _mounted()
        self._group = "gdr_%d_%d" % (os.getpid(), start_of(os.getpid()) or 0)
        self._instance = "%s/instances/%s" % (self._folder, self._group)
        self._pipe, self._rest, self._lost = -1, b"", 0
        self._probes: Dict[str, Probe] = {}
        try:
            self._set()
        except BaseException:
            self.close()
            raise
        self.probes = sorted(self._probes)

    def _set(self) -> None:
        os.mkdir(self._instance)
        for probe in PROBES:
            fetch = " length=$arg%d:x64" % probe.length if probe.length else ""
            line = "p:%s/%s %s%s" % (self._group, probe.function, probe.function, fetch)
            try:
                _write(self._folder + "/kprobe_events", line, os.O_APPEND)
                self._probes[probe.function] = probe
            except OSError as error:
                if error.errno not in _MISSING:
                    raise
        if not self._probes:
            raise OSError(errno.ENOENT, "no driver of an RDMA device is loaded")
        _write(self._instance + "/buffer_size_kb", str(_BUFFER_KIB))
        _write("%s/events/%s/enable" % (self._instance, self._group), "1")
        self._pipe = os.open(self._instance + "/trace_pipe", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)

    def counts(self) -> "Tuple[Dict[Tuple[int, str], List[int]], int]":
        """What came since the last time, and how much was lost."""
        found: Dict[Tuple[int, str], List[int]] = {}
        for line in self._lines():
            call = called(line)
            probe = self._probes.get(call[1]) if call else None
            if call is None or probe is None:
                continue
            row = found.setdefault((thread_group(call[0]) or call[0], probe.kind), [0, 0])
            row[0] += 1
            row[1] += call[2]
        lost = sum(map(self._lost_on, names_in(self._instance + "/per_cpu")))
        new, self._lost = lost - self._lost, lost
        return found, max(0, new)

    def _lines(self) -> List[bytes]:
        left = _MOST_BYTES
        while left > 0:
            try:
                block = os.read(self._pipe, _READ_BYTES)
            except BlockingIOError:
                break
            if not block:
                break
            left -= len(block)
            self._rest += block
        *lines, self._rest = self._rest.split(b"\n")
        return lines

    def _lost_on(self, cpu: str) -> int:
        """Events that were overwritten or dropped on a CPU."""
        text = text_of("%s/per_cpu/%s/stats" % (self._instance, cpu))
        return sum(int(number) for number in re.findall(r"(?:overrun|dropped events): (\d{1,18})", text))

    def close(self) -> None:
        if self._pipe >= 0:  # an instance whose trace_pipe is open cannot be removed: EBUSY
            os.close(self._pipe)
            self._pipe = -1
        remove(self._folder, self._group)


def called(line: bytes) -> "Tuple[int, str, int] | None":
    """Thread, function and length of a call in a line of trace_pipe. The name of the thread may be anything:
    what is in its columns is not read."""
    match = _CALL.fullmatch(line[_NAME_BYTES:])
    return (int(match[1]), match[2].decode(), int(match[3] or b"0", 16)) if match else None


def remove_stale() -> List[str]:
    """Remove the groups of processes that have ended; returns their names. What cannot be inspected is left
    alone."""
    try:
        folder = _mounted()
        groups = {match[1] for match in _IN_EVENTS.finditer(text_of(folder + "/kprobe_events", 1 << 22))}
    except OSError:
        return []
    groups.update(names_in(folder + "/instances"))
    removed = []
    for group in sorted(groups):
        match = _GROUP.fullmatch(group)
        if match and start_of(int(match[1])) != int(match[2]) and remove(folder, group):
            removed.append(group)
    return removed


def remove(folder: str, group: str) -> bool:
    """Remove the instance and the probes of a group; returns whether all are gone. While it is followed
    nothing is removed: the instance is EBUSY then, and its process may be in another pid namespace."""
    instance = "%s/instances/%s" % (folder, group)
    if os.path.isdir(instance) and not _tried(os.rmdir, instance):  # it disables its events
        return False
    left = 0
    everywhere = "%s/events/%s/enable" % (folder, group)
    if os.path.exists(everywhere):
        left += not _tried(_write, everywhere, "0")
    for match in _IN_EVENTS.finditer(text_of(folder + "/kprobe_events", 1 << 22)):
        if match[1] == group:
            line = "-:%s/%s" % (group, match[2])
            left += not _tried(_write, folder + "/kprobe_events", line, os.O_APPEND)
    return not left


def _mounted() -> str:
    for folder in FOLDERS:
        if os.path.exists(folder + "/kprobe_events"):
            return folder
    raise FileNotFoundError(errno.ENOENT, "no tracefs with kprobes is mounted")


def _tried(call: "object", *arguments: "object") -> bool:
    try:
        call(*arguments)  # type: ignore[operator]
    except OSError:
        return False
    return True


def _write(path: str, text: str, flags: int = 0) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | flags)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
