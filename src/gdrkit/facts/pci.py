"""PCI functions: the list, their positions in the tree, and their IOMMU.

Read from sysfs (Linux drivers/pci/pci-sysfs.c, Documentation/ABI/testing/sysfs-bus-pci), else from the
output of `lspci -nnvvv`, and for GPUs last from `nvidia-smi -q`. The types are the same for every source.
Addresses always have the form 0000:1b:00.0.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from gdrkit.evidence import EvidenceAbsent, EvidenceMissing, Missing, MissingReason
from gdrkit.evidence.errors import TargetError
from gdrkit.evidence.quoting import quoted
from gdrkit.facts.supplied import not_collected
from gdrkit.formats.errors import FormatError
from gdrkit.formats.regex import regex
from gdrkit.node import Node, fact, first_collected, if_missing, lacking

if TYPE_CHECKING:
    from gdrkit.facts.pci_text import TextDevice

ROOT = "sys/bus/pci/devices"
BY_DRIVER = "proc/driver/nvidia/gpus"
NVIDIA = "10de"
DISPLAY_CLASSES = ("0300", "0302")  # pci.ids: VGA compatible controller, 3D controller


_ADDRESS = regex(r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]", re.ASCII)
"""Any other name did not come from a kernel, and would end up in commands: drivers/pci/probe.c."""
_IDS = regex(r"[0-9a-f]{4}:[0-9a-f]{4}", re.ASCII)
_CLASS = regex(r"[0-9a-f]{6}", re.ASCII)
_CLASS_DIGITS = 4
"""As the kernel prints them; what reads a number from them relies on it. In uevent the class has no leading
zeros, but four digits at least. Source: drivers/pci/pci-driver.c, pci_uevent(); drivers/pci/pci-sysfs.c."""


class PciDevice(Struct, frozen=True):
    """One PCI function. Empty: the source does not show it; for the driver: none is bound."""

    address: str
    vendor: str  # four digits
    device: str
    class_code: str  # six digits: class, subclass, interface
    subsystem: str = ""  # "10de:16c1"
    revision: str = ""
    driver: str = ""


class PciGpu(Struct, frozen=True, order=True):
    """One NVIDIA GPU. The id is empty where only the driver's list of addresses is known."""

    address: str
    device_id: str = ""


# -- which devices ---------------------------------------------------------------------------------


@fact
def devices(node: Node) -> tuple[PciDevice, ...]:
    """Every PCI function. Raises EvidenceAbsent on a machine without PCI."""
    return first_collected(lambda: sysfs_devices(node), lambda: _listed_devices(node))


@fact
def sysfs_devices(node: Node) -> tuple[PciDevice, ...]:
    """Every PCI function that the running kernel knows. Raises FormatError for an empty folder beside a list
    of NVIDIA's driver, whose GPUs are PCI functions: the links were lost in a copy."""
    names = node.list(ROOT)
    if not names and if_missing((), node.list, BY_DRIVER):
        raise FormatError(f"/{ROOT} is empty, although /{BY_DRIVER} lists GPUs")
    return tuple(_sysfs_device(node, address) for address in names if _ADDRESS.fullmatch(address))


@fact
def _sysfs_device(node: Node, address: str) -> PciDevice:
    """From `uevent`, which needs one read, else from single files."""
    folder = f"{ROOT}/{address}"
    try:
        lines = node.text(f"{folder}/uevent").splitlines()
    except EvidenceMissing:
        vendor, device, class_code = (
            node.text(f"{folder}/{name}").strip()[2:] for name in ("vendor", "device", "class")
        )
        driver = f"{folder}/driver"
        name = node.resolve(driver).rsplit("/", 1)[-1] if there(node, driver) else ""
        return _checked(PciDevice(address, vendor, device, class_code, driver=name))
    values = dict(line.split("=", 1) for line in lines if "=" in line)
    vendor, _, device = values.get("PCI_ID", "").lower().partition(":")
    class_code = values.get("PCI_CLASS", "").lower()
    class_code = class_code.zfill(6) if len(class_code) >= _CLASS_DIGITS else class_code
    subsystem = values.get("PCI_SUBSYS_ID", "").lower()
    found = _checked(
        PciDevice(address, vendor, device, class_code, subsystem, driver=values.get("DRIVER", ""))
    )
    if values.get("PCI_SLOT_NAME", address) != address:
        raise FormatError(f"uevent of {address} is another function's")
    alias = values.get("MODALIAS", "").lower()
    own = (f"pci:v0000{vendor}d0000{device}", f"bc{class_code[:2]}sc{class_code[2:4]}i{class_code[4:]}")
    if alias and not (alias.startswith(own[0]) and alias.endswith(own[1])):
        raise FormatError(f"PCI_ID and PCI_CLASS of {address} are not those of its MODALIAS")
    return found


