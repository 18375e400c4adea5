"""SUSE's modprobe, which may refuse modules that SUSE does not support."""

from __future__ import annotations

from gdrkit.facts.machine import distribution
from gdrkit.facts.modprobe_config import NO, Directive, configuration
from gdrkit.node import Node, if_missing


def refusing_unsupported(node: Node) -> Directive | None:
    """The line by which SUSE's modprobe refuses modules that SUSE does not support; None where it loads
    them. The last such line counts, and without one it loads them. Raises EvidenceMissing if there is such
    a line, and it is not known whose modprobe reads it.

    Source: SUSE's kmod, "libkmod: Implement filtering of unsupported modules"; SLES Administration Guide,
    "Managing kernel modules"."""
    if not if_missing(True, is_of_suse, node):
        return None
    lines = configuration(node).allow_unsupported_modules
    return lines[-1] if lines and lines[-1].name in NO and is_of_suse(node) else None


def is_of_suse(node: Node) -> bool:
    """Whether modprobe is SUSE's. Raises EvidenceMissing if the distribution is not known."""
    return "suse" in distribution(node).family
