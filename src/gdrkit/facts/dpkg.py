"""dpkg's own files: which packages are installed, and which of them owns a file. No program is needed.

Sources: dpkg(1), FILES; deb822(5); dpkg lib/dpkg/dbdir.c. The list of one package's files is
info/<package>.list, with ":<architecture>" after the name where several can be installed side by side.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from gdrkit.evidence import EvidenceAbsent, EvidenceMissing, Missing, MissingReason
from gdrkit.evidence.quoting import quoted
from gdrkit.formats.errors import FormatError
from gdrkit.formats.regex import regex
from gdrkit.node import Node, fact, if_absent

STATUS = "var/lib/dpkg/status"
LISTS = "var/lib/dpkg/info"

_OWNERS = regex(r"nvidia|linux-(?:image|modules)|dkms|mlnx|ofed|ibverbs|rdma|nccl|cuda")
"""Packages that can own the modules and libraries that facts ask about. `dpkg -S` covers all others."""


_VERSION = regex(rb"\nVersion: (\S+)")
_INSTALLED = regex(rb"\nStatus: \S+ \S+ installed\b")
_USUAL = b"\nStatus: install ok installed\n"
"""The status of nearly every package: a search for these bytes takes a tenth of that for an expression."""


class DpkgVersions(Mapping[str, str]):
    """The version of each installed package. A record of the status file is read when it is asked for, since
    few of thousands are needed. Raises FormatError for a name that no package has: dpkg then reads none,
    lib/dpkg/pkg-spec.c, pkg_name_is_illegal()."""

    def __init__(self, status: bytes) -> None:
        self._status = status
        self._starts: dict[str, int] = {}
        for found in re.finditer(rb"\nPackage: (\S+)\n", status):
            if not found[1].isascii():
                raise FormatError(f"not the name of a package: {found[1]!r}")
            self._starts.setdefault(found[1].decode(), found.start())

    def __getitem__(self, name: str) -> str:
        version = self._version(self._starts[name])
        if version is None:
            raise KeyError(name)
        return version[1].decode("utf-8", "replace")

    def _version(self, start: int) -> re.Match[bytes] | None:
        """The version in the record that starts there; None for a package that was removed, and whose
        configuration is kept."""
        end = self._status.find(b"\n\n", start + 1)
        if end < 0:
            end = len(self._status)
        usual = self._status.find(_USUAL, start, end) >= 0
        if not usual and not _INSTALLED.search(self._status, start, end):
            return None
        return _VERSION.search(self._status, start, end)

    def __iter__(self) -> Iterator[str]:
        for package, start in self._starts.items():
            if self._version(start) is not None:
                yield package

    def __len__(self) -> int:
        return sum(1 for _ in self)


@fact
def versions(node: Node) -> DpkgVersions:
    """The version of each installed package. Raises EvidenceAbsent on a system without dpkg.

    A bundle keeps only the packages of GPU, network and kernel."""
    status = b"\n" + node.read(STATUS)
    if b"\nPackage: " not in status:
        raise FormatError("no package listed")
    return DpkgVersions(status)


@fact
def owner_by_lists(node: Node, path: str) -> str:
    """The package that lists a file, of those in `_OWNERS`. Raises EvidenceMissing where none of them does.

    A list names the file as it was packed. Before /usr was merged, the path may be without "usr"."""
    spellings = {f"/{path}".encode(), f"/{path.removeprefix('usr/')}".encode(), f"/usr/{path}".encode()}
    for name in if_absent((), node.list, LISTS):
        if name.endswith(".list") and _OWNERS.search(name):
            content = b"\n%s\n" % node.read(f"{LISTS}/{name}")
            if any(b"\n%s\n" % spelling in content for spelling in spellings):
                node.cite(f"{LISTS}/{name}", text=path)
                return name.removesuffix(".list").partition(":")[0]
    raise EvidenceMissing(
        Missing(f"owner of {path}", MissingReason.NOT_COLLECTED, f"dpkg -S {quoted(f'/{path}')}")
    )


def version(node: Node, package: str) -> str:
    """The version of one installed package. Raises EvidenceAbsent if it is not installed."""
    found = versions(node).get(package)
    if found is None:
        raise EvidenceAbsent(
            Missing(f"{STATUS} ({package})", MissingReason.ABSENT, f"dpkg -s {quoted(package)}")
        )
    return found
