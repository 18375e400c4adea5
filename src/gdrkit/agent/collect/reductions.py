"""Reduce texts before they leave the machine: what no fact needs is not collected.

Each function takes the whole file and returns the part to keep, in the format of the file.
"""

from __future__ import annotations

import fnmatch
import json
import re
from typing import AbstractSet, Callable, Dict, List, Optional, Pattern

_PROCESSOR_KEYS = (b"CPU part", b"model name", b"CPU implementer")

_SYSTEM_MOUNTS = re.compile(
    r"/(?:proc|sys|dev|run/nvidia|run/mellanox|lib/modules|usr/lib/modules|usr/src|host)?(?:/|\Z)"
)

_PACKAGES = (
    "*nvidia*", "*cuda*", "*nccl*", "libcuda*", "*ofed*", "*ofa*kernel*", "*mlnx*", "*mlx*", "doca*",
    "*rdma*",
    "*ibverbs*", "*infiniband*", "ibacm", "*ucx*", "*gdrcopy*", "gdrdrv*", "*peer-mem*", "*peer_mem*",
    "*peermem*",
    "kmod", "dkms", "linux-image*", "linux-modules*", "linux-headers*", "linux-signatures*", "kernel",
    "kernel-core",
    "kernel-devel*", "kernel-modules*", "kernel-default*", "kernel-headers", "kmod-*", "openmpi*",
    "libopenmpi*",
    "perftest*", "shim*", "mokutil", "libfabric*", "hpcx*", "mstflint*", "libc6", "glibc",
)  # fmt: skip

_WANTED = re.compile("|".join(map(fnmatch.translate, _PACKAGES)))
"""One pattern: a name that none of sixty fits took 7 s per MiB of names."""

_LIBRARIES = re.compile(
    rb"lib(?:ibverbs|mlx[45]|efa|nccl|cuda|nvidia-ml|uc[pstm]|rdmacm|ibumad|gdrapi|fabric|mpi)[\w.+-]{0,255}\s"
)

_VIRTUAL_NETDEVS = re.compile(
    r"lo\Z|docker|veth|br-|virbr|cni|cali|flannel|cilium|lxc|tun|tap|wg|kube|ovs|podman|vxlan"
)


def processors(data: bytes) -> bytes:
    """/proc/cpuinfo with one block for each kind of processor, and the text after the last block."""
    kept: Dict[bytes, bytes] = {}
    for block in data.split(b"\n\n"):
        if block.strip():
            kind = b"".join(line for line in block.splitlines(True) if line.startswith(_PROCESSOR_KEYS))
            if not block.startswith(b"processor"):
                kind += block
            kept.setdefault(kind, block.rstrip(b"\n"))
    return b"\n\n".join(kept.values()) + b"\n\n" if kept else data


def nothing(data: bytes) -> bytes:
    """A program: only that it is there."""
    return b""


def container(data: bytes) -> bytes:
    """/proc/1/environ: only the variable `container` (systemd.io/CONTAINER_INTERFACE)."""
    return b"".join(entry + b"\0" for entry in data.split(b"\0") if entry.startswith(b"container="))


def driver_modules(data: bytes) -> bytes:
    """A list of modules, modules.dep: only the lines of NVIDIA's."""
    return b"".join(line for line in data.splitlines(True) if b"nvidia" in line.partition(b":")[0])


def trusted_keys(data: bytes) -> bytes:
    """/proc/keys: certificates, hashes of revoked ones, and system keyrings; no keys of users.

    Source: Linux security/keys/proc.c, proc_keys_show(); the eighth column is the type."""
    kept = []
    for line in data.splitlines(True):
        columns = line.split(None, 8)
        if len(columns) < 9:
            continue
        kind, description = columns[7], columns[8]
        if kind.startswith((b"asymmetri", b"blacklist")) or (kind == b"keyring" and description[:1] == b"."):
            kept.append(line)
    return b"".join(kept)


def mounts(data: bytes) -> bytes:
    """/proc/self/mountinfo: system mounts, without the options of their file systems.

    Source: proc_pid_mountinfo(5): type, source and options follow the separator."""
    lines = []
    for line in data.decode("utf-8", "replace").splitlines():
        fields = line.split(" ")
        if "-" not in fields[6:] or not _SYSTEM_MOUNTS.match(fields[4]):
            continue
        end = fields.index("-", 6)
        kind, source = (*fields[end + 1 :], "", "")[:2]
        root = fields[3] if kind in ("proc", "sysfs", "tmpfs", "devtmpfs", "overlay") else "/"
        source = source if kind in (source, "overlay") or source in ("none", "udev", "tmpfs", "shm") else "-"
        lines.append(" ".join([*fields[:3], root, *fields[4 : end + 1], kind, source, "rw"]))
    return "".join(line + "\n" for line in lines).encode()


