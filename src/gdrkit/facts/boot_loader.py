"""The boot loader of the node, and the kernel arguments that its files give."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from gdrkit.evidence import EvidenceMissing
from gdrkit.facts.kernel import COMMAND_LINE_CHARACTERS
from gdrkit.facts.machine import distribution
from gdrkit.facts.secure_boot import efi_variable
from gdrkit.formats.grub_script import command_end
from gdrkit.formats.regex import regex
from gdrkit.formats.shell_assignments import assignments
from gdrkit.node import Node, fact, if_absent, if_missing

LOADER = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
"""The vendor of LoaderInfo, where a boot loader writes its name and version: systemd, Boot Loader Interface.
systemd-boot does since its first release, GRUB since 2.12 with its module bli."""
GRUB_DEFAULTS = "etc/default/grub"
DROP_INS = "etc/default/grub.d"
"""Debian's grub-mkconfig sources *.cfg here after /etc/default/grub; GRUB's own does not."""
OWN_DROP_IN = f"{DROP_INS}/90-gdrkit-"
"""How the names of files begin that gdrkit writes there."""
ENTRIES = "boot/loader/entries"
GRUB_ENVIRONMENT = "boot/grub2/grubenv"
KERNEL_COMMAND_LINE = "etc/kernel/cmdline"
"""What kernel-install(8) and grubby(8) write into the entry of the next kernel."""

_VARIABLES = ("GRUB_CMDLINE_LINUX", "GRUB_CMDLINE_LINUX_DEFAULT")
_OPTIONS = regex(r"^options[ \t]{1,80}(.{0,65536})$", re.M)
_KERNEL_OPTIONS = regex(r"^kernelopts=(.{0,65536})$", re.M)


class ArgumentLine(Struct, frozen=True):
    """Kernel arguments as GRUB reads them, and the file and line that set them."""

    text: str
    file: str
    line: int

    @property
    def kept(self) -> str:
        """What the kernel gets of them."""
        end = command_end(self.text)
        return self.text if end < 0 else self.text[:end]

    @property
    def lost(self) -> str:
        """What GRUB takes for something else than arguments; "" if nothing."""
        end = command_end(self.text)
        return "" if end < 0 else self.text[end:]


@fact
def is_systemd_boot(node: Node) -> bool:
    """Whether systemd-boot started the kernel. It hands the options of its entries on as they are written.

    False where the loader left no name, as GRUB before 2.12 does. Source: systemd-boot(7), LoaderInfo."""
    info = if_absent(b"", efi_variable, node, "LoaderInfo", LOADER)
    return info.decode("utf-16-le", "replace").startswith("systemd-boot")


@fact
def grub_arguments(node: Node) -> tuple[ArgumentLine, ...]:
    """The lines of arguments that GRUB reads, of whichever of its files are there.

    Raises EvidenceMissing if a file could not be read, unless another already shows a line that is cut."""
    found: list[ArgumentLine] = []
    missing: EvidenceMissing | None = None
    for read in (_defaults, _entries, _next_kernel):
        try:
            found += read(node)
        except EvidenceMissing as error:
            missing = missing or error.fresh()
    if missing is not None and not any(line.lost for line in found):
        raise missing
    return tuple(found)


@fact
def arguments_of_next(node: Node, kernel: str) -> tuple[ArgumentLine, ...]:
    """The lines of arguments for the kernel that boots next: of its entry, else those from which
    grub-mkconfig makes the menu. () where the files do not show them."""
    lines = if_missing((), grub_arguments, node)
    entries = [line for line in lines if line.file.endswith(f"{kernel}.conf")]
    used = (GRUB_ENVIRONMENT,) if entries else (*sourced(node),)
    return (*entries, *(line for line in lines if line.file in used))


def _defaults(node: Node) -> tuple[ArgumentLine, ...]:
    """The line that grub-mkconfig writes, with the assignment that cuts it, or the last one.

    Source: /etc/grub.d/10_linux of GRUB 2.06, which writes both variables as they are."""
    values = dict.fromkeys(_VARIABLES, "")
    origins: dict[str, ArgumentLine] = {}
    for path in sourced(node):
        for one in assignments(node.text(path), _VARIABLES, values):
            values[one.name] = one.value
            before = origins.get(one.name)
            if before is None or not before.lost or not one.value.startswith(before.text):
                origins[one.name] = ArgumentLine(one.value, path, one.line)
    by_order = [origins[name] for name in _VARIABLES if name in origins]
    if not by_order:
        return ()
    culprit = next((line for line in by_order if line.lost), by_order[-1])
    return (ArgumentLine(" ".join(values.values()), culprit.file, culprit.line),)


def sourced(node: Node) -> Iterator[str]:
    """The files of settings that grub-mkconfig sources, in its order."""
    if not node.exists(GRUB_DEFAULTS):
        return
    yield GRUB_DEFAULTS
    if {"debian", "ubuntu"} & distribution(node).family:
        for name in sorted(if_absent((), node.list, DROP_INS)):
            if name.endswith(".cfg") and not name.startswith("."):
                yield f"{DROP_INS}/{name}"


def _entries(node: Node) -> Iterator[ArgumentLine]:
    """Options of entries. GRUB makes a script of them: rhboot/grub2, grub-core/commands/blscfg.c,
    create_entry()."""
    used = False
    for name in if_absent((), node.list, ENTRIES):
        if not name.endswith(".conf"):
            continue
        text = node.text(path := f"{ENTRIES}/{name}")
        for match in _OPTIONS.finditer(text):
            used = used or "$kernelopts" in match[1]
            yield ArgumentLine(match[1], path, text.count("\n", 0, match.start()) + 1)
    if used:
        text = node.text(GRUB_ENVIRONMENT)
        for match in _KERNEL_OPTIONS.finditer(text):
            yield ArgumentLine(match[1], GRUB_ENVIRONMENT, text.count("\n", 0, match.start()) + 1)


def _next_kernel(node: Node) -> tuple[ArgumentLine, ...]:
    """The arguments of the next kernel's entry, where kernels have entries."""
    if not node.exists(KERNEL_COMMAND_LINE) or not if_absent((), node.list, ENTRIES):
        return ()
    words = node.text(KERNEL_COMMAND_LINE)[:COMMAND_LINE_CHARACTERS].split()
    return (ArgumentLine(" ".join(words), KERNEL_COMMAND_LINE, 1),)
