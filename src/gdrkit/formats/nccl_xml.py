"""NCCL's topology files as trees: NCCL reads NCCL_TOPO_FILE and writes NCCL_TOPO_DUMP_FILE.

Source: NCCL src/graph/xml.cc, ncclTopoGetXmlFromFile() and ncclTopoDumpXmlToFile(), and the limits in
src/graph/xml.h. NCCL's reader supports only a part of XML: no entities, no CDATA, no text between elements.
"""

from __future__ import annotations

from gdrkit.formats import xml_text
from gdrkit.formats.errors import FormatError
from gdrkit.formats.xml_text import XmlNode

VERSION = "1"  # topo.h, NCCL_TOPO_XML_VERSION: NCCL refuses any other
MAX_NODES = 65_536
"""NCCL starts with 256 nodes and allocates more for several hosts: 72 GPUs in one NVLink domain have about a
thousand."""


def parse(content: bytes) -> XmlNode:
    """The `system` element, or the `graphs` element of a graph file. Raises FormatError.

    RCCL's files look similar but have another meaning: version 2, links named xgmi, attributes named gcn
    (ROCm/rccl src/graph/xml.h). They are rejected with an error of their own."""
    root = xml_text.parse(content, max_nodes=MAX_NODES)
    if root.name not in ("system", "graphs"):
        raise FormatError(f"the outermost element is <{root.name}>, not NCCL's <system>")
    if root.name == "system" and is_rccl(root):
        raise FormatError("this is a topology file of RCCL, for AMD GPUs, whose format differs from NCCL's")
    if root.get("version") != VERSION:
        raise FormatError(f"version {root.get('version') or 'missing'}; NCCL reads only version {VERSION}")
    for node in root.walk():
        if node.text:
            raise FormatError(f"text inside <{node.name}>: {node.text[:30]!r}; NCCL does not read it")
    return root


def is_rccl(root: XmlNode) -> bool:
    """Whether a file has names that only RCCL uses."""
    if root.get("version") == "2":
        return True
    return any(node.name == "xgmi" or "gcn" in node.attributes for node in root.walk())


def written(root: XmlNode) -> bytes:
    """A tree as a file that NCCL reads. Raises FormatError for values that NCCL cannot parse."""
    for node in root.walk():
        for name, value in node.attributes.items():
            if any(character in value for character in '<>&"'):
                raise FormatError(f"{name}={value!r} of <{node.name}>: NCCL does not read entities")
    return xml_text.written(root).encode()
