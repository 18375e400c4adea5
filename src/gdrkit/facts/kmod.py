"""The version of kmod, the package of modprobe. Its messages differ a little between versions."""

from __future__ import annotations

from collections.abc import Mapping

from gdrkit.evidence import Confidence, EvidenceMissing, Missing, MissingReason
from gdrkit.facts import dpkg
from gdrkit.facts.kernel import distribution
from gdrkit.facts.newest_read import cite_if_newer
from gdrkit.formats.versions import numbers
from gdrkit.node import Node, fact, first_of, likely

# Version by release. Sources: packages.debian.org, launchpad.net, distrowatch's tables for Red Hat.
_OF_RELEASES = {
    ("debian", "11"): 28,
    ("debian", "12"): 30,
    ("debian", "13"): 34,
    ("ubuntu", "20.04"): 27,
    ("ubuntu", "22.04"): 29,
    ("ubuntu", "24.04"): 31,
    ("rhel", "8"): 25,
    ("rhel", "9"): 28,
}
# Where command_do() reports a failed command: libkmod/libkmod-module.c at the tags v27 to v33.
_COMMAND_LINES = {27: 990, 28: 990, 29: 990, 30: 1047, 31: 1084, 32: 1084, 33: 1072}
# Likewise for kmod_module_parse_depline() and kmod_module_insert_module().
_DEPENDENCY_LINES = {27: 191, 28: 191, 29: 191, 30: 191, 31: 191, 32: 191, 33: 177}
_INSERTION_LINES = {27: 838, 28: 838, 29: 838, 30: 895, 31: 968, 32: 968, 33: 956}
# Likewise for index_mm_open(): libkmod/libkmod-index.c at the tag v30.
_INDEX_LINES: Mapping[str, Mapping[int, int]] = {"magic": {30: 790}, "major": {30: 797}}
_NO_POSITION = 34
# Likewise for the complaints about modprobe.d: libkmod/libkmod-config.c at the tag v30.
_CONFIG_LINES: Mapping[str, Mapping[int, int]] = {
    "bad-line": {30: 712},
    "old-command": {30: 708},
    "folder": {30: 772},
}


@fact
def kmod_version(node: Node) -> int:
    """The version of kmod. Raises EvidenceMissing where neither a package nor the distribution shows it."""

    def the_package() -> int:
        found = numbers(dpkg.version(node, "kmod"))
        if not found:
            raise EvidenceMissing(Missing("kmod", MissingReason.UNDECIDED, "modprobe --version"))
        return found[0]

    def the_distribution() -> int:
        found = distribution(node)
        release = found.version if found.id in ("debian", "ubuntu") else found.version.split(".")[0]
        for family in (found.id, *found.like):
            if (family, release) in _OF_RELEASES:
                return _OF_RELEASES[family, release]
        raise EvidenceMissing(Missing("kmod", MissingReason.UNDECIDED, "modprobe --version"))

    return first_of(the_package, likely(node, the_distribution))


@fact
def command_place(node: Node) -> str:
    """The prefix of modprobe's message about a failed command: the position in its source, or nothing."""
    return _source_position(node, "command_do", _COMMAND_LINES)


@fact
def dependency_place(node: Node) -> str:
    """The same, of its message about a dependency whose file is not there."""
    return _source_position(node, "kmod_module_parse_depline", _DEPENDENCY_LINES)


@fact
def insertion_place(node: Node) -> str:
    """The same, of its message that the module to insert has no file."""
    return _source_position(node, "kmod_module_insert_module", _INSERTION_LINES)


@fact
def index_place(node: Node, complaint: str) -> str:
    """The same, of its complaint about an index, which begins with its magic or its major version."""
    return _source_position(node, "index_mm_open", _INDEX_LINES[complaint.split()[0]], "index")


def _source_position(node: Node, function: str, lines: Mapping[int, int], file: str = "module") -> str:
    """Only Debian and Ubuntu print it, which build kmod with --enable-debug: kmod tools/log.c, log_kmod().
    Since 34 they build it with meson, whose option debug-messages is off: Debian 13 prints none."""
    if distribution(node).family.isdisjoint(("debian", "ubuntu")):
        return ""
    if kmod_version(node) >= _NO_POSITION:
        if kmod_version(node) > _NO_POSITION:
            cite_if_newer(node, "kmod", str(kmod_version(node)))
        return ""
    line = lines.get(kmod_version(node))
    if line is None:
        node.cite("kmod", text="another version", confidence=Confidence.LIKELY)
        return ""
    return f"../libkmod/libkmod-{file}.c:{line} {function}() "


@fact
def assumed_version(node: Node) -> int:
    """The version of kmod; where it is not known, one of today, with less confidence."""
    try:
        return kmod_version(node)
    except EvidenceMissing:
        node.cite("kmod", text="a version that is not known", confidence=Confidence.LIKELY)
        return _NO_POSITION


@fact
def config_place(node: Node, function: str, complaint: str) -> str:
    """The prefix of a complaint about modprobe's configuration: kmod libkmod.c, log_filep()."""
    version = assumed_version(node)
    if version >= _NO_POSITION:
        return f"libkmod: ERROR: {function}: "
    line = _CONFIG_LINES[complaint].get(version)
    if line is None:
        node.cite("kmod", text="another version", confidence=Confidence.LIKELY)
    if line is None or distribution(node).family.isdisjoint(("debian", "ubuntu")):
        return f"libkmod: {function}: "
    return f"libkmod: ERROR ../libkmod/libkmod-config.c:{line} {function}: "
