"""Steps that make a module load: sign it, build it, find it, let it be loaded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.facts.driver import PEER_API, PeermemLinkage, peer_api_exporter, peermem_linkage, peermem_path
from gdrkit.facts.driver_files import driver_path
from gdrkit.facts.linkage import Links, links
from gdrkit.facts.modprobe_config import AutoLoad, autoload, configuration
from gdrkit.facts.module_init import InitOutcome, init
from gdrkit.facts.modules import PEERMEM, dependencies, is_loaded, module_path
from gdrkit.facts.peer_memory import MemoryPeer, memory_peers
from gdrkit.facts.trust import SignatureStanding, SignatureState, standing
from gdrkit.loader import modprobe
from gdrkit.node import Node, Supposition, each_known, if_absent, if_missing
from gdrkit.repair.platforms.conflicting_config import conflicting_config
from gdrkit.repair.platforms.file_contents import MODULES_LOAD
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.rules.module_subjects import file_name
from gdrkit.rules.remedy_names import RemedyName

_LISTS = ("blacklist", "install", "options")
CLIENT = "nv_mem"
"""The name that nvidia-peermem registers under: nvidia-peermem.c, DRV_NAME of the client since 515.43.04."""
OWN_KEY = "a machine owner key"


def _sign(node: Node) -> Iterable[Supposition]:
    """Every NVIDIA module gets the same signer, and what nvidia-peermem needs that has no trusted one."""
    verified = SignatureStanding(SignatureState.VERIFIED, OWN_KEY)
    paths = dict.fromkeys((peermem_path(node), *_driver(node)))
    paths.update(dict.fromkeys(path for path in _needed(node) if not _trusted(node, path)))
    for path in paths:
        yield standing.becomes(verified, path)


def _driver(node: Node) -> tuple[str, ...]:
    return if_absent((), lambda: (driver_path(node),))


def _needed(node: Node) -> Iterator[str]:
    """Files of what modprobe loads before nvidia-peermem, as far as they are known."""
    names = if_missing((), lambda: dependencies(node, _name(node)))
    return each_known(lambda name: module_path(node, name), names)


def _trusted(node: Node, path: str) -> bool:
    """Whether the kernel takes it as it is; so, too, where that cannot be told: it is not ours to sign."""
    return if_missing(True, lambda: standing(node, path).state is SignatureState.VERIFIED)


def _install_ofed(node: Node) -> Iterable[Supposition]:
    """The RDMA stack changes under nvidia-peermem: whatever it was linked to has other CRCs now."""
    if peer_api_exporter(node):
        raise EvidenceMissing(
            Missing(PEER_API[0], MissingReason.UNDECIDED, "the peer-memory API is here already")
        )
    yield peer_api_exporter.becomes("ib_core")
    if peermem_linkage(node).uses_peer_api:
        unsure = Missing(
            f"CRC of {PEER_API[0]}",
            MissingReason.STALE,
            f"modprobe --dump-modversions /{peermem_path(node)}",
        )
        yield peermem_linkage.becomes(unsure)
        yield links.becomes(unsure, _name(node))


def _rebuild(node: Node) -> Iterable[Supposition]:
    """A build that finds the API is whole. Who signs it is the builder's affair: DKMS may, or may not."""
    if not peer_api_exporter(node):
        raise EvidenceMissing(Missing(PEER_API[0], MissingReason.ABSENT, "install OFED first"))
    name, path = _name(node), peermem_path(node)
    yield peermem_linkage.becomes(PeermemLinkage(uses_peer_api=True))
    yield links.becomes(Links(), name)
    yield init.becomes(InitOutcome.REGISTERS, name)
    unsure = Missing(f"signer of the rebuilt {name}", MissingReason.STALE, f"modinfo -F signer {name}")
    yield standing.becomes(unsure, path)
    for driver in _driver(node):
        yield standing.becomes(unsure, driver)


