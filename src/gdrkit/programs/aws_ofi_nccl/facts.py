"""Amazon's EFA: its devices, how its driver reaches GPU memory, and the software above it."""

from __future__ import annotations

from gdrkit.evidence import EvidenceAbsent, EvidenceMissing, Missing, MissingReason
from gdrkit.facts import packages
from gdrkit.facts.libraries import find
from gdrkit.facts.modules import running
from gdrkit.facts.pci import ROOT, devices
from gdrkit.facts.rdma import RdmaDevice, nics, rdma_devices
from gdrkit.facts.wheels import LibraryCopy
from gdrkit.formats.versions import numbers
from gdrkit.node import Node, fact, if_missing

DRIVER = "efa"
VENDOR = "Amazon EC2"
AMAZON = "0x1d0f"
LIBFABRIC = ("libfabric-aws", "libfabric1-aws")
"""The packages of Amazon's installer, which builds libfabric with CUDA."""
OF_DISTRIBUTIONS = ("libfabric1", "libfabric")
PLUGINS = ("libnccl-ofi", "aws-ofi-nccl")
PLUGIN = "libnccl-net.so"
PLUGIN_FOLDERS = (
    "opt/amazon/ofi-nccl/lib64",
    "opt/amazon/ofi-nccl/lib/x86_64-linux-gnu",
    "opt/amazon/ofi-nccl/lib/aarch64-linux-gnu",
    "opt/amazon/ofi-nccl/lib",
)
"""Where Amazon's installer puts the plugin."""


@fact
def efa_devices(node: Node) -> tuple[RdmaDevice, ...]:
    """The EFA devices. Raises EvidenceMissing if there are none, and the driver of a device is not known."""
    every = rdma_devices(node)
    found = tuple(device for device in every if device.driver == DRIVER)
    unknown = [device.name for device in every if not device.driver and not _is_anothers(node, device)]
    if not found and unknown:
        ask = f"ls -l /sys/class/infiniband/{unknown[0]}/device/driver"
        raise EvidenceMissing(Missing(f"driver of {unknown[0]}", MissingReason.UNDECIDED, ask))
    return found


@fact
def has_only_efa(node: Node) -> bool:
    """Whether every NIC is an EFA, so that NCCL reaches the network through its plugin alone."""
    found = nics(node)
    return bool(found) and all(device.driver == DRIVER for device in found)


def _is_anothers(node: Node, device: RdmaDevice) -> bool:
    """Whether a device whose driver is not known is in software, or a PCI function of another vendor; all
    are where the machine has none of Amazon's."""
    vendor = if_missing("", lambda: node.text(f"{ROOT}/{device.pci_address}/vendor").strip())
    if device.virtual or vendor not in ("", AMAZON):
        return True
    return not if_missing(True, lambda: any(f"0x{one.vendor}" in ("0x", AMAZON) for one in devices(node)))


@fact
def generation(node: Node, device: RdmaDevice) -> str:
    """The device id of an EFA, which names its generation from 0xefa0 on: efa_main.c."""
    return node.text(f"{ROOT}/{device.pci_address}/device").strip()


@fact
def efa_version(node: Node) -> str:
    """The version of the loaded module efa, "" for the one of the kernel itself, which has none."""
    return running(node, DRIVER).version


@fact
def p2p_provider(node: Node, device: RdmaDevice) -> str:
    """Whose functions efa calls to pin GPU memory: "NVIDIA peermem" (efa_nv_peermem), "NVIDIA", or "" if it
    reaches none now.

    Source: amzn/amzn-drivers kernel/linux/efa/src/efa_sysfs.c, efa_nvmem_impl.h. Raises EvidenceAbsent for a
    driver without the file: that of the kernel, or one before 2.6."""
    return node.text(f"sys/class/infiniband/{device.name}/device/p2p").strip()


@fact
def instance_type(node: Node) -> str:
    """The type of an EC2 instance, such as p5.48xlarge: aws-ofi-nccl reads it in the same file. Raises
    EvidenceAbsent on another machine."""
    if node.text("sys/class/dmi/id/sys_vendor").strip() != VENDOR:
        raise EvidenceAbsent(Missing("EC2 instance type", MissingReason.ABSENT, "cat /sys/class/dmi/id/*"))
    return node.text("sys/class/dmi/id/product_name").strip()


@fact
def libfabric_copies(node: Node) -> tuple[LibraryCopy, ...]:
    """The packages of libfabric: Amazon's, else the distribution's. Raises EvidenceAbsent without any."""
    found = _packaged(node, LIBFABRIC) or _packaged(node, OF_DISTRIBUTIONS)
    if not found:
        raise EvidenceAbsent(Missing("libfabric", MissingReason.ABSENT, "fi_info --version"))
    return found


@fact
def plugin_copies(node: Node) -> tuple[LibraryCopy, ...]:
    """The packages of aws-ofi-nccl, else its library, without a version. Raises EvidenceAbsent if there is
    neither: container images bring their own."""
    found = if_missing((), _packaged, node, PLUGINS)
    return found or (LibraryCopy("", find(node, PLUGIN, PLUGIN_FOLDERS)),)


def _packaged(node: Node, names: tuple[str, ...]) -> tuple[LibraryCopy, ...]:
    """The versions of the packages that are installed, without what follows the release."""
    known = packages.installed(node)
    found = []
    for name in names:
        if package := known.get(name):
            node.cite(f"package {name}", text=package.version)
            release = ".".join(map(str, numbers(package.version)))  # of 2.4.0amzn3.0, 1.14.2-1
            found.append(LibraryCopy(release, f"package {name}"))
    return tuple(found)
