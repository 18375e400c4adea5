"""NCCL's search for paths in its graph, and its choice of the nearest GPUs and NICs.

Source: NCCL src/graph/paths.cc, ncclTopoSetPaths(); topo.cc, ncclTopoGetLocal(), ncclTopoGetLocalNet() and
ncclTopoGetLocalGpu(). Ties are resolved as in NCCL: by the order of links, then by what was found first.
"""

from __future__ import annotations

from gdrkit.fabric.nccl.bandwidths import LOCAL_BANDWIDTH
from gdrkit.fabric.nccl.graph import CPU, DEV, GPU, NET, PCI, GraphLink, GraphNode, GraphPath, NcclSystem
from gdrkit.fabric.nccl.settings import Settings
from gdrkit.formats.errors import FormatError
from gdrkit.programs.nccl.releases import Release

CONNECTX_8 = ((0x15B3, 0x1023), (0x15B3, 0x2100))
"""Vendor and device of ConnectX-8 and of its DMA function: topo.cc, ncclTopoGetLocalNetType()."""


def set_paths(system: NcclSystem, base: GraphNode, settings: Settings) -> None:
    """Sets the best path from every node to this one, by a breadth-first search from it.

    Until 2.30.4 the path with the fewest hops is best, and of equally short ones the one with more
    bandwidth; from 2.30.7 on the better type, then more bandwidth, then fewer hops."""
    rules = system.rules
    better = _better_type if rules.best_type_first else _shorter
    base.paths[base] = GraphPath(rules.order["LOC"], LOCAL_BANDWIDTH, ())
    edge = [base]
    while edge:
        following: dict[GraphNode, None] = {}
        for node in edge:
            path = node.paths[base]
            for link in node.links:
                if _is_barred(rules, settings, base, node, link, path):
                    continue
                bandwidth = min(path.bandwidth, link.bandwidth)
                kind = _type(rules, base, node, link, path)
                known = link.to.paths.get(base)
                if better(known, path, kind, bandwidth):
                    link.to.paths[base] = GraphPath(kind, bandwidth, (node, *path.nodes))
                    following[link.to] = None
        edge = list(following)


def _shorter(known: GraphPath | None, path: GraphPath, kind: int, bandwidth: float) -> bool:
    if known is None:
        return bandwidth > 0
    return known.hops > path.hops and known.bandwidth < bandwidth


def _better_type(known: GraphPath | None, path: GraphPath, kind: int, bandwidth: float) -> bool:
    if known is None or kind != known.type:
        return known is None or kind < known.type
    return known.bandwidth < bandwidth or (known.bandwidth == bandwidth and known.hops > path.hops + 1)


def _is_barred(
    rules: Release, settings: Settings, base: GraphNode, node: GraphNode, link: GraphLink, path: GraphPath
) -> bool:
    """Whether a path may not continue over a link: through a GPU only NVLink to one neighbour may be
    used."""
    nvlink = rules.order["NVL"]
    if not rules.devices:
        through = node is not base and node.kind == GPU
        return through and (
            settings.nvb_disable or link.type != nvlink or link.to.kind != GPU or path.hops > 1
        )
    first = base.parent if base.kind == GPU else base
    if node is first or node.kind != DEV or (link.type == rules.order["LOC"] and link.to.kind == GPU):
        return False
    longest = 2 if base.kind == GPU else 1
    return settings.nvb_disable or link.type != nvlink or link.to.kind != DEV or path.hops > longest


def _type(rules: Release, base: GraphNode, node: GraphNode, link: GraphLink, path: GraphPath) -> int:
    """The type of a path extended by a link: the farther of both."""
    order = rules.order
    kind = order["LOC"] if link.type == order["NET"] else link.type
    if node.kind == PCI and link.to.kind == PCI:
        kind = order["PXB"]
    if link.type == order["PIX"] and CPU in (node.kind, link.to.kind):
        kind = order["PHB"]
    gpus, longest = (DEV, 2 if base.kind == GPU else 1) if rules.devices else (GPU, 1)
    far = path.hops == longest if rules.best_type_first else path.hops >= longest
    if node.kind == gpus and path.type == kind == order["NVL"] and far:
        kind = order["NVB"]
    return max(path.type, kind)


def nearest(system: NcclSystem, node: GraphNode, kind: str) -> list[GraphNode]:
    """The nearest of the nodes of a kind with the most bandwidth from this node: ncclTopoGetLocal()."""
    known = system.nearest.get((node, kind))
    if known is None:
        known = system.nearest[node, kind] = _nearest(system, node, kind)
    return known


def _nearest(system: NcclSystem, node: GraphNode, kind: str) -> list[GraphNode]:
    best, nearest_type = 0.0, system.rules.order["DIS"]
    found: list[GraphNode] = []
    for other in system.nodes[kind]:
        path = node.paths.get(other)
        if path is None:
            continue
        if path.bandwidth > best or (path.bandwidth == best and path.type < nearest_type):
            best, nearest_type = path.bandwidth, path.type
            found = []
        if path.bandwidth == best and path.type == nearest_type:
            found.append(other)
    return found


