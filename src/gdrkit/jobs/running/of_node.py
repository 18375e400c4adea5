"""The processes of a node, for commands that judge the node as a whole."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gdrkit.catalogue import every_consumer
from gdrkit.evidence import EvidenceMissing
from gdrkit.facts.commands import MAPPED, RUNNING
from gdrkit.facts.driver import driver_version
from gdrkit.facts.loaded_modules import loaded
from gdrkit.formats.errors import FormatError
from gdrkit.node import Node, if_absent, if_missing
from gdrkit.report.document import ProcessInUse

if TYPE_CHECKING:
    from gdrkit.jobs.running.document import PsDocument


def running(node: Node) -> PsDocument | None:
    """The processes that run, or ran when the evidence was collected; None if no record shows them."""
    from gdrkit.jobs.running.judge import document  # most nodes that are judged have no record
    from gdrkit.jobs.running.record import decode

    try:
        return document(decode(node.run(RUNNING).encode()))
    except (EvidenceMissing, FormatError):
        return None


def direct_processes(node: Node) -> tuple[ProcessInUse, ...]:
    """The processes that are seen to use a direct path."""
    found = running(node)
    return tuple(
        ProcessInUse(
            pid=one.pid, name=one.name, job=one.job.label if one.job.kind else "",
            devices=tuple(held.device for held in one.devices), path=one.verdict.registered_by,
            confidence=one.verdict.confidence, because=one.verdict.because,
        )
        for one in (found.processes if found else ())
        if one.verdict.path == "direct" and one.verdict.confidence is not None
    )  # fmt: skip


USES_CUDA = "nvidia_uvm"
"""Each process with a context of CUDA has /dev/nvidia-uvm open, which counts as a use of this module."""


def programs(node: Node) -> Mapping[str, bool]:
    """Whether a process maps the libraries of each program, without those of which that is not known. Where
    no process uses CUDA, no record of processes is asked for."""
    found = [one for one in every_consumer() if one.mapped]
    if not _may_use_cuda(node):
        return {one.name: False for one in found}
    from gdrkit.jobs.running.record import decode

    try:
        record = decode(node.run(MAPPED).encode())
    except (EvidenceMissing, FormatError):
        return {}
    paths = [library.path for process in record.processes for library in process.libraries]
    seen = {one.name: any(re.search(one.mapped, path) for path in paths) for one in found}
    return seen if record.lists_all() else {name: True for name, runs in seen.items() if runs}


def _may_use_cuda(node: Node) -> bool:
    modules = if_missing(None, loaded, node)
    if modules is None:  # also in a sandbox that shows the driver and no modules
        return if_missing(True, lambda: if_absent("", driver_version, node)) != ""
    return USES_CUDA in modules and modules[USES_CUDA].references != 0


SLOWEST_FIRST = ("socket", "staged", "direct", "host-mapped", "nvlink")


def paths_of_jobs(node: Node) -> dict[str, str]:
    """The slowest path that is seen of each job's processes; a job of which none is known is left out."""
    found = running(node)
    return {
        one.job.label: path
        for one in (found.jobs if found else ())
        if (path := next((path for path in SLOWEST_FIRST if one.paths.get(path)), ""))
    }
