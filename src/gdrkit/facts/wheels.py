"""Programs in Python environments: the wheels that are installed, with their versions."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from gdrkit.evidence import EvidenceAbsent, EvidenceMissing, Missing, MissingReason
from gdrkit.evidence.quoting import quoted
from gdrkit.formats.regex import regex
from gdrkit.node import Node, fact, if_absent, if_missing


class LibraryCopy(Struct, frozen=True):
    """One copy of a library, and where its version was read."""

    version: str
    source: str
    one_of: str = ""  # a folder that names several versions, of which it can hold only one


def certain_of(
    copies: tuple[LibraryCopy, ...], affected: tuple[LibraryCopy, ...]
) -> tuple[LibraryCopy, ...]:
    """Those of the affected copies that are certainly there: all versions that their folder names are
    affected. Raises EvidenceMissing if any other one would be the only copy, so that it matters."""
    others = tuple(copy for copy in copies if copy not in affected)
    doubted = {copy.one_of for copy in others} - {""}
    certain = tuple(copy for copy in affected if copy.one_of not in doubted)
    if affected and not certain and {copy.one_of for copy in others} == doubted and len(doubted) == 1:
        first = affected[0]
        ask = f"ls -l {quoted(f'/{first.one_of}')}; pip check"
        raise EvidenceMissing(Missing(f"version in {first.one_of}", MissingReason.UNDECIDED, ask))
    return certain


@fact
def torch_copies(node: Node) -> tuple[LibraryCopy, ...]:
    """Every known PyTorch. Raises EvidenceMissing where none is known, since images bring their own."""
    try:
        return wheels(node, "PyTorch", "torch", "torch")
    except EvidenceAbsent as error:
        raise EvidenceMissing(
            Missing("version of PyTorch", MissingReason.UNDECIDED, error.missing.ask)
        ) from error


_PYTHON = ("usr/lib", "usr/local/lib", "opt/conda/lib", "opt/venv/lib")
"""Where Python environments are."""


def wheels(node: Node, title: str, name: str, *packages: str) -> tuple[LibraryCopy, ...]:
    """The wheels of this name in the Python environments that are known, with their whole versions.

    Raises EvidenceAbsent if there are none, and EvidenceMissing if there may be one in a folder that was not
    collected, or if its packages are there and their metadata is not."""
    found = tuple(installed_wheels(node, name, packages))
    if not found:
        ask = f"pip list | grep -i {quoted(title.lower())}"
        for folder in (*_PYTHON, *_python_folders(node)):
            try:
                names = if_absent((), node.list, folder)
            except EvidenceMissing as error:
                raise EvidenceMissing(Missing(title, error.missing.why, ask)) from error
            if not set(packages).isdisjoint(names):
                raise EvidenceMissing(Missing(f"version of {title}", MissingReason.UNDECIDED, ask))
        raise EvidenceAbsent(Missing(title, MissingReason.ABSENT, ask))
    return found


def installed_wheels(node: Node, name: str, packages: tuple[str, ...]) -> Iterator[LibraryCopy]:
    """The distributions of this name whose metadata is beside one of their packages.

        deep_ep-1.2.1+9af0e0d.dist-info          of pip
        deep_ep-1.2.1+9af0e0d-py3.12-linux-x86_64.egg    of `setup.py install`, with the packages inside

    Metadata alone is what an unfinished removal left. The local part of a version, after a +, is left out:
    PEP 440. Each name of a folder is collected, but not what is in each."""
    for folder in _python_folders(node):
        names = _if_seen(node, folder)
        beside = any(_may_exist(node, folder, names, package) for package in packages)
        found = [
            LibraryCopy(match["version"], f"{folder}/{match[0]}")
            for match in _distributions(node, folder)
            if re.fullmatch(name, match["name"])
            and (beside or match[0].endswith(".egg") or _edited(names, match[0]))
        ]
        several = len({copy.version for copy in found}) > 1
        yield from (LibraryCopy(copy.version, copy.source, folder) if several else copy for copy in found)


_METADATA = regex(
    r"(?P<name>[^-]+)-(?P<version>[0-9][0-9a-z.]{0,30})(?:\+[\w.]{1,60})?"
    r"(?:\.dist-info|(?:-py3\.[0-9]{1,2}(?:-[\w.-]{1,40})?)?\.egg(?:-info)?)"
)


@fact
def _distributions(node: Node, folder: str) -> tuple[re.Match[str], ...]:
    """The metadata of every distribution in a folder, read once for all programs."""
    return tuple(filter(None, map(_METADATA.fullmatch, _if_seen(node, folder))))


def _may_exist(node: Node, folder: str, names: tuple[str, ...], package: str) -> bool:
    """Whether a folder contains a package, directly or inside one whose content is not listed."""
    top, _, inner = package.partition("/")
    return top in names and (not inner or if_missing(True, node.exists, f"{folder}/{package}"))


def _edited(names: tuple[str, ...], entry: str) -> bool:
    """Whether the packages are elsewhere: `pip install -e` writes __editable__.NAME-VERSION.pth."""
    name = entry.partition("-")[0]
    return any(other.startswith((f"__editable__.{name}-", f"__editable___{name}_")) for other in names)


def _python_folders(node: Node) -> list[str]:
    """Folders of Python packages in the environments that are known."""
    found = []
    for base in _PYTHON:
        for name in _if_seen(node, base):
            if re.fullmatch(r"python3(\.\d+)?", name):
                found += [f"{base}/{name}/dist-packages", f"{base}/{name}/site-packages"]
    return found


def _if_seen(node: Node, folder: str) -> tuple[str, ...]:
    """Names in a folder; () also where it was not collected, as Python environments are optional
    evidence."""
    return if_missing((), node.list, folder)
