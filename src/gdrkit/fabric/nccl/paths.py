"""The paths of NCCL's graph: searched, then routed around what NCCL does not use.

Source: NCCL src/graph/paths.cc, ncclTopoComputePaths(), ncclTopoCheckP2p(), ncclTopoCheckNet(),
addInterStep() and ncclTopoTrimSystem(); src/transport/p2p.cc and shm.cc, canConnect().
"""

from __future__ import annotations

from msgspec import Struct

from gdrkit.fabric.nccl.gdr_check import GdrCheck, check
from gdrkit.fabric.nccl.graph import CPU, DEV, GPU, NET, NVS, GraphNode, GraphPath, NcclSystem
from gdrkit.fabric.nccl.search import local_cpu, local_gpu, nearest, set_paths
from gdrkit.fabric.nccl.settings import Settings


class LoggedCheck(Struct, frozen=True):
    """A test that NCCL made and logged while it computed paths, with the paths of that moment."""

    gpu: GraphNode
    net: GraphNode
    sends: bool
    check: GdrCheck


def compute_paths(
    system: NcclSystem, settings: Settings, *, between_ranks: bool = True
) -> list[LoggedCheck]:
    """Sets the paths of every node, and returns the tests made meanwhile.

    Without ranks, GPUs that cannot reach one another stay connected. Raises FormatError if NCCL would
    fail."""
    system.forget_paths()
    for kind in (CPU, GPU, NET, NVS):
        for node in system.nodes[kind]:
            set_paths(system, node, settings)
    _route_gpus(system, settings, between_ranks)
    if system.rules.p2c:
        _mark_p2c(system)
    checks: list[LoggedCheck] = []
    for net in system.nodes[NET]:
        for gpu in system.nodes[GPU]:
            if net in gpu.paths and gpu in net.paths:
                _route_pair(system, gpu, net, settings, checks)
    return checks


def settle(system: NcclSystem, gpu: GraphNode, settings: Settings) -> list[LoggedCheck]:
    """Computes a rank's final paths: paths, removal of GPUs out of reach, paths again: src/init.cc.

    Returns the tests of both passes. Raises FormatError if NCCL would fail."""
    checks = compute_paths(system, settings)
    trim(system, gpu)
    return checks + compute_paths(system, settings)


def trim(system: NcclSystem, gpu: GraphNode) -> None:
    """Removes the GPUs that a rank does not reach inside the machine: ncclTopoTrimSystem()."""
    network = system.rules.order["NET"]
    gpus = system.nodes[GPU]
    domains = list(range(len(gpus)))
    for at, one in enumerate(gpus):
        for before in range(at):
            path = one.paths.get(gpus[before])
            if path is not None and path.type < network:
                domains[at] = min(domains[at], domains[before])
    mine = domains[gpus.index(gpu)]
    for one, domain in zip(list(gpus), domains, strict=True):
        if domain != mine:
            system.remove(one)


def through(system: NcclSystem, middle: GraphNode, source: GraphNode, target: GraphNode) -> None:
    """Routes a path through a third node: addInterStep()."""
    rules = system.rules
    first, second = source.paths.get(middle), middle.paths.get(target)
    if first is None or second is None:
        return
    near, far = sorted((first.type, second.type))
    kind = far
    if rules.joins_p2c and rules.named(far) == "PHB" and rules.named(near) == "C2C":
        kind = rules.order["P2C"]
    if middle.kind == GPU:
        kind = rules.order["PXN"]
    bandwidth = min(first.bandwidth, second.bandwidth)
    system.replace_path(source, target, GraphPath(kind, bandwidth, first.nodes + second.nodes))


# -- between GPUs ---------------------------------------------------------------------------------------


def _route_gpus(system: NcclSystem, settings: Settings, between_ranks: bool) -> None:
    """Routes GPUs that may not reach one another directly through the CPU, or disconnects them."""
    level = p2p_level(system, settings)
    network = system.rules.order["NET"]
    nets = {gpu: _fastest_near_net(system, gpu) for gpu in system.nodes[GPU]}
    for target in system.nodes[GPU]:
        for source in system.nodes[GPU]:
            path = source.paths.get(target)
            if path is None:
                continue
            if path.type > level:
                cpu = local_cpu(system, target)
                if cpu is not None:
                    through(system, cpu, source, target)
        if not between_ranks:
            continue
        for source in system.nodes[GPU]:
            path = source.paths.get(target)
            if (
                source is not target
                and path is not None
                and not _connects(system, source, target, settings, level, nets)
            ):
                system.replace_path(source, target, GraphPath(network, path.bandwidth, path.nodes))


def p2p_level(system: NcclSystem, settings: Settings) -> int:
    """The farthest path type over which GPUs access one another's memory: ncclTopoCheckP2p()."""
    order = system.rules.order
    if settings.p2p_level is not None:
        return order[settings.p2p_level]
    cpus = system.nodes[CPU]
    arch, vendor = (cpus[0].name, cpus[0].vendor) if cpus else ("", "")
    if system.rules.p2p_by_vendor:
        near = arch.startswith("arm64") or vendor.startswith(
            ("GenuineIntel", "CentaurHauls", "  Shanghai  ")
        )
        return order["PXB"] if near else order["SYS"]
    gpus = system.nodes[DEV] if system.rules.devices else system.nodes[GPU]
    few_on_amd = vendor.startswith("AuthenticAMD") and len(gpus) <= 2
    return order["SYS"] if few_on_amd else order["PXB"]


