"""Lines of this boot's kernel log about NVIDIA's modules. Only a complete log shows that there is none."""

from __future__ import annotations

import re

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.evidence.quoting import quoted
from gdrkit.facts import kernel_log, modules
from gdrkit.facts.commands import DMESG
from gdrkit.facts.driver import driver_parameters, driver_version
from gdrkit.facts.kernel_log import KernelLogLine
from gdrkit.facts.peer_memory import peermem_linkage
from gdrkit.node import Node, fact, if_missing, observation

_LOADS = "NVRM: loading NVIDIA UNIX"
"""Printed whenever nvidia.ko has started, after it probed its GPUs: kernel-open/nvidia/nv.c,
nvidia_init_module()."""
_STARTS = "nvidia-nvlink: Nvlink Core is being initialized"
"""Printed before: kernel-open/nvidia/nvlink_linux.c, nvlink_core_init()."""
_UNLOADED = "nvidia-nvlink: Unregistered Nvlink Core"
"""Printed whenever nvidia.ko goes: kernel-open/nvidia/nvlink_linux.c, nvlink_drivers_exit()."""


@fact
def since_driver_load(node: Node) -> tuple[KernelLogLine, ...]:
    """The lines of the kernel log since nvidia.ko was loaded or unloaded last; all of them if no line shows
    that. Raises EvidenceMissing where the log is not available."""
    return after_driver_load(kernel_log.lines(node).lines)


def after_driver_load(lines: tuple[KernelLogLine, ...]) -> tuple[KernelLogLine, ...]:
    """The lines after the last one that nvidia.ko prints when it starts or goes; all of them without one."""
    marks = (_STARTS, _LOADS, _UNLOADED)
    found = [index for index, line in enumerate(lines) if line.text.startswith(marks)]
    if not found:
        return lines
    *before, last = found
    probed = before and lines[last].text.startswith(_LOADS) and lines[before[-1]].text.startswith(_STARTS)
    return lines[(before[-1] if probed else last) + 1 :]


@observation(modules.is_loaded, modules.module_path, driver_version, driver_parameters, peermem_linkage)
def last_line(node: Node, pattern: str) -> KernelLogLine | None:
    """The last line of the kernel's log that a regular expression matches; None if there is none.

    Raises EvidenceMissing where the log is not available, or where no line matches and the log does not
    reach back to boot.
    """
    log = kernel_log.lines(node)
    for line in reversed(log.lines):
        if re.search(pattern, line.text):
            node.cite(log.source, text=line.text, line=line.number)
            return line
    if not log.complete:
        raise EvidenceMissing(
            Missing(log.source, MissingReason.TRUNCATED, f"journalctl -k -b | grep -E {quoted(pattern)}")
        )
    node.cite(DMESG.line, text=f"no line with {pattern}")
    return None


def last_line_if_any(node: Node, pattern: str) -> KernelLogLine | None:
    """The same, but None where the log is not available, for callers that can do without it."""
    return if_missing(None, last_line, node, pattern)
