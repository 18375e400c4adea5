"""Network plugins that NCCL uses instead of its own code."""

from __future__ import annotations

from gdrkit.evidence import EvidenceMissing
from gdrkit.facts.libraries import FOLDERS, MORE_FOLDERS, PLUGIN, find, net_plugins
from gdrkit.facts.nccl_log import nccl_logs
from gdrkit.messages.nccl_records import TCP, Network
from gdrkit.node import Node, if_absent
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.rule import Failed, Layer, NotApplicable, Outcome, Passed, rule, the_node


@rule(
    "net-plugin-replaced",
    Layer.LIBRARY,
    per=the_node,
    reported_by=(
        DecidingCommand(
            "NCCL_DEBUG=INFO, set for the job", "Using network, with a name other than IB or Socket"
        ),
    ),
    cost="Findings about NCCL apply to its own NET/IB; the plugin may behave differently.",
    references=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-net-plugin",),
)
def net_plugin_replaced(node: Node, _: str) -> Outcome:
    """NCCL uses a network plugin instead of its own InfiniBand code (NET/IB).

    Cost: The plugin has its own tests for nvidia-peermem and dma-buf, its own version requirements and its
    own log lines. HPC-X prints `GPU Direct RDMA (nvidia-peermem) enabled for HCA` after a test of the NIC
    alone, even if the GPU does not support it.

    How to tell: With NCCL_DEBUG=INFO the log shows `Using network` with a name other than IB or Socket, such
    as IBext, AWS Libfabric or FasTrak, or it reports that an external plugin was loaded. Or the dynamic
    linker finds a file libnccl-net.so.

    What to do: Nothing is wrong. To compare with NCCL's own code, run the job once with
    `NCCL_NET_PLUGIN=none`.

    Why: HPC-X, aws-ofi-nccl and Google's gIB install plugins. NCCL loads libnccl-net.so by itself, or the
    plugin that NCCL_NET_PLUGIN names.

    Source: NCCL src/plugin/net.cc; Mellanox/nccl-rdma-sharp-plugins src/p2p_plugin.c; aws/aws-ofi-nccl.
    """
    for log in nccl_logs(node):
        networks = log.all(Network)
        for found in networks:
            name = found.record.name
            if name not in ("IB", *TCP):
                return Failed(
                    seen=f"Using network {name}",
                    expected="IB",
                    subject=node.describe_line(log.path, found.line),
                )
        if networks:
            return Passed(f"Using network {networks[0].record.name}")
    if files := net_plugins(node):
        return Failed(seen=f"{files[0]} is installed", expected="no plugin", subject=files[0])
    try:
        if_absent("", find, node, PLUGIN, (*FOLDERS, *MORE_FOLDERS))
    except EvidenceMissing:  # a plugin only adds a remark to the report
        return NotApplicable("no plugin is known of, and not every folder was looked into")
    return Passed("no plugin found")
