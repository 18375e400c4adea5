"""What the kernel's log of this boot holds on NVIDIA's modules: a witness, silent only where it is whole."""

from __future__ import annotations

import re

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.facts import kernel_log, modules
from gdrkit.facts.commands import DMESG
from gdrkit.facts.driver import driver_parameters, driver_version
from gdrkit.facts.kernel_log import KernelLogLine
from gdrkit.facts.peer_memory import peermem_linkage
from gdrkit.node import Node, if_missing, observation


@observation(modules.is_loaded, modules.module_path, driver_version, driver_parameters, peermem_linkage)
def last_line(node: Node, pattern: str) -> KernelLogLine | None:
    """The last line of the kernel's log in which a regular expression is found; None if there is none.

    Raises EvidenceMissing where the log is not to be had, or does not reach back to boot and so cannot be
    silent.
    """
    log = kernel_log.lines(node)
    for line in reversed(log.lines):
        if re.search(pattern, line.text):
            node.cite(log.source, text=line.text, line=line.number)
            return line
    if not log.complete:
        raise EvidenceMissing(
            Missing(log.source, MissingReason.TRUNCATED, f"journalctl -k -b | grep -E '{pattern}'")
        )
    node.cite(DMESG.line, text=f"no line with {pattern}")
    return None


def last_line_if_any(node: Node, pattern: str) -> KernelLogLine | None:
    """The same, where the log only adds to what other facts settle: None also where it cannot be had."""
    return if_missing(None, last_line, node, pattern)
