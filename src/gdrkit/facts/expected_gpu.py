"""What shows that a machine is meant to have a GPU, or that its GPU is meant for a data centre."""

from __future__ import annotations

from collections.abc import Callable

from gdrkit.evidence import EvidenceMissing, MissingReason
from gdrkit.facts import gpu_ids
from gdrkit.facts.driver_files import CONTAINER, DRIVER, driver_path, has_driver_container, peermem_path
from gdrkit.facts.expectation import Supplied, expectation
from gdrkit.facts.gpu import is_consumer, product_name
from gdrkit.facts.kubernetes import gpu_operator, pod_logs
from gdrkit.facts.machine import product
from gdrkit.facts.modules import is_loaded
from gdrkit.facts.packages import dkms, installed, is_driver
from gdrkit.facts.pci import PciGpu
from gdrkit.formats.regex import regex
from gdrkit.node import Node, fact, first_collected, if_absent, if_missing, seek

_GPU_FILE = regex(r"nvidia\.(?:ya?ml|json)|.*nvidia\.com-gpu.*")
"""nvidia.yaml of nvidia-ctk, management.nvidia.com-gpu.yaml of the GPU Operator. Plugins for NICs also use
nvidia.com as a vendor."""

FOLDERS = {
    "etc/cdi": _GPU_FILE,
    "run/cdi": _GPU_FILE,
    "etc/nvidia-container-runtime": regex(r"config\.toml"),
}
"""Folders of the container toolkit, and their files that are about GPUs. Source: NVIDIA Container Toolkit
documentation, "Support for Container Device Interface" and "Installing"; /var/run is /run."""

TOOLKIT = "nvidia-container-toolkit"

_DRIVER_PACKAGE = regex(
    r"nvidia(?!-(?:fs|peer)).*-(?:dkms|kmod|kmp)\b.*|a?kmod-nvidia.*|linux-(?:modules|objects)-nvidia-(?!fs).*"
)
"""Packages of the driver's kernel modules: NVIDIA Driver Installation Guide (nvidia-dkms-580-open,
nvidia-open-kernel-dkms, kmod-nvidia-open-dkms, nvidia-open-driver-G06-signed-kmp-default), Ubuntu
(linux-modules-nvidia-580-server-generic), RPM Fusion (akmod-nvidia). nvidia-fs is GPUDirect Storage's,
nvidia-peer-memory-dkms brings nv_peer_mem."""

_DATABASES = ("var/lib/dpkg/status", "var/lib/rpm", "usr/lib/sysimage/rpm")

_WORKSTATION = regex(r"Quadro|RTX(?!.*Server Edition)|Active|DGXS|K40c|NVS|Laptop|\bT\d{3,4}\b")
"""Product names of boards for workstations: NVIDIA Data Center Drivers, "Supported products", which lists
the RTX and Quadro series apart from those of the data centre. T4 is Tesla's; T400 to T1200 are not."""

_SERVERS = ("17", "23", "25", "28", "29")
"""SMBIOS 3.7, 7.4.1: main server chassis, rack mount chassis, multi-system chassis, blade, blade
enclosure."""


@fact
def sign_of_gpu(node: Node) -> str:
    """Why this machine is expected to have a GPU, in words; "" if nothing expects one.

    One sign is enough. Raises EvidenceMissing where none was seen and one was not readable."""
    signs: dict[str, Callable[[Node], bool]] = {
        "NVIDIA's driver is loaded": lambda node: is_loaded(node, DRIVER),
        f"the GPU Operator's driver container is in /{CONTAINER}": has_driver_container,
        "the GPU Operator is configured for it": lambda node: gpu_operator(node) is not None,
        "the GPU Operator's driver pod ran on it": lambda node: bool(pod_logs(node)),
        f"{TOOLKIT} is installed": _has_toolkit,
        **_DRIVER_INSTALLED,
    }
    return seek(signs, lambda sign: signs[sign](node)) or ""


