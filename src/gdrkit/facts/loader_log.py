"""The module loader's lines in the kernel's log."""

from __future__ import annotations

import functools

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.facts import kernel_log
from gdrkit.facts.keyrings import enrolled_keys
from gdrkit.facts.linkage import symbol_links
from gdrkit.facts.modprobe_config import configuration
from gdrkit.facts.modules import module_path
from gdrkit.facts.secure_boot import signatures_enforced
from gdrkit.facts.trust import signature, signature_check, verified_by
from gdrkit.messages import kernel, modprobe
from gdrkit.messages.message import Match, MessageMatcher
from gdrkit.node import Node, observation


@functools.cache
def _loading() -> MessageMatcher:
    return MessageMatcher((*kernel.ROWS, *modprobe.LOADERS))


@observation(
    symbol_links,
    signature_check,
    verified_by,
    signature,
    signatures_enforced,
    configuration,
    module_path,
    enrolled_keys,
)
def load_lines(node: Node) -> tuple[Match, ...]:
    """Known lines of the module loader in the kernel's log, in order.

    They show the modules, keys and settings of the time when a module was loaded.
    """
    log = kernel_log.lines(node)
    found = (_loading().match(line.text, line.number) for line in log.lines)
    return tuple(line for line in found if line is not None)


def silent(node: Node, module: str) -> bool:
    """Whether the kernel's log has no line on why it refused a module; lines about taint do not count.

    Raises EvidenceMissing if the log lacks the line but is incomplete.
    """
    refusals = [line for line in load_lines(node) if line.causes]
    if any(line.values.get("module") in (None, module) for line in refusals):
        return False
    if not kernel_log.lines(node).complete:
        raise EvidenceMissing(Missing("dmesg (from boot)", MissingReason.TRUNCATED, "sudo dmesg"))
    return True
