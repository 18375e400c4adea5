"""What the GPU Operator's policy asks for and nothing in the file, or on the node, provides: an OFED.

With rdma.enabled, the driver waits for an OFED container, or with useHostMofed for an OFED on the host, for
which it takes the kernel's own mlx5_core too. Source: gpu-operator, cmd/nvidia-validator, MOFED.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gdrkit.facts.kubernetes import Manifest, boolean, deploys_ofed, has_ofed_driver
from gdrkit.facts.packages import ofed
from gdrkit.node import Node, if_missing
from gdrkit.repair.config.fault import ConfigFault, fault_at

PLACES = {"ClusterPolicy": ("spec", "driver", "rdma"), "NVIDIADriver": ("spec", "rdma")}
NO_RDMA = "rdma.enabled: false (dma-buf needs no OFED)"


def operator_faults(manifests: Iterable[Manifest], node: Node | None) -> Iterator[ConfigFault]:
    """Policies whose driver waits for an OFED for ever, or builds nvidia-peermem without one."""
    every = tuple(manifests)
    deployed = has_ofed_driver(every)
    for one in every:
        place = PLACES.get(one.kind, ())
        enabled = one.at(*place, "enabled") if place else None
        if enabled is None or not boolean(enabled):
            continue
        path = f"{'.'.join(place)}.enabled"
        if boolean(one.at(*place, "useHostMofed")):
            if node is not None and not if_missing(True, _has_ofed, node):
                seen = "true, and this node has no OFED: nvidia-peermem is then built as a stub"
                yield fault_at(enabled.line, "operator-stub", path, seen, NO_RDMA)
        elif not deployed:
            supplied = if_missing(None, deploys_ofed, node) if node is not None else None
            if False in (deployed, supplied):
                seen = "true, and the NicClusterPolicy deploys no OFED: the driver waits for one for ever"
                expected = f"spec.ofedDriver in the NicClusterPolicy, or {NO_RDMA}"
                yield fault_at(enabled.line, "operator-waits-for-ofed", path, seen, expected)


def _has_ofed(node: Node) -> bool:
    return ofed(node).kind != "inbox"
