"""nvidia-peermem is loaded, now and at each boot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.facts.driver_files import peermem_path
from gdrkit.facts.linkage import symbol_links
from gdrkit.facts.modules import PEERMEM, is_loaded
from gdrkit.facts.modules_load import autoload
from gdrkit.facts.peer_memory import CLIENT, MemoryPeer, memory_peers
from gdrkit.facts.running_files import OPENIBD, is_loaded_for_sure
from gdrkit.facts.secure_boot import signatures_needed
from gdrkit.facts.trust import signature_check
from gdrkit.node import Node, Supposition, if_absent, if_missing
from gdrkit.repair.platforms import file_contents
from gdrkit.repair.platforms.action import Action, RunCommand, WriteFile
from gdrkit.repair.platforms.change import Change
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.module_files import off_the_blacklist
from gdrkit.repair.platforms.platform import Platform
from gdrkit.repair.remedies.predicted_load import loaded_afterwards
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.repair.remedies.restart_ofed import waits_for_restart
from gdrkit.rules.module_subjects import file_name
from gdrkit.rules.remedy_names import RemedyName


def _effect(node: Node) -> Iterable[Supposition]:
    """Only possible if modprobe is not predicted to fail: other problems have to be fixed first."""
    loaded = loaded_afterwards(node, PEERMEM)
    if waits_for_restart(node):
        raise EvidenceMissing(Missing("OFED's running modules", MissingReason.ABSENT, "restart OFED first"))
    _not_stale(lambda: symbol_links(node, file_name(node)))
    if if_missing(False, signatures_needed, node):
        _not_stale(lambda: signature_check(node, peermem_path(node)))
    yield is_loaded.becomes(loaded, PEERMEM)
    if (name := file_name(node)) != PEERMEM:
        yield is_loaded.becomes(loaded, name)
    peers = if_absent(None, memory_peers, node)
    if peers is not None:  # an RDMA core without that folder does not create it
        registered = (*peers, MemoryPeer(CLIENT, "", {}))
        yield memory_peers.becomes(loaded if isinstance(loaded, Missing) else registered)


def _not_stale(ask: Callable[[], object]) -> None:
    """Raise if an earlier step made an answer uncertain: a new OFED needs a build, a build a signature."""
    try:
        ask()
    except EvidenceMissing as error:
        if error.missing.why is MissingReason.STALE:
            raise


def _procedure(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Load nvidia-peermem at boot (modules-load.d, and a unit beside OFED's), and now."""
    del platform, choices
    yield from off_the_blacklist(node)
    if not any(entry.name == PEERMEM for entry in autoload(node)):
        content = file_contents.modules_load(file_contents.PEERMEM_MODULE)
        yield WriteFile(path=file_contents.MODULES_LOAD, content=content, why="load it at each boot")
    if if_missing(False, node.exists, OPENIBD):
        yield WriteFile(
            path=file_contents.PEERMEM_UNIT,
            content=file_contents.peermem_unit(),
            why="unload it while OFED restarts",
        )
        yield WriteFile(
            path=file_contents.OPENIBD_DROP_IN,
            content=file_contents.openibd_drop_in(),
            why="start the unit with OFED",
        )
        yield RunCommand(argv=("systemctl", "daemon-reload"), why="make systemd read the units", again=True,
                         never_executed=True)  # fmt: skip
    yield RunCommand(
        argv=("modprobe", file_contents.PEERMEM_MODULE),
        why="load it now",
        undo=()
        if is_loaded_for_sure(node, PEERMEM)
        else (("rmmod", PEERMEM),),  # -r would also unload the driver
    )


LOAD_PEERMEM = Remedy(
    name=RemedyName.LOAD_PEERMEM,
    title="load nvidia-peermem now, and at each boot",
    effect=_effect,
    changes=Change.PEERMEM,
    becomes="nvidia-peermem is loaded, now and at each boot",
    risk="OFED cannot be restarted while it is loaded",
    undo="sudo rmmod nvidia_peermem, and remove the line from /etc/modules-load.d",
    paths=("peermem",),
    procedure=_procedure,
    commands=("systemctl daemon-reload", "modprobe nvidia-peermem", "rmmod nvidia_peermem"),
)
