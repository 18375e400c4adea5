"""nvidia-peermem is loaded at each boot, not only by hand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from gdrkit.facts.modprobe_config import configuration
from gdrkit.facts.modules import PEERMEM
from gdrkit.facts.modules_load import AutoLoad, autoload
from gdrkit.node import Node, Supposition
from gdrkit.repair.platforms import file_contents
from gdrkit.repair.platforms.action import Action, WriteFile
from gdrkit.repair.platforms.change import Change
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.module_files import off_the_blacklist
from gdrkit.repair.platforms.platform import Platform
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.rules.remedy_names import RemedyName


def _effect(node: Node) -> Iterable[Supposition]:
    known = configuration(node)
    allowed = tuple(entry for entry in known.blacklist if entry.name != PEERMEM)
    yield configuration.becomes(replace(known, blacklist=allowed))
    yield autoload.becomes((*autoload(node), AutoLoad(PEERMEM, file_contents.MODULES_LOAD.lstrip("/"), 2)))


def _procedure(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Load nvidia-peermem at each boot: it is loaded, but only by hand."""
    del platform, choices
    yield from off_the_blacklist(node)
    yield WriteFile(
        path=file_contents.MODULES_LOAD,
        content=file_contents.modules_load(file_contents.PEERMEM_MODULE),
        why=f"load {PEERMEM} at each boot",
    )


PERSIST_PEERMEM = Remedy(
    name=RemedyName.PERSIST_PEERMEM,
    title="load nvidia-peermem at each boot",
    effect=_effect,
    changes=Change.PEERMEM,
    becomes="each boot loads nvidia-peermem",
    risk="OFED cannot be restarted while it is loaded",
    undo="remove the line from /etc/modules-load.d",
    paths=("peermem",),
    procedure=_procedure,
)
