"""Processes that hold a device of a GPU or of a network now, from /proc.

Sources: proc(5); Linux drivers/dma-buf/dma-buf.c, dma_buf_show_fdinfo(). Descriptors, maps and the
environment of another user's process need root (ptrace_may_access); status, stat and cgroup do not. smaps is
never read: it walks page tables.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from typing import Any, Dict, List, Optional, Tuple

from ..collect.settings import shown
from .children import Emit, Relay
from .files import hides_processes, namespace, start_in, ticks_after_boot
from .libraries import ProcessLibrary, mapped

DEVICE = re.compile(
    r"/dev/(?:nvidia\d{1,4}|nvidiactl|nvidia-uvm|nvidia-fs\d{0,4}|infiniband/(?:uverbs|issm|umad|rdma_cm)\d{0,4}"
    r"|gdrdrv|hfi1_\d{1,4}|cxi\d{1,4}|xpmem)"
)
"""Devices of GPUs, verbs, GDRCopy, GPUDirect Storage, Omni-Path (hfi1) and Slingshot (cxi)."""

_MAPPED_DEVICE = re.compile(rb" (/dev/[^ \n]{1,64})$", re.MULTILINE)
_SHARED = re.compile(
    rb"^([0-9a-f]{1,16})-([0-9a-f]{1,16}) .w.s [0-9a-f]{1,16} ([0-9a-f]{1,8}):([0-9a-f]{1,8}) (\d{1,20}) +"
    rb"(/dev/shm/(?:nccl-)?|/memfd:)[^\n]{0,256}$",
    re.MULTILINE,
)
"""A line of maps that other processes may write to as well: shm_overview(7), memfd_create(2). Only
what tells NCCL's own is kept of a name: programs name such files as they like."""
_SWITCH = re.compile(
    r"(?:NCCL|UCX|NVSHMEM|FI|OFI_NCCL|MLX5|RDMAV|IBV)_\w{1,60}|CUDA_VISIBLE_DEVICES|PYTORCH_CUDA_ALLOC_CONF"
    r"|SLURM_JOB_ID|SLURM_STEP_ID|SLURM_PROCID|LOCAL_RANK|RANK|WORLD_SIZE|OMPI_COMM_WORLD_RANK|PMIX_RANK",
    re.ASCII,
)
"""Variables that the libraries read, and those that name job and rank. No others are kept."""
_SWITCHES, _VALUE_CHARACTERS = 64, 200

DESCRIPTORS, SOCKETS, BUFFERS, SHARED = 1 << 16, 1 << 14, 1 << 14, 256
"""Most descriptors looked at, and most sockets, dma-bufs and shared files kept, of one process."""
_SMALL, _ENVIRONMENT, _MAPS = 1 << 14, 6 << 20, 1 << 24
"""Most bytes read: of stat and cgroup, of environ (Linux fs/exec.c, bprm_stack_limits(): 3/4 of 8 MiB for it
and the arguments), and of maps."""


LOOKS = 3
"""How often a process is read that starts another program meanwhile, by execve(2): its descriptors may be of
one, and its environment of the next."""
UNREADABLE = 4
"""Processes that are named although none of their files can be read."""
ENDED = (errno.ENOENT, errno.ESRCH)
"""What the files of a process answer that has ended, and a descriptor that was closed."""


