"""Remedies for the NVIDIA driver: load it, change its flavour, reboot into the installed version."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.evidence.quoting import quoted
from gdrkit.facts.driver import (
    DRIVER,
    LegacyPeerMem,
    disk_driver_flavour,
    disk_driver_version,
    driver_flavour,
    driver_parameters,
    driver_path,
    driver_version,
    legacy_peer_mem,
    peermem_path,
)
from gdrkit.facts.gpu import is_before_turing
from gdrkit.facts.modprobe_config import autoload
from gdrkit.facts.modules import PEERMEM, is_loaded, module_path
from gdrkit.facts.pci import gpus
from gdrkit.facts.peer_memory import LEGACY
from gdrkit.facts.secure_boot import signatures_needed
from gdrkit.facts.trust import SignatureState, signature_check
from gdrkit.loader import modprobe
from gdrkit.node import Node, Supposition, each_known, if_missing
from gdrkit.programs.mnnvl.facts import imex_channels
from gdrkit.repair.platforms.driver_options import OPTIONS
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.rules.capabilities import Path
from gdrkit.rules.remedy_names import RemedyName


def _load(node: Node) -> Iterable[Supposition]:
    """Only possible if modprobe is predicted to load it, with a signature that is known to be accepted."""
    prediction = modprobe(node, DRIVER)
    refused = not prediction.loaded and not prediction.result_unknown
    if refused or (
        _signatures_decide(node)
        and signature_check(node, driver_path(node)).state is not SignatureState.VERIFIED
    ):
        raise EvidenceMissing(
            Missing("a driver that the kernel accepts", MissingReason.UNDECIDED, "gdr modprobe nvidia")
        )
    yield is_loaded.becomes(True, DRIVER)
    yield driver_flavour.becomes(disk_driver_flavour(node))
    yield driver_version.becomes(disk_driver_version(node))


def _open_modules(node: Node) -> Iterable[Supposition]:
    """The flavour of the new modules is known; their signer is not."""
    if driver_flavour(node) == "open":
        raise EvidenceMissing(
            Missing("open kernel modules", MissingReason.UNDECIDED, "they are loaded already")
        )
    if any(each_known(lambda gpu: is_before_turing(node, gpu), gpus(node))):
        raise EvidenceMissing(Missing("a GPU of Turing or later", MissingReason.ABSENT, "nvidia-smi -L"))
    yield driver_flavour.becomes("open")
    yield disk_driver_flavour.becomes("open")
    for path in _files(node):
        yield signature_check.becomes(
            Missing(f"signer of /{path}", MissingReason.STALE, f"modinfo -F signer {quoted(f'/{path}')}"),
            path,
        )
    if _signatures_decide(node):
        ask = "modinfo -F signer nvidia"
        yield is_loaded.becomes(Missing("whether nvidia loads", MissingReason.STALE, ask), DRIVER)


def _signatures_decide(node: Node) -> bool:
    """Whether the kernel may refuse the new modules because of their signature."""
    return if_missing(False, signatures_needed, node)


def _files(node: Node) -> Iterable[str]:
    """The known files; those that an earlier step builds have no path yet."""
    return each_known(lambda ask: ask(node), (driver_path, peermem_path))


def _dmabuf_alone(node: Node) -> Iterable[Supposition]:
    yield autoload.becomes(tuple(entry for entry in autoload(node) if entry.name != PEERMEM))
    yield is_loaded.becomes(False, PEERMEM)


def _reboot(node: Node) -> Iterable[Supposition]:
    yield driver_version.becomes(disk_driver_version(node))


def _without_legacy(node: Node) -> Iterable[Supposition]:
    yield legacy_peer_mem.becomes(LegacyPeerMem(loaded=False, path=""))
    yield is_loaded.becomes(False, LEGACY)
    yield module_path.becomes(Missing(LEGACY, MissingReason.ABSENT, f"modinfo -n {LEGACY}"), LEGACY)


def _with_options(remedy: RemedyName) -> Callable[[Node], Iterable[Supposition]]:
    """The driver is loaded with the options that the remedy sets."""

    def effect(node: Node) -> Iterable[Supposition]:
        yield driver_parameters.becomes({**driver_parameters(node), **OPTIONS[remedy](node)})

    return effect


def _create_channel(node: Node) -> Iterable[Supposition]:
    """With a count of 0, the driver makes no channel: nv-caps-imex.c, nv_caps_imex_init()."""
    if driver_parameters(node).get("ImexChannelCount") == "0":
        ask = "grep ImexChannelCount /proc/driver/nvidia/params"
        raise EvidenceMissing(Missing("IMEX channels of the driver", MissingReason.ABSENT, ask))
    yield from _with_options(RemedyName.CREATE_IMEX_CHANNEL)(node)
    yield imex_channels.becomes((0,))


load_driver = Remedy(
    name=RemedyName.LOAD_DRIVER,
    title="load the NVIDIA driver",
    effect=_load,
    becomes="nvidia is loaded",
    risk="none beyond that of any driver; if nouveau uses the GPU, it has to be blacklisted first",
    undo="sudo modprobe -r nvidia_drm nvidia_modeset nvidia_uvm nvidia",
    replaces_driver=True,
)
use_dmabuf = Remedy(
    name=RemedyName.USE_DMABUF,
    title="use dma-buf, and stop loading nvidia-peermem",
    effect=_dmabuf_alone,
    becomes="nvidia-peermem is not loaded, now or at boot; programs use dma-buf where they can",
    risk="programs that support only peermem, such as NCCL before 2.13, lose the direct path",
    undo="add nvidia-peermem to /etc/modules-load.d again",
    paths=("dmabuf",),
)
open_modules = Remedy(
    name=RemedyName.OPEN_KERNEL_MODULES,
    title="install the open kernel modules of the same driver branch",
    effect=_open_modules,
    becomes="the open kernel modules drive the GPU; their signer is not known yet",
    risk="the open modules do not support GPUs before Turing; CUDA programs must stop during the change; if "
    "signatures are enforced, the new modules load only if signed by a trusted key, as those of "
    "distributions are",
    undo="reinstall the proprietary modules and reboot",
    needs_reboot=True,
    paths=("dmabuf",),
    replaces_driver=True,
    drops_signatures=True,
)
reboot = Remedy(
    name=RemedyName.REBOOT,
    title="reboot into the driver that is installed",
    effect=_reboot,
    becomes="the loaded driver is the installed one",
    risk="everything on the machine stops",
    undo="not needed",
    needs_reboot=True,
)
remove_legacy = Remedy(
    name=RemedyName.REMOVE_NV_PEER_MEM,
    title="remove nv_peer_mem and its service",
    effect=_without_legacy,
    becomes="the client name that nvidia-peermem registers is free",
    risk="GPUDirect RDMA does not work until nvidia-peermem is loaded",
    undo="reinstall nvidia-peer-memory-dkms",
    paths=("peermem",),
)
allow_topology = Remedy(
    name=RemedyName.OVERRIDE_TOPOLOGY_CHECK,
    title="set NVreg_GrdmaPciTopoCheckOverride=1",
    effect=_with_options(RemedyName.OVERRIDE_TOPOLOGY_CHECK),
    becomes="the driver maps GPU memory for this NIC without checking the PCIe topology",
    risk="NVIDIA distrusts this chipset: data may be corrupted; better move the NIC below the GPU's switch",
    undo="remove the option from /etc/modprobe.d and reboot",
    needs_reboot=True,
    replaces_driver=True,
)
allow_peer_mapping = Remedy(
    name=RemedyName.ALLOW_PEER_MAPPING,
    title="let GPUs ring the doorbells of NICs: PeerMappingOverride=1",
    effect=_with_options(RemedyName.ALLOW_PEER_MAPPING),
    becomes="programs of any user may map a NIC's doorbell page into the GPU",
    risk="programs without CAP_SYS_ADMIN may then map memory of other devices into the GPU; not for hosts "
    "with users that are not trusted",
    undo="remove the option from /etc/modprobe.d and reboot",
    needs_reboot=True,
    paths=(Path.GPU_INITIATED,),
    replaces_driver=True,
)
create_channel = Remedy(
    name=RemedyName.CREATE_IMEX_CHANNEL,
    title="make IMEX channel 0 whenever the driver is loaded: NVreg_CreateImexChannel0=1",
    effect=_create_channel,
    becomes="/dev/nvidia-caps-imex-channels has channel0",
    risk="every user of this host may open channel 0: jobs of several users in one IMEX domain are not "
    "separated",
    undo="remove the option from /etc/modprobe.d and reboot",
    needs_reboot=True,
    paths=(Path.NVLINK,),
    replaces_driver=True,
)
