"""What the initramfs of the running kernel holds of a module: a boot loads that copy, not the file on disk.

It holds what was installed when it was written, if it holds the module at all. Two outputs show which:
its list of files, and when it and the module's file were written. Sources: dracut(8), lsinitrd(1),
initramfs-tools(7), lsinitramfs(8); inode(7), for the time at which a package placed a file: rpm and dpkg
keep the older time of its content.
"""

from __future__ import annotations

import enum
import re

from msgspec import Struct

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.evidence.quoting import quoted
from gdrkit.facts.commands import LSINITRAMFS, LSINITRD, WRITTEN
from gdrkit.facts.kernel import release
from gdrkit.facts.machine import distribution
from gdrkit.facts.module_index import module_path, modules_dir, name_of
from gdrkit.formats.errors import FormatError
from gdrkit.formats.module_name import canonical
from gdrkit.formats.regex import regex
from gdrkit.node import Node, fact, first_collected, if_missing

_LISTED = regex(r"(?:^|\s)/?(?:usr/)?(lib/modules/[^/\s]{1,200}/\S{1,400}?)\.ko(?:\.\w{1,4})?(?=$|\s)")
_LINE_CHARACTERS = 1000
_IMAGES = ("boot/initrd.img-{kernel}", "boot/initramfs-{kernel}.img", "boot/initrd-{kernel}")
"""The names that initramfs-tools, dracut on Red Hat, and dracut on SUSE give it."""


class Held(enum.StrEnum):
    """What it holds of a module."""

    NOTHING = "nothing"  # the boot loads the file on disk
    INSTALLED = "installed"  # the same, if it holds the module at all
    FORMER = "former"


class BootCopy(Struct, frozen=True):
    """What the initramfs holds of a module."""

    held: Held
    path: str = ""  # the other file on disk that a former copy was made of; "" if it was the same path


@fact
def boot_copy(node: Node, name: str) -> BootCopy:
    """What the initramfs of the running kernel holds of a module, against the file that modprobe would load.
    Raises EvidenceMissing where neither a list nor the times decide."""
    path = module_path(node, name)
    newer = if_missing(None, _is_newer, node, path)
    if newer and node.host.source == "live":  # the list takes seconds
        return BootCopy(Held.INSTALLED)
    listed = if_missing(None, _listed, node, name)
    if listed is not None and not listed:
        return BootCopy(Held.NOTHING)
    if listed and _stem(path) not in listed:
        folder = modules_dir(node)
        others = (f"{folder}/{stem}.ko{suffix}" for stem in listed for suffix in ("", ".xz", ".zst", ".gz"))
        return BootCopy(Held.FORMER, next(filter(node.exists, others), ""))
    if newer:
        return BootCopy(Held.INSTALLED)
    if listed and newer is False:
        return BootCopy(Held.FORMER)
    raise EvidenceMissing(
        Missing(f"{canonical(name)} in the initramfs", MissingReason.UNDECIDED, _ask(node))
    )


def _ask(node: Node) -> str:
    system = if_missing(None, distribution, node)
    return (LSINITRAMFS if system is not None and "debian" in system.family else LSINITRD).line


def _stem(path: str) -> str:
    """A path below the folder of the kernel's modules, without the endings of its file."""
    return path.partition("lib/modules/")[2].partition("/")[2].partition(".ko")[0]


@fact
def _listed(node: Node, name: str) -> tuple[str, ...]:
    """The copies of a module in the list, as paths below the folder of the kernel's modules."""
    wanted = {canonical(name), name_of(module_path(node, name))}
    return tuple(stem for stem in _stems(node) if canonical(stem.rpartition("/")[2]) in wanted)


@fact
def _stems(node: Node) -> tuple[str, ...]:
    """All modules in the list. Raises FormatError for a list without any of the running kernel: it is cut,
    or of another kernel's initramfs."""
    own = f"lib/modules/{release(node)}/"
    found = []
    for line in _list(node).splitlines():
        match = _LISTED.search(line[:_LINE_CHARACTERS])
        if match and match[1].startswith(own):
            found.append(match[1].removeprefix(own))
    if not found:
        raise FormatError("no module of the running kernel in the list of the initramfs")
    return tuple(dict.fromkeys(found))


def _list(node: Node) -> str:
    return first_collected(lambda: node.run(LSINITRAMFS), lambda: node.run(LSINITRD))


@fact
def _written(node: Node) -> dict[str, tuple[float, float]]:
    """When files were written, and when they were placed where they are, in seconds."""
    found = {}
    for line in node.run(WRITTEN).splitlines():
        words = line[:_LINE_CHARACTERS].split(" ", 2)
        if len(words) == 3 and all(re.fullmatch(r"\d{1,12}(?:\.\d{1,12})?", word) for word in words[:2]):
            found[words[2].lstrip("/")] = float(words[0]), float(words[1])
    return found


@fact
def _is_newer(node: Node, path: str) -> bool:
    """Whether the initramfs is newer than a file. Raises EvidenceMissing if that is not known."""
    times = _written(node)
    names = (name.format(kernel=release(node)) for name in _IMAGES)
    image = next((times[name] for name in names if name in times), None)
    file = times.get(path) or times.get(node.resolve(path)) or times.get(f"usr/{path}")
    if image is None or file is None:
        ask = f"ls -lc /boot {quoted(f'/{path}')}"
        raise EvidenceMissing(
            Missing("times of the initramfs and of a module", MissingReason.UNDECIDED, ask)
        )
    return image[0] > file[1]
