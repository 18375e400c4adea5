"""What differs between versions of NCCL in how it sees a machine, and the constants of its model. PURE.

Read from NCCL's source at every release from 2.18.1 to 2.30.7: src/graph/topo.h, topo.cc and paths.cc, and
src/include/graph.h. Where a field names no function, it is one of those files' of the same tag.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from functools import lru_cache

from msgspec import Struct

from gdrkit.facts.environment import path_types
from gdrkit.facts.versions import numbers

OLDEST, NEWEST = "2.18.1", "2.30.7"
ON_GPUS = ("2.28.9",)
"""Releases whose own library was run on GPUs and gave the same for every topology; docs/nccl-model.md."""
FROM_SOURCE = (
    "2.18.1", "2.18.6", "2.19.4", "2.20.5", "2.21.5", "2.22.3", "2.23.4", "2.24.3", "2.25.1", "2.26.2",
    "2.26.6", "2.27.3", "2.27.5", "2.27.7", "2.28.3", "2.28.7", "2.28.9", "2.29.2", "2.29.7", "2.30.3",
    "2.30.4", "2.30.7",
)  # fmt: skip
"""Releases whose graph code was built from its source and gave the same for every topology, without GPUs."""

LOCAL_BANDWIDTH = 5000.0
"""GB/s: LOC_BW. Also of a NIC without a PCI address, and of links between Broadcom switches."""
DEFAULT_SPEED = 10_000
"""Mb/s of a network device whose speed is 0 or less: topo.cc, ncclTopoAddNet()."""

SPEEDS: tuple[tuple[str, int], ...] = (
    ("2.5 GT/s", 15),
    ("5 GT/s", 30),
    ("8 GT/s", 60),
    ("16 GT/s", 120),
    ("32 GT/s", 240),
    ("2.5 GT/s PCIe", 15),
    ("5.0 GT/s PCIe", 30),
    ("8.0 GT/s PCIe", 60),
    ("16.0 GT/s PCIe", 120),
    ("32.0 GT/s PCIe", 240),
    ("64.0 GT/s PCIe", 480),
)
"""Beginnings of link speeds that are known, in hundreds of Mb/s for each lane: topo.cc, kvDictPciGen. The
first of them that fits counts, so "16.0 GT/s" without " PCIe" fits none."""
UNKNOWN_SPEED = 60
"""Any other speed is taken for PCIe 3.0."""
UNKNOWN_WIDTH = 16
"""Lanes, where the width is 0: topo.cc, ncclTopoAddPci()."""


class Witness(enum.StrEnum):
    """What stands behind the rules of a version."""

    ON_GPUS = "held against NCCL itself, run on GPUs"
    FROM_SOURCE = "held against NCCL's own graph code, built from source"
    READ = "read from source, not run"
    UNSEEN = "not read: it is taken to behave as the nearest version that was"


class Since(Struct, frozen=True):
    """A value, and the release that it first stands in."""

    version: tuple[int, ...]
    value: float


NVLINK: tuple[tuple[int, int, tuple[Since, ...]], ...] = (
    (
        100,
        1000,
        (Since((2, 27, 5), 40.1), Since((2, 25, 1), 40.0), Since((2, 20, 3), 20.6), Since((2,), 20.0)),
    ),
    (90, 99, (Since((2, 20, 3), 20.6), Since((2,), 20.0))),
    (86, 86, (Since((2,), 12.0),)),
    (80, 89, (Since((2,), 20.0),)),
    (70, 79, (Since((2,), 20.0),)),
    (60, 69, (Since((2,), 18.0),)),
    (-1, 59, (Since((2,), 20.0),)),
)
"""GB/s of one NVLink by compute capability, from to: topo.h, ncclTopoNVLinkBw()."""


class NcclRules(Struct, frozen=True):
    """How one version of NCCL behaves. Field by field, with the first release that is so."""

    version: tuple[int, ...]
    types: tuple[str, ...]  # path types, nearest first, by the number that it prints
    order: Mapping[str, int]
    c2c_link: str  # "" before 2.19.1, NVL before 2.26.2, C2C
    flattens_gen5: bool  # 2.20.3: Broadcom's Gen5 switches too
    peer_links: bool  # 2.22.3: links between switches (pcilink)
    joins_functions: bool  # until 2.23.4: NICs whose addresses differ in the function are one
    devices: bool  # 2.30.3: a DEV node stands between a GPU and its links
    best_type_first: bool  # 2.30.7: paths by type, then bandwidth, then hops
    nearest_cpu_by_bandwidth: bool  # 2.30.7
    nearest_nets_by_mask: bool  # until 2.18.3
    serves_any_gpu: bool  # 2.18.5 and 2.18.6: a NIC's GPU need not be one of the nearest
    spreads_by_local_index: bool  # 2.30.7: GPUs of one NIC count from the first of them
    nets_policy: bool  # 2.28.3: NCCL_NETDEVS_POLICY
    p2p_by_vendor: bool  # until 2.22.3: GPUs of AMD and POWER machines reach one another at any distance
    reroutes_far_pairs: bool  # until 2.20.5: a refused pair goes through the CPU however far it is
    pxn_same_host: bool  # 2.21.5
    pxn_spares: str  # PXB, 2.27.5 as far as the helper may be (""), 2.27.6 PXN: what no helper replaces
    pxn_needs_gdr: bool  # 2.30.3
    pxn_c2c: int | None  # the default of NCCL_PXN_C2C; None where it is not known
    p2c: str  # "" before 2.27.3, "pair", from 2.27.5 "joined", from 2.29.2 "nearest"
    joins_p2c: bool  # 2.27.5: C2C and PHB make P2C where paths are put together
    gdr_c2c: int | None  # the default of NCCL_NET_GDR_C2C; None where it is not known
    c2c_counts_as: str  # what a way over C2C is compared as: "" , PHB>C2C (2.26), P2C>C2C, P2C (2.29.2)
    modes: bool  # 2.26.2: a PCIe mapping is asked for where C2C exists and is not used
    reads_need_nvlink: bool  # until 2.18.6: also on Ampere and later
    mlopart: bool  # 2.30.7: NCCL_NET_GDR_MLOPART
    merges: str  # of NICs: "" , from 2.20.3 "plugin", from 2.24.3 "topology"
    merge_limit: int

    def named(self, kind: int) -> str:
        return self.types[kind]

    def nvlink(self, capability: int) -> float:
        """GB/s of one NVLink of a GPU."""
        for low, high, values in NVLINK:
            if low <= capability <= high:
                return next(since.value for since in values if self.version >= since.version)
        return 20.0

    def between_cpus(self, arch: str, vendor: str, family: int, model: int) -> float:
        """GB/s between NUMA nodes: topo.cc, ncclTopoGetInterCpuBw() and ncclTopoAddCpu()."""
        if arch.startswith("ppc64"):
            return 32.0
        if arch.startswith("arm64"):
            return 6.0
        if not arch.startswith("x86_64"):
            return LOCAL_BANDWIDTH
        if vendor.startswith("GenuineIntel"):
            return self._intel(family, model)
        if vendor.startswith("AuthenticAMD"):
            return 16.0 if self.version >= (2, 19, 1) else LOCAL_BANDWIDTH
        if vendor.startswith(("CentaurHauls", "  Shanghai  ")):
            return 9.0 if (family, model) == (7, 0x5B) else 6.0
        return LOCAL_BANDWIDTH

    def _intel(self, family: int, model: int) -> float:
        if family != 6 or model < 0x55:
            return 6.0  # Broadwell and before
        if self.version < (2, 26, 2) or model < 0x8F:
            return 10.0  # Skylake
        return 40.0 if model >= 0xCF else 22.0  # Emerald Rapids; Sapphire Rapids


@lru_cache(maxsize=64)
def nccl_rules(version: str) -> NcclRules:
    """The rules of a version; those of the release before it, where there is none of that number."""
    number = numbers(version)
    types = path_types(version)
    since = number.__ge__
    return NcclRules(
        version=number,
        types=types,
        order={name: at for at, name in enumerate(types)},
        c2c_link="C2C" if since((2, 26, 2)) else "NVL" if since((2, 19, 1)) else "",
        flattens_gen5=since((2, 20, 3)),
        peer_links=since((2, 22, 3)),
        joins_functions=not since((2, 24, 3)),
        devices=since((2, 30, 3)),
        best_type_first=since((2, 30, 7)),
        nearest_cpu_by_bandwidth=since((2, 30, 7)),
        nearest_nets_by_mask=not since((2, 18, 5)),
        serves_any_gpu=(2, 18, 5) <= number < (2, 19, 1),
        spreads_by_local_index=since((2, 30, 7)),
        nets_policy=since((2, 28, 3)),
        p2p_by_vendor=not since((2, 23, 4)),
        reroutes_far_pairs=not since((2, 21, 5)),
        pxn_same_host=since((2, 21, 5)),
        pxn_spares="PXN" if since((2, 27, 6)) else "" if since((2, 27, 5)) else "PXB",
        pxn_needs_gdr=since((2, 30, 3)),
        pxn_c2c=1 if since((2, 28, 3)) else 0 if since((2, 27, 3)) else None,
        p2c="nearest"
        if since((2, 29, 2))
        else "joined"
        if since((2, 27, 5))
        else "pair"
        if since((2, 27, 3))
        else "",
        joins_p2c=since((2, 27, 5)),
        gdr_c2c=1 if since((2, 27, 3)) else 0 if since((2, 26, 2)) else None,
        c2c_counts_as=_c2c(number),
        modes=since((2, 26, 2)),
        reads_need_nvlink=not since((2, 19, 1)),
        mlopart=since((2, 30, 7)),
        merges="topology" if since((2, 24, 3)) else "plugin" if since((2, 20, 3)) else "",
        merge_limit=4 if since((2, 24, 3)) else 2,
    )


def witness(version: str) -> Witness:
    """Who says that a version behaves as its rules have it."""
    number = numbers(version)
    for versions, found in ((ON_GPUS, Witness.ON_GPUS), (FROM_SOURCE, Witness.FROM_SOURCE)):
        if number in map(numbers, versions):
            return found
    return Witness.READ if numbers(OLDEST) <= number <= numbers(NEWEST) else Witness.UNSEEN


def _c2c(number: tuple[int, ...]) -> str:
    if number >= (2, 29, 2):
        return "P2C"
    if number >= (2, 27, 3):
        return "P2C>C2C"
    return "PHB>C2C" if number >= (2, 26, 2) else ""
