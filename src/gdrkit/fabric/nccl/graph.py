"""Nodes, links and paths of NCCL's graph of a machine.

Source: NCCL src/graph/topo.h, and topo.cc, ncclTopoConnectNodes() and ncclTopoRemoveNode().
"""

from __future__ import annotations

from gdrkit.fabric.nccl.bandwidths import LOCAL_BANDWIDTH
from gdrkit.programs.nccl.releases import Release

GPU, PCI, NVS, CPU, NIC, NET, DEV = "GPU", "PCI", "NVS", "CPU", "NIC", "NET", "DEV"


class GraphLink:
    """One direction of a link. `type` is the number of a path type."""

    __slots__ = ("bandwidth", "to", "type")

    def __init__(self, kind: int, to: GraphNode, bandwidth: float) -> None:
        self.type, self.to, self.bandwidth = kind, to, bandwidth


class GraphPath:
    """A path from one node to another: its nodes after the first, its slowest link in GB/s, its type."""

    __slots__ = ("bandwidth", "nodes", "type")

    def __init__(self, kind: int, bandwidth: float, nodes: tuple[GraphNode, ...]) -> None:
        self.type, self.bandwidth, self.nodes = kind, bandwidth, nodes

    @property
    def hops(self) -> int:
        return len(self.nodes)


class GraphNode:
    """A node of NCCL's graph. Attributes of other kinds keep their defaults."""

    __slots__ = (
        "between", "chip", "dev", "device", "gdr", "id", "kind", "links", "name", "parent", "partition",
        "paths", "port", "rank", "sm", "system", "vendor",
    )  # fmt: skip

    def __init__(self, kind: str, identity: int, system: int) -> None:
        self.kind, self.id, self.system = kind, identity, system
        self.links: list[GraphLink] = []
        self.paths: dict[GraphNode, GraphPath] = {}
        self.name = ""
        self.dev = self.rank = self.sm = self.partition = -1
        self.gdr = self.port = self.device = 0
        self.between = LOCAL_BANDWIDTH
        self.vendor = ""
        self.chip = (0, 0)  # vendor and device of a NET's PCI function
        self.parent: GraphNode | None = None

    @property
    def printed(self) -> str:
        """The name that logs show since 2.21: kind, host and id in hexadecimal."""
        local = (self.rank_on_device << 40 | self.id) if self.kind == GPU else self.id
        return f"{self.kind}/{self.system:x}-{local & 0xFFFFFFFFFFFFFF:x}"

    @property
    def rank_on_device(self) -> int:
        return max(self.device, 0) if self.kind == GPU else 0


class NcclSystem:
    """The graph of the hosts that one file describes."""

    def __init__(self, rules: Release) -> None:
        self.rules = rules
        self.nodes: dict[str, list[GraphNode]] = {kind: [] for kind in (GPU, PCI, NVS, CPU, NIC, NET, DEV)}
        self.hosts: list[int] = []
        self.gpu_link_types: set[int] = set()
        self.nearest: dict[tuple[GraphNode, str], list[GraphNode]] = {}
        self.local_nets: dict[GraphNode, list[GraphNode]] = {}
        self.local_gpus: dict[GraphNode, GraphNode | None] = {}
        self.masks: dict[GraphNode, list[GraphNode]] = {}

    def create(self, kind: str, identity: int, system: int) -> GraphNode:
        node = GraphNode(kind, identity, system)
        self.nodes[kind].append(node)
        return node

    def find(self, kind: str, identity: int, system: int) -> GraphNode | None:
        for node in self.nodes[kind]:
            if node.id == identity and node.system == system:
                return node
        return None

    def remove(self, node: GraphNode) -> None:
        self.nodes[node.kind].remove(node)
        for others in self.nodes.values():
            for other in others:
                other.links = [link for link in other.links if link.to is not node]
        self.gpu_link_types = {
            link.type for kind in (GPU, DEV) for gpu in self.nodes[kind] for link in gpu.links
        }

    def forget_paths(self) -> None:
        """Drops all paths, and what the searches remember of them."""
        for nodes in self.nodes.values():
            for node in nodes:
                node.paths = {}
        for memory in (self.nearest, self.local_nets, self.local_gpus, self.masks):
            memory.clear()

    def replace_path(self, node: GraphNode, target: GraphNode, path: GraphPath) -> None:
        """Gives a node another path. Searches forget what a path of another type or bandwidth may change.

        The GPUs of a node's first NIC decide which NICs it uses: search.py, local_nets()."""
        before = node.paths.get(target)
        node.paths[target] = path
        if before is not None and (before.type, before.bandwidth) == (path.type, path.bandwidth):
            return
        self.nearest.pop((node, target.kind), None)
        if node.kind == GPU and target.kind == NET and not self.rules.nearest_nets_by_mask:
            self.local_gpus.clear()
            self.local_nets.pop(node, None)
        elif node.kind == NET and target.kind == GPU:
            self.local_gpus.clear()
            self.masks.pop(target, None)
            for gpu in self.nodes[GPU]:
                if node in self.nearest.get((gpu, NET), ())[:1]:
                    self.local_nets.pop(gpu, None)

    def link(self, node: GraphNode, to: GraphNode, kind: str, bandwidth: float) -> None:
        """Adds bandwidth to an existing or new link; links stay ordered, fastest first:
        ncclTopoConnectNodes()."""
        number = self.rules.order[kind]
        at = next(
            (at for at, link in enumerate(node.links) if link.to is to and link.type == number),
            len(node.links),
        )
        if at == len(node.links):
            node.links.append(GraphLink(number, to, 0.0))
        if node.kind in (GPU, DEV):
            self.gpu_link_types.add(number)
        link = node.links.pop(at)
        link.bandwidth += bandwidth
        while at > 0 and node.links[at - 1].bandwidth < link.bandwidth:
            at -= 1
        node.links.insert(at, link)

    def join(self, node: GraphNode, other: GraphNode, kind: str, bandwidth: float) -> None:
        self.link(node, other, kind, bandwidth)
        self.link(other, node, kind, bandwidth)
