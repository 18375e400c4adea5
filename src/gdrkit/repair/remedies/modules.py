"""Remedies that make a module load: sign it, build it, allow it, load it at boot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from msgspec.structs import replace

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.evidence.quoting import quoted
from gdrkit.facts.driver import PEER_API, PeermemLinkage, peer_api_exporter, peermem_linkage, peermem_path
from gdrkit.facts.driver_files import driver_path
from gdrkit.facts.linkage import Links, symbol_links
from gdrkit.facts.modprobe_config import AutoLoad, autoload, configuration
from gdrkit.facts.module_init import InitOutcome, init
from gdrkit.facts.module_state import KernelMatch, kernel_match
from gdrkit.facts.modules import PEERMEM, dependencies, is_loaded, module_path
from gdrkit.facts.peer_memory import CLIENT, MemoryPeer, memory_peers
from gdrkit.facts.secure_boot import firmware_is_efi, signatures_needed
from gdrkit.facts.trust import SignatureCheck, SignatureState, signature_check, signer_name
from gdrkit.loader import modprobe
from gdrkit.node import Node, Supposition, each_known, if_absent, if_missing
from gdrkit.repair.platforms.conflicting_config import conflicting_config
from gdrkit.repair.platforms.file_contents import MODULES_LOAD
from gdrkit.repair.remedies.ofed_restart import waits_for_restart
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.rules.module_subjects import file_name
from gdrkit.rules.remedy_names import RemedyName

_LISTS = ("blacklist", "install", "options")
OWN_KEY = "a machine owner key"


def _sign(node: Node) -> Iterable[Supposition]:
    """Signs every NVIDIA module, and each dependency of nvidia-peermem without a trusted signer.

    shim keeps the machine owner's keys, so a machine without EFI has none."""
    if not if_missing(True, firmware_is_efi, node):
        raise EvidenceMissing(Missing(OWN_KEY, MissingReason.ABSENT, "mokutil --sb-state"))
    verified = SignatureCheck(SignatureState.VERIFIED, OWN_KEY)
    paths = dict.fromkeys((peermem_path(node), *_driver(node)))
    paths.update(dict.fromkeys(path for path in _needed(node) if not _trusted(node, path)))
    for path in paths:
        yield signature_check.becomes(verified, path)
        yield signer_name.becomes(OWN_KEY, path)


def _driver(node: Node) -> tuple[str, ...]:
    return if_absent((), lambda: (driver_path(node),))


def _needed(node: Node) -> Iterator[str]:
    """The known files of the modules that modprobe loads before nvidia-peermem."""
    names = if_missing((), lambda: dependencies(node, _name(node)))
    return each_known(lambda name: module_path(node, name), names)


def _trusted(node: Node, path: str) -> bool:
    """Whether the kernel accepts its signature. Unknown counts as yes: this remedy does not sign it then."""
    return if_missing(True, lambda: signature_check(node, path).state is SignatureState.VERIFIED)


def _install_ofed(node: Node) -> Iterable[Supposition]:
    """The RDMA stack is replaced: symbols that nvidia-peermem was linked to have other CRCs now."""
    if peer_api_exporter(node):
        raise EvidenceMissing(
            Missing(PEER_API[0], MissingReason.UNDECIDED, "the kernel already has the peer-memory API")
        )
    if waits_for_restart(node):
        raise EvidenceMissing(Missing(PEER_API[0], MissingReason.UNDECIDED, "OFED is installed; restart it"))
    yield peer_api_exporter.becomes("ib_core")
    if peermem_linkage(node).uses_peer_api:
        unsure = Missing(
            f"CRC of {PEER_API[0]}",
            MissingReason.STALE,
            f"modprobe --dump-modversions {quoted(f'/{peermem_path(node)}')}",
        )
        yield peermem_linkage.becomes(unsure)
        yield symbol_links.becomes(unsure, _name(node))


def _rebuild(node: Node) -> Iterable[Supposition]:
    """A build that finds the API is not a stub. Its signer is unknown: DKMS may sign it, or may not."""
    if not peer_api_exporter(node):
        raise EvidenceMissing(Missing(PEER_API[0], MissingReason.ABSENT, "install OFED first"))
    name, path = _name(node), peermem_path(node)
    yield peermem_linkage.becomes(PeermemLinkage(uses_peer_api=True))
    yield symbol_links.becomes(Links(), name)
    yield init.becomes(InitOutcome.REGISTERS, name)
    yield kernel_match.becomes(KernelMatch(misfit=None), name)
    unsure = Missing(
        f"signer of the rebuilt {name}", MissingReason.STALE, f"modinfo -F signer {quoted(name)}"
    )
    yield signature_check.becomes(unsure, path)
    for driver in _driver(node):
        yield signature_check.becomes(unsure, driver)


