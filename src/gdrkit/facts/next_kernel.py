"""The kernel that boots next, and whether it has NVIDIA's driver.

Sources: GRUB 2.06 util/grub.d/10_linux.in (the newest kernel is the first entry), 00_header.in
(GRUB_DEFAULT, `next_entry` and `saved_entry` of grubenv); rhboot/grub2,
grub-core/commands/blscfg.c; Boot Loader Specification (type 1 entries).
"""

from __future__ import annotations

import re

from gdrkit.evidence import Confidence, EvidenceMissing, Missing, MissingReason
from gdrkit.evidence.quoting import quoted
from gdrkit.facts.boot_loader import ENTRIES, GRUB_DEFAULTS, GRUB_ENVIRONMENT, is_systemd_boot, sourced
from gdrkit.facts.kernel import release
from gdrkit.facts.packages import dkms, installed, is_driver
from gdrkit.formats.regex import regex
from gdrkit.formats.shell_assignments import assignments
from gdrkit.formats.whole_number import whole_number
from gdrkit.node import Node, fact, if_absent, if_missing, seek

DEBIAN_GRUB_ENVIRONMENT = "boot/grub/grubenv"
_ASK = "sudo grubby --default-kernel || grep ^GRUB_DEFAULT /etc/default/grub"
_IMAGE = regex(r"vmlinu[xz]-(?P<release>\d+\.[\w.+~-]{1,63})")
_ENTRY = regex(r"(?:.{0,200}with Linux |gnulinux-)(?P<release>\d[\w.+~-]*?)(?:-advanced-[\w-]+)?")
"""An entry of GRUB's menu for one kernel, by its title or by its id: 10_linux, linux_entry()."""
_SETTINGS = ("GRUB_DEFAULT", "GRUB_FLAVOUR_ORDER", "GRUB_TOP_LEVEL")


@fact
def next_kernel(node: Node) -> str:
    """The release of the kernel that boots next. Raises EvidenceMissing where that is not decided."""
    kernels, running = _installed_kernels(node), release(node)
    if set(kernels) == {running}:
        return running
    if running not in kernels:  # it came over the network, or its package was removed
        raise _undecided("kernel that boots next")
    if is_systemd_boot(node):
        raise _undecided("default entry of systemd-boot", "bootctl list")
    entries = [name for name in if_absent((), node.list, ENTRIES) if name.endswith(".conf")]
    chosen = _of_entries(node, entries) if entries else _of_menu(node, kernels)
    if chosen not in kernels:
        raise _undecided("kernel that boots next")
    return chosen


def _undecided(source: str, ask: str = _ASK) -> EvidenceMissing:
    return EvidenceMissing(Missing(source, MissingReason.UNDECIDED, ask))


def _installed_kernels(node: Node) -> tuple[str, ...]:
    """The kernels with an image in /boot; where none lies there, those with a folder of modules, one of
    which can be left over from a kernel that was removed."""
    images = filter(None, map(_IMAGE.fullmatch, if_absent((), node.list, "boot")))
    found = tuple(dict.fromkeys(match["release"] for match in images))
    if found:
        return found
    folder = seek(("lib/modules", "usr/lib/modules"), node.exists)
    return tuple(name for name in node.list(folder) if name[:1].isdigit()) if folder else ()


def _of_menu(node: Node, kernels: tuple[str, ...]) -> str:
    """The kernel of the default entry of the menu that grub-mkconfig writes."""
    if not node.exists(GRUB_DEFAULTS):
        raise _undecided("default entry of the boot loader")
    values = dict.fromkeys(_SETTINGS, "")
    for path in sourced(node):
        for one in assignments(node.text(path), _SETTINGS, values):
            values[one.name] = one.value
    stored = _grub_environment(node)
    saved = stored.get("saved_entry", "") if values["GRUB_DEFAULT"] == "saved" else values["GRUB_DEFAULT"]
    entry = stored.get("next_entry", "") or saved
    if entry in ("", "0"):
        if values["GRUB_FLAVOUR_ORDER"] or values["GRUB_TOP_LEVEL"]:
            raise _undecided("first entry of the boot loader")
        return _newest(node, kernels)
    named = _ENTRY.fullmatch(entry.rpartition(">")[2])
    if named is None:
        raise _undecided(f"kernel of the entry {entry[:80]}")
    return named["release"]


