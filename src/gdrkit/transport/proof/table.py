"""How each way that bytes can take moves each counter, for N bytes.

Measured on two H200s of a virtual machine with driver 580.159.04: when N bytes went through host memory,
PCIe out of the sending GPU and into the receiving one moved 1.08 to 1.22 N, loopback 1.001 N over TCP and
else nothing, and the NVLink data counters stood still, to the byte. Over NVLink these moved 1.00 N, and PCIe
less than 0.01 N. What a NIC does is from the sources named beside it, and was never measured beside a GPU.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from gdrkit.transport.proof.evidence import Counter, Registration, Trial

MOVED_AT_LEAST, MOVED_AT_MOST, STILL_AT_MOST = 0.9, 1.5, 0.1
"""Shares of N. PCIe's headers add to N (1.08 to 1.22 N was seen); the receiving GPU's read requests are
0.10 N in the other direction, which is not looked at."""
BURSTS = 2
"""What moves without us may do so at twice the rate that was seen beside: a counter tells something only
where it says the same with that taken away."""

NEVER_ALONE: tuple[SignalName, ...] = ("pcie-out", "pcie-in", "nic")
"""Direct and bounced traffic move these alike, so that they moved excludes nothing. That they stood still
excludes what would have moved them.
"""

THINGS: tuple[Counter, ...] = ("peermem-references", "memory-peer-registrations", "dmabuf-attachments")
"""Counters of things, not bytes: `more` is at least one more while the memory is registered."""


SignalName = Counter | Literal["search"]
Movement = Literal["moved", "still", "more", "found", "none", "unknown"]
"""What a signal did: `moved` by N, `still`, `more`; of the search, `found` or `none`; or nobody can tell."""

Signals = dict[SignalName, Movement]

WayName = Literal[
    "nvlink", "pcie", "bounced", "one-gpu", "staged", "tcp", "host", "nic-dmabuf", "nic-peermem",
    "nic-staged", "nic-host",
]  # fmt: skip


class KnownRoute(Struct, frozen=True, kw_only=True):
    """A way from one memory to the other: what each signal does then, and which of them have to be seen."""

    name: WayName
    claim: str
    direct: bool | None  # None: the question does not arise
    registered: Registration = ""
    expects: Signals
    must: tuple[SignalName, ...]


_NO_NVLINK: Signals = {"nvlink-out": "still", "nvlink-in": "still"}
_OVER_PCIE: Signals = {"pcie-out": "moved", "pcie-in": "moved"}
_PCIE_STILL: Signals = {"pcie-out": "still", "pcie-in": "still"}
_NO_TCP: Signals = {"loopback": "still"}
_NO_NETWORK: Signals = {"network": "still"}

NVLINK = KnownRoute(
    name="nvlink",
    claim="GPU to GPU over NVLink",
    direct=True,
    expects={"nvlink-out": "moved", "nvlink-in": "moved", "search": "none", **_PCIE_STILL, **_NO_TCP},
    must=("nvlink-out", "nvlink-in"),
)
PCIE = KnownRoute(
    name="pcie",
    claim="GPU to GPU over PCIe",
    direct=True,
    expects=_NO_NVLINK | _OVER_PCIE | _NO_TCP | {"search": "none"},
    must=("pcie-out", "pcie-in"),
)
BOUNCED = KnownRoute(
    name="bounced",
    claim="host memory that the driver alone has",
    direct=False,
    # Nothing read here tells it from PCIE: both move PCIe alike, and such memory is mapped by no process.
    expects=_NO_NVLINK | _OVER_PCIE | _NO_TCP | {"search": "none"},
    must=("pcie-out", "pcie-in"),
)
ONE_GPU = KnownRoute(
    name="one-gpu",
    claim="within the memory of one GPU",
    direct=True,
    expects=_NO_NVLINK | _PCIE_STILL | _NO_TCP | {"search": "none"},
    must=("nvlink-out", "nvlink-in", "pcie-out", "pcie-in", "loopback", "search"),
)
STAGED = KnownRoute(
    name="staged",
    claim="staged through host memory",
    direct=False,
    expects=_NO_NVLINK | _OVER_PCIE | _NO_TCP | {"search": "found"},
    must=("search", "loopback"),
)
TCP = KnownRoute(
    name="tcp",
    claim="TCP, staged through host memory at both ends",
    direct=False,
    expects=_NO_NVLINK | _OVER_PCIE | {"loopback": "moved", "search": "found"},
    must=("loopback",),
)
TCP_BETWEEN = KnownRoute(
    name="tcp",
    claim="TCP between the nodes, staged through host memory at both ends",
    direct=False,
    expects={"pcie-out": "moved", "network": "moved"},
    must=("network",),
)
HOST = KnownRoute(
    name="host",
    claim="host memory alone, shared by both processes",
    direct=None,
    expects=_NO_TCP | {"search": "found"},
    must=("loopback", "search"),
)
HOST_TCP = KnownRoute(
    name="tcp",
    claim="TCP between host memories",
    direct=None,
    expects={"loopback": "moved"},
    must=("loopback",),
)
HOST_TCP_BETWEEN = KnownRoute(
    name="tcp",
    claim="TCP between the nodes, of host memory",
    direct=None,
    expects={"network": "moved"},
    must=("network",),
)
NIC_DMABUF = KnownRoute(
    name="nic-dmabuf",
    claim="direct from GPU memory to the NIC by dma-buf",
    direct=True,
    registered="dmabuf",
    # Linux drivers/infiniband/core/umem_dmabuf.c attaches the device to the dma-buf.
    expects=_NO_NVLINK | _NO_TCP | {"nic": "moved", "dmabuf-attachments": "more", "search": "none"},
    must=("nic",),
)
NIC_PEERMEM = KnownRoute(
    name="nic-peermem",
    claim="direct from GPU memory to the NIC by nvidia-peermem",
    direct=True,
    registered="peermem",
    # nvidia-peermem.c, nv_mem_acquire: each registration holds the module.
    expects=_NO_NVLINK
    | _NO_TCP
    | {"nic": "moved", "peermem-references": "more", "memory-peer-registrations": "more", "search": "none"},
    must=("nic",),
)
NIC_STAGED = KnownRoute(
    name="nic-staged",
    claim="RDMA from host memory, to which the GPU's was copied first",
    direct=False,
    registered="staged",
    expects=_NO_NVLINK | {"search": "found", "peermem-references": "still", "dmabuf-attachments": "still"},
    must=(),
)
NIC_HOST = KnownRoute(
    name="nic-host",
    claim="RDMA from host memory",
    direct=None,
    registered="host",
    expects={"peermem-references": "still", "dmabuf-attachments": "still"},
    must=(),
)


def ways(trial: Trial) -> tuple[KnownRoute, ...]:
    """Every way that bytes could take between the ends of this trial, the path that was asked for aside."""
    gpus = trial.source == "gpu" and trial.destination == "gpu"
    nic: tuple[KnownRoute, ...] = (
        (NIC_DMABUF, NIC_PEERMEM, NIC_STAGED) if trial.source == "gpu" else (NIC_HOST,)
    )
    nic = tuple(way if trial.one_node else _apart(way) for way in nic)
    if not trial.one_node:
        return (TCP_BETWEEN if trial.source == "gpu" else HOST_TCP_BETWEEN, *nic)
    if not gpus:
        return (HOST, HOST_TCP, *nic)
    if trial.one_gpu:
        return (ONE_GPU, BOUNCED, STAGED, TCP, *nic)
    return (NVLINK, PCIE, BOUNCED, STAGED, TCP, *nic)


def _apart(way: KnownRoute) -> KnownRoute:
    """The same between two nodes, where only this node's counters are read and nothing there is searched."""
    left: Signals = {
        name: does for name, does in way.expects.items() if name in ("nic", *THINGS, "pcie-out")
    }
    return KnownRoute(
        name=way.name,
        claim=way.claim,
        direct=way.direct,
        registered=way.registered,
        expects=left | (_NO_NETWORK if way.direct else {}),
        must=way.must,
    )
