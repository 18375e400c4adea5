"""nvidia-peermem, the API that it registers with, and who else is registered there."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from gdrkit.evidence import EvidenceAbsent, EvidenceMissing, Missing, MissingReason
from gdrkit.facts import modules
from gdrkit.facts.driver_files import peermem_path
from gdrkit.facts.kernel_symbols import export_tables
from gdrkit.facts.modinfo_text import modinfo, printed_module
from gdrkit.facts.symvers import PEER_API
from gdrkit.formats.errors import FormatError
from gdrkit.node import Node, fact, first_collected, if_absent

LEGACY = "nv_peer_mem"
MEMORY_PEERS = "sys/kernel/mm/memory_peers"


class PeermemLinkage(Struct, frozen=True):
    """What the kernel's linker will make of nvidia-peermem's use of other modules.

    Only symbols of the peer-memory API and of nvidia.ko are judged here; the rest is the loader's affair.
    """

    uses_peer_api: bool  # False is a stub: its init returns EINVAL and does nothing else
    unresolved: tuple[str, ...] = ()  # nothing on this node exports them
    mismatched: tuple[str, ...] = ()  # exported with another CRC than the one wanted
    unseen: tuple[str, ...] = ()  # whether and how they are exported could not be seen


class MemoryPeer(Struct, frozen=True):
    """A client of the peer-memory API. Counters by file name, such as num_alloc_mrs."""

    client: str  # nv_mem, nv_mem_nc
    version: str
    counters: Mapping[str, int]


class LegacyPeerMem(Struct, frozen=True):
    """The nv_peer_mem module that came before nvidia-peermem and registers under the same name."""

    loaded: bool
    path: str  # "" if no file of it is installed


@fact
def peermem_linkage(node: Node) -> PeermemLinkage:
    """How nvidia-peermem is linked; the decisive test for a stub. Raises EvidenceAbsent if there is no such
    file.

    Everything in its init but `return -EINVAL` is compiled only where the build found the peer-memory API,
    so a module that does not import it does nothing. Source: open-gpu-kernel-modules
    kernel-open/nvidia-peermem/nvidia-peermem.c, NV_MLNX_IB_PEER_MEM_SYMBOLS_PRESENT (since 515.43.04).
    """

    def by_its_symbols() -> PeermemLinkage:
        return _linkage_of_file(node, peermem_path(node))

    def by_what_it_needs() -> PeermemLinkage:
        """A stub imports nothing of nvidia's and the RDMA core's, so that modinfo's `depends:` is empty."""
        printed = printed_module(node, modules.PEERMEM)
        depends = printed.depends
        if depends is None:
            raise EvidenceMissing(
                Missing("depends of nvidia-peermem", MissingReason.NOT_COLLECTED, ASK_DEPENDS)
            )
        node.cite(
            modinfo(modules.PEERMEM).line,
            "depends",
            f"depends: {','.join(depends)}".rstrip(),
            line=printed.lines["depends"],
        )
        return PeermemLinkage(bool(depends))

    return first_collected(by_its_symbols, by_what_it_needs)


ASK_DEPENDS = "modinfo -F depends nvidia-peermem"


def _linkage_of_file(node: Node, path: str) -> PeermemLinkage:
    wanted = modules.imports(node, path)
    unresolved, mismatched, unseen = [], [], []
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
    node.cite(path, ".symtab", f"{'imports' if PEER_API[0] in wanted else 'no import of'} {PEER_API[0]}")
    return PeermemLinkage(PEER_API[0] in wanted, tuple(unresolved), tuple(mismatched), tuple(unseen))


@fact
def exported_crc(node: Node, symbol: str) -> int | None:
    """The CRC under which a symbol is exported here; None without symbol versions. Raises EvidenceAbsent if
    it is not.

    The provider's file is that of the loaded module, else the one that modprobe would load.
    """
    provider = modules.exporter(node, symbol)
    if provider == modules.VMLINUX:
        return modules.kernel_symbol(node, symbol).crc
    offered = modules.exports(node, modules.loaded_path(node, provider)).get(symbol)
    if offered is None:
        raise EvidenceAbsent(
            Missing(f"{provider} ({symbol})", MissingReason.ABSENT, f"modprobe --show-exports {provider}")
        )
    return offered.crc


@fact
def peer_api_exporter(node: Node) -> str:
    """The module that exports the peer-memory API here, "vmlinux" for the kernel itself; "" if none does."""
    return if_absent("", lambda: exporter(node, PEER_API[0]))


@fact
def exporter(node: Node, symbol: str) -> str:
    """Who exports a symbol, by depmod's list, or by the running kernel's own where there is no such list.

    Raises EvidenceAbsent if nobody does. The kernel lists export tables among its symbols with
    CONFIG_KALLSYMS_ALL.
    """
    try:
        return modules.exporter(node, symbol)
    except EvidenceMissing as lacks:
        missing = lacks.missing
        if isinstance(lacks, EvidenceAbsent) and missing.source.endswith(f"({symbol})"):
            raise
    if missing.why is MissingReason.ABSENT:  # the lists are not there, which says nothing of the symbol
        missing = Missing(
            f"who exports {symbol}", MissingReason.UNDECIDED, f"grep -w {symbol} /proc/kallsyms"
        )
    try:
        symbols = export_tables(node)
    except EvidenceMissing:
        raise EvidenceMissing(missing) from None
    found = re.search(rb" __ksymtab_%s(?:\t\[(\w+)\])?\n" % symbol.encode(), symbols)
    if found is None:
        raise EvidenceAbsent(
            Missing(f"proc/kallsyms ({symbol})", MissingReason.ABSENT, f"grep -w {symbol} /proc/kallsyms")
        )
    return found[1].decode() if found[1] else modules.VMLINUX


@fact
def memory_peers(node: Node) -> tuple[MemoryPeer, ...]:
    """The clients that the RDMA core lists. Raises EvidenceAbsent if it has no such folder.

    Not every kernel with the API has it: it needs the kernel's mm_kobj, which newer ones do not export. Its
    absence therefore says nothing of the API. Source: MLNX_OFED drivers/infiniband/core/peer_mem.c.
    """
    return tuple(_peer(node, client) for client in node.list(MEMORY_PEERS))


def _peer(node: Node, client: str) -> MemoryPeer:
    names = node.list(f"{MEMORY_PEERS}/{client}")
    values = {name: node.text(f"{MEMORY_PEERS}/{client}/{name}").strip() for name in names}
    version = values.pop("version", "")
    if any(not value.isdigit() for value in values.values()):
        raise FormatError("a counter of the RDMA core is no number")
    return MemoryPeer(client, version, {name: int(value) for name, value in values.items()})


@fact
def legacy_peer_mem(node: Node) -> LegacyPeerMem:
    """Whether the older nv_peer_mem is in the kernel or installed for it."""
    path = if_absent("", modules.module_path, node, LEGACY)
    return LegacyPeerMem(modules.is_loaded(node, LEGACY), path)
