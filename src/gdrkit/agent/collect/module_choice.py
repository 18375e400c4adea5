"""Choose the module files to keep: those between GPU and network, their dependencies, and a few for
reference.

Sources: depmod(8) and modules.dep(5); kmod libkmod/libkmod-module.c for `-` and `_` in names; depmod.d(5).
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Callable, Dict, Iterable, List, Optional, Set, Tuple

from .patterns import is_name, select

REFERENCES = 3
"""How many loaded in-tree modules are kept as a reference: for the CRC of module_layout, the size of struct
module and the signer of the build."""

_FILE = re.compile(r"(.+)\.ko(?:\.gz|\.xz|\.zst)?\Z")
_LITERAL = re.compile(r"[^*?[]*")
_NAME = re.compile(r"\w[\w-]*\Z")
_DEPENDS = re.compile(rb"\0depends=([^\0]*)\0")


def module_of(path: str) -> Optional[str]:
    """The module's name from a file's name, with underscores; None if it is not a module file."""
    match = _FILE.match(path.rpartition("/")[2])
    return match.group(1).replace("-", "_") if match else None


def dependencies(table: str) -> Dict[str, Tuple[str, List[str]]]:
    """modules.dep: by module, its file and the names of the modules that it needs."""
    found: Dict[str, Tuple[str, List[str]]] = {}
    for line in table.splitlines():
        path, colon, rest = line.partition(":")
        name = module_of(path)
        if colon and name:
            found.setdefault(name, (path, [needed for needed in map(module_of, rest.split()) if needed]))
    return found


def soft_dependencies(table: str) -> Dict[str, List[str]]:
    """modules.softdep and modules.weakdep, and the lines of modprobe.d that lead from a module to others: by
    module, those that may be loaded with it or instead of it."""
    found: Dict[str, List[str]] = {}
    for line in table.splitlines():
        words = line.split()
        if len(words) > 2 and words[0] in ("softdep", "weakdep", "install", "alias"):
            others = [word.strip(";\"'") for word in words[2:]]
            names = [word.replace("-", "_") for word in others if _NAME.match(word)]
            found.setdefault(words[1].replace("-", "_"), []).extend(names)
    return found


def of_aliases(table: str, asked: Iterable[str]) -> List[str]:
    """modules.alias: the modules for aliases of devices, which are patterns."""
    rows = [words for words in map(str.split, table.splitlines()) if len(words) == 3 and words[0] == "alias"]
    return [
        module
        for name in asked
        if ":" in name
        for _, pattern, module in rows
        if name.startswith(_LITERAL.match(pattern).group()) and fnmatchcase(name, pattern)  # type: ignore[union-attr]
    ]


def declared(content: bytes) -> List[str]:
    """The dependencies in a module's .modinfo."""
    match = _DEPENDS.search(content)
    words = match.group(1).decode("utf-8", "replace").split(",") if match else []
    return [word.replace("-", "_") for word in words if word]


def closure(
    files: Iterable[str],
    seeds: Iterable[str],
    needs: Dict[str, Tuple[str, List[str]]],
    soft: Dict[str, List[str]],
    read_dependencies: Callable[[str], List[str]],
) -> Set[str]:
    """Names of the modules to keep. `read_dependencies` is for files that depmod has not indexed."""
    by_name: Dict[str, str] = {}
    for path in files:
        by_name.setdefault(module_of(path) or "", path)
    wanted = [name.replace("-", "_") for name in seeds]
    queue = [*select([*by_name], wanted), *filter(is_name, wanted)]
    done: Set[str] = set()
    while queue:
        name = queue.pop()
        if name in done:
            continue
        done.add(name)
        if name in needs:
            queue.extend(needs[name][1])
        elif name in by_name:
            queue.extend(read_dependencies(by_name[name]))
        queue.extend(soft.get(name, ()))
    return done


def references(
    loaded: Iterable[str],
    needs: Dict[str, Tuple[str, List[str]]],
    excluded: Set[str],
    size: Callable[[str], int],
) -> List[str]:
    """Names of the smallest in-tree modules that are loaded, without those in `excluded`."""
    candidates = [
        name
        for name in loaded
        if name in needs and name not in excluded and needs[name][0].startswith("kernel/")
    ]
    return sorted(candidates, key=lambda name: (size(needs[name][0]), name))[:REFERENCES]