@fact
def has_own_driver(node: Node) -> bool:
    """Whether NVIDIA's driver is installed on this disk, for whichever kernel. Where nothing of it is, the
    one that runs came from elsewhere, as from a container, or was removed since: which is not known.

    Raises EvidenceMissing where no sign of it was seen and one was not readable."""
    return seek(_DRIVER_INSTALLED, lambda sign: _DRIVER_INSTALLED[sign](node)) is not None


def _has_driver_file(node: Node) -> bool:
    """Whether the running kernel has a module file of the driver."""
    listed = (if_absent("", driver_path, node), if_absent("", peermem_path, node))
    return any(path and if_missing(True, node.exists, path) for path in listed)


def _has_driver_package(node: Node) -> bool:
    """Whether a package brings the driver's kernel modules, for whichever kernel; libraries and tools, which
    build hosts have too, do not count. False where neither dpkg nor rpm manages packages."""
    try:
        return any(map(_DRIVER_PACKAGE.fullmatch, installed(node)))
    except EvidenceMissing as error:
        none = error.missing.why is MissingReason.UNDECIDED
        if none or not if_missing(True, lambda: any(map(node.exists, _DATABASES))):
            return False
        raise


_DRIVER_INSTALLED: dict[str, Callable[[Node], bool]] = {
    "NVIDIA's driver is installed": _has_driver_file,
    "DKMS has NVIDIA's driver": lambda node: any(map(is_driver, if_absent((), dkms, node))),
    "a package of NVIDIA's driver is installed": _has_driver_package,
}
"""What shows that the driver is installed on this disk, in words."""


def _has_toolkit(node: Node) -> bool:
    """Whether the container toolkit or what it generates is there; where its folders were not collected, by
    the list of packages."""
    return first_collected(
        lambda: seek(FOLDERS, lambda folder: _is_filled(node, folder)) is not None,
        lambda: TOOLKIT in if_absent({}, installed, node),
    )


def _is_filled(node: Node, folder: str) -> bool:
    return any(FOLDERS[folder].fullmatch(name) for name in if_absent((), node.list, folder))


def number_of_missing_gpus(node: Node) -> int:
    """How many GPUs are expected and not there. What compares devices is imported where any are expected."""
    if expectation(node) == Supplied():
        return 0
    from gdrkit.facts.expected_devices import missing_gpus

    return sum(missing_gpus(node).values())


@fact
def is_data_centre(node: Node, gpu: PciGpu) -> bool:
    """Whether a machine with this GPU is meant to have a NIC for it.

    Boards for the data centre are, except in a DGX Station, and boards for workstations where a server holds
    them. GeForce never is. The class does not decide: a laptop's GeForce is a 3D controller too, and a mode
    switch makes an A40 or a Tesla M60 a VGA controller (gpumodeswitch user guide, DU-07764-001). Raises
    EvidenceMissing for a product without a known name."""
    if gpu.device_id in gpu_ids.INTEGRATED or is_consumer(node, gpu):
        return False
    name = gpu_ids.SUPPORTED.get(gpu.device_id) or product_name(node, gpu)
    if _WORKSTATION.search(name):
        return not _is_mobile(node, gpu) and _in_server(node)
    if gpu.device_id in gpu_ids.COHERENT:  # a DGX Station of this generation has a ConnectX
        return True
    return not if_missing(False, lambda: "DGX Station" in product(node).name)


_MOBILE = regex(r"\b(?:Mobile|Laptop|Max-Q)\b")
"""What pci.ids adds to the names of boards for laptops; the driver's own name lacks it for some."""


def _is_mobile(node: Node, gpu: PciGpu) -> bool:
    from gdrkit.facts.pci_text import text_device

    return bool(_MOBILE.search(if_missing("", lambda: text_device(node, gpu.address).name)))


def _in_server(node: Node) -> bool:
    return if_absent("", node.text, "sys/class/dmi/id/chassis_type").strip() in _SERVERS
