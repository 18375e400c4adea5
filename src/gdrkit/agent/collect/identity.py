"""The identity of this machine: what the manifest records, and the names that --anonymize replaces."""

from __future__ import annotations

import os
import re
from typing import Callable, Iterator, List, Mapping, Set, Tuple

_CONTAINER_FILES = (".dockerenv", "run/.containerenv", "run/systemd/container")
_CONTAINER_CGROUP = re.compile(rb"docker|kubepods|/lxc/|libpod|containerd|crio|machine\.slice/machine-")
_FIRST_USER, _LAST_USER = 1000, 60000  # login.defs(5), UID_MIN and UID_MAX

Peek = Callable[[str], bytes]


def release(peek: Peek) -> str:
    """The running kernel's release."""
    return peek("proc/sys/kernel/osrelease").decode("utf-8", "replace").strip() or os.uname().release


def hostname(peek: Peek) -> str:
    """The machine's name; "node" if it has none."""
    for path in ("proc/sys/kernel/hostname", "etc/hostname"):
        name = peek(path).decode("utf-8", "replace").strip()
        if name and name != "(none)":
            return name
    return "node"


def scope(peek: Peek, exists: Callable[[str], bool]) -> str:
    """`container` if this runs in a container, so that paths may be the container's, else `host`.

    Source: systemd.io/CONTAINER_INTERFACE; files that docker and podman create."""
    if any(exists(path) for path in _CONTAINER_FILES) or b"container=" in peek("proc/1/environ"):
        return "container"
    return "container" if _CONTAINER_CGROUP.search(peek("proc/1/cgroup")) else "host"


def names(peek: Peek, homes: List[str], environment: Mapping[str, str]) -> Set[Tuple[str, str]]:
    """Kind and name of everything here that identifies the machine or its users."""
    found: Set[Tuple[str, str]] = set()
    host = hostname(peek)
    found.add(("host", host))
    for line in peek("etc/hosts").decode("utf-8", "replace").splitlines():
        words = line.partition("#")[0].split()[1:]
        found.update(("host", word) for word in words if not word.startswith(("ip6-", "localhost")))
    for line in peek("etc/resolv.conf").decode("utf-8", "replace").splitlines():
        words = line.split()
        if words[:1] in (["search"], ["domain"]):
            found.update(("net", word.strip(".")) for word in words[1:])
    for kind, name in list(found):
        first, dot, domain = name.partition(".")
        if kind == "host" and dot:
            found.update({("host", first), ("net", domain)})
    for line in peek("etc/passwd").decode("utf-8", "replace").splitlines():
        fields = line.split(":")
        if (
            len(fields) > 4
            and re.match("[0-9]{1,10}$", fields[2])
            and _FIRST_USER <= int(fields[2]) < _LAST_USER
        ):
            found.add(("user", fields[0]))
            found.update(("user", word) for word in re.findall(r"[\w.-]{5,}", fields[4]))
    found.update(("user", home) for home in homes)
    found.update(
        ("user", environment[key]) for key in ("USER", "LOGNAME", "SUDO_USER") if environment.get(key)
    )
    return {(kind, name) for kind, name in found if name}


def addresses(peek: Peek, names_in: Callable[[str], List[str]]) -> Iterator[bytes]:
    """The addresses of the machine's cards, as the kernel writes them."""
    for folder, file in (
        ("sys/class/net", "address"),
        ("sys/class/infiniband", "node_guid"),
        ("sys/class/fc_host", "port_name"),
        ("sys/class/fc_host", "node_name"),
    ):
        for name in names_in(folder):
            yield b"wwn " + peek(f"{folder}/{name}/{file}")
