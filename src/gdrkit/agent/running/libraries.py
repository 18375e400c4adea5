"""The libraries that a process maps, with their versions: of the mapped file, not of the environment.

An image's NCCL_VERSION names what the image was built with; a Python wheel brings another. So the version is
searched for in the file. Sources: NCCL src/init.cc prints "NCCL version 2.28.9+cuda13.0"; NVSHMEM's
NVSHMEM_VENDOR_STRING is "NVSHMEM v3.3.20"; aws-ofi-nccl src/nccl_ofi_net.c, "Initializing aws-ofi-nccl".
"""

from __future__ import annotations

import mmap
import os
import re
import stat
from typing import Any, Dict, List, Mapping, NamedTuple, Tuple

from .children import Emit

_NAME = re.compile(
    r"(?:lib(?:nccl(?:-net|-tuner|-profiler)?|ucp|uct|fabric|nvshmem_host|nvshmem|ibverbs"
    r"|rdmacm|mlx5|efa|cuda|gdrapi|nixl|mpi|rccl)|nvshmem_(?:transport|bootstrap)_[a-z0-9]{1,32}|deep_ep_cpp|_C"
    r"|engine)(?:[-.][\w.+-]{1,80})?\.so(?:\.[\w.]{1,40})?"
)
_VERSIONS: Tuple[Tuple[str, "re.Pattern[bytes]"], ...] = (
    ("libnccl-net", re.compile(rb"Initializing aws-ofi-nccl v?(\d+\.\d+[\w.+-]{0,24})")),
    ("libnccl", re.compile(rb"NCCL version (\d+\.\d+\.\d+(?:\+cuda\d+\.\d+)?)")),
    ("libnvshmem", re.compile(rb"NVSHMEM v?(\d+\.\d+\.\d+)")),
)
"""By the beginning of a library's name, longest first."""
_IN_NAME = re.compile(r"\.so\.(\d+\.\d+[\w.]*)\Z")
_MAP = re.compile(
    rb"([0-9a-f]{1,16}-[0-9a-f]{1,16}) \S{4} [0-9a-f]{1,16} ([0-9a-f]{1,8}):([0-9a-f]{1,8}) (\d{1,20}) +"
    rb"(/[^\n]{1,4096})"
)
"""A line of maps with a file: Linux fs/proc/task_mmu.c, show_map_vma()."""
_CANDIDATE = re.compile(
    rb"/(?:lib(?:nccl|uc[pt]|fabric|nvshmem|ibverbs|rdmacm|mlx5|efa|cuda|gdrapi|nixl|mpi|rccl)"
    rb"|nvshmem_(?:transport|bootstrap)_|deep_ep_cpp|deep_ep/_C|mooncake/engine)[^/\n]{0,160}$",
    re.MULTILINE,
)
"""The end of a line that may name such a library: a job has thousands of lines, and few of them do."""
DELETED = " (deleted)"
NCCL = "libnccl.so"
FILE_BYTES = 1 << 30
"""libnccl.so.2 has 218 MB, which takes 0.4 s to search."""
MOST_LIBRARIES = 64
"""Of one process."""


class ProcessLibrary(NamedTuple):
    """A library that a process maps."""

    name: str
    path: str
    area: str  # of the first mapping, in hexadecimal: its name in map_files
    key: Tuple[int, int]  # device and inode
    deleted: bool
    linked: bool = False  # whether the file is a program that may have NCCL in it

    def as_row(self) -> Dict[str, Any]:
        return {
            "name": self.name,
            "path": self.path,
            "file": "%x:%d" % self.key,
            "deleted": self.deleted,
            "linked": self.linked,
            "version": version_in_name(self.name),
        }


def mapped(maps: bytes, program: str = "") -> List[ProcessLibrary]:
    """The libraries in the text of maps, each once. Without NCCL among them, the program's own file is
    added: NCCL may be linked into it, and only a search of the file shows that."""
    found: Dict[Tuple[int, int], ProcessLibrary] = {}
    for candidate in _CANDIDATE.finditer(maps):
        line = maps[maps.rfind(b"\n", 0, candidate.start()) + 1 : candidate.end()]
        match = _MAP.fullmatch(line)
        if match is None:
            continue
        path = match[5].decode("utf-8", "replace")
        deleted = path.endswith(DELETED)
        path = path[: -len(DELETED)] if deleted else path
        name = path.rpartition("/")[2]
        if _NAME.fullmatch(name) and len(found) < MOST_LIBRARIES:
            key = (os.makedev(int(match[2], 16), int(match[3], 16)), int(match[4]))
            found.setdefault(key, ProcessLibrary(name, path, match[1].decode(), key, deleted))
    if program and not any(one.name.startswith(NCCL) for one in found.values()):
        line = next((one for one in maps.splitlines() if one.endswith(b" " + os.fsencode(program))), b"")
        match = _MAP.fullmatch(line)
        if match is not None:
            key = (os.makedev(int(match[2], 16), int(match[3], 16)), int(match[4]))
            found.setdefault(key, ProcessLibrary(NCCL, program, match[1].decode(), key, False, True))
    return list(found.values())


def version_in_name(name: str) -> str:
    """The version at the end of a file's name, such as libnccl.so.2.28.9; else empty."""
    match = _IN_NAME.search(name)
    return match[1] if match else ""


def emit_versions(
    libraries: Mapping[Tuple[int, int], Tuple[int, ProcessLibrary]], emit: Emit, proc: str = "/proc"
) -> None:
    """Emit the version of each library whose file contains it, or why the file could not be read."""
    for pid, library in libraries.values():
        pattern = next((one for start, one in _VERSIONS if library.name.startswith(start)), None)
        if pattern is None:
            continue
        version, why = "", ""
        try:
            version = _searched(pid, library, pattern, proc)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", "") or str(error)
        emit({"file": "%x:%d" % library.key, "version": version, "why": why})


def _searched(pid: int, library: ProcessLibrary, pattern: "re.Pattern[bytes]", proc: str) -> str:
    """The version in the file that a process maps. Raises OSError or ValueError.

    map_files has the file itself, even if it was deleted, for root; the path in the process's own root may
    meanwhile have another file."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    try:
        descriptor = os.open("%s/%d/map_files/%s" % (proc, pid, library.area), flags)
    except OSError:
        if library.deleted:
            raise
        descriptor = os.open("%s/%d/root%s" % (proc, pid, library.path), flags)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_ino != library.key[1]:
            raise ValueError("another file has this name now")
        size = min(found.st_size, FILE_BYTES)
        if not size:
            raise ValueError("an empty file")
        with mmap.mmap(descriptor, size, access=mmap.ACCESS_READ) as content:
            match = pattern.search(content)
            return match[1].decode("ascii") if match else ""
    finally:
        os.close(descriptor)
