"""Names of kernel modules."""

from __future__ import annotations


def canonical(name: str) -> str:
    """A module's name as the kernel spells it: dashes are underscores. Source: kmod, modname_normalize()."""
    return name.replace("-", "_")
