"""NICs that NCCL fuses into one: the ports of a card, in the topology as NCCL then uses it. PURE.

NCCL_TOPO_DUMP_FILE shows NICs before they are fused. Until 2.23.4 fusing was the business of NET/IB
(src/transport/net_ib.cc, ncclIbFindMatchingDev()), since 2.24.3 of the topology (src/graph/topo.cc,
ncclTopoAutoMerge()). Sockets are not fused. What is modelled is the default, ports that sit on one PCI
function as NCCL sees it; not the wider levels of NCCL_NET_MERGE_LEVEL, for which NCCL makes up PCI devices,
and not NCCL_NET_FORCE_MERGE.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct, structs

from gdrkit.formats.xml_text import XmlNode
from gdrkit.topology.nccl_rules import NcclRules
from gdrkit.topology.nccl_settings import MERGE_LEVELS, Settings
from gdrkit.topology.nccl_system import number

SOCKET_GUIDS = 0xFFFF
"""Above any GUID of a socket, which is the number of the device: src/transport/net_socket.cc."""


class Fused(Struct, frozen=True):
    """A virtual NIC: the names of its parts and its speed, the sum of theirs, in Mb/s."""

    name: str
    parts: tuple[str, ...]
    mbit_per_s: int


def fuse(
    root: XmlNode, rules: NcclRules, settings: Settings, left_out: Collection[str] = ()
) -> tuple[XmlNode, tuple[Fused, ...]]:
    """The topology with fused NICs in place of their parts, and which they are.

    `left_out` are names of ports that NCCL is told not to use."""
    wide = MERGE_LEVELS.index(settings.merge_level) >= MERGE_LEVELS.index("PORT")
    if not rules.merges or not settings.merge_nics or (rules.merges == "topology" and not wide):
        return root, ()
    count = sum(1 for node in root.walk() if node.name == "net")
    fused: list[Fused] = []
    return _fuse(root, rules, left_out, fused, count), tuple(fused)


def _fuse(
    node: XmlNode, rules: NcclRules, left_out: Collection[str], fused: list[Fused], count: int
) -> XmlNode:
    if node.name != "nic":
        below = tuple(_fuse(child, rules, left_out, fused, count) for child in node.children)
        return structs.replace(node, children=below)
    kept = [net for net in node.all("net") if net.get("name") in left_out]
    for group in _groups([net for net in node.all("net") if net not in kept], rules):
        if len(group) == 1:
            kept.append(group[0])
            continue
        kept.append(_virtual(group, rules, count + len(fused)))
        name = kept[-1].get("name")
        parts = tuple(part.get("name") for part in group)
        fused.append(Fused(name, parts, number(kept[-1].get("speed"))))
    return structs.replace(node, children=tuple(kept))


def _groups(nets: list[XmlNode], rules: NcclRules) -> list[list[XmlNode]]:
    """The ports of a card, as many together as this version allows."""
    groups: list[list[XmlNode]] = []
    for net in nets:
        last = groups[-1] if groups else []
        same = rules.merges == "topology" or (bool(last) and last[0].get("guid") == net.get("guid"))
        verbs = number(net.get("guid", "0")) > SOCKET_GUIDS
        if last and verbs and same and len(last) < rules.merge_limit and not _is_socket(last[0]):
            last.append(net)
        else:
            groups.append([net])
    return groups


def _is_socket(net: XmlNode) -> bool:
    return number(net.get("guid", "0")) <= SOCKET_GUIDS


def _virtual(group: list[XmlNode], rules: NcclRules, dev: int) -> XmlNode:
    """The NIC that stands for several: the first one's attributes, and what they sum up to."""
    first = group[0]
    names = [part.get("name") for part in group]
    attributes = {
        **first.attributes,
        "name": "+".join(names),
        "speed": str(sum(number(part.get("speed")) for part in group)),
    }
    if rules.merges == "topology":
        attributes["dev"] = str(dev)
    return structs.replace(first, attributes=attributes)
