"""nvidia-peermem, the peer-memory API that it registers with, and the API's other clients."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from gdrkit.evidence import Confidence, EvidenceAbsent, EvidenceMissing, Missing, MissingReason
from gdrkit.evidence.quoting import quoted
from gdrkit.facts import modules
from gdrkit.facts.driver_files import peermem_path
from gdrkit.facts.kernel_symbols import export_tables
from gdrkit.facts.modinfo_text import modinfo, printed_module
from gdrkit.facts.running_files import running_file
from gdrkit.facts.symvers import PEER_API
from gdrkit.formats.errors import FormatError
from gdrkit.formats.whole_number import whole_number
from gdrkit.node import Node, fact, first_collected, if_absent, if_missing

LEGACY = "nv_peer_mem"
MEMORY_PEERS = "sys/kernel/mm/memory_peers"
CLIENT = "nv_mem"
"""The name under which both modules register with the peer-memory API: nvidia-peermem.c, nv_peer_mem.c."""

NV_MEM = f"{MEMORY_PEERS}/{CLIENT}/version"
NV_MEM_NC = f"{MEMORY_PEERS}/nv_mem_nc/version"
NVIDIA_PEERMEM = f"{MEMORY_PEERS}/nvidia-peermem/version"
MODULE = "sys/module/nvidia_peermem/version"
"""The files by which programs look for a client."""


class PeermemLinkage(Struct, frozen=True):
    """The symbols that nvidia-peermem imports, and whether this node exports them.

    Only symbols of the peer-memory API and of nvidia.ko are checked; linkage.py checks the others.
    """

    uses_peer_api: bool  # False is a stub: its init returns EINVAL and does nothing else
    unresolved: tuple[str, ...] = ()  # nothing on this node exports them
    mismatched: tuple[str, ...] = ()  # exported with another CRC than the expected one
    unseen: tuple[str, ...] = ()  # not known whether or how they are exported
    outdated: tuple[str, ...] = ()  # the installed module, which does not run yet, exports them with another
    lacking: tuple[Missing, ...] = ()  # what would show whether more are outdated


class MemoryPeer(Struct, frozen=True):
    """A client of the peer-memory API, with its counters by file name, such as num_alloc_mrs."""

    client: str  # nv_mem, nv_mem_nc
    version: str
    counters: Mapping[str, int]


class LegacyPeerMem(Struct, frozen=True):
    """The nv_peer_mem module, predecessor of nvidia-peermem, which registers under the same name."""

    loaded: bool
    path: str  # "" if its file is not installed


_P2P_SYMBOL = "nvidia_p2p_get_pages"
ASK_DEPENDS = "modinfo -F depends nvidia-peermem"


@fact
def peermem_linkage(node: Node) -> PeermemLinkage:
    """How nvidia-peermem is linked, which decides whether it is a stub. Raises EvidenceAbsent if there is no
    such file.

    Everything in its init but `return -EINVAL` is compiled only if the build found the peer-memory API, so a
    module that does not import the API does nothing. Source: open-gpu-kernel-modules
    kernel-open/nvidia-peermem/nvidia-peermem.c, NV_MLNX_IB_PEER_MEM_SYMBOLS_PRESENT (since 515.43.04).
    """

    unknown = Missing("depends of nvidia-peermem", MissingReason.NOT_COLLECTED, ASK_DEPENDS)

    def by_symbols() -> PeermemLinkage:
        return _linkage_of_file(node, peermem_path(node))

    def by_dependencies() -> PeermemLinkage:
        """A stub imports nothing from nvidia and the RDMA core, so that modinfo's `depends:` is empty."""
        printed = printed_module(node, modules.PEERMEM)
        depends = printed.depends
        if depends is None:
            raise EvidenceMissing(unknown)
        node.cite(
            modinfo(modules.PEERMEM).line,
            "depends",
            f"depends: {','.join(depends)}".rstrip(),
            line=printed.lines["depends"],
        )
        return PeermemLinkage(bool(depends))

    def by_index() -> PeermemLinkage:
        """A stub, if depmod lists nothing that it needs although it saw nvidia's functions. A sosreport has
        depmod's lists and no module; they do not show with which checksums a full one was built."""
        needed = if_missing(None, modules.dependencies, node, modules.PEERMEM)
        if needed is None or needed or not if_missing("", modules.symbol_owner, node, _P2P_SYMBOL):
            raise EvidenceMissing(unknown)
        path = f"{modules.modules_dir(node)}/modules.dep"
        node.cite(path, modules.PEERMEM, "needs nothing", Confidence.LIKELY)
        return PeermemLinkage(False)

    return first_collected(by_symbols, by_dependencies, by_index)


