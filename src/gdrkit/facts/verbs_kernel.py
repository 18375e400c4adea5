"""Whether the kernel's RDMA drivers support dma-buf and on-demand paging, by their symbols.

Versions do not show it: distributions backport, and OFED replaces an old kernel's modules with new ones.
"""

from __future__ import annotations

from gdrkit.evidence import Confidence, EvidenceAbsent, EvidenceMissing, Missing, MissingReason
from gdrkit.facts import modules
from gdrkit.facts.kernel import config_option, require_running
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
    "efa": "efa",
    "erdma": "erdma",
    "rxe": "rdma_rxe",
}
"""The verbs module of a PCI driver; other drivers are one module (siw, hfi1).
Source: Linux drivers/infiniband/hw/*/Makefile, and each module's auxiliary bus table."""

DMABUF_SYMBOLS = ("ib_umem_dmabuf_get", "ib_umem_dmabuf_get_pinned")
DEVX_SYMBOL = "ib_umem_dmabuf_get_pinned"
ODP_SYMBOL = "ib_umem_odp_get"
MLX5_DMABUF_SYMBOL = "ib_umem_dmabuf_get"
"""mlx5 calls it only behind IS_ENABLED() of on-demand paging, so a module that imports it has both.
Source: Linux drivers/infiniband/hw/mlx5/mr.c, mlx5_ib_reg_user_mr_dmabuf(), since 5.12."""
ODP_OPTION = "CONFIG_INFINIBAND_ON_DEMAND_PAGING"


def verbs_module(driver: str) -> str:
    """The kernel module that registers memory for a device of this PCI driver."""
    return VERBS_MODULES.get(driver, driver)


@fact
def dmabuf_exporter(node: Node) -> str:
    """The module that exports dma-buf memory regions to RDMA drivers, "vmlinux" if built in; "" if none
    does.

    It is ib_uverbs in kernels and ib_core in some out-of-tree stacks: drivers/infiniband/core/umem_dmabuf.c.
    """
    reason: EvidenceMissing | None = None
    for symbol in DMABUF_SYMBOLS:
        try:
            return exporter(node, symbol)
        except EvidenceAbsent:
            continue
        except EvidenceMissing as error:
            reason = reason or error.fresh()
    if reason is not None:
        raise reason.fresh()
    return ""


@fact
def takes_dmabuf(node: Node, module: str) -> bool:
    """Whether an RDMA driver imports a function to register dma-bufs. Raises EvidenceAbsent if there is no
    such module."""
    return _imports(node, module, "ib_umem_dmabuf_get")


@fact
def queues_take_dmabuf(node: Node) -> bool:
    """Whether mlx5 can register a NIC's queues (DEVX memory) as a dma-buf, by its imports.

    Linux 6.1 drivers/infiniband/hw/mlx5/devx.c, devx_umem_get(), is the module's first and only use of this
    function: regions of data use others. So backports show too. Raises EvidenceAbsent without the module.
    """
    module = "mlx5_ib"
    if is_built_in(node, module):
        raise EvidenceMissing(Missing("imports of mlx5_ib", MissingReason.UNDECIDED, "uname -r"))
    return _imports_exactly(node, module, DEVX_SYMBOL)


def _imports_exactly(node: Node, module: str, symbol: str) -> bool:
    path = modules.loaded_path(node, module)
    found = symbol in modules.imports(node, path)
    node.cite(path, ".symtab", f"{'imports' if found else 'no import of'} {symbol}")
    return found


def _imports(node: Node, module: str, prefix: str) -> bool:
    """A driver that is built into the kernel has no imports; then the exports of the kernel image decide."""
    if is_built_in(node, module):
        node.cite(module, text="built into the kernel", confidence=Confidence.LIKELY)
        return exporter_or_none(node, prefix) == modules.VMLINUX
    path = modules.loaded_path(node, module)
    found = next((name for name in modules.imports(node, path) if name.startswith(prefix)), "")
    node.cite(path, ".symtab", f"imports {found}" if found else f"no import of {prefix}*")
    return bool(found)


def exporter_or_none(node: Node, prefix: str) -> str:
    """The exporter of a symbol or, for dma-buf, of its variant with a longer name; "" if there is none."""
    if DMABUF_SYMBOLS[0].startswith(prefix):
        return dmabuf_exporter(node)
    return if_absent("", exporter, node, prefix)


@fact
def is_built_in(node: Node, module: str) -> bool:
    """Whether an RDMA driver is built into the kernel; its folder in /sys then has no initstate."""
    folder = f"sys/module/{module}"

    def in_sysfs() -> bool | None:
        require_running(node, folder)
        return not node.exists(f"{folder}/initstate") if node.exists(folder) else None

    known = if_missing(None, in_sysfs)
    return modules.builtin(node, module) if known is None else known


@fact
def on_demand_paging(node: Node) -> bool:
    """Whether mlx5_ib was built with on-demand paging, by its imports, else by the kernel's options.

    The options apply only to the kernel's own modules, not to OFED's.
    """
    module = "mlx5_ib"
    try:
        if _imports(node, module, ODP_SYMBOL):
            return True
        return not is_built_in(node, module) and _imports_exactly(node, module, MLX5_DMABUF_SYMBOL)
    except EvidenceMissing as error:
        if isinstance(error, EvidenceAbsent):
            raise
    return config_option(node, ODP_OPTION) == "y"
