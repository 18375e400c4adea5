"""Modules that a file lists for the boot: modules-load.d of systemd, /etc/modules of Debian's init."""

from __future__ import annotations

from msgspec import Struct

from gdrkit.facts.modprobe_config import by_name, is_file_of
from gdrkit.formats.module_name import canonical
from gdrkit.node import Node, fact, if_absent


class AutoLoad(Struct, frozen=True):
    """A module that is loaded at boot because a file lists it."""

    name: str
    file: str
    line: int


_FOLDERS = (
    "etc/modules-load.d",
    "run/modules-load.d",
    "usr/local/lib/modules-load.d",
    "usr/lib/modules-load.d",
    "lib/modules-load.d",
)


@fact
def autoload(node: Node) -> tuple[AutoLoad, ...]:
    """Modules that systemd or Debian's init loads at boot. Sources: modules-load.d(5), modules(5)."""
    chosen: dict[str, str] = {}
    for folder in _FOLDERS:
        for name in if_absent((), node.list, folder):
            if is_file_of(name, (".conf",)):
                chosen.setdefault(name, f"{folder}/{name}")
    paths = by_name(chosen)
    if if_absent(False, node.exists, "etc/modules"):
        paths.append("etc/modules")
    found = []
    for path in paths:
        for number, line in enumerate(node.text(path).splitlines(), 1):
            words = line.split()
            if words and not words[0].startswith(("#", ";")):
                found.append(AutoLoad(canonical(words[0]), path, number))
    return tuple(found)
