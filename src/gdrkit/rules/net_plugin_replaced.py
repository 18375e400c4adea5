"""Networks that NCCL uses instead of its own."""

from __future__ import annotations

from gdrkit.facts.libraries import net_plugins
from gdrkit.facts.nccl_log import nccl_logs
from gdrkit.messages.nccl_records import Network
from gdrkit.node import Node
from gdrkit.rules.rule import Failed, Layer, Outcome, Passed, rule, the_node


@rule(
    "net-plugin-replaced",
    Layer.LIBRARY,
    per=the_node,
    cost="What is said here of NCCL holds for its own NET/IB; a plugin answers for itself.",
    references=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-net-plugin",),
)
def net_plugin_replaced(node: Node, _: str) -> Outcome:
    """A network plugin stands in for NCCL's own InfiniBand code.

    Cost: Tests for nvidia-peermem and dma-buf, their versions and their log lines are the plugin's own.
    HPC-X prints `GPU Direct RDMA (nvidia-peermem) enabled for HCA` of the NIC alone, also where the GPU
    cannot.

    How to tell: A log with `Using network` IBext, AWS Libfabric, FasTrak or another name than IB or Socket,
    or with the loading of an external plugin; a file libnccl-net.so where the linker finds it.

    What to do: Nothing is wrong. To compare with NCCL's own code, run once with NCCL_NET_PLUGIN=none.

    Why: HPC-X, aws-ofi-nccl and Google's gIB bring plugins. NCCL loads libnccl-net.so by itself, or what
    NCCL_NET_PLUGIN names.

    Source: NCCL src/plugin/net.cc; Mellanox/nccl-rdma-sharp-plugins src/p2p_plugin.c; aws/aws-ofi-nccl.
    """
    for log in nccl_logs(node):
        networks = log.all(Network)
        for found in networks:
            name = found.record.name
            if name not in ("IB", "Socket"):
                return Failed(
                    seen=f"Using network {name}",
                    expected="IB",
                    subject=node.describe_line(log.path, found.line),
                )
        if networks:
            return Passed(f"Using network {networks[0].record.name}")
    if files := net_plugins(node):
        return Failed(seen=f"{files[0]} is installed", expected="no plugin", subject=files[0])
    return Passed("no plugin is seen")
