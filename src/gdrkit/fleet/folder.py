"""The nodes in a folder: bundles, sosreports, bug reports and unpacked trees."""

from __future__ import annotations

import os
from collections.abc import Iterable

from gdrkit.evidence.errors import TargetError
from gdrkit.fleet.hostlist import NODES_LIMIT, natural

TREE_SIGNS = frozenset(("gdr_manifest.json", "proc", "sys", "sos_commands", "sos_reports"))
"""A folder that has one of these is the evidence of one node: docs/bundles.md, and sos(1)."""
_NOT_EVIDENCE = (".md5", ".sha256", ".sha512", ".asc", ".sig", ".txt", ".json", ".csv", ".md", ".part")
"""What lies beside evidence: sums, signatures, notes, results."""


def targets(paths: Iterable[str]) -> list[str]:
    """The evidence in these files and folders, each once, by absolute paths. A file that a user names is
    always one of it."""
    found: dict[str, None] = {}
    for path in map(os.path.abspath, paths):
        found.update(dict.fromkeys(targets_in(path) if os.path.isdir(path) else [path]))
    return list(found)


def targets_in(folder: str) -> list[str]:
    """The evidence in a folder and its subfolders, sorted; a folder that is one node is one target.

    Links are followed only to files. A subfolder that cannot be read is a target too. Raises TargetError if
    there is none or the folder itself is not readable."""
    if is_tree(folder):
        return [folder]
    found: list[str] = []
    waiting = [folder]
    while waiting:
        place = waiting.pop()
        try:
            entries = list(os.scandir(place))
        except OSError as error:
            if place == folder:
                raise TargetError(f"{place}: {(error.strerror or str(error)).lower()}") from None
            found.append(place)  # who judges it says why it cannot be read
            continue
        for entry in entries:
            if entry.name.startswith(".") or entry.name.lower().endswith(_NOT_EVIDENCE):
                continue
            if entry.is_dir(follow_symlinks=False):
                (found if is_tree(entry.path) else waiting).append(entry.path)
            elif _is_file(entry):
                found.append(entry.path)
        if len(found) + len(waiting) > NODES_LIMIT:
            raise TargetError(f"{folder}: more than {NODES_LIMIT} files")
    if not found:
        raise TargetError(f"{folder}: no bundle or sosreport", "gdr collect writes a bundle")
    return sorted(found, key=natural)


def _is_file(entry: os.DirEntry[str]) -> bool:
    """Whether it is a file, or cannot be known to be none."""
    try:
        return entry.is_file()
    except OSError:
        return True


def is_tree(folder: str) -> bool:
    """Whether a folder is the evidence of one node, and not a folder of evidence."""
    try:
        with os.scandir(folder) as entries:
            return any(entry.name in TREE_SIGNS for entry in entries)
    except OSError:
        return False
