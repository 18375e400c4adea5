"""The rules about symbols that a module needs and does not get."""

from __future__ import annotations

from gdrkit.evidence import EvidenceMissing
from gdrkit.facts.linkage import Links, SymbolFault, duplicate_export, symbol_links
from gdrkit.facts.symvers import PEER_API
from gdrkit.node import Node
from gdrkit.rules.deciding_command import DMESG, DecidingCommand
from gdrkit.rules.module_subjects import lost_without, modules_to_load, not_applicable_if_loaded
from gdrkit.rules.rdma_lacks_peer_api import not_restarted
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import Failed, Layer, Outcome, Passed, rule
from gdrkit.rules.stage import LoadPosition, Stage

_CODES = {
    SymbolFault.MISSING: "module-symbol-missing",
    SymbolFault.GPL_ONLY: "module-symbol-gpl-only",
    SymbolFault.PROPRIETARY: "module-symbol-gpl-only",
    SymbolFault.VERSION: "module-crc-mismatch",
    SymbolFault.UNVERSIONED: "module-crc-mismatch",
    SymbolFault.NAMESPACE: "module-symbol-namespace",
}


def code_of(fault: SymbolFault) -> str:
    """The code of the rule that a symbol with this fault fails."""
    return _CODES[fault]


_SEEN = {
    SymbolFault.MISSING: "nothing exports",
    SymbolFault.GPL_ONLY: "exported only to GPL-compatible modules:",
    SymbolFault.PROPRIETARY: "exported by a proprietary module, beside GPL-only symbols:",
    SymbolFault.VERSION: "exported with another CRC:",
    SymbolFault.UNVERSIONED: "exported with a CRC, imported without one:",
    SymbolFault.NAMESPACE: "in a namespace that the module does not import:",
}


def _judged(node: Node, module: str, expected: str, code: str) -> Outcome:
    """Failed if symbols have a fault of this code; unknown if some exporters are not known."""
    if (not_applicable := not_applicable_if_loaded(node, module)) is not None:
        return not_applicable
    found = symbol_links(node, module)
    problems = [problem for problem in found.problems if code_of(problem.fault) == code]
    if problems:
        names = ", ".join(problem.symbol for problem in problems[:3])
        more = f" and {len(problems) - 3} more" if len(problems) > 3 else ""
        api = code == "module-symbol-missing" and any(problem.symbol in PEER_API for problem in problems)
        seen = f"{_SEEN[problems[0].fault]} {names}{more}{not_restarted(node) if api else ''}"
        return Failed(seen=seen, expected=expected, subject=module)
    _require_all(found)
    return Passed("every symbol resolves")


def _require_all(found: Links) -> None:
    if found.unseen:
        raise EvidenceMissing(found.unseen[0])


@rule(
    "module-symbol-missing",
    Layer.KERNEL,
    per=modules_to_load,
    takes=lost_without,
    loading=LoadPosition(Stage.SYMBOLS, 1),
    logged=True,
    reported_by=(
        DecidingCommand(DMESG, "`{module}: Unknown symbol ... (err -2)`"),
        DecidingCommand("grep -w ib_register_peer_memory_client /proc/kallsyms", "nothing"),
    ),
    remedies=(RemedyName.RESTART_OFED, RemedyName.INSTALL_OFED, RemedyName.REBUILD_DRIVER),
    cost="The module cannot be loaded.",
)
def module_symbol_missing(node: Node, module: str) -> Outcome:
    """The module uses a symbol that nothing on this node exports.

    Cost: The module cannot be loaded.

    How to tell: modprobe says "Unknown symbol in module, or unknown parameter (see dmesg)", and the
    kernel's log says "...: Unknown symbol ... (err -2)" for each missing symbol.
    `grep -w ib_register_peer_memory_client /proc/kallsyms` prints nothing if that is the missing one.
    modprobe says the same if a module's own init returns ENOENT.

    What to do: Bring the exporter back (reload OFED, rebuild the initramfs), or build the module again
    against the modules that are installed now. dma-buf does not need the peer-memory API at all.

    Why: The exporter of the symbol is gone. For ib_register_peer_memory_client: MLNX_OFED or DOCA-OFED was
    removed; or the kernel's own RDMA core is loaded instead of theirs (from the initramfs, or because
    depmod was not run); or the kernel was upgraded to one without the peer-memory patch.

    Source: Linux kernel/module/main.c, simplify_symbols().
    """
    return _judged(node, module, "an exporter for every symbol", "module-symbol-missing")


