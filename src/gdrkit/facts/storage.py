"""GPUDirect Storage: the module nvidia-fs, the library cuFile and its configuration."""

from __future__ import annotations

import re

from gdrkit.evidence import EvidenceMissing
from gdrkit.facts.libraries import LibraryCopy, libraries
from gdrkit.facts.modules import is_loaded
from gdrkit.node import Node, fact, if_absent, if_missing

MODULE = "nvidia_fs"
CONFIGURATION = "etc/cufile.json"
LIBRARY = "libcufile.so.0"


@fact
def cufile_copies(node: Node) -> tuple[LibraryCopy, ...]:
    """Every known libcufile, else nvidia-fs if it is loaded. Raises EvidenceAbsent if there is neither."""
    try:
        return libraries(node, LIBRARY)
    except EvidenceMissing:
        if not if_missing(False, is_loaded, node, MODULE):
            raise
        return (LibraryCopy("", MODULE),)


@fact
def cufile_property(node: Node, name: str) -> bool | None:
    """A switch among the properties of cuFile; None if the file does not set it, or is absent.

        "properties": {
                // use kernel PCI P2PDMA
                "use_pci_p2pdma": false,

    It is JSON with comments, which decoders of JSON refuse; only a line outside them counts.
    """
    text = if_absent("", node.text, CONFIGURATION)
    pattern = re.compile(
        rf'^[^/#\n]{{0,200}}"{re.escape(name)}"\s{{0,8}}:\s{{0,8}}(true|false)\b', re.MULTILINE
    )
    found = pattern.search(text)
    if found is None:
        return None
    node.cite(CONFIGURATION, text=f"{name}: {found[1]}", line=text.count("\n", 0, found.start(1)) + 1)
    return found[1] == "true"