def _checked(found: PciDevice) -> PciDevice:
    """The function. Raises FormatError if its numbers are none that a kernel prints."""
    ids = [f"{found.vendor}:{found.device}", *([found.subsystem] if found.subsystem else [])]
    if not all(map(_IDS.fullmatch, ids)) or not _CLASS.fullmatch(found.class_code):
        raise FormatError(f"no PCI ids and class in sysfs of {found.address}")
    return found


@fact
def _listed_devices(node: Node) -> tuple[PciDevice, ...]:
    """Every PCI function that lspci printed."""
    from gdrkit.facts.pci_text import text_devices

    return tuple(
        PciDevice(d.address, d.vendor, d.device, d.class_code, d.subsystem, d.revision, d.driver)
        for d in text_devices(node)
    )


GPUS_LIMIT = 256
"""The most GPUs that are judged. The largest machine has 16, which are up to 112 with MIG or SR-IOV."""


@fact
def gpus(node: Node) -> tuple[PciGpu, ...]:
    """The NVIDIA GPUs, sorted by address; () where there are none. Raises TargetError for too many."""
    found = _gpus(node)
    if len(found) > GPUS_LIMIT:
        raise TargetError(
            f"{len(found)} GPUs are more than one machine has", "check that all files are of one machine"
        )
    return found


def _gpus(node: Node) -> tuple[PciGpu, ...]:
    """The GPUs of the first source that has any.

    Only sysfs is complete and ends the search. Any other source without a GPU may be a part of the output,
    so the next source is read. An empty list of the driver does not count: a driver that is not loaded lists
    no GPU."""
    try:
        return _among(sysfs_devices(node))
    except EvidenceMissing as error:
        reason, looked = error.fresh(), isinstance(error, EvidenceAbsent)
    from gdrkit.facts.nvidia_smi import smi_gpus

    sources: tuple[Callable[[], tuple[PciGpu, ...]], ...] = (
        lambda: _among(_listed_devices(node)),
        lambda: tuple(sorted(PciGpu(gpu.address, gpu.device_id or "") for gpu in smi_gpus(node))),
        lambda: _by_driver(node),
    )
    for ask in sources:
        try:
            found = ask()
        except EvidenceMissing:
            continue
        if found:
            if _is_in_part(node):  # one more may be among them, such as one that fell off the bus
                raise reason.fresh()
            return found
        looked = looked or ask is sources[0]
    if looked:
        return ()
    raise reason.fresh()


def _is_in_part(node: Node) -> bool:
    """Whether sysfs lists a function of which nothing shows what it is."""
    listed = filter(_ADDRESS.fullmatch, if_missing((), node.list, ROOT))
    known = {device.address for device in if_missing((), _listed_devices, node)}
    return any(one not in known and lacking(_sysfs_device, node, one) for one in listed)


def _by_driver(node: Node) -> tuple[PciGpu, ...]:
    names = node.list(BY_DRIVER)
    return tuple(PciGpu(name) for name in names if _ADDRESS.fullmatch(name))


def _among(found: tuple[PciDevice, ...]) -> tuple[PciGpu, ...]:
    return tuple(
        sorted(
            PciGpu(device.address, device.device)
            for device in found
            if device.vendor == NVIDIA and device.class_code[:4] in DISPLAY_CLASSES
        )
    )


def gpu_at(node: Node, address: str) -> PciGpu | None:
    """The GPU at an address; None if no GPU is there."""
    return next((gpu for gpu in gpus(node) if gpu.address == address), None)


def device_at(node: Node, address: str) -> PciDevice:
    """The function at an address. Raises EvidenceAbsent if it is not listed."""
    for device in devices(node):
        if device.address == address:
            return device
    raise EvidenceAbsent(
        Missing(f"PCI device {address}", MissingReason.ABSENT, f"lspci -nn -s {quoted(address)}")
    )


@fact
def bound_driver(node: Node, address: str) -> str:
    """The driver that is bound to a function; "" where none is.

    Raises EvidenceMissing where no source shows it: a dump of rdma_topo has the function without its links,
    and lspci names drivers with -v or -k only."""
    link = f"{ROOT}/{address}/driver"

    def in_sysfs() -> str:
        known = next((d.driver for d in sysfs_devices(node) if d.address == address), "")
        if known or there(node, f"{ROOT}/{address}/uevent"):  # dev_uevent() adds DRIVER= to a bound device
            return known
        return node.resolve(link).rsplit("/", 1)[-1] if node.exists(link) else ""

    def in_text() -> str:
        device = _printed(node, address)
        if not device.verbose:  # a driver is one of the lines that -v or -k adds
            raise not_collected(f"driver of {address}", f"lspci -nnk -s {quoted(address)}")
        return device.driver

    return first_collected(in_sysfs, in_text)


