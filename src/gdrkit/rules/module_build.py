"""The rules about files that are not valid modules, and modules built for another kernel."""

from __future__ import annotations

from gdrkit.facts.driver_files import path_to_load
from gdrkit.facts.module_state import Corruption, KernelMismatch, file_flaw, kernel_match
from gdrkit.node import Node, if_missing
from gdrkit.rules.deciding_command import DMESG, MODINFO, DecidingCommand
from gdrkit.rules.module_subjects import lost_without, modules_to_load, not_applicable_if_loaded
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import Failed, Layer, NotApplicable, Outcome, Passed, rule
from gdrkit.rules.stage import LoadPosition, Stage

_FLAWS = {
    Corruption.EMPTY: "it is empty",
    Corruption.COMPRESSED: "it cannot be decompressed",
    Corruption.SHORT: "it is shorter than an ELF header",
    Corruption.MAGIC: "it is not ELF",
    Corruption.TYPE: "it is ELF, but no kernel module",
    Corruption.MACHINE: "it is for another processor",
    Corruption.TABLE: "it is cut off before its section table",
    Corruption.NAMES: "its section table names no sections",
    Corruption.OTHER: "its section table is damaged",
    Corruption.NO_MODULE: "it has no struct module",
    Corruption.NO_SYMBOLS: "it has no symbol table",
}
_MISFITS = {
    KernelMismatch.STRUCT_SIZE: "struct module of {found} bytes",
    KernelMismatch.LAYOUT: "CRC {found} of module_layout",
    KernelMismatch.NO_LAYOUT: "symbol versions, but none of module_layout",
    KernelMismatch.NO_VERSIONS: "no symbol versions",
    KernelMismatch.VERMAGIC: "vermagic {found}",
    KernelMismatch.NO_VERMAGIC: "no vermagic",
}


@rule(
    "module-corrupt",
    Layer.KERNEL,
    per=modules_to_load,
    takes=lost_without,
    loading=LoadPosition(Stage.FILE, 1),
    reported_by=(
        DecidingCommand(DMESG, "`Invalid ELF ...`, or `No module found in object`"),
        DecidingCommand(MODINFO, "an error"),
    ),
    cost="The module cannot be loaded.",
)
def module_corrupt(node: Node, module: str) -> Outcome:
    """The file is not a valid module for this machine: empty, truncated, not ELF, or for another processor.

    Cost: The module cannot be loaded.

    How to tell: modprobe says "Exec format error", or "Invalid argument" for an empty file or one that
    cannot be unpacked. The kernel's log has a line about the ELF header that names no module, or nothing.
    `modinfo <module>` prints an error.

    What to do: Reinstall the package, or build the module again.

    Why: The disk was full when the file was written, a copy was truncated, or a package for another
    architecture was unpacked by hand.

    Source: Linux kernel/module/main.c, elf_validity_check(); kmod libkmod-file.c, kmod_file_open().
    """
    if (not_applicable := not_applicable_if_loaded(node, module)) is not None:
        return not_applicable
    path = path_to_load(node, module)
    found = file_flaw(node, path)
    if found is None:
        return Passed("an ELF file that the kernel can read")
    node.cite(path, text=found.kind)
    return Failed(
        seen=f"/{path}: {_FLAWS[found.kind]}", expected="a complete module for this machine", subject=module
    )


@rule(
    "module-wrong-kernel",
    Layer.KERNEL,
    per=modules_to_load,
    takes=lost_without,
    loading=LoadPosition(Stage.BUILD, 1),
    logged=True,
    reported_by=(DecidingCommand(DMESG, "`version magic ... should be ...`, or `symbol module_layout`"),),
    remedies=(RemedyName.REBUILD_DRIVER,),
    cost="The module cannot be loaded.",
)
def module_wrong_kernel(node: Node, module: str) -> Outcome:
    """The module was built for another kernel than the running one.

    Cost: The module cannot be loaded.

    How to tell: modprobe says "Exec format error". The kernel's log (`sudo dmesg`) says "version magic
    '...' should be '...'", or "disagrees about version of symbol module_layout", or, from Linux 6.4 on,
    that the size of struct module does not match. `modinfo -F vermagic <module>` and `uname -r` show
    the two kernels.

    What to do: Build or install the module for the running kernel, and remove the stale file.

    Why: The file was copied from another machine, a stale file in extra/ or updates/ takes precedence over
    the right one, or the module was built with headers of another flavour. A different release alone does
    no harm if the module has symbol versions: then only the flags after the release count.

    Source: Linux kernel/module/version.c, check_modstruct_version(), same_magic().
    """
    if (not_applicable := not_applicable_if_loaded(node, module)) is not None:
        return not_applicable
    if if_missing(None, file_flaw, node, path_to_load(node, module)) is not None:
        return NotApplicable("the file is not a valid module")
    found = kernel_match(node, module)
    if found.misfit is None:
        return Passed("it passes the kernel's checks of its build")
    return Failed(
        seen=_MISFITS[found.misfit].format(found=found.found),
        expected=found.wanted or "the running kernel's own",
        subject=module,
    )