def _of_entries(node: Node, entries: list[str]) -> str:
    """The kernel of the default entry, of those that kernel-install writes and Red Hat's GRUB reads."""
    stored = _grub_environment(node)
    entry = stored.get("next_entry", "") or stored.get("saved_entry", "")
    if f"{entry}.conf" not in entries:
        raise _undecided("default entry of the boot loader")
    path = f"{ENTRIES}/{entry}.conf"
    found = re.search(r"^linux[ \t]{1,80}\S*/vmlinuz-(\S+)[ \t]*$", node.text(path), re.M)
    if found is None:
        raise _undecided(path, f"cat {quoted(f'/{path}')}")
    return found[1]


def _grub_environment(node: Node) -> dict[str, str]:
    """The variables of GRUB's environment block, lines `name=value` filled up with #; {} without one. Debian
    has it in the folder grub, others in grub2."""
    path = seek((GRUB_ENVIRONMENT, DEBIAN_GRUB_ENVIRONMENT), node.exists)
    text = node.text(path) if path else ""
    pairs = (line.partition("=") for line in text.splitlines() if line[:1] != "#")
    return {name: value.strip() for name, equals, value in pairs if equals}


def _newest(node: Node, kernels: tuple[str, ...]) -> str:
    """The kernel that `sort -V` puts last, as far as its numbers alone decide. It is likely that the menu
    was written since that kernel was installed: its package does."""
    ordered = sorted(kernels, key=_version)
    if len(ordered) > 1 and _version(ordered[-1]) == _version(ordered[-2]):
        raise _undecided("which of two kernels of one version is the newest")
    node.cite(GRUB_DEFAULTS, text="the newest kernel is the default", confidence=Confidence.LIKELY)
    return ordered[-1]


def _version(kernel: str) -> tuple[int, ...]:
    """The numbers at the start of a release: (5, 15, 0, 119) of 5.15.0-119-generic."""
    leading = re.match(r"\d+(?:[.-]\d+)*", kernel)
    return tuple(whole_number(word) or 0 for word in re.split("[.-]", leading[0])) if leading else ()


# -- its driver ----------------------------------------------------------------------------------------

_DRIVER = regex(rb"(?m)^[^:\n]*/nvidia(?:-current(?:-open)?|-tesla[\w-]*|-open|-\d+)?\.ko(?:\.\w+)?:")
"""A line of modules.dep: nvidia, or the name that Debian gives it."""


@fact
def has_driver(node: Node, kernel: str) -> bool:
    """Whether depmod lists the driver for a kernel. Raises EvidenceMissing also where something may build it
    before it is needed, as DKMS does at boot if the kernel's headers are there."""
    folder = seek((f"lib/modules/{kernel}", f"usr/lib/modules/{kernel}"), node.exists)
    if folder is not None and _DRIVER.search(node.read(f"{folder}/modules.dep")):
        return True
    _require_no_builder(node, kernel)
    return False


_AKMODS = ("usr/sbin/akmods", "usr/bin/akmods")
"""The program of the package akmods, of Fedora and Red Hat's systems: without it nothing builds an akmod."""


def _require_no_builder(node: Node, kernel: str) -> None:
    """Raises EvidenceMissing if something may build the driver for a kernel at boot.

    Sources: dkms(8), autoinstall, which dkms.service runs, and which skips a kernel without headers;
    akmods(8), akmods.service."""
    if any(is_driver(module) for module in if_absent((), dkms, node)) and has_headers(node, kernel):
        ask = f"sudo dkms autoinstall -k {quoted(kernel)}"
        raise _undecided(f"driver that DKMS may build for {kernel}", ask)
    without_akmods = if_missing(False, lambda: seek(_AKMODS, node.exists) is None)
    if not without_akmods and any(n.startswith("akmod") and "nvidia" in n for n in installed(node)):
        ask = f"sudo akmods --kernels {quoted(kernel)}"
        raise _undecided(f"driver that akmods may build for {kernel}", ask)


def rdma_stack_may_be_built(node: Node, kernel: str) -> bool:
    """Whether DKMS may build an OFED's RDMA modules for a kernel at boot, in place of those that it has.

    Source: MLNX_OFED, package mlnx-ofed-kernel-dkms."""
    builds = [one for one in if_absent((), dkms, node) if one.name.startswith("mlnx-ofed-kernel")]
    ready = any(one.kernel == kernel and one.state == "installed" for one in builds)
    return bool(builds) and not ready and has_headers(node, kernel)


def has_headers(node: Node, kernel: str) -> bool:
    """Whether the headers of a kernel are there, where dkms looks: lib/modules/<kernel>/build. Red Hat's
    kernels have that link without them."""
    links = (f"lib/modules/{kernel}/build", f"usr/lib/modules/{kernel}/build")
    link = seek(links, node.exists)
    return link is not None and node.exists(node.resolve(link))
