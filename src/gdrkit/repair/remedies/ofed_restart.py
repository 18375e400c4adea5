"""The remedy for an OFED that is installed while the kernel's own RDMA stack still runs."""

from __future__ import annotations

from collections.abc import Iterable

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.facts.kernel_symbols import lists_modules
from gdrkit.facts.modules import is_loaded, module_path
from gdrkit.facts.peer_memory import peer_api_waits_in
from gdrkit.facts.running_files import RunningFile, replaced, running_file
from gdrkit.node import Node, Supposition, if_missing
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.rules.remedy_names import RemedyName

COMPAT = "mlx_compat"
"""Every module of MLNX_OFED and DOCA-OFED needs it; no kernel has it: Mellanox/mlnx-ofa_kernel, compat/."""
_STACK = ("ib_core", "ib_uverbs", "mlx5_core", "mlx5_ib")


def waits_for_restart(node: Node) -> bool:
    """Whether OFED's modules are installed, but others run. False also if that is not known."""
    return bool(if_missing("", peer_api_waits_in, node))


def _restart(node: Node) -> Iterable[Supposition]:
    """OFED's files run, so that their exports are those that nvidia-peermem finds."""
    if not waits_for_restart(node):
        raise EvidenceMissing(
            Missing("an OFED that does not run yet", MissingReason.UNDECIDED, f"modinfo -n ib_core {COMPAT}")
        )
    if if_missing("", module_path, node, COMPAT):
        yield is_loaded.becomes(True, COMPAT)
    yield lists_modules.becomes(False)  # kallsyms is that of the former stack
    for name in _STACK:
        if replaced(node, name):
            yield running_file.becomes(RunningFile(module_path(node, name)), name)


restart_ofed = Remedy(
    name=RemedyName.RESTART_OFED,
    title="start the OFED that is installed",
    effect=_restart,
    becomes="OFED's RDMA modules run, not the kernel's own",
    risk="all links of the NICs go down meanwhile, also a login or storage over them",
    undo="uninstall OFED and reboot",
    needs_reboot=True,
    paths=("peermem",),
)