def _connects(
    system: NcclSystem,
    source: GraphNode,
    target: GraphNode,
    settings: Settings,
    level: int,
    nets: dict[GraphNode, float],
) -> bool:
    """Whether two GPUs use their own links or shared memory, rather than the network.

    NICs near both that are faster than the path between them go first: ncclTopoCheckNet()."""
    path = source.paths[target]
    slower = not settings.net_disable_intra and min(nets[source], nets[target]) > path.bandwidth
    if path.type <= level and (_leads_through_gpu(system, path) or not slower):
        return True
    return not settings.shm_disable and not slower


def _leads_through_gpu(system: NcclSystem, path: GraphPath) -> bool:
    if system.rules.devices:
        return path.hops == 4 and path.nodes[1].kind == DEV
    return path.hops == 2 and path.nodes[0].kind == GPU


def _fastest_near_net(system: NcclSystem, gpu: GraphNode) -> float:
    """The bandwidth of the fastest NIC within PXB; 0 if there is none."""
    near = system.rules.order["PXB"]
    paths = (gpu.paths.get(net) for net in system.nodes[NET])
    return max((path.bandwidth for path in paths if path and path.type <= near), default=0.0)


# -- between GPUs and NICs ------------------------------------------------------------------------------


def _mark_p2c(system: NcclSystem) -> None:
    """Gives pairs joined at a CPU to which the GPU is connected by C2C the type P2C."""
    rules = system.rules
    for gpu in system.nodes[GPU]:
        cpu = local_cpu(system, gpu)
        if cpu is None:
            continue
        nets = nearest(system, gpu, NET) if rules.p2c == "nearest" else system.nodes[NET]
        for net in nets:
            if net in gpu.paths and gpu in net.paths and _is_p2c(system, gpu, net, cpu):
                _bring_nearer(system, gpu, net)
                _bring_nearer(system, net, gpu)


def _is_p2c(system: NcclSystem, gpu: GraphNode, net: GraphNode, cpu: GraphNode) -> bool:
    named = system.rules.named
    if system.rules.p2c == "pair":
        return named(gpu.paths[net].type) == "PHB" and named(gpu.paths[cpu].type) == "C2C"
    return cpu in net.paths and {named(gpu.paths[cpu].type), named(net.paths[cpu].type)} == {"C2C", "PHB"}


def _bring_nearer(system: NcclSystem, node: GraphNode, other: GraphNode) -> None:
    path, p2c = node.paths[other], system.rules.order["P2C"]
    kind = p2c if system.rules.p2c == "pair" else min(p2c, path.type)
    system.replace_path(node, other, GraphPath(kind, path.bandwidth, path.nodes))


def _route_pair(
    system: NcclSystem, gpu: GraphNode, net: GraphNode, settings: Settings, checks: list[LoggedCheck]
) -> None:
    """Routes a pair through a GPU nearer to the NIC; through the CPU if GPUDirect RDMA is refused."""
    order = system.rules.order
    if not settings.pxn_disable:
        helper = local_gpu(system, net, settings)
        if helper is not None and helper is not gpu and _helps(system, helper, gpu, net, settings, checks):
            through(system, helper, gpu, net)
    if gpu.paths[net].type >= order["PHB"] and not system.rules.reroutes_far_pairs:
        return
    checks.append(LoggedCheck(gpu, net, False, check(system, gpu, net, False, settings)))
    if checks[-1].check.refused_by:
        cpu = local_cpu(system, gpu)
        if cpu is not None:
            through(system, cpu, net, gpu)
            through(system, cpu, gpu, net)


def _helps(
    system: NcclSystem,
    helper: GraphNode,
    gpu: GraphNode,
    net: GraphNode,
    settings: Settings,
    checks: list[LoggedCheck],
) -> bool:
    """Whether a GPU may send for another one (PXN)."""
    rules, order = system.rules, system.rules.order
    direct, own, between = helper.paths.get(net), gpu.paths[net], helper.paths.get(gpu)
    if direct is None or between is None or between.type > order["NVL"]:
        return False
    if rules.pxn_same_host and helper.system != gpu.system:
        return False
    if rules.pxn_needs_gdr:
        checks.append(LoggedCheck(helper, net, True, check(system, helper, net, True, settings)))
        if checks[-1].check.refused_by:
            return False
    farthest = order["P2C"] if settings.pxn_c2c else order["PXB"]
    near = direct.type <= order["PXB"] or (settings.pxn_c2c and rules.named(direct.type) == "P2C")
    limit = order[rules.pxn_spares] if rules.pxn_spares else farthest
    return near and (direct.bandwidth > own.bandwidth or own.type > limit)
