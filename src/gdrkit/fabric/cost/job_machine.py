"""The machine that a job's cost is computed for, from any target."""

from __future__ import annotations

from msgspec import Struct

from gdrkit.evidence import EvidenceMissing
from gdrkit.fabric.ceilings.from_node import node_links as links_of_node
from gdrkit.fabric.ceilings.from_topology import node_links as links_of_topology
from gdrkit.fabric.ceilings.node_links import NodeLinks
from gdrkit.fabric.topology.graph import Topology
from gdrkit.facts.gpu import product_name
from gdrkit.facts.gpu_ids import INTEGRATED, SUPPORTED
from gdrkit.facts.pci import gpus
from gdrkit.node import Node, if_missing


class JobMachine(Struct, frozen=True):
    """What a job's cost depends on. `missing` says why the links are not known; empty product: not known."""

    links: NodeLinks | None
    missing: str
    gpus: int
    product: str


def of_node(node: Node) -> JobMachine:
    """A node's links, and its GPUs."""
    known = if_missing((), gpus, node)
    product = if_missing("", product_name, node, known[0]) if known else ""
    try:
        return JobMachine(links_of_node(node), "", len(known), product)
    except EvidenceMissing as error:
        return JobMachine(None, f"{error.missing.why.value}: {error.missing.ask}", len(known), product)


def of_topology(topology: Topology) -> JobMachine:
    """A saved topology's links, and its GPUs, whose product its PCI ids tell."""
    first = topology.gpus[0] if topology.gpus else None
    function = topology.by_address.get(first.address) if first else None
    device = function.device if function else ""
    product = (first.name if first else "") or (SUPPORTED | INTEGRATED).get(device, "")
    return JobMachine(links_of_topology(topology), "", len(topology.gpus), product)
