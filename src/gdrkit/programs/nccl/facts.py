"""NCCL's network plugins, and the topology file that it reads instead of the tree that the kernel shows.

Source: NCCL src/graph/topo.cc, ncclTopoGetSystem(), which reads NCCL_TOPO_FILE or the file below and keeps
the place of every PCI function that the file has; src/graph/paths.cc for the distances.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gdrkit.evidence import EvidenceAbsent, EvidenceMissing, Missing, MissingReason
from gdrkit.evidence.quoting import quoted
from gdrkit.facts.libraries import FOLDERS, MORE_FOLDERS, find
from gdrkit.facts.rdma import Pair, nic_address
from gdrkit.formats.errors import FormatError
from gdrkit.node import Node, each_known, fact, if_absent
from gdrkit.programs.environment import NCCL_CONF, environment

if TYPE_CHECKING:
    from gdrkit.formats.xml_text import XmlNode

DEFAULT_FILE = "run/nvidia-topologyd/virtualTopology.xml"
"""src/graph/topo.cc names /var/run, a link to /run."""
VARIABLE = "NCCL_TOPO_FILE"


@fact
def topology_file(node: Node) -> str:
    """The path of the file that NCCL reads on this machine, unless a job names another.

    Raises EvidenceAbsent if NCCL reads none."""
    named = if_absent(None, lambda: environment(node, NCCL_CONF).get(VARIABLE))
    if named is not None:
        return named.value.lstrip("/")
    if node.exists(DEFAULT_FILE):
        return DEFAULT_FILE
    raise EvidenceAbsent(Missing(f"/{DEFAULT_FILE}", MissingReason.ABSENT, f"ls /{DEFAULT_FILE}"))


@fact
def topology_system(node: Node) -> XmlNode:
    """The content of that file.

    Raises EvidenceAbsent without a file, EvidenceMissing if it was not collected or cannot be read."""
    path = topology_file(node)
    from gdrkit.formats import xml_text

    try:
        return xml_text.parse(node.read(path))
    except (EvidenceMissing, FormatError):  # it is there, or a setting names it
        ask = f"cat {quoted(f'/{path}')}"
        raise EvidenceMissing(Missing(f"/{path}", MissingReason.UNDECIDED, ask)) from None


@fact
def distance_in_topology_file(node: Node, pair: Pair) -> str:
    """PIX, PXB, PHB or SYS: the distance of a pair in NCCL's topology file.

    Raises EvidenceAbsent without a file, EvidenceMissing if the file was not collected, cannot be read, or
    does not have both."""
    path = topology_file(node)
    places = dict(_places(topology_system(node), ()))
    gpu, nic = places.get(pair.gpu), places.get(nic_address(node, pair.device))
    if gpu is None or nic is None:
        source = f"{pair.gpu} and {pair.device} in /{path}"
        ask = f"cat {quoted(f'/{path}')}"
        raise EvidenceMissing(Missing(source, MissingReason.UNDECIDED, ask))
    node.cite(path, text=f"{pair.gpu}, {pair.device}")
    shared = [one for one, other in zip(gpu, nic, strict=False) if one is other]
    switches = [element for element in shared if element.name == "pci"]
    if switches:
        return "PIX" if len(gpu) == len(nic) == len(shared) else "PXB"
    return "PHB" if any(element.name == "cpu" for element in shared) else "SYS"


def _places(element: XmlNode, above: tuple[XmlNode, ...]) -> Iterator[tuple[str, tuple[XmlNode, ...]]]:
    """The address of each PCI function with the elements above it, the outermost first."""
    for child in element.children:
        if child.name == "pci":
            yield child.get("busid").lower(), (*above, element)
        yield from _places(child, (*above, element))


PLUGIN = "libnccl-net.so"


@fact
def net_plugins(node: Node) -> tuple[str, ...]:
    """Network plugins in the linker's folders that NCCL loads by default; () if none is known.

    Source: NCCL src/plugin/net.cc: libnccl-net.so, unless NCCL_NET_PLUGIN names another.
    """
    # Folders that were not collected are skipped: a plugin only adds a remark to the report.
    folders = (*FOLDERS, *MORE_FOLDERS)
    return tuple(each_known(lambda folder: find(node, PLUGIN, (folder,)), folders))
