"""Which imports of a module the kernel will not resolve when it loads the module, and why.

Source: Linux kernel/module/main.c, simplify_symbols() and resolve_symbol(), which this code follows step by
step; kernel/module/version.c, check_version(); include/linux/license.h, license_is_gpl_compatible().
"""

from __future__ import annotations

import enum

from msgspec import Struct

from gdrkit.evidence import Confidence, EvidenceAbsent, EvidenceMissing, Missing, MissingReason
from gdrkit.evidence.quoting import quoted
from gdrkit.facts.kernel import architecture, built_by_debian, config_option
from gdrkit.facts.kernel_symbols import (
    VMLINUX,
    Provider,
    holder_of,
    kernel_symbol,
    provider,
    usable_by,
)
from gdrkit.facts.loaded_modules import loaded
from gdrkit.facts.module_files import exports, image, information, versions
from gdrkit.facts.module_index import dependencies, module_path, symbol_owner
from gdrkit.facts.module_state import kernel_name
from gdrkit.facts.running_files import loaded_path
from gdrkit.messages.errors import EINVAL, ENOENT
from gdrkit.node import Node, fact, if_absent, if_missing

_GPL_COMPATIBLE = (
    "GPL",
    "GPL v2",
    "GPL and additional rights",
    "Dual BSD/GPL",
    "Dual MIT/GPL",
    "Dual MPL/GPL",
)


class SymbolFault(enum.StrEnum):
    """Why the kernel does not resolve a symbol."""

    MISSING = "missing"  # nothing exports it
    GPL_ONLY = "gpl-only"  # exported to GPL-compatible modules only
    PROPRIETARY = "proprietary"  # a module that uses GPL-only symbols cannot use a proprietary module's
    VERSION = "version"  # exported with another CRC
    UNVERSIONED = "unversioned"  # exported with a CRC, but the module has no CRC for it
    NAMESPACE = "namespace"  # exported in a namespace that the module does not import

    @property
    def errno(self) -> int:
        """The error that resolve_symbol() returns: EINVAL or ENOENT."""
        return (
            EINVAL
            if self in (SymbolFault.VERSION, SymbolFault.UNVERSIONED, SymbolFault.NAMESPACE)
            else ENOENT
        )


class SymbolProblem(Struct, frozen=True):
    """One symbol that will not be resolved."""

    symbol: str
    fault: SymbolFault
    owner: str = ""  # the module that exports it, or vmlinux
    namespace: str = ""


class InheritedTaint(Struct, frozen=True):
    """A symbol of a proprietary module: a module that uses it becomes proprietary, too. Not an error."""

    symbol: str
    owner: str


class UnversionedSymbol(Struct, frozen=True):
    """A symbol without a CRC in the module. The kernel resolves it, and warns about the first in a boot."""

    symbol: str


class Links(Struct, frozen=True):
    """Problems and warnings when the kernel resolves a module's imports, in its order."""

    events: tuple[SymbolProblem | InheritedTaint | UnversionedSymbol, ...] = ()
    unseen: tuple[Missing, ...] = ()  # missing evidence; each may hide a further problem

    @property
    def problems(self) -> tuple[SymbolProblem, ...]:
        """The symbols that will not be resolved."""
        return tuple(event for event in self.events if isinstance(event, SymbolProblem))


def gpl_compatible(license: str) -> bool:
    """Whether the kernel treats a licence as compatible with the GPL."""
    return license in _GPL_COMPATIBLE


@fact
def symbol_links(node: Node, name: str) -> Links:
    """How the kernel resolves a module's imports if modprobe loads it now, its dependencies first."""
    return _Linker(node, name, frozenset()).links()


@fact
def links_without(node: Node, name: str, gone: frozenset[str]) -> Links:
    """The same, if some of its dependencies were not loaded."""
    return _Linker(node, name, gone).links()


