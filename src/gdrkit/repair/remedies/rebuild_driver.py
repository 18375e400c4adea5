"""The NVIDIA driver is rebuilt against the installed OFED."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.facts.driver import PEER_API, PeermemLinkage, peer_api_exporter, peermem_linkage
from gdrkit.facts.driver_files import driver_path, has_driver_container, peermem_path
from gdrkit.facts.kernel import release
from gdrkit.facts.linkage import Links, symbol_links
from gdrkit.facts.loaded_modules import PEERMEM
from gdrkit.facts.module_index import modules_dir
from gdrkit.facts.module_init import InitOutcome, init
from gdrkit.facts.module_state import KernelMatch, kernel_match
from gdrkit.facts.packages import dkms, is_driver
from gdrkit.facts.peer_memory import other_peer_api
from gdrkit.facts.peermem_container import events
from gdrkit.facts.running_files import is_loaded_for_sure
from gdrkit.facts.trust import signature_check
from gdrkit.node import Node, Supposition, if_absent, if_missing
from gdrkit.repair.platforms.action import Action, AskPerson, RunCommand
from gdrkit.repair.platforms.change import Change
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.module_files import depmod
from gdrkit.repair.platforms.platform import Platform
from gdrkit.repair.remedies.predicted_load import signature_when_built
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.rules.module_subjects import file_name
from gdrkit.rules.remedy_names import RemedyName


def _effect(node: Node) -> Iterable[Supposition]:
    """A build that finds the API is not a stub. It takes the CRCs of the OFED that is installed: where
    another one runs, what it built can be loaded only after a restart, which comes first; a module that is
    loaded waits for the boot. A container that builds it starts anew, with its log."""
    if not peer_api_exporter(node):
        raise EvidenceMissing(Missing(PEER_API[0], MissingReason.ABSENT, "install OFED first"))
    if if_missing("", other_peer_api, node) and not is_loaded_for_sure(node, PEERMEM):
        ask = "sudo /etc/init.d/openibd restart"
        raise EvidenceMissing(Missing("the installed OFED, running", MissingReason.ABSENT, ask))
    name, path = file_name(node), peermem_path(node)
    yield peermem_linkage.becomes(PeermemLinkage(uses_peer_api=True))
    yield symbol_links.becomes(Links(), name)
    yield init.becomes(InitOutcome.REGISTERS, name)
    yield kernel_match.becomes(KernelMatch(misfit=None), name)
    if has_driver_container(node):
        yield events.becomes(())
    for built in (path, *if_absent((), lambda: (driver_path(node),))):
        yield signature_check.becomes(signature_when_built(node, built), built)


def _procedure(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Rebuild NVIDIA's modules with DKMS, against OFED. Source: dkms(8), build and install."""
    del platform, choices
    kernel = release(node)
    found = [module for module in if_missing((), dkms, node) if is_driver(module)]
    if not found:
        yield AskPerson(
            what="build the NVIDIA driver on this machine, now that OFED is installed: install its DKMS "
            "package instead of prebuilt modules, or run the .run installer again"
        )
        return
    module = next((m for m in found if m.kernel == kernel), found[0])
    arguments = ("-m", module.name, "-v", module.version, "-k", kernel, "--force")
    patterns = tuple(
        f"/{modules_dir(node)}/{folder}/nvidia*.ko*" for folder in ("updates/dkms", "extra", "updates")
    )
    yield RunCommand(
        argv=("dkms", "build", *arguments), why="build against the installed OFED", never_executed=True
    )
    yield RunCommand(
        argv=("dkms", "install", *arguments),
        why="replace the old modules",
        touches=(*patterns, depmod(node, "").touches[0]),
        never_executed=True,
    )


REBUILD_DRIVER = Remedy(
    name=RemedyName.REBUILD_DRIVER,
    title="rebuild the NVIDIA driver against the installed OFED",
    effect=_effect,
    changes=Change.DRIVER,
    becomes="nvidia-peermem uses the peer-memory API of this RDMA stack; its signer is not known yet",
    risk="CUDA programs must stop while the driver is replaced; a failed build leaves no driver",
    undo="reinstall the packaged modules for this kernel",
    paths=("peermem",),
    drops_signatures=True,
    procedure=_procedure,
    commands=(
        "dkms build -m DKMS -v VERSION -k KERNEL --force",
        "dkms install -m DKMS -v VERSION -k KERNEL --force",
    ),
)
