"""The matrix of `nvidia-smi topo -m` as a graph: no addresses, no tree, but every distance."""

from __future__ import annotations

import re

from gdrkit.fabric.topology.graph import (
    Net,
    NvLink,
    StatedPath,
    Topology,
    TopologyCpu,
    TopologyGpu,
    TopologySource,
)
from gdrkit.formats.topo_matrix import Matrix

NOTES = (
    "nvidia-smi names no addresses: links, ACS and IOMMU are not known, nor is the tree",
    "NVML reckons PIX and PXB by ports, NCCL by switches: the two may differ in these",
)


def topology(matrix: Matrix) -> Topology:
    """The devices of a matrix, and what it states of each pair."""
    gpus = tuple(name for name in matrix.names if re.fullmatch(r"GPU\d+", name))
    places = sorted(
        {place for row in matrix.rows.values() if (place := _place(row.numa_affinity)) is not None}
    )
    return Topology(
        origin=TopologySource.NVIDIA_SMI_TOPO,
        cpus=tuple(TopologyCpu(numa_node=place) for place in places),
        gpus=tuple(
            TopologyGpu(
                id=name,
                index=int(name[3:]),
                numa_node=_place(matrix.rows[name].numa_affinity),
                nvlinks=_nvlinks(matrix, name, gpus),
            )
            for name in gpus
        ),
        nets=tuple(Net(id=name, device=name) for name in matrix.names if name not in gpus),
        stated=tuple(
            StatedPath(one, other, word)
            for (one, other), word in matrix.cells.items()
            if one != other and word != "N/A"
        ),
        notes=NOTES,
    )


def _nvlinks(matrix: Matrix, name: str, gpus: tuple[str, ...]) -> tuple[NvLink, ...]:
    words = ((other, matrix.cells[name, other]) for other in gpus if other != name)
    return tuple(NvLink(other, int(word[2:])) for other, word in words if word.startswith("NV"))


def _place(affinity: str) -> int | None:
    """A NUMA node; None where several are near, or none is named."""
    return int(affinity) if affinity.isascii() and affinity.isdigit() and len(affinity) < 6 else None
