"""The OFED that is installed runs, in place of another RDMA stack."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.facts.kernel_symbols import lists_modules
from gdrkit.facts.module_index import module_path
from gdrkit.facts.modules import is_loaded
from gdrkit.facts.peer_memory import other_peer_api
from gdrkit.facts.running_files import (
    OPENIBD,
    RDMA_STACK,
    RunningFile,
    is_loaded_for_sure,
    replaced,
    running_file,
)
from gdrkit.node import Node, Supposition, if_missing
from gdrkit.repair.platforms.action import Action, AskPerson
from gdrkit.repair.platforms.change import Change
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.module_files import refresh_if_there
from gdrkit.repair.platforms.platform import Platform
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.rules.remedy_names import RemedyName

COMPAT = "mlx_compat"
"""Every module of MLNX_OFED and DOCA-OFED needs it; no kernel has it: Mellanox/mlnx-ofa_kernel, compat/."""


def waits_for_restart(node: Node) -> bool:
    """Whether OFED's modules are installed, but others run: those of the kernel, or of another OFED, whose
    symbols may have other CRCs. False also if that is not known."""
    return bool(if_missing("", other_peer_api, node))


def _effect(node: Node) -> Iterable[Supposition]:
    """OFED's files run, so that their exports are those that nvidia-peermem finds."""
    if not waits_for_restart(node):
        raise EvidenceMissing(
            Missing("an OFED that does not run yet", MissingReason.UNDECIDED, f"modinfo -n ib_core {COMPAT}")
        )
    if if_missing("", module_path, node, COMPAT):
        yield is_loaded.becomes(True, COMPAT)
    yield lists_modules.becomes(False)  # kallsyms is that of the former stack
    for name in RDMA_STACK:
        if replaced(node, name):
            yield running_file.becomes(RunningFile(module_path(node, name)), name)


def _procedure(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Ask for a restart: it cuts every link. An initramfs with the former modules would load them again."""
    del choices
    stack = [name for name in RDMA_STACK if is_loaded_for_sure(node, name)]
    yield from refresh_if_there(node, platform, "it may contain the former RDMA modules", stack)
    if if_missing(False, node.exists, OPENIBD):
        yield AskPerson(
            what="reboot; or restart OFED, if neither your login nor storage uses these NICs",
            commands=("sudo /etc/init.d/openibd restart",),
        )
    else:
        yield AskPerson(what="reboot")


RESTART_OFED = Remedy(
    name=RemedyName.RESTART_OFED,
    title="start the OFED that is installed",
    effect=_effect,
    changes=Change.OFED,
    becomes="the RDMA modules of the installed OFED run",
    risk="all links of the NICs go down meanwhile, also a login or storage over them",
    undo="uninstall OFED and reboot",
    needs_reboot=True,
    paths=("peermem",),
    procedure=_procedure,
)
