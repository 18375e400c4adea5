"""The job uses an NVSHMEM that detects nvidia-peermem wherever it is loaded."""

from __future__ import annotations

from collections.abc import Iterable

from gdrkit.facts.wheels import LibraryCopy
from gdrkit.node import Node, Supposition
from gdrkit.programs.nvshmem.consumer import NVSHMEM
from gdrkit.programs.nvshmem.facts import nvshmem_copies
from gdrkit.repair.platforms.change import Change
from gdrkit.repair.platforms.program_releases import newer, raise_if_complete
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.rules.remedy_names import RemedyName


def _effect(node: Node) -> Iterable[Supposition]:
    raise_if_complete(NVSHMEM, (copy.version for copy in nvshmem_copies(node)))
    yield nvshmem_copies.becomes((LibraryCopy(NVSHMEM.complete_since, "the newer NVSHMEM"),))


UPGRADE_NVSHMEM = Remedy(
    name=RemedyName.UPGRADE_NVSHMEM,
    title=f"use {NVSHMEM.modern} in the image or environment of the job",
    effect=_effect,
    changes=Change.JOB,
    becomes="NVSHMEM detects nvidia-peermem wherever it is loaded",
    risk="programs that contain NVSHMEM's device code, such as DeepEP, must be built again",
    undo="install the previous version",
    needs_root=False,
    procedure=newer(NVSHMEM),
)
