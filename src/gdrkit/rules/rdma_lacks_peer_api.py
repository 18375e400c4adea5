"""RDMA stacks that nvidia-peermem cannot register with."""

from __future__ import annotations

from gdrkit.facts.driver import PEER_API, peer_api_exporter
from gdrkit.facts.modules import PEERMEM
from gdrkit.facts.packages import ofed
from gdrkit.facts.peer_memory import LEGACY, peer_api_waits_in
from gdrkit.facts.running_files import is_loaded_for_sure
from gdrkit.node import Node, if_missing
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.module_subjects import node_with_gpu
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import ADDRESS, Failed, Layer, Outcome, Passed, rule


@rule(
    "rdma-lacks-peer-api",
    Layer.RDMA,
    per=node_with_gpu,
    takes=(ADDRESS,),
    remedies=(RemedyName.RESTART_OFED, RemedyName.INSTALL_OFED),
    reported_by=(
        DecidingCommand("grep -w ib_register_peer_memory_client /proc/kallsyms", "no line at all"),
    ),
    cost="No build of nvidia-peermem can work here; dma-buf is not affected.",
    references=("https://discourse.ubuntu.com/t/nvidia-gpudirect-over-infiniband-migration-paths/44425",),
)
def rdma_lacks_peer_api(node: Node, _: str) -> Outcome:
    """Nothing in the kernel exports the peer-memory API, which nvidia-peermem and its like need.

    Cost: An nvidia-peermem that is built here is a stub; one that was built earlier fails with
    `Unknown symbol ib_register_peer_memory_client`.

    How to tell: Neither a module nor the kernel itself exports ib_register_peer_memory_client: it is not in
    depmod's modules.symbols and has no __ksymtab entry in /proc/kallsyms.

    What to do: Use dma-buf, which does not need this API. If OFED is installed and the kernel's own RDMA
    modules still run, restart it (`sudo /etc/init.d/openibd restart`) or reboot. Otherwise install
    DOCA-OFED, then rebuild the driver of the GPU.

    Why: The API was never part of Linux. MLNX_OFED and DOCA-OFED add it, in ib_core or in ib_uverbs.
    Ubuntu's kernels had it up to 6.5, some of NVIDIA's own flavours for longer. Look for the symbol:
    neither the version nor the flavour of a kernel is a reliable sign.

    Source: Launchpad bug 1923104, "RDMA/core: Introduce peer memory interface"; Linux
    drivers/infiniband/core/, which has no such file; Ubuntu's announcement for 6.8.
    """
    exporter = _exporter(node)
    if exporter:
        return Passed(exporter)
    return Failed(
        seen=f"nothing exports {PEER_API[0]}{_stack(node)}{not_restarted(node)}",
        expected="an export by ib_core or ib_uverbs",
        subject="ib_core",
    )


def not_restarted(node: Node) -> str:
    """That the RDMA stack that runs is not the installed one, as the end of a sentence; "" if it is."""
    owner = peer_api_waits_in(node)
    if not owner:
        return ""
    return f"; the file of {owner} on disk does, but another build runs: restart openibd or reboot"


def _exporter(node: Node) -> str:
    """Which module exports it, as a phrase; that nvidia-peermem is loaded is evidence enough."""
    for client in (PEERMEM, LEGACY):
        if is_loaded_for_sure(node, client):
            return f"{client} is loaded, so it is registered"
    owner = peer_api_exporter(node)
    return f"{owner} exports it" if owner else ""


def _stack(node: Node) -> str:
    stack = if_missing(None, ofed, node)
    return "" if stack is None else f" ({stack.kind} {stack.version})".replace(" )", ")")
