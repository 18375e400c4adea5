"""The copies of NVSHMEM that are installed."""

from __future__ import annotations

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.facts.libraries import FOLDERS, MORE_FOLDERS, find, versioned_copies
from gdrkit.facts.wheels import LibraryCopy
from gdrkit.node import Node, fact

NVSHMEM_HOST = "libnvshmem_host.so.3"


@fact
def nvshmem_copies(node: Node) -> tuple[LibraryCopy, ...]:
    """Every known NVSHMEM on the node. Raises EvidenceAbsent if there is none; container images bring their
    own.
    """
    found = versioned_copies(node, NVSHMEM_HOST, "nvidia_nvshmem")
    if not found:
        find(node, NVSHMEM_HOST, (*FOLDERS, *MORE_FOLDERS))
        raise EvidenceMissing(
            Missing(
                NVSHMEM_HOST,
                MissingReason.UNDECIDED,
                f"strings {NVSHMEM_HOST} | grep -i 'NVSHMEM v'",
            )
        )
    return found
