"""GPUDirect Storage: the module nvidia-fs, the library cuFile and its configuration."""

from __future__ import annotations

import re

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.facts.driver_files import DRIVER
from gdrkit.facts.libraries import libraries
from gdrkit.facts.modules import is_loaded, loaded
from gdrkit.facts.virtual import scope
from gdrkit.facts.wheels import LibraryCopy
from gdrkit.node import Node, fact, if_absent, if_missing

MODULE = "nvidia_fs"
STATUS = "proc/driver/nvidia-fs"
CONFIGURATION = "etc/cufile.json"
LIBRARY = "libcufile.so.0"


@fact
def cufile_copies(node: Node) -> tuple[LibraryCopy, ...]:
    """Every known libcufile, else nvidia-fs if it is loaded. Raises EvidenceAbsent if there is neither."""
    try:
        return libraries(node, LIBRARY)
    except EvidenceMissing:
        if not if_missing(False, nvidia_fs_is_loaded, node):
            raise
        return (LibraryCopy("", MODULE),)


@fact
def nvidia_fs_is_loaded(node: Node) -> bool:
    """Whether nvidia-fs is loaded: /proc/modules has it, or its own folder of /proc is there.

    A sandbox may give a container another list than the host's. Where that list lacks NVIDIA's driver too,
    which the caller has seen by other files, it does not show nvidia-fs, and this raises
    EvidenceMissing. Linux kernel/module/procfs.c has one list for all containers.
    """
    if is_loaded(node, MODULE):
        return True
    if DRIVER in if_missing({}, loaded, node):
        return False
    if if_missing(False, node.exists, STATUS):
        return True
    if if_missing("host", scope, node) == "container":
        ask = f"lsmod | grep {MODULE}, on the host"
        raise EvidenceMissing(Missing(f"{MODULE} on the host", MissingReason.UNDECIDED, ask))
    return False


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