def packages(data: bytes) -> bytes:
    """A table of packages, name first: only those of GPU, network and kernel."""
    kept = []
    for line in data.splitlines(True):
        name = line.split(b"\t", 1)[0].decode("utf-8", "replace")
        if _is_wanted(name):
            kept.append(line)
    return b"".join(kept)


_RECORD_FIELDS = (b"Package: ", b"Status: ", b"Version: ", b"Architecture: ", b"Source: ")


def package_records(data: bytes) -> bytes:
    """/var/lib/dpkg/status: name, state and version of the same packages. Source: deb822(5), dpkg(1)."""
    kept = []
    for record in data.split(b"\n\n"):
        lines = [line for line in record.split(b"\n") if line.startswith(_RECORD_FIELDS)]
        name = next((line[9:].strip() for line in lines if line.startswith(b"Package: ")), b"")
        if _is_wanted(name.decode("utf-8", "replace")):
            kept.append(b"\n".join(lines) + b"\n")
    return b"\n" + b"\n".join(kept)  # readers search for a name after a line feed


def _is_wanted(name: str) -> bool:
    return _WANTED.match(name) is not None


def libraries(data: bytes) -> bytes:
    """`ldconfig -p`: only the libraries of GPU and network."""
    return b"".join(
        line for line in data.splitlines(True) if _LIBRARIES.search(line) or not line[:1].isspace()
    )


def cards(data: bytes) -> bytes:
    """`ip -j addr`: network cards and their addresses, without loopback, bridges and tunnels."""
    try:
        entries = json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return data
    keys = ("ifname", "flags", "mtu", "operstate", "link_type", "address", "altnames")
    parts = ("family", "local", "prefixlen", "scope")
    kept = []
    for entry in entries if isinstance(entries, list) else []:
        if not isinstance(entry, dict) or _VIRTUAL_NETDEVS.match(str(entry.get("ifname", "lo"))):
            continue
        card = {key: entry[key] for key in keys if key in entry}
        addresses = entry.get("addr_info") or []
        card["addr_info"] = [
            {key: one[key] for key in parts if key in one} for one in addresses if isinstance(one, dict)
        ]
        kept.append(card)
    return json.dumps(kept).encode() + b"\n"


_FLOW_COUNTERS = re.compile(rb"discard|pause|out_of_buffer")


def statistics(data: bytes) -> bytes:
    """`ethtool -S`: only the counters of discarded packets and of pause frames."""
    return b"".join(line for line in data.splitlines(True) if _FLOW_COUNTERS.search(line))


BY_NAME: Dict[str, Callable[[bytes], bytes]] = {
    "processors": processors,
    "nothing": nothing,
    "container": container,
    "driver_modules": driver_modules,
    "trusted_keys": trusted_keys,
    "mounts": mounts,
    "packages": packages,
    "package_records": package_records,
    "libraries": libraries,
    "cards": cards,
    "statistics": statistics,
}


def aliases(data: bytes, modules: AbstractSet[str]) -> bytes:
    """modules.alias: plain aliases, and the device aliases of these modules."""
    kept = []
    for line in data.splitlines(True):
        fields = line.split()
        if len(fields) == 3 and fields[0] == b"alias":
            module = fields[2].decode("utf-8", "replace").replace("-", "_")
            if b":" in fields[1] and module not in modules:
                continue
        kept.append(line)
    return b"".join(kept)


# -- symbol tables -----------------------------------------------------------------------------


def symbol_table(
    path: str, data: bytes, linked: Optional[AbstractSet[bytes]], wanted: Pattern[bytes]
) -> bytes:
    """The lines of Module.symvers, modules.symbols, kallsyms or System.map about certain symbols.

    `linked` None: about all exported symbols if the table shows them, else all lines. Addresses of the
    running kernel are zeroed: no fact needs them, and an attacker could use them."""
    symvers = "symvers" in path
    symbols = path.endswith("modules.symbols")
    addresses = not symbols and not symvers
    zeroed = path.endswith("kallsyms")
    if linked is None and addresses:
        linked = set(re.findall(rb" __ksymtab_(\S+)", data)) or None
    kept: List[bytes] = []
    for line in data.splitlines(True):
        fields = line.split(None, 3)
        if len(fields) < 2 + addresses:
            continue
        name = fields[2] if addresses else fields[1]
        if symbols:
            name = name.partition(b":")[2]
        bare = name
        for prefix in (b"__ksymtab_", b"__crc_", b"__kstrtabns_"):
            if name.startswith(prefix):
                bare = name[len(prefix) :]
        if linked is None or bare in linked or wanted.match(bare):
            kept.append(b"0" * len(fields[0]) + line[len(fields[0]) :] if zeroed else line)
    return b"".join(kept)
