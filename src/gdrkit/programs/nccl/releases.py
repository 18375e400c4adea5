"""How each release of NCCL behaves: one table, and the only module that compares NCCL's versions.

Other modules get capabilities from `release(version)`. A new release of NCCL is one row at the end of ROWS:
its number, the source file, how the model was verified, and what changed.

Read from NCCL's source at the tags from v2.4.2-1 to v2.30.7-1; fields that only the topology model uses, at
every release from OLDEST on.
"""

from __future__ import annotations

import enum
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from functools import lru_cache

from msgspec import Struct, structs

from gdrkit.facts.peer_memory import MODULE, NV_MEM, NV_MEM_NC, NVIDIA_PEERMEM
from gdrkit.formats.versions import numbers


class ModelBasis(enum.StrEnum):
    """How the model of a release was verified."""

    ON_GPUS = "verified against NCCL on GPUs"
    FROM_SOURCE = "verified against NCCL's graph code, built from source"
    READ = "read from source, not run"
    UNSEEN = "not read: assumed to behave like the nearest version that was read"


AMPERE = 80
"""Compute capability from which sends need no NVLink, since 2.19.1: paths.cc, ncclTopoCheckGdr()."""


class Release(Struct, frozen=True, kw_only=True):
    """How one release of NCCL behaves. The defaults are for the oldest one, and for an unknown version."""

    # GPUDirect RDMA, and its messages in a log
    has_dmabuf: bool = False  # registers dma-bufs
    has_diagnostics: bool = False  # NCCL_RUN_DIAGNOSTICS, and `diagnostics` of RAS
    has_gin: bool = False  # GPU kernels start transfers: src/transport/net_ib/gin.cc
    peermem_files: tuple[str, ...] = ()  # one of them must exist, or it takes nvidia-peermem for not loaded
    probes_each_nic: bool = False  # else the dma-buf support of the first device counts for all
    prints_level: bool = False  # `NCCL_NET_GDR_LEVEL set by environment to`
    silent_pairs: bool = False  # release builds print no line for a pair that is too far apart
    chooses_gid: bool = False  # NCCL_IB_GID_INDEX need not be set for RoCE
    reads_need_nvlink: bool = True  # sends are direct with NVLink alone, also on Ampere and later
    modes: bool = False  # a PCIe mapping is asked for where C2C exists and is not used
    mlopart: bool = False  # partitions of a GPU are refused without NCCL_NET_GDR_MLOPART
    words_are_zero: bool = True  # a word is 0 as the value of an integer variable, else the default stays

    # path types
    path_types: tuple[str, ...] = ()  # nearest first, each at the number that it prints
    order: Mapping[str, int] = {}  # the inverse of path_types, computed from it

    # NVLink-C2C
    c2c_link: str = ""  # the type of its link; "" where none is made
    gdr_c2c: int | None = None  # the default of NCCL_NET_GDR_C2C; None where it is not known
    c2c_counts_as: str = ""  # the type that a path over C2C is compared as: PHB>C2C, P2C>C2C, P2C
    p2c: str = ""  # which paths get the type P2C: "pair", "joined", "nearest"
    joins_p2c: bool = False  # C2C and PHB make P2C where paths are joined
    pxn_c2c: int | None = None  # the default of NCCL_PXN_C2C; None where it is not known

    # PXN, by which a GPU sends through its neighbour's NIC
    pxn_same_host: bool = False
    pxn_spares: str = (
        "PXB"  # the type that is never replaced by a helper; "": decided by the helper's distance
    )
    pxn_needs_gdr: bool = False

    # the graph
    knows_hosts: bool = False  # NUMA nodes of a topology file may belong to several hosts
    devices: bool = False  # a DEV node is between a GPU and its links
    peer_links: bool = False  # links between switches (pcilink)
    joins_functions: bool = True  # NICs whose addresses differ only in the function are one
    flattens_gen5: bool = False  # Broadcom's Gen5 switches too
    only_climbs: bool = False  # the search for a device's CPU passes PCI bridges alone
    never_turns_back: bool = False  # the search for a device's CPU does not go back
    p2p_by_vendor: bool = True  # GPUs of AMD and POWER machines can access each other at any distance
    reroutes_far_pairs: bool = True  # a refused pair goes through the CPU however far it is
    best_type_first: bool = False  # paths by type, then bandwidth, then hops
    nearest_cpu_by_bandwidth: bool = False
    nearest_nets_by_mask: bool = True
    serves_any_gpu: bool = False  # a NIC's GPU need not be one of the nearest
    spreads_by_local_index: bool = False  # GPUs of one NIC count from the first of them
    spreads_connectx8: bool = False  # they do on Blackwell with ConnectX-8, and if requested

    # NICs that are fused
    merges: str = ""  # what fuses them: "plugin", "topology"
    merge_limit: int = 2
    retries_merge: bool = False  # continues if ports cannot be fused

    # GB/s
    hopper_nvlink: float = 20.0
    blackwell_nvlink: float = 20.0
    amd_link: float = 5000.0  # between NUMA nodes
    amd_links: tuple[float, ...] = ()  # of Zen 1 and 2, Zen 3 and 4, Zen 5; () if all are equal
    sapphire_rapids_link: float = 10.0
    emerald_rapids_link: float = 10.0
    knows_granite_rapids: bool = False  # it is as fast as Emerald Rapids, though its number is lower

    variables: frozenset[str] = frozenset()  # of all rows up to this one; older ones are in no row
    removed: frozenset[str] = frozenset()  # that earlier rows read and this one does not

    @property
    def sees_module(self) -> bool:
        """Whether it finds nvidia-peermem without a folder in memory_peers."""
        return MODULE in self.peermem_files

    @property
    def compares_p2c(self) -> bool:
        """Whether C2C has its own level, so that PXB excludes it."""
        return self.c2c_counts_as == "P2C"

    def named(self, kind: int) -> str:
        return self.path_types[kind]