class Reader:
    """Reads one process; notes in `denied` what could not be read although the process lives."""

    def __init__(self, pid: int, proc: str) -> None:
        self.pid, self.folder = pid, "%s/%d" % (proc, pid)
        self.denied: List[str] = []
        self.why: Dict[str, str] = {}

    def read(self, name: str, limit_bytes: int = _SMALL) -> bytes:
        """The first bytes of a file; none if it cannot be read."""
        try:
            with open("%s/%s" % (self.folder, name), "rb") as stream:
                found = stream.read(limit_bytes + 1)
        except OSError as error:
            self._note(name, error)
            return b""
        if len(found) > limit_bytes:
            self.cut_off(name)
        return found[:limit_bytes]

    def link(self, name: str) -> str:
        """Where a link points; empty if it cannot be read."""
        try:
            return os.readlink("%s/%s" % (self.folder, name))
        except OSError as error:
            self._note(name.partition("/")[0], error)
        return ""

    def names(self, name: str) -> List[str]:
        """Names in a folder; none if it cannot be listed."""
        try:
            return os.listdir("%s/%s" % (self.folder, name))
        except OSError as error:
            self._note(name, error)
        return []

    def image(self) -> "Tuple[int, List[str]] | None":
        """When the process started, and what each exec changes: proc_pid_stat(5), startcode and startstack.
        None if it has ended."""
        text = self.read("stat").decode("utf-8", "replace")
        started = start_in(text)
        return None if started is None else (started, text.rpartition(")")[2].split()[23:26:2])

    def cut_off(self, name: str) -> None:
        """Note that only the beginning was read."""
        self.denied.append("the rest of " + name)

    def _note(self, name: str, error: OSError) -> None:
        if error.errno not in ENDED and name not in self.denied:
            self.denied.append(name)
            self.why[name] = errno.errorcode.get(error.errno or 0, "")


class Held:
    """What the descriptors of a process hold."""

    def __init__(self) -> None:
        self.devices: Dict[str, int] = {}
        self.sockets: List[int] = []
        self.buffers: List[Dict[str, Any]] = []


def scan(
    emit: Emit, proc: str = "/proc", others: Optional[Relay] = None
) -> "Dict[Tuple[int, int], Tuple[int, ProcessLibrary]]":
    """Emit a row for each process that holds a device. Returns the libraries that they map: each by device
    and inode, with a process that maps it. `others` gets the other network namespaces in which a process has
    a GPU open, with one such process, before any maps are read: those take longest.

    A process that starts meanwhile has no row: its pid was another's when its descriptors were listed."""
    began = ticks_after_boot()
    libraries: "Dict[Tuple[int, int], Tuple[int, ProcessLibrary]]" = {}
    holders: List[Tuple[Reader, int]] = []
    denied, known = 0, {namespace("self", proc=proc), ""}
    unreadable: List[Dict[str, Any]] = []
    names: List[str] = []
    try:
        names = os.listdir(proc)
        for name in sorted(filter(_is_number, names), key=int):
            reader = Reader(int(name), proc)
            held = held_by(reader)
            denied += "fd" in reader.denied
            if "fd" in reader.denied and len(unreadable) < UNREADABLE:
                unreadable += _unreadable(reader)
            row = identity(reader) if held.devices or held.buffers else None
            if row is None or row["started"] >= began:
                continue
            holders.append((reader, row["started"]))
            network = row["namespaces"]["net"]
            if network not in known and any(one.startswith("/dev/nvidia") for one in held.devices):
                known.add(network)
                if others is not None:
                    others.put((network, reader.pid))
    finally:
        if others is not None:
            others.end()
    for reader, started in holders:
        for _ in range(LOOKS):
            image = reader.image()
            if image is None or image[0] != started:
                break  # it has ended, and its pid may be another's
            row, mapping = _row(reader)
            if reader.image() != image:
                continue
            if row is not None:
                libraries.update((one.key, (reader.pid, one)) for one in mapping if one.key not in libraries)
                emit(row)
            break
        else:
            denied += 1
    emit({"denied_processes": denied, "unreadable": unreadable, "hidden": hides_processes(names)})
    return libraries


def _row(reader: Reader) -> "Tuple[Optional[Dict[str, Any]], List[ProcessLibrary]]":
    """All of a process that holds a device, and the libraries that it maps; None if it holds none."""
    held, row = held_by(reader), identity(reader)
    if row is None or not (held.devices or held.buffers):
        return None, []
    maps = reader.read("maps", _MAPS)
    found = mapped(maps, reader.link("exe"))
    row.update(
        devices=held.devices,
        mapped_devices=mapped_devices(maps),
        shared=shared_files(maps),
        sockets=held.sockets,
        buffers=held.buffers,
        libraries=[library.as_row() for library in found],
        environment=switches(reader.read("environ", _ENVIRONMENT)),
        denied=sorted(set(reader.denied)),
    )
    return row, found


