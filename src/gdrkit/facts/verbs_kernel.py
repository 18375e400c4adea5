"""What the RDMA drivers in the kernel can do with dma-buf and on-demand paging, judged by symbols.

Never by version: distributions backport, and OFED replaces the modules of an old kernel with new ones.
"""

from __future__ import annotations

from gdrkit.evidence import Confidence, EvidenceAbsent, EvidenceMissing
from gdrkit.facts import modules
from gdrkit.facts.kernel import config_option
from gdrkit.facts.peer_memory import exporter
from gdrkit.node import Node, fact, if_absent, if_missing

VERBS_MODULES = {
    "mlx5_core": "mlx5_ib",
    "mlx4_core": "mlx4_ib",
    "ice": "irdma",
    "i40e": "irdma",
    "idpf": "irdma",
    "bnxt_en": "bnxt_re",
    "mana": "mana_ib",
    "hns3": "hns_roce_hw_v2",
    "cxgb4": "iw_cxgb4",
    "qede": "qedr",
    "rxe": "rdma_rxe",
}
"""The module that speaks verbs for a PCI driver; others have one module for both (efa, erdma, siw, hfi1).
Source: Linux drivers/infiniband/hw/*/Makefile, and each module's auxiliary bus table."""

DMABUF_SYMBOLS = ("ib_umem_dmabuf_get", "ib_umem_dmabuf_get_pinned")
ODP_SYMBOL = "ib_umem_odp_get"
ODP_OPTION = "CONFIG_INFINIBAND_ON_DEMAND_PAGING"


def verbs_module(driver: str) -> str:
    """The kernel module that registers memory for a device of this PCI driver."""
    return VERBS_MODULES.get(driver, driver)


@fact
def dmabuf_exporter(node: Node) -> str:
    """The module that offers dma-buf memory regions to RDMA drivers, "vmlinux" if built in; "" if none does.

    ib_uverbs in kernels, ib_core in some out-of-tree stacks: drivers/infiniband/core/umem_dmabuf.c.
    """
    reason: EvidenceMissing | None = None
    for symbol in DMABUF_SYMBOLS:
        try:
            return exporter(node, symbol)
        except EvidenceAbsent:
            continue
        except EvidenceMissing as lacks:
            reason = reason or lacks
    if reason is not None:
        raise reason
    return ""


@fact
def takes_dmabuf(node: Node, module: str) -> bool:
    """Whether an RDMA driver imports a way to register dma-bufs. Raises EvidenceAbsent if there is no such
    module."""
    return _imports(node, module, "ib_umem_dmabuf_get")


def _imports(node: Node, module: str, prefix: str) -> bool:
    """A driver that is part of the kernel's image has no imports to look at: the image's own offer
    decides."""
    if is_built_in(node, module):
        node.cite(module, text="built into the kernel", confidence=Confidence.LIKELY)
        return exporter_or_none(node, prefix) == modules.VMLINUX
    path = modules.loaded_path(node, module)
    found = next((name for name in modules.imports(node, path) if name.startswith(prefix)), "")
    node.cite(path, ".symtab", f"imports {found}" if found else f"no import of {prefix}*")
    return bool(found)


def exporter_or_none(node: Node, prefix: str) -> str:
    """Who exports a symbol of this name or, for dma-buf, of its longer one; "" if nobody does."""
    if DMABUF_SYMBOLS[0].startswith(prefix):
        return dmabuf_exporter(node)
    return if_absent("", exporter, node, prefix)


@fact
def is_built_in(node: Node, module: str) -> bool:
    """Whether an RDMA driver is part of the kernel's image. Its folder in /sys then has no initstate."""
    folder = f"sys/module/{module}"

    def in_sysfs() -> bool | None:
        return not node.exists(f"{folder}/initstate") if node.exists(folder) else None

    seen = if_missing(None, in_sysfs)
    return modules.builtin(node, module) if seen is None else seen  # depmod's list of what is built in


@fact
def on_demand_paging(node: Node, module: str) -> bool:
    """Whether an RDMA driver was built with on-demand paging; by its imports, else by the kernel's options.

    The options speak for the kernel's own modules alone: OFED brings its own.
    """
    try:
        return _imports(node, module, ODP_SYMBOL)
    except EvidenceMissing as lacks:
        if isinstance(lacks, EvidenceAbsent):
            raise
    return config_option(node, ODP_OPTION) == "y"