def _load(node: Node) -> Iterable[Supposition]:
    """Only what modprobe is predicted to load: whatever stops it comes first."""
    prediction = modprobe(node, PEERMEM)
    if not prediction.loaded and not prediction.result_unknown:
        raise EvidenceMissing(Missing(PEERMEM, MissingReason.UNDECIDED, f"sudo modprobe {PEERMEM}"))
    yield is_loaded.becomes(True, PEERMEM)
    if (name := _name(node)) != PEERMEM:
        yield is_loaded.becomes(True, name)
    peers = if_absent(None, memory_peers, node)
    if peers is not None:  # an RDMA core without that folder does not make one
        yield memory_peers.becomes((*peers, MemoryPeer(CLIENT, "", {})))


def _allow(node: Node) -> Iterable[Supposition]:
    """Without the lines in its way, modprobe.d lets the module load."""
    known, lines = configuration(node), conflicting_config(node)
    quiet = {kind: tuple(e for e in getattr(known, kind) if e not in lines) for kind in _LISTS}
    yield configuration.becomes(replace(known, **quiet))


def _persist(node: Node) -> Iterable[Supposition]:
    yield autoload.becomes((*autoload(node), AutoLoad(PEERMEM, MODULES_LOAD.lstrip("/"), 2)))


def _name(node: Node) -> str:
    return file_name(node)


sign_module = Remedy(
    name=RemedyName.SIGN_MODULE,
    title="sign the NVIDIA modules with a key of your own, and enrol it",
    effect=_sign,
    becomes="every NVIDIA module is signed by a machine owner key that the kernel trusts",
    risk="a private key that signs kernel modules lies on this machine; keep it readable for root alone",
    undo="mokutil --delete the key and reinstall the driver's modules",
    needs_reboot=True,
    paths=("peermem",),
    replaces_driver=True,
)
install_ofed = Remedy(
    name=RemedyName.INSTALL_OFED,
    title="install DOCA-OFED, which brings the peer-memory API",
    effect=_install_ofed,
    becomes=f"the RDMA core exports {PEER_API[0]}",
    risk="the RDMA stack is replaced: links go down, and modules built for the old one stop loading",
    undo="uninstall DOCA-OFED and reboot",
    needs_reboot=True,
    paths=("peermem",),
    replaces_driver=True,
)
rebuild_driver = Remedy(
    name=RemedyName.REBUILD_DRIVER,
    title="rebuild the NVIDIA driver, after OFED and against it",
    effect=_rebuild,
    becomes="nvidia-peermem is linked to the peer-memory API of this RDMA stack; who signed it is open",
    risk="CUDA programs must stop while the driver is replaced; a failed build leaves no driver",
    undo="reinstall the packaged modules of this kernel",
    paths=("peermem",),
    replaces_driver=True,
)
allow_module = Remedy(
    name=RemedyName.ALLOW_MODULE,
    title="take the lines out of modprobe.d that keep nvidia-peermem out",
    effect=_allow,
    becomes="modprobe loads nvidia-peermem as its file says",
    risk="somebody may have had a reason; the lines are named in the finding",
    undo="put the lines back",
    paths=("peermem",),
)
load_peermem = Remedy(
    name=RemedyName.LOAD_PEERMEM,
    title="load nvidia-peermem now, and at each boot",
    effect=_load,
    becomes="nvidia-peermem is loaded, and stands in /etc/modules-load.d",
    risk="OFED cannot be restarted while it is loaded",
    undo="rmmod nvidia_peermem, and take the line out of /etc/modules-load.d",
    paths=("peermem",),
)
persist_peermem = Remedy(
    name=RemedyName.PERSIST_PEERMEM,
    title="load nvidia-peermem at each boot",
    effect=_persist,
    becomes="nvidia-peermem stands in /etc/modules-load.d",
    risk="OFED cannot be restarted while it is loaded",
    undo="take the line out of /etc/modules-load.d",
    paths=("peermem",),
)
