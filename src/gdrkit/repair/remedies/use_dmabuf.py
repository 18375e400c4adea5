"""Programs use dma-buf, and nvidia-peermem is no longer loaded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from gdrkit.facts.driver_files import has_driver_container
from gdrkit.facts.kubernetes import gpu_operator, is_talos
from gdrkit.facts.modules import PEERMEM, is_loaded
from gdrkit.facts.modules_load import autoload
from gdrkit.facts.peermem_container import events
from gdrkit.facts.running_files import is_loaded_for_sure
from gdrkit.facts.talos import module_entries
from gdrkit.node import Node, Supposition, if_missing
from gdrkit.repair.platforms import file_contents
from gdrkit.repair.platforms.action import Action, RemoveFile, RunCommand
from gdrkit.repair.platforms.change import Change
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.module_files import comment_out_autoload
from gdrkit.repair.platforms.platform import Platform
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.rules.remedy_names import RemedyName


def _effect(node: Node) -> Iterable[Supposition]:
    """Under the GPU Operator, rdma.enabled becomes false, and the container that loads it is gone; the
    machine configuration of Talos loses its entry."""
    settings = if_missing(None, gpu_operator, node)
    if settings is not None:
        yield gpu_operator.becomes(replace(settings, rdma_enabled=False))
    if has_driver_container(node):
        yield events.becomes(())
    if is_talos(node):  # it has no modules-load.d
        entries = if_missing((), module_entries, node)
        yield module_entries.becomes(tuple(entry for entry in entries if entry.name != PEERMEM))
    else:
        yield autoload.becomes(tuple(entry for entry in autoload(node) if entry.name != PEERMEM))
    yield is_loaded.becomes(False, PEERMEM)


def _procedure(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Stop loading nvidia-peermem at boot, and unload it, unless a program uses it."""
    del platform, choices
    yield from comment_out_autoload(node, PEERMEM, "do not load it at boot: dma-buf does not need it")
    for path in (file_contents.OPENIBD_DROP_IN, file_contents.PEERMEM_UNIT):
        if if_missing(False, node.exists, path.lstrip("/")):
            yield RemoveFile(path=path, why="it loads nvidia-peermem with OFED")
    if is_loaded_for_sure(node, PEERMEM):
        yield RunCommand(
            argv=("rmmod", PEERMEM),
            why="unload it now; if a program uses it, it stays until the next boot",
            undo=(("modprobe", file_contents.PEERMEM_MODULE),),
            may_fail=True,
        )


USE_DMABUF = Remedy(
    name=RemedyName.USE_DMABUF,
    title="use dma-buf, and stop loading nvidia-peermem",
    effect=_effect,
    changes=Change.WITHOUT_PEERMEM,
    becomes="nvidia-peermem is not loaded, now or at boot; programs use dma-buf where they can",
    risk="programs that support only peermem, such as NCCL before 2.13, lose the direct path",
    undo="add nvidia-peermem to /etc/modules-load.d again",
    paths=("dmabuf",),
    procedure=_procedure,
    commands=("rmmod nvidia_peermem", "modprobe nvidia-peermem"),
)
