"""The UCX that is installed."""

from __future__ import annotations

import re

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.facts import packages
from gdrkit.facts.commands import UCX_INFO
from gdrkit.facts.libraries import FOLDERS, MORE_FOLDERS, find
from gdrkit.facts.wheels import LibraryCopy, installed_wheels
from gdrkit.formats.errors import FormatError
from gdrkit.formats.regex import regex
from gdrkit.formats.versions import numbers
from gdrkit.node import Node, fact, first_collected, if_absent, if_missing

_FOLDERS = (*FOLDERS, *MORE_FOLDERS)
_NUMBERS = r"(\d{1,4}\.\d{1,4}\.\d{1,4})(?!\d)"  # more digits would pass for the newest of all versions
_PKG_CONFIG = regex(rf"^Version: *{_NUMBERS}", re.MULTILINE)
_PRINTED = regex(rf"(?:Version|version=|Library version:) *{_NUMBERS}")


def _library(node: Node) -> str:
    return find(node, "libucp.so.0", _FOLDERS)


def is_absent(node: Node) -> bool:
    """Whether UCX is known not to be installed, so that ucx_info need not be run to see it."""
    return if_missing(False, lambda: if_absent(None, _library, node) is None)


@fact
def ucx_version(node: Node) -> str:
    """The version of the installed UCX, by its pkg-config file, its package or ucx_info.

    Raises EvidenceAbsent if UCX is not installed. The library's file name does not show its version.
    """

    def pkg_config() -> str:
        for folder in _FOLDERS:
            path = f"{folder}/pkgconfig/ucx.pc"
            if found := _PKG_CONFIG.search(if_missing("", node.text, path)):
                _require_agreement(node, path, f"# Library version: {found[1]}\n# Library path: /{folder}/")
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
        found = _PRINTED.search(node.run(UCX_INFO))
        if found is None:
            raise FormatError("no version in the output of ucx_info")
        return found[1]

    return first_collected(pkg_config, package, library, ucx_info)


def _require_agreement(node: Node, path: str, expected: str) -> None:
    """Raises EvidenceMissing where ucx_info printed another version of the same folder's library. A live
    machine does not run it for this."""
    printed = "" if node.host.source == "live" else if_missing("", node.run, UCX_INFO)
    if expected.partition("\n")[2] in printed and expected not in printed:
        raise EvidenceMissing(Missing(f"{path}, {UCX_INFO.line}", MissingReason.UNDECIDED, UCX_INFO.line))


def ucx_wheels(node: Node) -> tuple[LibraryCopy, ...]:
    """The wheels of UCX in the Python environments that are known: libucx_cu12-1.22.0.dist-info, with the
    package libucx."""
    return tuple(installed_wheels(node, r"libucx_cu[0-9]{2}", ("libucx",)))
