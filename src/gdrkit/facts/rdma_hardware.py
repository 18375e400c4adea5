"""Whether the list of PCI functions rules out RDMA hardware, where no list of RDMA devices was collected."""

from __future__ import annotations

import re

from gdrkit.facts.modules import is_loaded
from gdrkit.facts.pci_text import TextDevice, text_devices
from gdrkit.formats.regex import regex
from gdrkit.node import Node, fact

_VENDORS = frozenset(
    ("1077", "10df", "1137", "1414", "1425", "14e4", "15ad", "15b3", "1678", "19e5", "1d0f", "1dd8", "1ded",
     "1fc1", "8086")
)  # fmt: skip
"""Whose functions drivers of RDMA devices take: the PCI ids in Linux drivers/infiniband/hw, and those of the
network drivers that irdma, bnxt_re, qedr, iw_cxgb4, mana_ib, hns, ocrdma and ionic build on. By pci.ids."""

_WITHOUT_RDMA = regex(r"\b(?:I21\d|I22\d|I350|825[4-8]\d\w*)\b|Wireless|Wi-?Fi", re.IGNORECASE)
"""Intel's network products for which irdma is not: those of e1000e, igb and igc, and wireless ones. Source
of the names: pci.ids; Linux drivers/net/ethernet/intel; irdma takes what ice, i40e and idpf drive."""

_NETWORK_CLASSES = ("02", "0c06")  # pci.ids: network controllers; InfiniBand as a serial bus
_HOST_BRIDGE = "0600"
_SOFTWARE_MODULES = ("rdma_rxe", "siw")  # Linux drivers/infiniband/sw


@fact
def lacks_rdma_hardware(node: Node) -> bool:
    """Whether lspci lists the whole machine without a function that can be an RDMA device, and no RDMA
    device of software can exist either. Raises EvidenceMissing where lspci or /proc/modules is missing."""
    listed = text_devices(node)
    if not any(one.class_code.startswith(_HOST_BRIDGE) for one in listed):
        return False  # a part of the list, such as that of lspci -d
    if any(_may_be_rdma(one) for one in listed):
        return False
    return not any(is_loaded(node, module) for module in _SOFTWARE_MODULES)


def _may_be_rdma(one: TextDevice) -> bool:
    if one.class_code and not one.class_code.startswith(_NETWORK_CLASSES):
        return False
    if one.vendor and one.vendor not in _VENDORS:
        return False
    return not _WITHOUT_RDMA.search(one.name)
