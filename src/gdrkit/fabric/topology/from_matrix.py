"""The matrix of `nvidia-smi topo -m` as a graph: no addresses, no tree, but every distance."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gdrkit.fabric.topology.graph import (
    C2C,
    Net,
    NvLink,
    StatedPath,
    Topology,
    TopologyCpu,
    TopologyGpu,
    TopologySource,
)
from gdrkit.formats.gpu_listing import ListedGpu
from gdrkit.formats.topo_matrix import Matrix, MatrixRow

NOTES = (
    "nvidia-smi shows no addresses: links, ACS, IOMMU and the tree are not known",
    "NVML distinguishes PIX and PXB by ports, NCCL by switches: the two may differ",
)


def topology(matrix: Matrix, listed: Mapping[int, ListedGpu] | None = None) -> Topology:
    """The devices of a matrix, and the path type of each pair; what they are, if the text lists the GPUs."""
    nameless = ListedGpu(name="")
    listed = listed or {}
    gpus = tuple(name for name in matrix.names if re.fullmatch(r"GPU\d+", name))
    numa_nodes = sorted(
        {number for row in matrix.rows.values() if (number := _numa_node(row.numa_affinity)) is not None}
    )
    rows = {name: matrix.rows.get(name, MatrixRow()) for name in gpus}
    return Topology(
        origin=TopologySource.NVIDIA_SMI_TOPO,
        cpus=tuple(TopologyCpu(numa_node=number) for number in numa_nodes),
        gpus=tuple(
            TopologyGpu(
                id=name,
                index=int(name[3:]),
                name=listed.get(int(name[3:]), nameless).name,
                device=listed.get(int(name[3:]), nameless).device,
                numa_node=_numa_node(rows[name].numa_affinity),
                nvlinks=_nvlinks(matrix, name, gpus),
                c2c=C2C(None, None) if rows[name].gpu_numa_id else None,  # its memory is a NUMA node
            )
            for name in gpus
        ),
        nets=tuple(Net(id=name, device=name) for name in matrix.names if name not in gpus),
        stated=tuple(
            StatedPath(one, other, word)
            for (one, other), word in matrix.cells.items()
            if one != other and word != "N/A"
        ),
        notes=(*matrix.notes, *NOTES),
    )


def _nvlinks(matrix: Matrix, name: str, gpus: tuple[str, ...]) -> tuple[NvLink, ...]:
    words = ((other, matrix.cells.get((name, other), "")) for other in gpus if other != name)
    return tuple(NvLink(other, int(word[2:])) for other, word in words if word.startswith("NV"))


def _numa_node(affinity: str) -> int | None:
    """The number of a NUMA node; None if several are near, or none is shown."""
    return int(affinity) if affinity.isascii() and affinity.isdigit() and len(affinity) < 6 else None