def _linkage_of_file(node: Node, path: str) -> PeermemLinkage:
    wanted = modules.imports(node, path)
    unresolved, mismatched, unseen, outdated, lacking = [], [], [], [], []
    for symbol, crc in sorted(wanted.items()):
        if symbol not in PEER_API and not symbol.startswith("nvidia_p2p_"):
            continue
        try:
            exported = exported_crc(node, symbol)
        except EvidenceAbsent:
            unresolved.append(symbol)
        except EvidenceMissing:
            unseen.append(symbol)
        else:
            if crc is not None and exported is not None and crc != exported:
                mismatched.append(symbol)
        try:
            if crc is not None and _crc_after_a_reboot(node, symbol) not in (crc, None):
                outdated.append(symbol)
        except EvidenceMissing as error:
            lacking.append(error.missing)
    node.cite(path, ".symtab", f"{'imports' if PEER_API[0] in wanted else 'no import of'} {PEER_API[0]}")
    return PeermemLinkage(
        PEER_API[0] in wanted,
        tuple(unresolved),
        tuple(mismatched),
        tuple(unseen),
        tuple(outdated),
        tuple(dict.fromkeys(lacking)),
    )


def _crc_after_a_reboot(node: Node, symbol: str) -> int | None:
    """The CRC with which a symbol will be exported, if another build of its module is installed than the one
    that runs; else None."""
    owner = modules.symbol_owner(node, symbol)
    if not owner or not if_absent("", lambda: running_file(node, owner).differs):
        return None
    export = modules.exports(node, modules.module_path(node, owner)).get(symbol)
    return export.crc if export else None


@fact
def exported_crc(node: Node, symbol: str) -> int | None:
    """The CRC with which a symbol is exported; None without symbol versions. Raises EvidenceAbsent if it is
    not exported.

    Read from the file of the loaded module, else from the one that modprobe would load.
    """
    provider = modules.exporter(node, symbol)
    if provider == modules.VMLINUX:
        return modules.kernel_symbol(node, symbol).crc
    return modules.export_of(node, provider, symbol).crc


@fact
def peer_api_exporter(node: Node) -> str:
    """The module that exports the peer-memory API, "vmlinux" for the kernel itself; "" if none does."""
    return if_absent("", lambda: exporter(node, PEER_API[0]))


@fact
def exporter(node: Node, symbol: str) -> str:
    """The module that exports a symbol, or "vmlinux": by depmod's list, else by the kernel's list of
    symbols.

    Raises EvidenceAbsent if nothing does. The kernel lists export tables only with CONFIG_KALLSYMS_ALL.
    """
    try:
        return modules.exporter(node, symbol)
    except EvidenceMissing as error:
        missing = error.missing
        if isinstance(error, EvidenceAbsent) and missing.source.endswith(f"({symbol})"):
            raise
    if missing.why is MissingReason.ABSENT:  # depmod's lists are absent, the symbol may still be exported
        missing = Missing(
            f"exporter of {symbol}", MissingReason.UNDECIDED, f"grep -w {quoted(symbol)} /proc/kallsyms"
        )
    try:
        symbols = export_tables(node)
    except EvidenceMissing:
        raise EvidenceMissing(missing) from None
    found = re.search(rb" __ksymtab_%s(?:\t\[(\w+)\])?\n" % symbol.encode(), symbols)
    if found is None:
        raise EvidenceAbsent(
            Missing(
                f"proc/kallsyms ({symbol})", MissingReason.ABSENT, f"grep -w {quoted(symbol)} /proc/kallsyms"
            )
        )
    return found[1].decode() if found[1] else modules.VMLINUX


@fact
def peer_api_waits_in(node: Node) -> str:
    """The module whose file exports the peer-memory API, where another build of it runs that does not; "" if
    that is not so. It runs after a restart of the RDMA stack."""
    owner = if_missing("", modules.symbol_owner, node, PEER_API[0])
    waits = owner and modules.replaced(node, owner) and not if_missing("?", peer_api_exporter, node)
    return owner if waits else ""


@fact
def other_peer_api(node: Node) -> str:
    """The loaded module whose installed file exports the peer-memory API, if that file is not what runs; ""
    otherwise. What is built against the file may not fit what runs: its CRCs are not known."""
    owner = if_missing("", modules.symbol_owner, node, PEER_API[0])
    return owner if owner and modules.replaced(node, owner) else ""


@fact
def memory_peers(node: Node) -> tuple[MemoryPeer, ...]:
    """The clients that the RDMA core lists. Raises EvidenceAbsent if it has no such folder.

    Not every kernel with the API has the folder: it needs the kernel's mm_kobj, which newer kernels do not
    export. Its absence therefore does not show that there is no API. Source: MLNX_OFED
    drivers/infiniband/core/peer_mem.c.
    """
    return tuple(_peer(node, client) for client in node.list(MEMORY_PEERS))


def _peer(node: Node, client: str) -> MemoryPeer:
    names = node.list(f"{MEMORY_PEERS}/{client}")
    values = {name: node.text(f"{MEMORY_PEERS}/{client}/{name}").strip() for name in names}
    version = values.pop("version", "")
    counters = {name: number for name, text in values.items() if (number := whole_number(text)) is not None}
    if len(counters) < len(values):
        raise FormatError(f"a counter in {MEMORY_PEERS}/{client} is not a number")
    return MemoryPeer(client, version, counters)


@fact
def legacy_peer_mem(node: Node) -> LegacyPeerMem:
    """Whether the older nv_peer_mem is loaded or installed."""
    path = if_absent("", modules.module_path, node, LEGACY)
    return LegacyPeerMem(modules.is_loaded(node, LEGACY), path)
