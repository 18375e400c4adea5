"""What the GPU Operator's policy asks for and nothing in the file, or on the node, provides.

With rdma.enabled, the driver waits for an OFED container, or with useHostMofed for an OFED on the host, for
which it takes the kernel's own mlx5_core too. Source: gpu-operator, cmd/nvidia-validator, MOFED. On a node,
the doctor's own rules say what the operator's containers do there, so that both judge a policy alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gdrkit.facts.gpu import is_before_turing
from gdrkit.facts.kubernetes import Manifest, boolean, deploys_ofed, gpu_operator, has_ofed_driver
from gdrkit.facts.pci import gpus
from gdrkit.formats.yaml_values import Scalar
from gdrkit.node import Node, if_missing
from gdrkit.repair.config.fault import ConfigFault, fault_at
from gdrkit.rules.driver_proprietary import driver_proprietary
from gdrkit.rules.engine import judge
from gdrkit.rules.gpu_operator import (
    operator_module_missing,
    operator_ofed_changed,
    operator_stub,
    operator_waits_for_ofed,
)
from gdrkit.rules.rdma_lacks_peer_api import rdma_lacks_peer_api
from gdrkit.rules.rule import Failed, Rule

PLACES = {"ClusterPolicy": ("spec", "driver"), "NVIDIADriver": ("spec",)}
NO_RDMA = "rdma.enabled: false (dma-buf needs no OFED)"
BY_POLICY: tuple[Rule, ...] = (operator_waits_for_ofed, operator_stub)
BY_CONTAINER: tuple[Rule, ...] = (operator_ofed_changed, operator_module_missing)
"""What a policy brings about, and what happened to its containers: another start may end it."""


def operator_faults(manifests: Iterable[Manifest], node: Node | None) -> Iterator[ConfigFault]:
    """Policies whose driver waits for an OFED for ever, builds nvidia-peermem without one, or is one that
    the doctor faults on the node."""
    every = tuple(manifests)
    deployed = has_ofed_driver(every)
    for one in every:
        if (place := PLACES.get(one.kind)) is None:
            continue
        found = tuple(_ofed_faults(one, place, node, deployed))
        yield from found
        if node is not None:
            yield from _container_faults(node, one, place, {fault.code for fault in found})
            yield from _flavour_faults(node, one, place)


def _ofed_faults(
    one: Manifest, place: tuple[str, ...], node: Node | None, deployed: bool | None
) -> Iterator[ConfigFault]:
    enabled = one.at(*place, "rdma", "enabled")
    if enabled is None or not boolean(enabled):
        return
    path = ".".join((*place, "rdma", "enabled"))
    if boolean(one.at(*place, "rdma", "useHostMofed")):
        if node is not None and _fails(node, rdma_lacks_peer_api):
            seen = "true, and this node has no OFED: nvidia-peermem is then built as a stub"
            yield fault_at(enabled.line, "operator-stub", path, seen, NO_RDMA)
    elif not deployed:
        supplied = if_missing(None, deploys_ofed, node) if node is not None else None
        if False in (deployed, supplied):
            seen = "true, and the NicClusterPolicy deploys no OFED: the driver waits for one for ever"
            expected = f"spec.ofedDriver in the NicClusterPolicy, or {NO_RDMA}"
            yield fault_at(enabled.line, "operator-waits-for-ofed", path, seen, expected)


def _fails(node: Node, rule: Rule) -> bool:
    return isinstance(judge(node, rule, "node"), Failed)


def _container_faults(
    node: Node, one: Manifest, place: tuple[str, ...], told: set[str]
) -> Iterator[ConfigFault]:
    """What the driver's containers do on the node, if its policy, as far as it is known, is this one."""
    enabled = one.at(*place, "rdma", "enabled")
    if enabled is None or not boolean(enabled):
        return
    known = if_missing(None, gpu_operator, node)
    by_host = bool(boolean(one.at(*place, "rdma", "useHostMofed")))
    if known is not None and (bool(known.rdma_enabled), bool(known.use_host_mofed)) != (True, by_host):
        return  # the log is that of other settings
    for rule in (*BY_POLICY, *BY_CONTAINER):
        outcome = judge(node, rule, "node")
        if isinstance(outcome, Failed) and rule.code not in told:
            seen = f"true, and on this node: {outcome.seen}"
            severity = "error" if known is not None and rule in BY_POLICY else "warning"
            path = ".".join((*place, "rdma", "enabled"))
            yield fault_at(enabled.line, rule.code, path, seen, NO_RDMA, severity)


def _flavour_faults(node: Node, one: Manifest, place: tuple[str, ...]) -> Iterator[ConfigFault]:
    """Modules without dma-buf, by name, or by a default that has led to them on this node: an error where
    the policy has no nvidia-peermem either."""
    kind = one.at(*place, "kernelModuleType")
    if not isinstance(kind, Scalar) or not _has_open_modules(node):
        return
    if kind.text == "proprietary" or (kind.text == "auto" and _by_operator(node)):
        peermem = boolean(one.at(*place, "rdma", "enabled"))
        seen = f"{kind.text}, which on this node means the proprietary modules: they have no dma-buf"
        seen = seen if peermem else f"{seen}, and without rdma.enabled there is no nvidia-peermem either"
        path, severity = ".".join((*place, "kernelModuleType")), "warning" if peermem else "error"
        yield fault_at(kind.line, driver_proprietary.code, path, seen, "open", severity)


def _by_operator(node: Node) -> bool:
    """Whether the node runs proprietary modules that the operator chose."""
    return if_missing(None, gpu_operator, node) is not None and _fails(node, driver_proprietary)


def _has_open_modules(node: Node) -> bool:
    """Whether the open modules support every GPU of the node, of which there is one."""
    found = if_missing((), gpus, node)
    return bool(found) and not any(if_missing(True, is_before_turing, node, gpu) for gpu in found)
