"""DOCA-OFED is installed, whose RDMA core has the peer-memory API."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.evidence.quoting import quoted
from gdrkit.facts.driver import PEER_API, peer_api_exporter, peermem_linkage
from gdrkit.facts.driver_files import peermem_path
from gdrkit.facts.kernel import release
from gdrkit.facts.linkage import symbol_links
from gdrkit.node import Node, Supposition
from gdrkit.repair.platforms import doca
from gdrkit.repair.platforms.action import Action
from gdrkit.repair.platforms.change import Change
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.platform import Platform
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.repair.remedies.restart_ofed import waits_for_restart
from gdrkit.rules.driver_ignores_peer_memory import brought_by_ofed
from gdrkit.rules.module_subjects import file_name
from gdrkit.rules.remedy_names import RemedyName


def _effect(node: Node) -> Iterable[Supposition]:
    """The RDMA stack is replaced: symbols that nvidia-peermem was linked to have other CRCs now."""
    if peer_api_exporter(node):
        raise EvidenceMissing(
            Missing(PEER_API[0], MissingReason.UNDECIDED, "the kernel already has the peer-memory API")
        )
    if waits_for_restart(node):
        raise EvidenceMissing(Missing(PEER_API[0], MissingReason.UNDECIDED, "OFED is installed; restart it"))
    if not brought_by_ofed(node):  # its RDMA core refuses the kernel's drivers, so the network would be gone
        raise EvidenceMissing(Missing("OFED's driver for each NIC", MissingReason.ABSENT, "ibdev2netdev -v"))
    yield peer_api_exporter.becomes("ib_core")
    if peermem_linkage(node).uses_peer_api:
        unsure = Missing(
            f"CRC of {PEER_API[0]}",
            MissingReason.STALE,
            f"modprobe --dump-modversions {quoted(f'/{peermem_path(node)}')}",
        )
        yield peermem_linkage.becomes(unsure)
        yield symbol_links.becomes(unsure, file_name(node))


def _procedure(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Install OFED from NVIDIA's repository, which a person must set up once."""
    del choices
    yield doca.repository(node)
    yield platform.packages(
        platform.headers.format(kernel=release(node)),
        *platform.ofed,
        why="OFED has the peer-memory API; its modules are built against this kernel's headers",
        undo=((*platform.remove, *platform.ofed),),
    )


INSTALL_OFED = Remedy(
    name=RemedyName.INSTALL_OFED,
    title="install DOCA-OFED, which adds the peer-memory API",
    effect=_effect,
    changes=Change.OFED,
    becomes=f"the RDMA core exports {PEER_API[0]}",
    risk="the RDMA stack is replaced: links go down, and modules built for the old one stop loading",
    undo="uninstall DOCA-OFED and reboot",
    needs_reboot=True,
    paths=("peermem",),
    procedure=_procedure,
)