def _load(node: Node) -> Iterable[Supposition]:
    """Only possible if modprobe is predicted to succeed: other problems have to be fixed first."""
    prediction = modprobe(node, PEERMEM)
    if not prediction.loaded and not prediction.result_unknown:
        raise EvidenceMissing(Missing(PEERMEM, MissingReason.UNDECIDED, f"sudo modprobe {PEERMEM}"))
    if waits_for_restart(node):
        raise EvidenceMissing(Missing("OFED's running modules", MissingReason.ABSENT, "restart OFED first"))
    _not_stale(lambda: symbol_links(node, _name(node)))
    if if_missing(False, signatures_needed, node):
        _not_stale(lambda: signature_check(node, peermem_path(node)))
    yield is_loaded.becomes(True, PEERMEM)
    if (name := _name(node)) != PEERMEM:
        yield is_loaded.becomes(True, name)
    peers = if_absent(None, memory_peers, node)
    if peers is not None:  # an RDMA core without that folder does not create it
        yield memory_peers.becomes((*peers, MemoryPeer(CLIENT, "", {})))


def _not_stale(ask: Callable[[], object]) -> None:
    """Raise if an earlier step made an answer uncertain: a new OFED needs a build, a build a signature."""
    try:
        ask()
    except EvidenceMissing as error:
        if error.missing.why is MissingReason.STALE:
            raise


def _allow(node: Node) -> Iterable[Supposition]:
    """Without the conflicting lines, modprobe.d does not prevent loading."""
    known, lines = configuration(node), conflicting_config(node)
    remaining = {kind: tuple(e for e in getattr(known, kind) if e not in lines) for kind in _LISTS}
    yield configuration.becomes(replace(known, **remaining))


def _persist(node: Node) -> Iterable[Supposition]:
    known = configuration(node)
    allowed = tuple(entry for entry in known.blacklist if entry.name != PEERMEM)
    yield configuration.becomes(replace(known, blacklist=allowed))
    yield autoload.becomes((*autoload(node), AutoLoad(PEERMEM, MODULES_LOAD.lstrip("/"), 2)))


def _name(node: Node) -> str:
    return file_name(node)


sign_module = Remedy(
    name=RemedyName.SIGN_MODULE,
    title="sign the NVIDIA modules with a key of your own, and enrol it",
    effect=_sign,
    becomes="every NVIDIA module is signed by a machine owner key that the kernel trusts",
    risk="a private key that signs kernel modules is stored on this machine; keep it readable by root only",
    undo="remove the key with sudo mokutil --delete and reinstall the driver's modules",
    needs_reboot=True,
    replaces_driver=True,
)
install_ofed = Remedy(
    name=RemedyName.INSTALL_OFED,
    title="install DOCA-OFED, which adds the peer-memory API",
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
    title="rebuild the NVIDIA driver against the installed OFED",
    effect=_rebuild,
    becomes="nvidia-peermem uses the peer-memory API of this RDMA stack; its signer is not known yet",
    risk="CUDA programs must stop while the driver is replaced; a failed build leaves no driver",
    undo="reinstall the packaged modules for this kernel",
    paths=("peermem",),
    replaces_driver=True,
    drops_signatures=True,
)
allow_module = Remedy(
    name=RemedyName.ALLOW_MODULE,
    title="remove the lines from modprobe.d that prevent nvidia-peermem from loading",
    effect=_allow,
    becomes="modprobe.d does not prevent nvidia-peermem from loading",
    risk="the lines may be intentional; the finding names them",
    undo="restore the lines",
    paths=("peermem",),
)
load_peermem = Remedy(
    name=RemedyName.LOAD_PEERMEM,
    title="load nvidia-peermem now, and at each boot",
    effect=_load,
    becomes="nvidia-peermem is loaded, and /etc/modules-load.d names it",
    risk="OFED cannot be restarted while it is loaded",
    undo="sudo rmmod nvidia_peermem, and remove the line from /etc/modules-load.d",
    paths=("peermem",),
)
persist_peermem = Remedy(
    name=RemedyName.PERSIST_PEERMEM,
    title="load nvidia-peermem at each boot",
    effect=_persist,
    becomes="/etc/modules-load.d names nvidia-peermem",
    risk="OFED cannot be restarted while it is loaded",
    undo="remove the line from /etc/modules-load.d",
    paths=("peermem",),
)
