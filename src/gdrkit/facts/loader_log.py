"""What the kernel's log says of modules: every line of the module loader's that is known."""

from __future__ import annotations

import functools

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.facts import kernel_log
from gdrkit.facts.keyrings import enrolled_keys
from gdrkit.facts.linkage import links
from gdrkit.facts.modprobe_config import configuration
from gdrkit.facts.modules import module_path
from gdrkit.facts.secure_boot import signatures_enforced
from gdrkit.facts.trust import signature, standing, verified_by
from gdrkit.messages import kernel, modprobe
from gdrkit.messages.message import Match, MessageMatcher
from gdrkit.node import Node, observation


@functools.cache
def _loading() -> MessageMatcher:
    return MessageMatcher((*kernel.ROWS, *modprobe.LOADERS))


@observation(
    links, standing, verified_by, signature, signatures_enforced, configuration, module_path, enrolled_keys
)
def load_lines(node: Node) -> tuple[Match, ...]:
    """What the kernel's log says of modules, in order. It saw what was there when they were loaded."""
    log = kernel_log.lines(node)
    found = (_loading().match(line.text, line.number) for line in log.lines)
    return tuple(line for line in found if line is not None)


def silent(node: Node, module: str) -> bool:
    """Whether the kernel's log says nothing of why it refused a module, taint aside.

    Only a log that is whole can be silent: raises EvidenceMissing for any other.
    """
    refusals = [line for line in load_lines(node) if line.causes]
    if any(line.values.get("module") in (None, module) for line in refusals):
        return False
    if not kernel_log.lines(node).complete:
        raise EvidenceMissing(Missing("dmesg (from boot)", MissingReason.TRUNCATED, "sudo dmesg"))
    return True
