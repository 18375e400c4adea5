"""The known paths of bytes, and how each moves each counter, for N bytes.

Measured on two H200s of a virtual machine with driver 580.159.04. When N bytes went through host memory,
PCIe out of the sending GPU and into the receiving one moved by 1.08 to 1.22 N, loopback by 1.001 N over
TCP and otherwise by nothing, and the NVLink data counters did not change by a single byte. Over NVLink
those moved by 1.00 N, and PCIe by less than 0.01 N. The expectations for NICs are from the sources named
next to them, and were never measured with a GPU.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, structs

from gdrkit.transport.proof.evidence import Counter, Registration, Trial

MOVED_AT_LEAST, MOVED_AT_MOST, STILL_AT_MOST = 0.9, 1.5, 0.1
"""Shares of N. PCIe's headers add to N (1.08 to 1.22 N was seen). The receiving GPU's read requests are
0.10 N in the other direction, which is not used.
"""
BURSTS = 2
"""Other traffic may be this many times as fast as in the idle windows. A counter counts as evidence only if
subtracting that much would not change the result.
"""

AMBIGUOUS_IF_MOVED: tuple[SignalName, ...] = ("pcie-out", "pcie-in", "nic")
"""Direct and bounced traffic move these counters alike, so their movement does not exclude a path. If
they did not move, that excludes every path that would have moved them.
"""

REGISTRATION_COUNTERS: tuple[Counter, ...] = (
    "peermem-references",
    "memory-peer-registrations",
    "dmabuf-attachments",
)
"""Counters of objects, not bytes: `more` means at least one more while the memory is registered."""


SignalName = Counter | Literal["search"]
Movement = Literal["moved", "still", "more", "found", "none", "unknown"]
"""What a signal did: `moved` by N, `still`, `more`; for the search `found` or `none`; or `unknown`."""

Signals = dict[SignalName, Movement]

TakenPath = Literal[
    "nvlink", "pcie", "bounced", "one-gpu", "staged", "tcp", "host", "nic-dmabuf", "nic-peermem",
    "nic-staged", "nic-host",
]  # fmt: skip


class KnownPath(Struct, frozen=True):
    """A path from one memory to the other: what each signal does on it, and the signals that must be
    seen.
    """

    name: TakenPath
    claim: str
    direct: bool | None  # None: does not apply
    expects: Signals
    required: tuple[SignalName, ...]
    registered: Registration = ""


_NO_NVLINK: Signals = {"nvlink-out": "still", "nvlink-in": "still"}
_OVER_PCIE: Signals = {"pcie-out": "moved", "pcie-in": "moved"}
_PCIE_STILL: Signals = {"pcie-out": "still", "pcie-in": "still"}
_NO_TCP: Signals = {"loopback": "still"}
_NO_NETWORK: Signals = {"network": "still"}

NVLINK = KnownPath(
    "nvlink", "GPU to GPU over NVLink", True,
    {"nvlink-out": "moved", "nvlink-in": "moved", "search": "none", **_PCIE_STILL, **_NO_TCP},
    ("nvlink-out", "nvlink-in"),
)  # fmt: skip
PCIE = KnownPath(
    "pcie", "GPU to GPU over PCIe", True,
    _NO_NVLINK | _OVER_PCIE | _NO_TCP | {"search": "none"},
    ("pcie-out", "pcie-in"),
)  # fmt: skip
# No reading distinguishes it from PCIE: both move PCIe alike, and no process maps the driver's memory.
BOUNCED = KnownPath(
    "bounced", "GPU to GPU over PCIe, bounced by the driver through its own host memory", False,
    _NO_NVLINK | _OVER_PCIE | _NO_TCP | {"search": "none"},
    ("pcie-out", "pcie-in"),
)  # fmt: skip
ONE_GPU = KnownPath(
    "one-gpu", "within the memory of one GPU", True,
    _NO_NVLINK | _PCIE_STILL | _NO_TCP | {"search": "none"},
    ("nvlink-out", "nvlink-in", "pcie-out", "pcie-in", "loopback", "search"),
)  # fmt: skip
STAGED = KnownPath(
    "staged", "staged through host memory", False,
    _NO_NVLINK | _OVER_PCIE | _NO_TCP | {"search": "found"},
    ("search", "loopback"),
)  # fmt: skip
TCP = KnownPath(
    "tcp", "TCP, staged through host memory at both ends", False,
    _NO_NVLINK | _OVER_PCIE | {"loopback": "moved", "search": "found"},
    ("loopback",),
)  # fmt: skip
TCP_BETWEEN = KnownPath(
    "tcp", "TCP between the nodes, staged through host memory at both ends", False,
    {"pcie-out": "moved", "network": "moved"},
    ("network",),
)  # fmt: skip
HOST = KnownPath(
    "host", "host memory, shared by both processes", None,
    _NO_TCP | {"search": "found"},
    ("loopback", "search"),
)  # fmt: skip
HOST_TCP = KnownPath(
    "tcp", "TCP from host memory to host memory", None,
    {"loopback": "moved"},
    ("loopback",),
)  # fmt: skip
HOST_TCP_BETWEEN = KnownPath(
    "tcp", "TCP between the nodes, from host memory", None,
    {"network": "moved"},
    ("network",),
)  # fmt: skip
# Linux drivers/infiniband/core/umem_dmabuf.c attaches the device to the dma-buf.
NIC_DMABUF = KnownPath(
    "nic-dmabuf", "direct from GPU memory to the NIC by dma-buf", True,
    _NO_NVLINK | _NO_TCP | {"nic": "moved", "dmabuf-attachments": "more", "search": "none"},
    ("nic",), "dmabuf",
)  # fmt: skip
# nvidia-peermem.c, nv_mem_acquire: each registration holds the module.
NIC_PEERMEM = KnownPath(
    "nic-peermem", "direct from GPU memory to the NIC by nvidia-peermem", True,
    _NO_NVLINK | _NO_TCP | {"nic": "moved", "search": "none"}
    | {"peermem-references": "more", "memory-peer-registrations": "more"},
    ("nic",), "peermem",
)  # fmt: skip
NIC_STAGED = KnownPath(
    "nic-staged", "RDMA from host memory, staged from GPU memory", False,
    _NO_NVLINK | {"search": "found", "peermem-references": "still", "dmabuf-attachments": "still"},
    (), "staged",
)  # fmt: skip
NIC_HOST = KnownPath(
    "nic-host", "RDMA from host memory", None,
    {"peermem-references": "still", "dmabuf-attachments": "still"},
    (), "host",
)  # fmt: skip


def possible_paths(trial: Trial) -> tuple[KnownPath, ...]:
    """Every path between the ends of this trial, whatever path was requested."""
    gpus = trial.source == "gpu" and trial.destination == "gpu"
    nic: tuple[KnownPath, ...] = (
        (NIC_DMABUF, NIC_PEERMEM, NIC_STAGED) if trial.source == "gpu" else (NIC_HOST,)
    )
    nic = tuple(path if trial.one_node else _between_nodes(path) for path in nic)
    if not trial.one_node:
        return (TCP_BETWEEN if trial.source == "gpu" else HOST_TCP_BETWEEN, *nic)
    if not gpus:
        return (HOST, HOST_TCP, *nic)
    if trial.one_gpu:
        return (ONE_GPU, BOUNCED, STAGED, TCP, *nic)
    return (NVLINK, PCIE, BOUNCED, STAGED, TCP, *nic)


def _between_nodes(path: KnownPath) -> KnownPath:
    """The same path between two nodes, where only this node's counters are read, and no memory is
    searched.
    """
    left: Signals = {
        name: does
        for name, does in path.expects.items()
        if name in ("nic", *REGISTRATION_COUNTERS, "pcie-out")
    }
    return structs.replace(path, expects=left | (_NO_NETWORK if path.direct else {}))