def identity(reader: Reader) -> Optional[Dict[str, Any]]:
    """What anyone may read of a process: pid, start, user, name, cgroup, namespaces; None if it ended."""
    text = reader.read("stat").decode("utf-8", "replace")
    started = start_in(text)
    if started is None:
        return None
    try:
        uid = os.stat(reader.folder).st_uid
    except OSError:
        return None
    return {
        "pid": reader.pid,
        "started": started,
        "uid": uid,
        "name": text.partition("(")[2].rpartition(")")[0][:64],
        "cgroup": reader.read("cgroup").decode("utf-8", "replace"),
        "namespaces": {kind: reader.link("ns/" + kind) for kind in ("pid", "net")},
    }


def _unreadable(reader: Reader) -> List[Dict[str, Any]]:
    """Pid, name and error of a process whose descriptors cannot be listed; none if it has ended."""
    known = identity(reader)
    if known is None:
        return []
    return [{"pid": reader.pid, "name": known["name"], "why": reader.why.get("fd", "")}]


def held_by(reader: Reader) -> Held:
    """Devices, sockets and dma-bufs that a process has open. A file that only has the name of a device does
    not count."""
    held = Held()
    names = reader.names("fd")
    if len(names) > DESCRIPTORS:
        reader.cut_off("fd")
    for descriptor in names[:DESCRIPTORS]:
        target = reader.link("fd/" + descriptor)
        if target.startswith("socket:[") and len(held.sockets) < SOCKETS:
            inode = target[8:-1]
            if _is_number(inode):
                held.sockets.append(int(inode))
        elif target.startswith("/dmabuf:") and len(held.buffers) < BUFFERS:
            held.buffers.append(buffer_of(reader.read("fdinfo/" + descriptor)))
        elif DEVICE.fullmatch(target) and _is_device("%s/fd/%s" % (reader.folder, descriptor)):
            held.devices[target] = held.devices.get(target, 0) + 1
    return held


def buffer_of(text: bytes) -> Dict[str, Any]:
    """Inode, size, references and exporter of a dma-buf, from the fdinfo of a descriptor of it. The first of
    each counts: the name that a user gave the buffer, perhaps of several lines, comes last."""
    found: Dict[str, Any] = {}
    for line in text.decode("utf-8", "replace").splitlines():
        key, _, value = line.partition(":")
        value = value.strip()
        if key in found:
            continue
        if key in ("ino", "size", "count") and _is_number(value):
            found[key] = int(value)
        elif key == "exp_name":
            found[key] = value[:64]
    return found


def mapped_devices(maps: bytes) -> List[str]:
    """The devices that a process maps: it may have closed their descriptors."""
    paths = {match[1].decode("utf-8", "replace") for match in _MAPPED_DEVICE.finditer(maps)}
    return sorted(filter(DEVICE.fullmatch, paths))


def shared_files(maps: bytes) -> List[Dict[str, Any]]:
    """The files in memory that a process maps to share them: device and inode, where, and mapped bytes."""
    found: Dict[str, Dict[str, Any]] = {}
    for match in _SHARED.finditer(maps):
        file = "%x:%d" % (os.makedev(int(match[3], 16), int(match[4], 16)), int(match[5]))
        if file not in found and len(found) == SHARED:
            continue
        row = found.setdefault(file, {"file": file, "path": match[6].decode("utf-8", "replace"), "bytes": 0})
        row["bytes"] += int(match[2], 16) - int(match[1], 16)
    return list(found.values())


def switches(environment: bytes) -> Dict[str, str]:
    """The variables that matter, as they were at exec, without values that may be secrets."""
    found: Dict[str, str] = {}
    for entry in environment.split(b"\0"):
        name, _, value = entry.partition(b"=")
        text = name.decode("utf-8", "replace")
        if _SWITCH.fullmatch(text) and len(found) < _SWITCHES:
            kept = shown(name, value[: 4 * _VALUE_CHARACTERS]).decode("utf-8", "replace")
            found[text] = kept[:_VALUE_CHARACTERS]
    return found


def _is_device(path: str) -> bool:
    try:
        return stat.S_ISCHR(os.stat(path).st_mode)
    except OSError:
        return False


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 16
