"""Which bits of Access Control Services each port needs, by the layout of GPUs and NICs.

An ordinary switch forwards between its ports where its downstream ports do not redirect, which
facts/acs_redirects has. Four layouts need certain bits set and others clear. In a mask such as `xx110x1` the
rightmost character is bit 0: 1 must be set, 0 must be clear, x is free. The bits are Source Validation,
Translation Blocking, Request Redirect, Completion Redirect, Upstream Forwarding, Egress Control, Direct
Translated: PCI Express Base 5.0, 7.7.8.3.

Source: rdma-core kernel-boot/rdma_topo (master of August 2026) for the ids, the layouts and the masks. It
also takes an x86 machine with a GPU on a root port for one of Grace; that is left out, since the masks do
not apply.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

from msgspec import Struct

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.facts.gpu import is_coherent
from gdrkit.facts.pci import PciDevice, PciGpu, bridges_above, devices, gpus, iommu_group
from gdrkit.facts.pci_registers import acs, has_ats
from gdrkit.node import Node, fact, if_absent, if_missing

_GRACE_PORTS = frozenset({("10de", "22b1"), ("10de", "22b2"), ("10de", "22b8")})
_VERA_PORTS = frozenset({("10de", "2f95"), ("10de", "2f96")})
_CONNECTX_SWITCH = frozenset({("15b3", "1979"), ("15b3", "197c")})
_BLUEFIELD_SWITCH = frozenset({("15b3", "197b")})
_CONNECTX = frozenset({("15b3", "1021"), ("15b3", "1023"), ("15b3", "1025")})
_DATA_DIRECT = ("15b3", "2100")

_DEFAULT, _VERA_DEFAULT = "xx111x1", "xx101x1"
"""What the kernel sets where an IOMMU is in use: pci_std_enable_acs() in drivers/pci/pci.c. A Vera root port
has Completion Redirect as a read-only 0."""
_TO_FUNCTION, _TO_GPU, _DIRECT_ROOT = "xx110x1", "xx101x1", "xx111x0"
_CLEAR, _TRANSLATED = "xx000x0", "1x111x1"

_ASK = "sudo rdma_topo check"


class AcsLayout(enum.StrEnum):
    """How the GPUs and NICs of a machine are joined."""

    DATA_DIRECT = "Data Direct"  # a second function of the NIC is below the GPU's switch
    NUMA = "Grace or Vera root ports"  # GPU and NIC each on root ports
    INLINE = "inline"  # the GPU is below the NIC's switch, on bare metal
    INLINE_VIRTUAL = "inline with ATS"  # the same, for virtual machines


class PortMask(Struct, frozen=True, order=True):
    """The bits that one port needs."""

    address: str
    mask: str
    is_kernel_default: bool = False  # the kernel sets these bits itself, once an IOMMU is in use

    def corrected(self, control: int) -> int:
        """The register with those bits; the same if it has them."""
        for bit, needed in enumerate(reversed(self.mask)):
            if needed == "1":
                control |= 1 << bit
            elif needed == "0":
                control &= ~(1 << bit)
        return control


class LayoutNeeds(Struct, frozen=True):
    """What a layout needs of its ports, and of the functions that the traffic is between."""

    layout: AcsLayout
    ports: tuple[PortMask, ...]
    pairs: tuple[tuple[str, str], ...]  # the function that reaches GPU memory, and the GPU

    @property
    def in_one_group(self) -> bool:
        """Whether the two functions of a pair must be in one IOMMU group, or else in two."""
        return self.layout in (AcsLayout.DATA_DIRECT, AcsLayout.INLINE)


@fact
def layout_needs(node: Node) -> LayoutNeeds | None:
    """What the layout needs; None for an ordinary switch, or without one.

    Raises EvidenceMissing for a layout that is none of those which are known."""
    found = {device.address: device for device in devices(node)}
    if any(_id(device) == _DATA_DIRECT for device in found.values()):
        return _data_direct(node, found)
    with_gpus = {gpu.address: bridges_above(node, gpu.address) for gpu in gpus(node)}
    if any(
        len(above) == 1 and _is(found, above[0], _GRACE_PORTS | _VERA_PORTS) for above in with_gpus.values()
    ):
        return _numa(node, found, tuple(with_gpus))
    if with_gpus and all(_is_inline(found, above) for above in with_gpus.values()):
        return _inline(node, found, with_gpus)
    return None


def _id(device: PciDevice) -> tuple[str, str]:
    return device.vendor, device.device


def _is(found: dict[str, PciDevice], address: str, ids: frozenset[tuple[str, str]]) -> bool:
    return address in found and _id(found[address]) in ids


def _unknown(address: str) -> EvidenceMissing:
    return EvidenceMissing(Missing(f"layout above {address}", MissingReason.UNDECIDED, _ASK))


# -- layouts ---------------------------------------------------------------------------------------


def _data_direct(node: Node, found: dict[str, PciDevice]) -> LayoutNeeds:
    """Root port, upstream port, and below it the function and, two switch levels down, the one GPU."""
    masks, pairs = [], []
    for function in (address for address, device in found.items() if _id(device) == _DATA_DIRECT):
        above = bridges_above(node, function)
        is_switch = [_is(found, port, _CONNECTX_SWITCH) for port in above]
        if not above or not _is(found, above[0], _GRACE_PORTS) or is_switch != [False, True, True]:
            raise _unknown(function)
        below = [gpu.address for gpu in gpus(node) if bridges_above(node, gpu.address)[:1] == above[:1]]
        if len(below) != 1:
            raise _unknown(function)
        to_gpu = bridges_above(node, below[0])
        ports_to_gpu = all(_is(found, port, _CONNECTX_SWITCH) for port in to_gpu[1:])
        if len(to_gpu) != 5 or to_gpu[:2] != above[:2] or not ports_to_gpu:
            raise _unknown(function)
        masks += [
            PortMask(above[0], _DIRECT_ROOT),
            PortMask(above[2], _TO_FUNCTION),
            PortMask(to_gpu[2], _TO_GPU),
        ]
        pairs.append((function, below[0]))
    return LayoutNeeds(
        AcsLayout.DATA_DIRECT, _with_others(node, found, masks, clear=False), tuple(sorted(pairs))
    )


def _numa(node: Node, found: dict[str, PciDevice], with_gpus: tuple[str, ...]) -> LayoutNeeds | None:
    nics = [address for address, device in found.items() if _id(device) in _CONNECTX]
    if not nics:
        return None
    pairs = tuple(sorted((nic, gpu) for nic in nics for gpu in with_gpus))
    return LayoutNeeds(AcsLayout.NUMA, _with_others(node, found, [], clear=False), pairs)


def _is_inline(found: dict[str, PciDevice], above: tuple[str, ...]) -> bool:
    """Whether two switch levels of a ConnectX are above a GPU, below a root port of another maker."""
    if len(above) != 5 or _is(found, above[0], _GRACE_PORTS | _VERA_PORTS):
        return False
    return all(_is(found, port, _CONNECTX_SWITCH) for port in above[1:])


def _inline(
    node: Node, found: dict[str, PciDevice], with_gpus: dict[str, tuple[str, ...]]
) -> LayoutNeeds | None:
    nics = sorted(address for address, device in found.items() if _id(device) in _CONNECTX)
    joined, pairs = [], []
    for gpu, to_gpu in sorted(with_gpus.items()):
        near = [nic for nic in nics if bridges_above(node, nic)[:2] == to_gpu[:2]]
        if not near:
            return None
        to_nics = {bridges_above(node, nic)[2:3] for nic in near}
        sharing = [other for other, above in with_gpus.items() if above[:2] == to_gpu[:2]]
        if len(to_nics) != 1 or () in to_nics or len(sharing) != 1:
            raise _unknown(gpu)
        joined.append((to_gpu[0], to_nics.pop()[0], to_gpu[2]))
        pairs.append((near[0], gpu))
    translating = {has_ats(node, nic) for nic, _ in pairs}
    if len(translating) != 1:  # NICs of one machine that differ: the purpose of the machine is not clear
        raise _unknown(pairs[0][1])
    virtual = translating.pop()
    masks = []
    for root, to_nic, gpu_port in joined:
        masks += [
            PortMask(root, _DEFAULT if virtual else _CLEAR, is_kernel_default=virtual),
            PortMask(to_nic, _TRANSLATED if virtual else _CLEAR),
            PortMask(gpu_port, _DEFAULT if virtual else _CLEAR, is_kernel_default=virtual),
        ]
    layout = AcsLayout.INLINE_VIRTUAL if virtual else AcsLayout.INLINE
    return LayoutNeeds(layout, _with_others(node, found, masks, clear=not virtual), tuple(pairs))


def _with_others(
    node: Node, found: dict[str, PciDevice], masks: Iterable[PortMask], *, clear: bool
) -> tuple[PortMask, ...]:
    """Those masks, and one for each other port of a Grace, a Vera or the switch of a ConnectX or BlueField
    that has ACS; a port whose register was not read may have it."""
    by_address = {mask.address: mask for mask in masks}
    for address, device in found.items():
        if address in by_address or _id(device) not in (
            _GRACE_PORTS | _VERA_PORTS | _CONNECTX_SWITCH | _BLUEFIELD_SWITCH
        ):
            continue
        default = _VERA_DEFAULT if _id(device) in _VERA_PORTS else _DEFAULT
        by_address[address] = PortMask(address, _CLEAR if clear else default, is_kernel_default=not clear)
    return tuple(by_address[address] for address in sorted(by_address))


# -- what is there ---------------------------------------------------------------------------------


@fact
def wrong_ports(node: Node) -> tuple[tuple[PortMask, int], ...]:
    """The ports whose bits are not those that the layout needs, each with its Control Register.

    Raises EvidenceMissing where the register of a port was not read."""
    needs = layout_needs(node)
    found = []
    for port in needs.ports if needs is not None else ():
        register = acs(node, port.address)
        if register is not None and port.corrected(register.control) != register.control:
            found.append((port, register.control))
    return tuple(found)


@fact
def masks_of_layout(node: Node) -> dict[str, str]:
    """The masks by address of the ports that are known to have ACS; {} for an ordinary switch, and for a
    layout that is not known."""
    needs = if_missing(None, layout_needs, node)
    ports = needs.ports if needs is not None else ()
    return {port.address: port.mask for port in ports if if_missing(None, acs, node, port.address)}


@fact
def masks_to_configure(node: Node) -> dict[str, str]:
    """The masks by address of the ports for which the kernel's own bits are not right."""
    needs = if_missing(None, layout_needs, node)
    own = {port.address for port in needs.ports if port.is_kernel_default} if needs is not None else set()
    return {address: mask for address, mask in masks_of_layout(node).items() if address not in own}


def group(node: Node, address: str) -> str:
    """The IOMMU group of a function; "" without one. Raises EvidenceMissing."""
    return if_absent("", iommu_group, node, address)


def is_behind_cpu(node: Node, gpu: PciGpu) -> bool:
    """Whether NICs reach a GPU's memory over NVLink-C2C, and not over its PCIe link: it is coherent with its
    CPU, and no NIC has a function beside it for Data Direct."""
    needs = if_missing(None, layout_needs, node)
    direct = needs is not None and needs.layout is AcsLayout.DATA_DIRECT
    return not direct and if_missing(False, is_coherent, node, gpu)
