"""RDMA stacks that nvidia-peermem cannot register with."""

from __future__ import annotations

from gdrkit.evidence import EvidenceMissing
from gdrkit.facts.driver import PEER_API, peer_api_exporter
from gdrkit.facts.modules import PEERMEM, is_loaded
from gdrkit.facts.packages import ofed
from gdrkit.node import Node, if_missing
from gdrkit.rules.module_subjects import node_with_gpu
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import ADDRESS, Failed, Layer, Outcome, Passed, rule


@rule(
    "rdma-lacks-peer-api",
    Layer.RDMA,
    per=node_with_gpu,
    takes=(ADDRESS,),
    remedies=(RemedyName.INSTALL_OFED,),
    cost="No build of nvidia-peermem can work here; dma-buf is not affected.",
    references=("https://discourse.ubuntu.com/t/nvidia-gpudirect-over-infiniband-migration-paths/44425",),
)
def rdma_lacks_peer_api(node: Node, _: str) -> Outcome:
    """Nothing in the kernel exports the peer-memory API that nvidia-peermem registers with.

    Cost: An nvidia-peermem that is built here is a stub, and one from before fails with `Unknown symbol
    ib_register_peer_memory_client`.

    How to tell: No module and not the kernel itself exports ib_register_peer_memory_client: none in depmod's
    modules.symbols, no __ksymtab entry in /proc/kallsyms.

    What to do: dma-buf, which needs no such API. Else install DOCA-OFED and rebuild the NVIDIA driver after
    it.

    Why: The API was never part of Linux. MLNX_OFED and DOCA-OFED bring it, in ib_core or in ib_uverbs;
    Ubuntu's kernels had it up to 6.5, some of NVIDIA's own flavours longer. Look for the symbol: neither
    version nor flavour tells.

    Source: Launchpad bug 1923104, "RDMA/core: Introduce peer memory interface"; Linux
    drivers/infiniband/core/, which has no such file; Ubuntu's announcement for 6.8.
    """
    exporter = _exporter(node)
    if exporter:
        return Passed(exporter)
    return Failed(
        seen=f"nothing exports {PEER_API[0]}{_stack(node)}",
        expected="ib_core or ib_uverbs exports it",
        subject="ib_core",
    )


def _exporter(node: Node) -> str:
    """Who exports it, in words; a module that is loaded and registered needs no further witness."""
    try:
        owner = peer_api_exporter(node)
    except EvidenceMissing:
        if is_loaded(node, PEERMEM):
            return "nvidia_peermem is loaded, so it is registered"
        raise
    return f"{owner} exports it" if owner else ""


def _stack(node: Node) -> str:
    stack = if_missing(None, ofed, node)
    return "" if stack is None else f" ({stack.kind} {stack.version})".replace(" )", ")")