def local_cpu(system: NcclSystem, gpu: GraphNode) -> GraphNode | None:
    """The NUMA node nearest to a GPU: ncclGetLocalCpu()."""
    if system.rules.nearest_cpu_by_bandwidth:
        cpus = nearest(system, gpu, CPU)
    else:
        cpus = [cpu for cpu in system.nodes[CPU] if cpu in gpu.paths]
    return min(cpus, key=lambda cpu: gpu.paths[cpu].hops, default=None)


def local_nets(system: NcclSystem, gpu: GraphNode, settings: Settings) -> list[GraphNode]:
    """The NICs that a GPU uses, in the order of channels: ncclTopoGetLocalNet() for each of them."""
    if system.rules.nearest_nets_by_mask:
        return _nets_of_mask(system, gpu)
    known = system.local_nets.get(gpu)
    if known is None:
        known = system.local_nets[gpu] = _local_nets(system, gpu, settings)
    return known


def _local_nets(system: NcclSystem, gpu: GraphNode, settings: Settings) -> list[GraphNode]:
    nets = nearest(system, gpu, NET)
    if not nets:
        return []
    gpus = nearest(system, nets[0], GPU)
    each = -(-len(nets) // max(len(gpus), 1))
    if settings.nets_policy == "ALL":
        each = len(nets)
    elif settings.nets_policy:
        each = min(int(settings.nets_policy), len(nets))
    first = gpu.dev % max(len(gpus), 1) if _counts_locally(system, gpu, nets, settings) else gpu.dev
    if len(nets) & (len(nets) - 1) == 0:
        first = _mirrored(first, len(nets))
    return [nets[(first + channel) % len(nets)] for channel in range(each)]


def _counts_locally(system: NcclSystem, gpu: GraphNode, nets: list[GraphNode], settings: Settings) -> bool:
    """Whether a GPU's first NIC depends on its index among the GPUs of that NIC, not on its CUDA index."""
    if not system.rules.spreads_connectx8:
        return system.rules.spreads_by_local_index
    return settings.scatter_start_net or (gpu.sm >= 100 and any(net.chip in CONNECTX_8 for net in nets))


def _mirrored(value: int, size: int) -> int:
    """A number below size with its bits reversed: mirrorBits()."""
    mirrored, bit, image = 0, 1, size >> 1
    while bit < size:
        if value & bit:
            mirrored |= image
        bit, image = bit << 1, image >> 1
    return mirrored


def local_gpu(system: NcclSystem, net: GraphNode, settings: Settings) -> GraphNode | None:
    """The GPU that a NIC serves first: ncclTopoGetLocalGpu()."""
    if system.rules.nearest_nets_by_mask:
        return _gpu_of_mask(system, net)
    if net not in system.local_gpus:
        system.local_gpus[net] = _local_gpu(system, net, settings)
    return system.local_gpus[net]


def _local_gpu(system: NcclSystem, net: GraphNode, settings: Settings) -> GraphNode | None:
    gpus = system.nodes[GPU] if system.rules.serves_any_gpu else nearest(system, net, GPU)
    served = [(gpu, local_nets(system, gpu, settings)) for gpu in gpus]
    for channel in range(max((len(nets) for _, nets in served), default=0)):
        for gpu, nets in served:
            if nets and nets[channel % len(nets)] is net:
                return gpu
    return None


# -- until 2.18.3 ---------------------------------------------------------------------------------------


def _mask(system: NcclSystem, gpu: GraphNode) -> list[GraphNode]:
    """The NICs from which a GPU is reached best: getLocalNetMask()."""
    known = system.masks.get(gpu)
    if known is None:
        known = system.masks[gpu] = _best_nets(system, gpu)
    return known


def _best_nets(system: NcclSystem, gpu: GraphNode) -> list[GraphNode]:
    best, nearest_type = 0.0, system.rules.order["DIS"]
    found: list[GraphNode] = []
    for net in system.nodes[NET]:
        path = net.paths.get(gpu)
        if path is None:
            continue
        if path.bandwidth > best or (path.bandwidth == best and path.type < nearest_type):
            best, nearest_type, found = path.bandwidth, path.type, []
        if path.bandwidth == best and path.type == nearest_type:
            found.append(net)
    return sorted(found, key=lambda net: net.id)


def _nets_of_mask(system: NcclSystem, gpu: GraphNode) -> list[GraphNode]:
    mine = _mask(system, gpu)
    if not mine:
        return []
    sharing = [other for other in system.nodes[GPU] if _mask(system, other) == mine]
    at = sharing.index(gpu)
    return [mine[(channel * len(sharing) + at) % len(mine)] for channel in range(len(mine))]


def _gpu_of_mask(system: NcclSystem, net: GraphNode) -> GraphNode | None:
    gpus: list[GraphNode] = []
    mask: list[GraphNode] = []
    nearest_type = system.rules.order["DIS"]
    for gpu in system.nodes[GPU]:
        mine = _mask(system, gpu)
        if net not in mine:
            continue
        kind = mine[0].paths[gpu].type
        if kind < nearest_type:
            nearest_type, mask, gpus = kind, mine, []
        if kind == nearest_type:
            if mine != mask:
                raise FormatError("this version of NCCL fails: equally near GPUs do not share the same NICs")
            gpus.append(gpu)
    return gpus[mask.index(net) % len(gpus)] if gpus else None
