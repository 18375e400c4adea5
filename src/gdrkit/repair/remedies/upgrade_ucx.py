"""The job uses a UCX that detects nvidia-peermem and supports dma-buf."""

from __future__ import annotations

from collections.abc import Iterable

from gdrkit.node import Node, Supposition
from gdrkit.programs.ucx.consumer import UCX
from gdrkit.programs.ucx.facts import ucx_version
from gdrkit.repair.platforms.change import Change
from gdrkit.repair.platforms.program_releases import newer, raise_if_complete
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.rules.remedy_names import RemedyName


def _effect(node: Node) -> Iterable[Supposition]:
    raise_if_complete(UCX, (ucx_version(node),))
    yield ucx_version.becomes(UCX.complete_since)


UPGRADE_UCX = Remedy(
    name=RemedyName.UPGRADE_UCX,
    title=f"use {UCX.modern} in the image or environment of the job",
    effect=_effect,
    changes=Change.JOB,
    becomes="UCX detects nvidia-peermem and supports dma-buf",
    risk="MPI and other programs that bring a UCX of their own do not change",
    undo="install the previous version",
    needs_root=False,
    procedure=newer(UCX),
)
