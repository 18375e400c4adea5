"""NVIDIA's modules are signed with a key of this machine's owner, which the kernel trusts."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator

from gdrkit.facts.dkms_key import SigningKey, dkms_key, signers_certificate
from gdrkit.facts.driver_files import driver_path, peermem_path
from gdrkit.facts.kernel import release
from gdrkit.facts.module_index import module_path, name_of
from gdrkit.facts.modules import dependencies
from gdrkit.facts.trust import SignatureCheck, SignatureState, signature_check, signer_name
from gdrkit.node import Node, Supposition, each_known, if_absent, if_missing
from gdrkit.repair.platforms.action import Action, EnrolKey, MakeKey, SignModules
from gdrkit.repair.platforms.change import Change
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.module_files import DEPMOD, depmod, initramfs_tool
from gdrkit.repair.platforms.platform import Platform
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.rules.module_subjects import file_name
from gdrkit.rules.remedy_names import RemedyName

OWN_KEY = "a machine owner key"


def _effect(node: Node) -> Iterable[Supposition]:
    """Signs every NVIDIA module, and each dependency of nvidia-peermem without a trusted signer."""
    verified = SignatureCheck(SignatureState.VERIFIED, OWN_KEY)
    paths = dict.fromkeys((peermem_path(node), *_driver(node)))
    paths.update(dict.fromkeys(path for path in _loaded_before(node) if not _trusted(node, path)))
    for path in paths:
        yield signature_check.becomes(verified, path)
        yield signer_name.becomes(OWN_KEY, path)


def _driver(node: Node) -> tuple[str, ...]:
    return if_absent((), lambda: (driver_path(node),))


def _loaded_before(node: Node) -> Iterator[str]:
    """The known files of the modules that modprobe loads before nvidia-peermem."""
    names = if_missing((), lambda: dependencies(node, file_name(node)))
    return each_known(lambda name: module_path(node, name), names)


def _trusted(node: Node, path: str) -> bool:
    """Whether the kernel accepts its signature. Unknown counts as yes: this remedy does not sign it then."""
    return if_missing(True, lambda: signature_check(node, path).state is SignatureState.VERIFIED)


def _procedure(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Create a key unless there is one, sign the modules, rebuild the index, and enrol the key.

    DKMS signs with its own key whenever it builds: a second key would hold until the next build only."""
    signed = "" if choices.key else _certificate(node)
    if signed and choices.enrol:
        yield EnrolKey(certificate=signed, why="the modules are signed by its key already")
        return
    pair = SigningKey(choices.key_path, choices.certificate_path)
    existing = None if choices.key else if_missing(None, dkms_key, node)
    if existing is not None:
        pair = existing
    elif not choices.key:
        yield MakeKey(
            key=pair.key,
            certificate=pair.certificate,
            why="this machine's own key, readable only by root",
        )
    yield SignModules(
        paths=tuple(f"/{path}" for path in _to_sign(node)),
        key=pair.key,
        certificate=pair.certificate,
        digest=choices.digest,
        why="all modules get the same signer",
    )
    yield depmod(node, "the sizes of the modules changed")
    if choices.enrol:
        yield EnrolKey(certificate=pair.certificate, why="the firmware must trust the key")
    if if_missing(False, node.exists, initramfs_tool(platform)):
        yield platform.refresh_initramfs(release(node), "it may contain the unsigned modules")


def _certificate(node: Node) -> str:
    """The certificate on this disk of the one key that signed all modules; "" if there is none."""
    found = {if_missing("", signers_certificate, node, path) for path in _to_sign(node)}
    return found.pop() if len(found) == 1 else ""


def _to_sign(node: Node) -> tuple[str, ...]:
    """Paths of the modules to sign: NVIDIA's, and dependencies of nvidia-peermem that are not trusted."""
    peermem = peermem_path(node)
    chosen: dict[str, None] = {}
    for path in (peermem, *_driver(node)):
        folder = posixpath.dirname(path)
        chosen.update({f"{folder}/{name}": None for name in _nvidia(node, folder)})
    for path in _dependencies(node, name_of(peermem)):
        if signature_check(node, path).state is not SignatureState.VERIFIED:
            chosen[path] = None
    return tuple(chosen)


def _nvidia(node: Node, folder: str) -> Iterator[str]:
    for name in node.list(folder):
        if name.startswith("nvidia") and name.endswith((".ko", ".ko.xz", ".ko.zst", ".ko.gz")):
            yield name


def _dependencies(node: Node, name: str) -> Iterator[str]:
    for needed in if_absent((), dependencies, node, name):
        if path := if_absent("", module_path, node, needed):
            yield path


SIGN_MODULE = Remedy(
    name=RemedyName.SIGN_MODULE,
    title="sign the NVIDIA modules with a key of your own, and enrol it",
    effect=_effect,
    changes=Change.SIGNATURE,
    becomes="every NVIDIA module is signed by a machine owner key that the kernel trusts",
    risk="a private key that signs kernel modules is stored on this machine; keep it readable by root only",
    undo="remove the key with sudo mokutil --delete and reinstall the driver's modules",
    needs_reboot=True,
    procedure=_procedure,
    commands=DEPMOD,
)
