"""NVLink between the GPUs of a node."""

from __future__ import annotations

from gdrkit.evidence import Confidence, EvidenceMissing, Missing, MissingReason
from gdrkit.facts.commands import NVIDIA_SMI_TOPO
from gdrkit.facts.gpu import product_name
from gdrkit.facts.nvidia_smi import smi_topology
from gdrkit.facts.pci import PciGpu, gpus
from gdrkit.facts.supplied import not_collected
from gdrkit.node import Node, fact, first_collected

WITHOUT = ("1eb8", "26", "27", "28", "2b", "2c", "2d")
"""First digits of device ids of boards that have no NVLink: T4, chips of Ada (AD102 to AD107), and those of
Blackwell for graphics (GB202 to GB205). Sources: pci.ids for the chips. T4: NVIDIA's product brief, in PNY's
copy for TCST4MPB, lists only PCI Express. Ada: NVIDIA's chief executive at its launch, hardwareluxx.de news
59532. L40S: itcreations.com. RTX PRO 6000: users of 2 to 8 boards, github.com/voipmonitor/rtx6kpro. NVIDIA's
own data sheets of the last two were not read: what the table says is likely, not certain. Boards without a
source, such as A10, A2 and A16, are not listed."""
MODULE = "SXM"
"""In the name of a board that is made for a baseboard with NVLink."""


@fact
def has_nvlink(node: Node, gpu: PciGpu) -> bool:
    """Whether NVLink connects a GPU to another one of the node: by the driver, else by the product.

    Raises EvidenceMissing for a board that may have a bridge, if the driver was not asked."""

    def by_product() -> bool:
        if lacks_nvlink(gpu.device_id):
            return _cited(node, gpu)
        if MODULE not in product_name(node, gpu):
            raise not_collected(f"NVLink of {gpu.address}", NVIDIA_SMI_TOPO.line)
        node.cite(f"product line of {gpu.address}", confidence=Confidence.LIKELY)
        return True

    return first_collected(lambda: any(gpu.address in pair for pair in _by_matrix(node)), by_product)


@fact
def joined_by_nvlink(node: Node, gpu: PciGpu, other: PciGpu) -> bool:
    """Whether NVLink connects two GPUs. That a board has NVLink does not say to which one, or whether a
    machine that has only some of the GPUs of a baseboard may use it: only the driver does."""

    def by_product() -> bool:
        for one in (gpu, other):
            if lacks_nvlink(one.device_id):
                return _cited(node, one)
        raise not_collected("NVLink between GPUs", NVIDIA_SMI_TOPO.line)

    return first_collected(lambda: frozenset((gpu.address, other.address)) in _by_matrix(node), by_product)


def lacks_nvlink(device_id: str) -> bool:
    """Whether boards with this PCI id have no NVLink, which is likely, not certain."""
    return device_id.startswith(WITHOUT)


def _cited(node: Node, gpu: PciGpu) -> bool:
    """False, by the PCI id of a board without NVLink."""
    node.cite(f"PCI id of {gpu.address}", f"10de:{gpu.device_id}", confidence=Confidence.LIKELY)
    return False


@fact
def _by_matrix(node: Node) -> frozenset[frozenset[str]]:
    """The pairs of GPUs with NVLink in `nvidia-smi topo -m`, which numbers GPUs by address and names a bond
    of links NV1 to NV18."""
    matrix, found = smi_topology(node), gpus(node)
    shown = [name for name in matrix.names if name.startswith("GPU")]
    if len(shown) != len(found):
        source = f"{NVIDIA_SMI_TOPO.line}: {len(shown)} GPUs, PCI has {len(found)}"
        raise EvidenceMissing(Missing(source, MissingReason.UNDECIDED, NVIDIA_SMI_TOPO.line))
    addresses = {f"GPU{index}": gpu.address for index, gpu in enumerate(found)}
    return frozenset(
        frozenset(addresses[name] for name in pair)
        for pair, word in matrix.cells.items()
        if word.startswith("NV") and all(name in addresses for name in pair)
    )
