"""What is certain of a module whose file or index was not collected."""

from __future__ import annotations

from gdrkit.evidence import EvidenceMissing, MissingReason
from gdrkit.facts.modules import PEERMEM, content, module_path
from gdrkit.formats.module_name import canonical
from gdrkit.loader.prediction import UNSEEN, LoadRefusal
from gdrkit.node import Node
from gdrkit.rules.engine import judge
from gdrkit.rules.rdma_lacks_peer_api import rdma_lacks_peer_api
from gdrkit.rules.rule import Failed


def is_not_collected(node: Node, name: str) -> bool:
    """Whether the module's file is not in the evidence, so that none of the kernel's checks can be made."""
    try:
        content(node, module_path(node, name))
    except EvidenceMissing as error:
        return error.missing.why not in (MissingReason.ABSENT, MissingReason.GARBLED)
    return False


def refused_unseen(node: Node, name: str) -> LoadRefusal | None:
    """Why the kernel refuses any build of a module; None if it does not, or if that is not known.

    Where nothing exports the peer-memory API, an nvidia-peermem that imports it ends with ENOENT, and one
    that does not with EINVAL, as its init returns. One whose signature or build does not fit ends before.
    """
    if canonical(name) != PEERMEM or not isinstance(judge(node, rdma_lacks_peer_api, "node"), Failed):
        return None
    return LoadRefusal(UNSEEN, rdma_lacks_peer_api.code)
