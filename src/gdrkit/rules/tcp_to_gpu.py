"""TCP into GPU memory: Google's GPUDirect-TCPX and the kernel's device memory TCP."""

from __future__ import annotations

from gdrkit.node import Node
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.rule import SHOWN_BY_MESSAGES, Layer, Outcome, rule, the_node

_GKE = "https://cloud.google.com/kubernetes-engine/docs/how-to/gpu-bandwidth-gpudirect-tcpx"


@rule(
    "tcpx-rxdm-missing",
    Layer.APPLICATION,
    per=the_node,
    reported_by=(DecidingCommand("kubectl get pods -o wide", "no container tcpx-daemon in the pod"),),
    cost="The job stops, or uses TCP through host memory.",
    references=(_GKE,),
)
def tcpx_rxdm_missing(node: Node, _: str) -> Outcome:
    """GPUDirect-TCPX does not reach its receive daemon.

    Cost: NCCL's plugin fails to connect.

    How to tell: The plugin names `receive_datapath_manager` or a unix client that failed to connect.

    What to do: Run the daemon as a sidecar of the pod, and mount the folder of its unix sockets in both
    containers, with the same prefix in NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX.

    Why: The daemon owns the rules that steer packets into GPU memory.

    Source: google/nccl-plugin-gpudirecttcpx src/net_tcpx.cc.
    """
    return SHOWN_BY_MESSAGES


@rule(
    "gcp-devices-missing",
    Layer.DRIVER,
    per=the_node,
    reported_by=(DecidingCommand("ls /proc/driver/nvp2p_dma_buf", "No such file or directory"),),
    cost="GPUDirect-TCPX cannot work in this container or on this kernel.",
    references=(_GKE,),
)
def gcp_devices_missing(node: Node, _: str) -> Outcome:
    """The kernel interface of Google's GPUDirect is missing in the container or on the node.

    Cost: NCCL's plugin stops.

    How to tell: /proc/driver/nvp2p_dma_buf does not exist where the job runs.

    What to do: Use the node image that the guide names, and give the pod its devices and a privileged
    daemon.

    Why: GPUDirect-TCPX gets dma-bufs of GPU memory from a kernel module of Google's images.

    Source: google/nccl-plugin-gpudirecttcpx src/gpu/tx_pool.cu.
    """
    return SHOWN_BY_MESSAGES


@rule(
    "devmem-header-split-off",
    Layer.RDMA,
    per=the_node,
    reported_by=(DecidingCommand("ethtool -g INTERFACE", "TCP data split: off"),),
    cost="The kernel refuses to receive TCP data into GPU memory.",
    references=("https://docs.kernel.org/networking/devmem.html",),
)
def devmem_header_split_off(node: Node, _: str) -> Outcome:
    """The network interface does not split headers from data, as device memory TCP needs.

    Cost: Binding a dma-buf to a receive queue fails.

    How to tell: The error says `tcp-data-split is disabled` or `hds-thresh is not zero`.

    What to do: Run `sudo ethtool -G <interface> tcp-data-split on`, and `sudo ethtool -G <interface>
    hds-thresh 0`.

    Why: Headers go to host memory, where the kernel reads them; only data goes to the GPU.

    Source: Linux net/core/devmem.c, net_devmem_bind_dmabuf_to_queue().
    """
    return SHOWN_BY_MESSAGES