REMOVED = {"2.32.3": ("NCCL_NET_GDR_MLOPART", "NCCL_TOPO_SCATTER_START_NET")}
"""By release, the variables of earlier rows that it no longer reads: the strings of libnccl 2.32.3."""


class ReleaseRow(Struct, frozen=True):
    """What changes with a release, and the source."""

    since: str
    source: str
    basis: ModelBasis
    variables: tuple[str, ...]  # that this release is the first to read
    changes: Mapping[str, object]


def row(
    since: str,
    source: str = "",
    basis: ModelBasis = ModelBasis.READ,
    variables: tuple[str, ...] = (),
    **changes: object,
) -> ReleaseRow:
    return ReleaseRow(since, source, basis, variables, changes)


BUILT = ModelBasis.FROM_SOURCE
GDR = "src/transport/net_ib.cc (src/transport/net_ib/gdr.cc from 2.29.2), ncclIbGdrSupport()"

ROWS: tuple[ReleaseRow, ...] = (
    row("2", GDR, peermem_files=(NV_MEM,)),
    row("2.6.4", "src/graph/topo.h", path_types=("LOC", "NVL", "PIX", "PXB", "PHB", "SYS", "NET")),
    row("2.7.3", "src/graph/paths.cc, ncclGetLevel()", prints_level=True),
    row("2.8.3", "src/graph/topo.h", path_types=("LOC", "NVL", "NVB", "PIX", "PXB", "PHB", "SYS")),
    row("2.9.8", GDR, peermem_files=(NV_MEM, NVIDIA_PEERMEM)),
    row(
        "2.12.7", "src/graph/topo.h",
        path_types=("LOC", "NVL", "NVB", "PIX", "PXB", "PXN", "PHB", "SYS", "NET", "DIS"),
    ),
    row("2.13.4", "src/init.cc, dmaBufSupported(): ncclNet_v6", has_dmabuf=True),
    row("2.18.1", basis=BUILT),
    row("2.18.5", "src/graph/topo.cc, ncclTopoGetLocal()", nearest_nets_by_mask=False, serves_any_gpu=True),
    row("2.18.6", basis=BUILT),
    row(
        "2.19.1", "src/graph/paths.cc, ncclTopoCheckGdr(); topo.cc, ncclTopoAddC2c(); topo.h, AMD_BW",
        reads_need_nvlink=False, c2c_link="NVL", serves_any_gpu=False, amd_link=16.0,
    ),
    row("2.19.4", basis=BUILT),
    row(
        "2.20.3", "src/graph/topo.cc, getBcmGen(); net_ib.cc, ncclIbFindMatchingDev(); topo.h, NVLINK_BW",
        variables=("NCCL_IB_MERGE_NICS",),
        flattens_gen5=True, merges="plugin", hopper_nvlink=20.6, blackwell_nvlink=20.6,
    ),
    row("2.20.5", basis=BUILT),
    row(
        "2.21.5", "src/graph/paths.cc, ncclTopoComputePaths(); topo.cc, ncclGetSystemId(); net_ib.cc,"
        " ncclIbGetGidIndex()", BUILT,
        reroutes_far_pairs=False, pxn_same_host=True, knows_hosts=True, chooses_gid=True,
    ),
    row(
        "2.22.3", f"{GDR}; src/graph/topo.cc, ncclTopoAddPciLinks() and findLocalCpu()", BUILT,
        peermem_files=(NV_MEM, NV_MEM_NC), peer_links=True, only_climbs=True,
    ),
    row(
        "2.23.4", f"{GDR} and ncclIbDmaBufSupport(); src/graph/paths.cc, ncclTopoCheckP2p()", BUILT,
        peermem_files=(NV_MEM, NV_MEM_NC, MODULE), probes_each_nic=True, p2p_by_vendor=False,
    ),
    row(
        "2.24.3", "src/graph/topo.cc, ncclTopoAutoMerge() and ncclTopoAddNic()", BUILT,
        variables=("NCCL_NET_MERGE_LEVEL", "NCCL_NET_FORCE_MERGE"),
        merges="topology", merge_limit=4, joins_functions=False,
    ),
    row("2.25.1", "src/graph/topo.h, SM100_NVLINK_BW", BUILT, blackwell_nvlink=40.0),
    row(
        "2.26.2", "src/graph/topo.h; paths.cc, ncclTopoCheckGdr(); topo.cc, ncclTopoGetInterCpuBw(),"
        " findLocalCpu() and ncclTopoAutoMerge()", BUILT,
        variables=("NCCL_NET_GDR_C2C",),
        path_types=("LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "PXN", "PHB", "SYS", "NET", "DIS"),
        c2c_link="C2C", gdr_c2c=0, c2c_counts_as="PHB>C2C", modes=True, never_turns_back=True,
        retries_merge=True, sapphire_rapids_link=22.0, emerald_rapids_link=40.0,
    ),
    row("2.26.6", basis=BUILT),
    row(
        "2.27.3", "src/include/graph.h; src/graph/paths.cc, ncclTopoCheckGdr() and ncclTopoComputePaths()",
        BUILT, variables=("NCCL_PXN_C2C",),
        path_types=("LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "PXN", "P2C", "PHB", "SYS", "NET", "DIS"),
        gdr_c2c=1, c2c_counts_as="P2C>C2C", p2c="pair", pxn_c2c=0,
    ),
    row(
        "2.27.5", "src/include/graph.h; src/graph/paths.cc, ncclTopoSetPaths(); topo.h, SM100_NVLINK_BW",
        BUILT,
        path_types=("LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS", "NET", "DIS"),
        p2c="joined", joins_p2c=True, pxn_spares="", blackwell_nvlink=40.1,
    ),
    row("2.27.6", "src/graph/paths.cc, ncclTopoComputePaths()", pxn_spares="PXN"),
    row("2.27.7", basis=BUILT),
    row("2.28.3", "src/graph/paths.cc, NCCL_PARAM(PxnC2c)", BUILT, ("NCCL_NETDEVS_POLICY",), pxn_c2c=1),
    row("2.28.7", "src/transport/net_ib/gin.cc", BUILT, has_gin=True),
    row("2.28.9", basis=ModelBasis.ON_GPUS),
    row(
        "2.29.2", "src/graph/paths.cc, ncclTopoCheckGdr() and ncclTopoComputePaths()", BUILT,
        c2c_counts_as="P2C", p2c="nearest",
    ),
    row("2.29.7", basis=BUILT),
    row(
        "2.30.3", "src/graph/topo.h, DEV; paths.cc, ncclTopoCheckGdr(): TRACE instead of INFO", BUILT,
        devices=True, pxn_needs_gdr=True, silent_pairs=True,
    ),
    row("2.30.4", basis=BUILT),
    row(
        "2.30.7", "src/graph/paths.cc, ncclTopoSetPaths() and ncclTopoCheckGdr(); topo.cc,"
        " ncclTopoGetLocalNet()", BUILT, ("NCCL_NET_GDR_MLOPART", "NCCL_IB_SUBNET_AWARE_ROUTING"),
        best_type_first=True, nearest_cpu_by_bandwidth=True, spreads_by_local_index=True, mlopart=True,
    ),
    row(
        "2.31.2", "src/graph/topo.cc, ncclTopoGetLocalNetType(), ncclTopoAddCpu(); topo.h, AMD_ZEN12_BW",
        variables=("NCCL_TOPO_SCATTER_START_NET",), has_diagnostics=True,
        spreads_by_local_index=False, spreads_connectx8=True, amd_links=(16.0, 24.0, 32.0),
        knows_granite_rapids=True,
    ),
    row(
        "2.32.3", "src/graph/paths.cc, ncclTopoCheckGdr(); src/misc/param.cc, ncclLoadParam()",
        mlopart=False, words_are_zero=False,
    ),
)  # fmt: skip
"""Oldest first. A release without changes has a row too, if the model was verified against it."""

OLDEST, NEWEST = "2.18.1", ROWS[-1].since
"""The oldest and newest release whose graph code was read, which the topology model covers. The newest is
the default release of `gdr topo`."""
ON_GPUS = tuple(row.since for row in ROWS if row.basis is ModelBasis.ON_GPUS)
"""Releases that gave the same results as the model for every topology, run on GPUs; docs/nccl-model.md."""
FROM_SOURCE = tuple(row.since for row in ROWS if row.basis in (ModelBasis.ON_GPUS, BUILT))
"""Releases whose graph code, built from source, gave the same results for every topology, without GPUs."""


def releases(rows: Iterable[ReleaseRow]) -> tuple[Release, ...]:
    """The release before the first row, and the one after each row."""
    found = [Release()]
    for one in rows:
        before = found[-1]
        removed = before.removed.union(REMOVED.get(one.since, ()))
        read = before.variables.union(one.variables) - removed
        after = structs.replace(before, variables=read, removed=removed, **one.changes)
        order = {name: at for at, name in enumerate(after.path_types)}
        found.append(structs.replace(after, order=order))
    return tuple(found)


_RELEASES = releases(ROWS)
_NUMBERS = tuple(numbers(row.since) for row in ROWS)
VARIABLE_SINCE: Mapping[str, str] = {name: row.since for row in ROWS for name in row.variables}
"""By variable, the first release that reads it."""
VARIABLE_UNTIL: Mapping[str, str] = {name: since for since, names in REMOVED.items() for name in names}
"""By variable, the first release that no longer reads it."""


def every_release() -> tuple[Release, ...]:
    """All releases, oldest first."""
    return _RELEASES


@lru_cache(maxsize=64)
def release(version: str) -> Release:
    """How a version behaves: like the last release up to it."""
    return _RELEASES[bisect_right(_NUMBERS, numbers(version))]


def first_release_with(capability: str) -> str:
    """The first release that has a capability."""
    return next(
        one.since for one, made in zip(ROWS, _RELEASES[1:], strict=True) if getattr(made, capability)
    )


def changing(capability: str) -> tuple[ReleaseRow, ...]:
    """The rows that change a field, newest first."""
    return tuple(row for row in reversed(ROWS) if capability in row.changes)


def model_basis(version: str) -> ModelBasis:
    """How the model of this version was verified."""
    number = numbers(version)
    if not numbers(OLDEST) <= number <= numbers(NEWEST):
        return ModelBasis.UNSEEN
    return next((row.basis for row in ROWS if numbers(row.since) == number), ModelBasis.READ)


def is_modelled(version: str) -> bool:
    """Whether the model covers a version: one that was read, or a newer one of the same major number."""
    number = numbers(version)
    return number >= numbers(OLDEST) and number[0] == numbers(NEWEST)[0]


def is_newer(version: str) -> bool:
    """Whether a version has a newer minor number than the newest one that is known."""
    return numbers(version)[:2] > numbers(NEWEST)[:2]