@rule(
    "module-symbol-gpl-only",
    Layer.KERNEL,
    per=modules_to_load,
    takes=lost_without,
    loading=LoadPosition(Stage.SYMBOLS, 2),
    logged=True,
    reported_by=(
        DecidingCommand(
            DMESG, "`{module}: module license '...' taints kernel`, then `Unknown symbol ... (err -2)`"
        ),
        DecidingCommand(
            "grep -w ib_register_peer_memory_client /proc/kallsyms", "the symbol: it is exported"
        ),
    ),
    cost="The module cannot be loaded.",
)
def module_symbol_gpl_only(node: Node, module: str) -> Outcome:
    """The module uses a symbol that its own licence, or that of the exporting module, does not allow.

    Cost: The module cannot be loaded.

    How to tell: modprobe says "Unknown symbol in module, or unknown parameter (see dmesg)". The kernel's
    log says "Unknown symbol ... (err -2)", as if the symbol did not exist, although /proc/kallsyms lists
    it; or it says that a module using GPL-only symbols uses symbols of a proprietary module.
    `modinfo -F license <module>` prints the licence.

    What to do: Use the driver's open modules, or a driver whose nvidia-peermem is "Dual BSD/GPL".

    Why: A module under a licence that is not GPL-compatible uses a GPL-only export: old versions of
    nvidia-peermem were under "Linux-OpenIB", which the kernel treats as proprietary. Or a GPL module uses
    GPL-only exports first and the proprietary nvidia module's after.

    Source: Linux kernel/module/main.c, find_symbol(), inherit_taint(); include/linux/license.h. The second
    form was read in source, not seen in a kernel.
    """
    expected = "symbols that this module's licence may use"
    return _judged(node, module, expected, "module-symbol-gpl-only")


@rule(
    "module-crc-mismatch",
    Layer.KERNEL,
    per=modules_to_load,
    takes=lost_without,
    loading=LoadPosition(Stage.SYMBOLS, 3),
    logged=True,
    reported_by=(DecidingCommand(DMESG, "`{module}: disagrees about version of symbol ...`"),),
    remedies=(RemedyName.RESTART_OFED, RemedyName.REBUILD_DRIVER),
    cost="The module cannot be loaded.",
)
def module_crc_mismatch(node: Node, module: str) -> Outcome:
    """The module was compiled against another version of a symbol that it uses.

    Cost: The module cannot be loaded.

    How to tell: modprobe says "Invalid argument", and the kernel's log says "...: disagrees about version
    of symbol ..." and "Unknown symbol ... (err -22)". "Invalid argument" alone has many other causes.

    What to do: If the installed OFED does not run yet, reboot; that is enough if the files on disk match.
    Otherwise build the driver again, after OFED.

    Why: For ib_register_peer_memory_client: OFED was upgraded or rebuilt after the driver, or the driver
    was built against another OFED tree than the loaded one. For nvidia_p2p_ symbols: nvidia and
    nvidia-peermem come from different builds, or the driver was upgraded on disk but not reloaded.

    Source: Linux kernel/module/version.c, check_version().
    """
    return _judged(node, module, "the CRC of the exporter", "module-crc-mismatch")


@rule(
    "module-symbol-namespace",
    Layer.KERNEL,
    per=modules_to_load,
    takes=lost_without,
    loading=LoadPosition(Stage.SYMBOLS, 4),
    logged=True,
    reported_by=(DecidingCommand(DMESG, "`{module}: module uses symbol (...) from namespace ...`"),),
    cost="The module cannot be loaded.",
)
def module_symbol_namespace(node: Node, module: str) -> Outcome:
    """The module uses a symbol of a namespace that it does not import.

    Cost: The module cannot be loaded.

    How to tell: modprobe says "Invalid argument", and the kernel's log says "module uses symbol (...) from
    namespace ..., but does not import it" and "Unknown symbol ... (err -22)".
    `modinfo -F import_ns <module>` lists the namespaces that it imports.

    What to do: Install a driver version that supports this kernel.

    Why: The kernel moved a symbol into a namespace, as it did with those of dma-buf in 5.16, and the
    module's source is older than that.

    Source: Linux kernel/module/main.c, verify_namespace_is_imported(); unless the kernel was built with
    CONFIG_MODULE_ALLOW_MISSING_NAMESPACE_IMPORTS, which lets it pass with the same line.
    """
    return _judged(node, module, "an import of the namespace", "module-symbol-namespace")


@rule(
    "module-symbol-duplicate",
    Layer.KERNEL,
    per=modules_to_load,
    takes=lost_without,
    loading=LoadPosition(Stage.EXPORTS, 1),
    logged=True,
    reported_by=(DecidingCommand(DMESG, "`{module}: exports duplicate symbol ...`"),),
    cost="The module cannot be loaded beside the other one.",
)
def module_symbol_duplicate(node: Node, module: str) -> Outcome:
    """The module exports a symbol that another loaded module already exports.

    Cost: Only one of the two can be loaded.

    How to tell: modprobe says "Exec format error", and the kernel's log says "...: exports duplicate symbol
    ... (owned by ...)".

    What to do: Unload and remove the module that you do not want: `sudo modprobe -r <module>`, then its
    package or file.

    Why: Two modules that replace each other would be loaded together: the kernel's and OFED's RDMA core, or
    two builds of one driver under different names.

    Source: Linux kernel/module/main.c, verify_exported_symbols().
    """
    if (not_applicable := not_applicable_if_loaded(node, module)) is not None:
        return not_applicable
    found = duplicate_export(node, module)
    if found is None:
        return Passed("no other module exports its symbols")
    return Failed(
        seen=f"{found.symbol} is exported by {found.owner} already",
        expected="one exporter for each symbol",
        subject=module,
    )
