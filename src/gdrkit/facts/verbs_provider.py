"""Whether the user-space half of a NIC's driver, its provider in libibverbs, registers dma-bufs.

libibverbs has ibv_reg_dmabuf_mr since rdma-core 34, and answers EOPNOTSUPP for a provider without it:
libibverbs/dummy_ops.c. Each provider that has it calls ibv_cmd_reg_dmabuf_mr() of libibverbs, so that its
file shows it.
"""

from __future__ import annotations

import posixpath
import re

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.evidence.quoting import quoted
from gdrkit.facts.libraries import libibverbs, rdma_core_release
from gdrkit.node import Node, fact, first_of, likely

FIRST_RELEASES = {
    "mlx5_ib": ("mlx5", 34),
    "efa": ("efa", 38),
    "irdma": ("irdma", 45),
    "bnxt_re": ("bnxt_re", 48),
    "mana_ib": ("mana", 57),
    "ionic_rdma": ("ionic", 61),
}
"""The provider of a kernel module, and the first release of rdma-core in which it registers dma-bufs.

Read at every tag of rdma-core from v34.0 to v64.0: the folders of providers/ that call
ibv_cmd_reg_dmabuf_mr(). None of the others does: cxgb4, erdma, hfi1verbs, hns, mlx4, mthca, ocrdma, qedr,
rxe, siw, vmw_pvrdma; nor do their kernel drivers."""

_CALL = "ibv_cmd_reg_dmabuf_mr"
_EVERY_PROVIDER = "ibv_cmd_reg_mr"
"""What every provider calls, at the tags v28.0, v34.0, v50.0 and v64.0. Where a file does not import it
either, its table of symbols is not that of a provider as rdma-core builds it, and proves no lack."""


@fact
def provider_has_dmabuf(node: Node, module: str) -> bool:
    """Whether the provider of a kernel module in FIRST_RELEASES registers dma-bufs: by the functions that
    its file calls, else by the release of rdma-core (likely, as distributions backport)."""
    provider, first = FIRST_RELEASES[module]

    def file() -> bool:
        return _calls(node, provider)

    def release() -> bool:
        return rdma_core_release(node) >= first

    return first_of(file, likely(node, release))


def _calls(node: Node, provider: str) -> bool:
    from gdrkit.formats.elf import parse

    folder = f"{posixpath.dirname(libibverbs(node).path)}/libibverbs"
    files = [name for name in node.list(folder) if re.fullmatch(rf"lib{provider}-rdmav\d+\.so", name)]
    if len(files) != 1:  # of several, the one of this libibverbs is not known
        ask = f"ls {quoted(f'/{folder}')}"
        raise EvidenceMissing(Missing(f"provider {provider} of libibverbs", MissingReason.UNDECIDED, ask))
    path = node.resolve(f"{folder}/{files[0]}")
    imports = parse(node.map(path)).dynamic_imports()
    if not {_CALL, _EVERY_PROVIDER} & imports:
        raise EvidenceMissing(Missing(path, MissingReason.UNDECIDED, f"nm -D {quoted(f'/{path}')}"))
    calls = _CALL in imports
    node.cite(path, ".dynsym", f"imports {_CALL}" if calls else f"no import of {_CALL}")
    return calls
