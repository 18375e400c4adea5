"""Small files of the kernel, read whole; those that are absent or may not be read are empty."""

from __future__ import annotations

import os
import time
from typing import List, Optional, Sequence


def text_of(path: str, limit_bytes: int = 1 << 14) -> str:
    """The text without white space at both ends; empty if it cannot be read."""
    try:
        with open(path, "rb") as stream:
            return stream.read(limit_bytes).decode("utf-8", "replace").strip()
    except OSError:
        return ""


def namespace(pid: str, kind: str = "net", proc: str = "/proc") -> str:
    """The name of a namespace of a process, such as `net:[4026531840]`; empty if it cannot be read."""
    try:
        return os.readlink("%s/%s/ns/%s" % (proc, pid, kind))
    except OSError:
        return ""


def hides_processes(names: "Sequence[str]") -> bool:
    """Whether a proc with these names hides processes of other users: proc(5), hidepid. Every pid namespace
    has a process 1."""
    return "self" in names and "1" not in names


def start_in(stat: str) -> Optional[int]:
    """When a process started, in clock ticks after boot: proc_pid_stat(5), starttime; None without it. The
    name before it may have any characters, also parentheses."""
    words = stat.rpartition(")")[2].split()
    return int(words[19]) if len(words) > 19 and words[19].isdigit() else None


def start_of(pid: int, proc: str = "/proc") -> Optional[int]:
    """When a process or thread started, in clock ticks after boot; None if it has ended."""
    return start_in(text_of("%s/%d/stat" % (proc, pid)))


def ticks_after_boot() -> int:
    """Now, as `start_of` counts. What started before this has its pid for as long as `start_of` stays."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


def names_in(folder: str) -> List[str]:
    """The names in a folder, sorted; none if it cannot be read."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
