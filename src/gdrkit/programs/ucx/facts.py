"""The UCX that is installed."""

from __future__ import annotations

import re

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.facts import packages
from gdrkit.facts.commands import UCX_INFO
from gdrkit.facts.libraries import FOLDERS, MORE_FOLDERS, find
from gdrkit.facts.wheels import LibraryCopy, installed_wheels
from gdrkit.formats.errors import FormatError
from gdrkit.formats.versions import numbers
from gdrkit.node import Node, each_known, fact, first_collected, if_absent, if_missing


def _library(node: Node) -> str:
    return find(node, "libucp.so.0", (*FOLDERS, *MORE_FOLDERS))


def is_absent(node: Node) -> bool:
    """Whether UCX is known not to be installed, so that ucx_info need not be run to see it."""
    return if_missing(False, lambda: if_absent(None, _library, node) is None)


@fact
def ucx_version(node: Node) -> str:
    """The version of the installed UCX, by its pkg-config file, its package or ucx_info.

    Raises EvidenceAbsent if UCX is not installed. The library's file name does not show its version.
    """

    def pkg_config() -> str:
        paths = (f"{folder}/pkgconfig/ucx.pc" for folder in (*FOLDERS, *MORE_FOLDERS))
        for text in each_known(node.text, paths):
            found = re.search(r"^Version: *(\d+\.\d+\.\d+)", text, re.MULTILINE)
            if found:
                return found[1]
        raise EvidenceMissing(Missing("libucp", MissingReason.NOT_COLLECTED, UCX_INFO.line))

    def package() -> str:
        # UCX can be installed without a package.
        known = if_missing({}, packages.installed, node)
        for name in ("ucx", "libucx0"):
            if name in known and len(numbers(known[name].version)) >= 2:
                return ".".join(map(str, numbers(known[name].version)[:3]))
        raise EvidenceMissing(Missing("libucp", MissingReason.NOT_COLLECTED, UCX_INFO.line))

    def library() -> str:
        """Raises EvidenceAbsent where the library is not installed, which ends the search."""
        _library(node)
        raise EvidenceMissing(Missing("libucp", MissingReason.NOT_COLLECTED, UCX_INFO.line))

    def ucx_info() -> str:
        found = re.search(r"(?:Version|version=|Library version:) *(\d+\.\d+\.\d+)", node.run(UCX_INFO))
        if found is None:
            raise FormatError("no version in the output of ucx_info")
        return found[1]

    return first_collected(pkg_config, package, library, ucx_info)


def ucx_wheels(node: Node) -> tuple[LibraryCopy, ...]:
    """The wheels of UCX in the Python environments that are known: libucx_cu12-1.22.0.dist-info, with the
    package libucx."""
    return tuple(installed_wheels(node, r"libucx_cu[0-9]{2}", ("libucx",)))