# -- where they are --------------------------------------------------------------------------------


@fact
def bridges_above(node: Node, address: str) -> tuple[str, ...]:
    """The ports and bridges between the root complex and a device, root port first; empty on a root bus."""
    return _position(node, address)[1]


@fact
def root_bus(node: Node, address: str) -> str:
    """The root bus above a device, `0000:00`. Each host bridge has one."""
    return _position(node, address)[0]


@fact
def _position(node: Node, address: str) -> tuple[str, tuple[str, ...]]:
    return first_collected(
        lambda: _position_in_sysfs(node, address),
        lambda: _position_in_text(node, address),
        lambda: _position_in_tree(node, address),
    )


def _position_in_sysfs(node: Node, address: str) -> tuple[str, tuple[str, ...]]:
    """From the path: sys/devices/pci0000:15/0000:15:01.0/.../0000:1b:00.0."""
    steps = node.resolve(f"{ROOT}/{address}").split("/")
    roots = [step for step in steps if step.startswith("pci") and ":" in step]
    if not roots or steps[-1] != address:
        raise not_collected(f"{ROOT}/{address}", f"readlink -f {quoted(f'/{ROOT}/{address}')}")
    above = steps[steps.index(roots[-1]) + 1 : -1]
    return roots[-1].removeprefix("pci"), tuple(step for step in above if step.count(":") == 2)


def _position_in_text(node: Node, address: str) -> tuple[str, tuple[str, ...]]:
    """From the bus numbers below each bridge: `Bus: primary=15, secondary=16, subordinate=19`."""
    from gdrkit.facts.pci_text import text_devices

    listed = text_devices(node)
    _printed(node, address)
    if not all(d.verbose for d in listed):
        raise not_collected(f"bridges above {address}", "lspci -nnvvv")
    domain, bus = address[:4], int(address[5:7], 16)
    above = sorted(
        (d for d in listed if d.buses and d.address[:4] == domain and d.buses[0] <= bus <= d.buses[1]),
        key=lambda d: d.buses or (0, 0),
    )
    top = above[0].address if above else address
    return top[:7], tuple(d.address for d in above)


def _printed(node: Node, address: str) -> TextDevice:
    """A function as lspci printed it. What reads text is imported where sysfs was not collected."""
    from gdrkit.facts.pci_text import text_device

    return text_device(node, address)


def _position_in_tree(node: Node, address: str) -> tuple[str, tuple[str, ...]]:
    """From `lspci -tv`."""
    from gdrkit.facts.pci_tree import tree_positions

    position = tree_positions(node).get(address)
    if position is None:
        raise not_collected(f"bridges above {address}", "lspci -tv")
    return position.root_bus, position.above


@fact
def numa_node(node: Node, address: str) -> int | None:
    """The NUMA node of a device; None where the firmware does not define it (the file has -1)."""

    def in_text() -> int | None:
        device = _printed(node, address)
        if not device.verbose:
            raise not_collected(f"NUMA node of {address}", f"cat {quoted(f'/{ROOT}/{address}/numa_node')}")
        return device.numa_node  # lspci prints the line only where it is known: lspci.c, show_verbose()

    found = first_collected(lambda: _number(node.text(f"{ROOT}/{address}/numa_node")), in_text)
    return None if found is None or found < 0 else found


@fact
def iommu_group(node: Node, address: str) -> str:
    """The number of a device's IOMMU group. Raises EvidenceAbsent where no IOMMU translates for it."""
    link = f"{ROOT}/{address}/iommu_group"

    def in_sysfs() -> str:
        if not node.exists(link):
            raise EvidenceAbsent(Missing(link, MissingReason.ABSENT, f"ls -l {quoted(f'/{link}')}"))
        return node.resolve(link).rsplit("/", 1)[-1]

    def in_text() -> str:
        group = _printed(node, address).iommu_group
        if not group:  # an old lspci never prints it
            raise not_collected(link, f"readlink {quoted(f'/{link}')}")
        return group

    return first_collected(in_sysfs, in_text)


@fact
def iommu_type(node: Node, address: str) -> str:
    """The domain type of a device's IOMMU group: identity (no translation), DMA, DMA-FQ, auto, blocked.

    Raises EvidenceAbsent without an IOMMU. Source: Documentation/ABI/testing/sysfs-kernel-iommu_groups."""
    return node.text(f"sys/kernel/iommu_groups/{iommu_group(node, address)}/type").strip()


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise FormatError(f"not a number: {text[:20]!r}") from None


def there(node: Node, link: str) -> bool:
    """Whether a link exists. False also where the evidence does not show it, as in copies without links."""
    return if_missing(False, node.exists, link)
