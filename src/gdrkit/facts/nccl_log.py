"""What a log of NCCL establishes, as far as rules ask: settings, versions, networks, legs, refusals, errors.

Logs are handed over with a node, under `sos_commands/nccl/`; a node without one was simply given none. What
a log does not print is not denied by it: most lines need NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH.
The forms of the lines, and their sources, are those of nccl_lines.py.
"""

from __future__ import annotations

from gdrkit.facts.looked import handed_over
from gdrkit.facts.nccl_log_types import NcclLog
from gdrkit.formats.errors import FormatError
from gdrkit.node import Node, fact

FOLDER = "sos_commands/nccl"

COMPARED = (
    "NCCL_NET_GDR_LEVEL",
    "NCCL_NET_GDR_READ",
    "NCCL_NET_GDR_C2C",
    "NCCL_DMABUF_ENABLE",
    "NCCL_IB_DISABLE",
    "NCCL_IB_DATA_DIRECT",
    "NCCL_NET",
    "NCCL_NET_PLUGIN",
    "NCCL_P2P_LEVEL",
    "NCCL_CROSS_NIC",
    "NCCL_BUFFSIZE",
    "NCCL_PROTO",
    "NCCL_ALGO",
)
"""Variables that must be the same on all ranks, or that decide about the direct path. NCCL_IB_HCA and
NCCL_SOCKET_IFNAME may differ with the hosts."""


@fact
def logs(node: Node) -> tuple[str, ...]:
    """Logs of NCCL that came with this node; () if none was handed over."""
    return handed_over(node, FOLDER)


@fact
def nccl_log(node: Node, path: str) -> NcclLog:
    """One log, taken apart. Raises Lacks if it is not there, or has no line of NCCL's."""
    return parse(node.text(path), path)


def parse(text: str, path: str = "") -> NcclLog:
    """NCCL's lines in a text, framed by launchers or not. Raises FormatError if nothing in it is NCCL's."""
    from gdrkit.facts.nccl_log_entries import entries  # its table of forms is for who has a log

    found = entries(text)
    if not any(found.values()):
        raise FormatError("no line of NCCL's that is understood")
    # Tuples of the classes that the fields hold, field by field.
    return NcclLog(path=path, **{field: tuple(items) for field, items in found.items()})  # type: ignore[arg-type]
