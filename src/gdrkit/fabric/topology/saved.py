"""The graph that a command is about, with what it was read from: a node, or a file (from_file.py)."""

from __future__ import annotations

import enum

from msgspec import Struct
from msgspec.structs import replace

from gdrkit.evidence import EvidenceAbsent, EvidenceMissing, MissingReason
from gdrkit.fabric.topology import from_nccl_xml, from_node
from gdrkit.fabric.topology.graph import Topology
from gdrkit.facts.libraries import nccl_version
from gdrkit.formats.errors import FormatError
from gdrkit.formats.xml_text import XmlNode
from gdrkit.node import Node, if_missing
from gdrkit.programs.environment import NCCL_CONF, SYSTEM, environment
from gdrkit.programs.nccl.facts import topology_file, topology_system


class TopologyFileKind(enum.StrEnum):
    """The formats of files."""

    NCCL = "NCCL topology XML"
    LOG = "tree in an NCCL log"
    HWLOC = "hwloc XML"
    MATRIX = "output of nvidia-smi topo -m"
    LSPCI = "output of lspci -vvv"
    DRAWING = "output of lspci -tv"


class SavedTopology(Struct, frozen=True):
    """A graph and its source. `system` is NCCL's own tree if it was read from NCCL's file; `node` is set if
    it was not read from a file, and `placement` is the topology file that NCCL reads on it. A log has the
    version and settings of its job, a node its installed version, "" if none is known, and the settings for
    all jobs, None where they were not collected. `driver_asked`: whether what needs the driver was read."""

    topology: Topology
    kind: TopologyFileKind | None = None
    system: XmlNode | None = None
    node: Node | None = None
    placement: XmlNode | None = None
    version: str = ""
    environment: dict[str, str] | None = {}
    driver_asked: bool = False


def of_node(node: Node, *, ask_driver: bool = True) -> SavedTopology:
    """The graph of a node, with the topology file that NCCL reads there. Raises EvidenceMissing if its PCI
    devices are not known, FormatError for more devices than any machine has."""
    graph = from_node.topology(node, ask_driver=ask_driver)
    file: XmlNode | None = None
    saved = SavedTopology(
        graph,
        node=node,
        version=if_missing("", nccl_version, node),
        environment=if_missing(None, _settings, node),
        driver_asked=ask_driver,
    )
    try:
        name = topology_file(node)
        file = topology_system(node)
        from_nccl_xml.topology(file)
    except EvidenceMissing as error:
        # most machines have none
        if isinstance(error, EvidenceAbsent) or error.missing.why is MissingReason.NOT_COLLECTED:
            return saved
        file, note = None, f"not known: NCCL's topology file ({error.missing.source})"
    except FormatError as error:
        file, note = None, f"/{name}: {error}; NCCL's path types are those of the kernel's tree"
    else:
        note = f"NCCL's path types are those of /{name}, which NCCL reads instead of the kernel's tree"
    graph = replace(graph, notes=(*graph.notes, note))
    return replace(saved, topology=graph, placement=file)


def _settings(node: Node) -> dict[str, str]:
    """NCCL's settings for all jobs of a node. Raises EvidenceMissing if its own file was not collected."""
    own = environment(node, NCCL_CONF).settings
    of_all = if_missing((), lambda: environment(node, SYSTEM).settings)
    return {one.name: one.value for one in reversed((*of_all, *own)) if one.name.startswith("NCCL_")}
