"""Ports of which another device shows the same physical port: a cable of a Spark is two devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gdrkit.facts.gpu import has_gb10
from gdrkit.facts.rdma import RdmaPort, nics, phys_port_name, ports
from gdrkit.formats.regex import regex
from gdrkit.node import Node, fact, if_missing

if TYPE_CHECKING:  # most nodes have no such matrix
    from gdrkit.formats.topo_matrix import Matrix

NCCL_TEST_GB_PER_S, NCCL_TEST_GBIT_PER_S = 21.875, 200
"""The bus bandwidth that NVIDIA's own test of two Sparks asks of NCCL, over a cable of that rate:
MIN_NCCL_TEST_BW in dgx-spark-playbooks at 0db7c14, multi-sparks-through-switch, spark_cluster_setup.py. The
runs in docs/measurements.md that reach it have 23.74 and 25.67 GB/s."""

CABLES = (("rocep1s0f0", "roceP2p1s0f0"), ("rocep1s0f1", "roceP2p1s0f1"))
"""The RDMA devices of each port of a DGX Spark, one for each of the NIC's two PCIe links of four lanes.
Source: NVIDIA DGX Spark user guide, spark-clustering; NVIDIA/dgx-spark-playbooks, nccl."""

AS_BUILT = (
    "NODE is what every machine like a DGX Spark shows, as GPU and NIC are in PCI domains of their own"
)
"""Source: the matrix of a DGX Spark in tests/explain/outputs/test_topologies.py; the GPU is 000f:01:00.0."""
DEVICES = frozenset(device for cable in CABLES for device in cable)
_NAMES = regex(r"(?<![\w.-])(?:roce|en)((?:P2)?p1s0f[01])(?:np[01])?(?!\w)")


def names_a_spark(text: str) -> bool:
    """Whether a text has the names of all four RDMA devices, or interfaces, of a Spark. An ordinary card in
    the same slot has two of them."""
    return {f"roce{place}" for place in _NAMES.findall(text)} == DEVICES


def is_of_a_spark(matrix: Matrix) -> bool:
    """Whether a matrix of nvidia-smi is a Spark's: these four devices, and one GPU whose memory has no NUMA
    node of its own, which it has beside a Grace."""
    gpus = [name for name in matrix.names if name not in DEVICES]
    rows = [row for name, row in matrix.rows.items() if name in gpus]
    alone = gpus == ["GPU0"] and DEVICES.issubset(matrix.names)
    return alone and not any(row.gpu_numa_id for row in rows)


def other_half(device: str) -> str:
    """The RDMA device of a Spark's same port on the other PCIe link; "" for a device of another name."""
    return next((pair[1 - pair.index(device)] for pair in CABLES if device in pair), "")


def interface_of(device: str) -> str:
    """The network interface of such a device: enp1s0f1np1 of rocep1s0f1. Source: what ibdev2netdev prints
    in NVIDIA/dgx-spark-playbooks at 0db7c14, nccl."""
    return f"en{device.removeprefix('roce')}np{device[-1:]}"


@fact
def halves_down(node: Node) -> tuple[RdmaPort, ...]:
    """The ports of a Spark that are not active, though another device of the same physical port is: their
    cable has a link, and half of it is unused. Those of which no physical port is known are left out."""
    if not has_gb10(node):
        return ()
    named = [
        (if_missing("", phys_port_name, node, port.device, port.number), port)
        for nic in nics(node)
        for port in if_missing((), ports, node, nic.name)
    ]
    up = {name for name, port in named if name and port.state == "ACTIVE"}
    return tuple(port for name, port in named if name in up and port.state != "ACTIVE")
