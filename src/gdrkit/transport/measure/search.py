"""Searches another process's memory for bytes, to see whether they passed through it."""

from __future__ import annotations

import os

from gdrkit.transport.proof.evidence import MemorySearch

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