class _Linker:
    """The state that the kernel carries from one symbol to the next."""

    def __init__(self, node: Node, name: str, gone: frozenset[str]) -> None:
        self.node, self.name, self.gone = node, name, gone
        path = module_path(node, name)
        self.info = information(node, path)
        self.versions = versions(node, path)
        self.proprietary = not gpl_compatible(self.info.license)
        self.uses_gpl_only = False
        self.events: list[SymbolProblem | InheritedTaint | UnversionedSymbol] = []
        self.unseen: list[Missing] = []

    def links(self) -> Links:
        """Resolve every symbol."""
        also_weak = "_GLOBAL_OFFSET_TABLE_" if architecture(self.node) == "x86_64" else ""
        for symbol in image(self.node, module_path(self.node, self.name)).undefined():
            self.resolve(symbol.name, optional=symbol.weak or symbol.name == also_weak)
        return Links(tuple(self.events), tuple(self.unseen))

    def resolve(self, symbol: str, optional: bool) -> None:
        try:
            problem = self._problem(symbol)
        except EvidenceMissing as error:
            self.unseen.append(error.missing)
            return
        if problem is not None and not (optional and problem.fault.errno == ENOENT):
            self.events.append(problem)

    def _problem(self, symbol: str) -> SymbolProblem | None:
        try:
            found = provider(self.node, symbol, self.name)
            if found.owner in self.gone:
                return SymbolProblem(symbol, SymbolFault.MISSING, found.owner)
        except EvidenceAbsent:
            self.node.cite("exported symbols", symbol, "nothing exports it")
            return SymbolProblem(symbol, SymbolFault.MISSING)
        if self.proprietary and self._only_for_gpl(found, symbol):
            return SymbolProblem(symbol, SymbolFault.GPL_ONLY, found.owner)
        self.uses_gpl_only |= found.symbol.gpl_only is True
        if not self._inherits(found, symbol):
            return SymbolProblem(symbol, SymbolFault.PROPRIETARY, found.owner)
        if fault := self._version_fault(found, symbol):
            return SymbolProblem(symbol, fault, found.owner)
        namespace = found.symbol.namespace
        if namespace and namespace not in self.info.import_ns and not self._lenient():
            return SymbolProblem(symbol, SymbolFault.NAMESPACE, found.owner, namespace)
        return None

    def _only_for_gpl(self, found: Provider, symbol: str) -> bool:
        if found.symbol.gpl_only is None:
            raise EvidenceMissing(
                Missing(
                    f"Module.symvers ({symbol})",
                    MissingReason.UNDECIDED,
                    f"grep {quoted(symbol)} Module.symvers",
                )
            )
        return found.symbol.gpl_only

    def _inherits(self, found: Provider, symbol: str) -> bool:
        """inherit_taint(): false if the kernel refuses the symbol."""
        if found.owner == VMLINUX or not proprietary(self.node, found.owner):
            return True
        if self.uses_gpl_only:
            return False
        if not self.proprietary:
            self.events.append(InheritedTaint(symbol, found.owner))
            self.proprietary = True
        return True

    def _version_fault(self, found: Provider, symbol: str) -> SymbolFault | None:
        """check_version(). A module without any versions passes here; the kernel may have refused it before.

        A symbol without a CRC in the module is resolved with a warning, except by Debian's kernels, which
        refuse it: debian/patches/debian/module-disable-matching-missing-version-crc.patch. Observed in the
        lab: Debian's 6.1 and 6.12 refuse it, Ubuntu's 6.8 resolves it.
        """
        if self.versions is None or found.symbol.has_crc is False:
            return None
        wanted = self.versions.get(symbol)
        if found.symbol.crc is None:
            self.node.cite(
                f"CRC of {symbol}", text="not known, taken as equal", confidence=Confidence.LIKELY
            )
            return None
        if wanted is None:
            self.node.cite(f"CRC of {symbol}", text="none in __versions", confidence=Confidence.LIKELY)
            if built_by_debian(self.node):
                return SymbolFault.UNVERSIONED
            self.events.append(UnversionedSymbol(symbol))
            return None
        return None if wanted == found.symbol.crc else SymbolFault.VERSION

    def _lenient(self) -> bool:
        """Whether the kernel was built to allow symbols of a namespace that the module does not import."""
        return config_option(self.node, "CONFIG_MODULE_ALLOW_MISSING_NAMESPACE_IMPORTS") == "y"


@fact
def proprietary(node: Node, name: str) -> bool:
    """Whether a module has the taint of a proprietary licence, its own or an inherited one."""
    present = if_missing(None, lambda: loaded(node).get(name))
    if present is not None:
        return "P" in present.taint
    return not gpl_compatible(information(node, module_path(node, name)).license)


class DuplicateExport(Struct, frozen=True):
    """A symbol that the module exports and that is already exported."""

    symbol: str
    owner: str  # as the kernel prints it: a module, or "kernel"


@fact
def duplicate_export(node: Node, name: str) -> DuplicateExport | None:
    """The first export that is already exported by another module or the kernel; None if there is none.

    Source: kernel/module/main.c, verify_exported_symbols(): in the order of the export tables, which are
    sorted by name, the GPL-only one last.
    """
    path = module_path(node, name)
    offered = exports(node, path)
    if not offered or information(node, path).intree:  # the kernel's build checks its own modules
        return None
    own = if_missing(name, kernel_name, node, name)  # beside one of its own name it does not get this far
    others = usable_by(node, name) - {name, own}
    foreign = [other for other in sorted(others) if _may_export_anything(node, other)]
    for symbol in sorted(offered, key=lambda symbol: (offered[symbol].gpl_only, symbol)):
        try:
            holder = holder_of(node, symbol)
        except EvidenceMissing:
            candidates = dict.fromkeys((symbol_owner(node, symbol), *foreign))
        else:
            if holder not in ("", name, own):
                return DuplicateExport(symbol, holder)
            candidates = dict.fromkeys((symbol_owner(node, symbol), *dependencies(node, name)))
        for other in candidates:
            if other in others and symbol in exports(node, loaded_path(node, other)):
                return DuplicateExport(symbol, other)
        if _in_the_image(node, symbol):
            return DuplicateExport(symbol, "kernel")
    return None


def _may_export_anything(node: Node, name: str) -> bool:
    """Whether a module is loaded and not one of the kernel's own, which never export the same symbol
    twice."""
    present = if_missing(None, lambda: loaded(node).get(name))
    return present is not None and "O" in present.taint


def _in_the_image(node: Node, symbol: str) -> bool:
    if symbol_owner(node, symbol):
        return False
    return if_absent(None, kernel_symbol, node, symbol) is not None
