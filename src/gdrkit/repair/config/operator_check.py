"""What the GPU Operator's policy asks for and nothing in the file, or on the node, provides.

With rdma.enabled, the driver waits for an OFED container, or with useHostMofed for an OFED on the host, for
which it takes the kernel's own mlx5_core too; it then builds nvidia-peermem with the sources in /usr/src of
the host, not with those of an OFED container. Source: gpu-operator, cmd/nvidia-validator, MOFED, and
controllers/object_controls.go, transformDriverContainer(); NVIDIA's page on GPUDirect RDMA. On a node,
the doctor's own rules say what the operator's containers do there, so that both judge a policy alike. An
object of a cluster also says itself which of its parts are not ready.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gdrkit.facts.gpu import is_before_turing
from gdrkit.facts.kubernetes import Manifest, boolean, deploys_ofed, gpu_operator, has_ofed_driver
from gdrkit.facts.pci import gpus
from gdrkit.formats.yaml_values import Scalar, items_at, text_at
from gdrkit.messages.operator import DRIVER_POD_LOG, OFED_POD_LOG
from gdrkit.node import Node, if_missing
from gdrkit.repair.config.fault import ConfigFault, fault_at
from gdrkit.repair.config.recognise import VALUES
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

PLACES = {"ClusterPolicy": ("spec", "driver"), "NVIDIADriver": ("spec",), VALUES: ("driver",)}
"""Where each has the driver's settings. In the chart's values, they have the same names: its
templates/clusterpolicy.yaml."""
NO_RDMA = "rdma.enabled: false (dma-buf needs no OFED)"
BY_POLICY: tuple[Rule, ...] = (operator_waits_for_ofed, operator_stub)
BY_CONTAINER: tuple[Rule, ...] = (operator_ofed_changed, operator_module_missing)
"""What a policy brings about, and what happened to its containers: another start may end it."""


def operator_faults(
    manifests: Iterable[Manifest], node: Node | None, beside: Iterable[Manifest] = ()
) -> Iterator[ConfigFault]:
    """Policies whose driver waits for an OFED for ever, builds nvidia-peermem without one, or is one that
    the doctor faults on the node; and those that are not ready. `beside`: the objects of other files."""
    every = tuple(manifests)
    deployed = has_ofed_driver((*every, *beside))
    for one in every:
        yield from _status_faults(one)
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
    host = one.at(*place, "rdma", "useHostMofed")
    if host is not None and boolean(host):
        if deployed:
            seen = "true, and the NicClusterPolicy deploys an OFED, for which the driver then does not wait"
            expected = f"false with spec.ofedDriver, or no ofedDriver; or {NO_RDMA}"
            where = ".".join((*place, "rdma", "useHostMofed"))
            yield fault_at(host.line, "operator-stub", where, seen, expected, "warning")
        elif node is not None and _fails(node, rdma_lacks_peer_api):
            seen = "true, and this node has no OFED: nvidia-peermem is then built as a stub"
            yield fault_at(enabled.line, "operator-stub", path, seen, NO_RDMA)
    elif not deployed:
        supplied = if_missing(None, deploys_ofed, node) if node is not None else None
        if False in (deployed, supplied):
            seen = "true, and the NicClusterPolicy deploys no OFED: the driver waits for one for ever"
            expected = f"spec.ofedDriver in the NicClusterPolicy, or {NO_RDMA}"
            yield fault_at(enabled.line, "operator-waits-for-ofed", path, seen, expected)
        elif deployed is None and node is None:
            seen = "true: the driver waits for an OFED, and what deploys one is not in this file"
            expected = "a NicClusterPolicy with spec.ofedDriver; check both files together"
            yield fault_at(enabled.line, "operator-waits-for-ofed", path, seen, expected, "note")


OF_OFED = "state-OFED"
LIVE = {
    "ClusterPolicy": DRIVER_POD_LOG,
    "NVIDIADriver": DRIVER_POD_LOG,
    "NicClusterPolicy": OFED_POD_LOG,
    "NicNodePolicy": OFED_POD_LOG,
}
"""The objects that have a state in a cluster, and the log that says why most of them are not ready."""
NOT_READY = ("notReady", "error")
"""Source: gpu-operator api/nvidia/v1/clusterpolicy_types.go; network-operator api/v1alpha1, State."""


def _status_faults(one: Manifest) -> Iterator[ConfigFault]:
    """What an object of a cluster says of its own state, if it is not ready."""
    if one.kind not in LIVE:
        yield from _failed(one)
        return
    state = one.at("status", "state")
    if not isinstance(state, Scalar) or state.text not in NOT_READY:
        return
    parts = {
        text_at(part, "name"): text_at(part, "error")
        for part in items_at(one.value, "status", "appliedStates")
        if text_at(part, "state") in NOT_READY
    }
    named = "; ".join(": ".join(filter(None, part)) for part in parts.items())
    if any(parts.values()):
        expected = "ready"
    elif OF_OFED in parts or not parts:
        expected = f"ready; for the reason read {LIVE[one.kind]}"
    else:
        expected = "ready; `kubectl get pods -n nvidia-network-operator` shows which pod is not"
    seen = f"{state.text} in the cluster{': ' if named else ''}{named}"
    yield fault_at(state.line, "not-ready", "status.state", seen, expected, "warning")


STATES, ERRORS = ("syncStatus", "phase", "state"), ("lastSyncError", "error", "message", "reason")
FAILED = ("failed", "error")
"""Where an object of another kind has its state and the error, and how those begin that failed. Source:
sriov-network-operator api/v1/sriovnetworknodestate_types.go, and SyncStatusFailed; Kubernetes, PodStatus."""


def _failed(one: Manifest) -> Iterator[ConfigFault]:
    """That an object says of itself that it failed, with the error that it gives."""
    for name in STATES:
        state = one.at("status", name)
        if isinstance(state, Scalar) and state.text.lower() in FAILED:
            why = next(filter(None, (one.text("status", error) for error in ERRORS)), "")
            seen = f"{state.text} in the cluster{': ' if why else ''}{why}"
            yield fault_at(state.line, "not-ready", f"status.{name}", seen, "no failure", "warning")
            return


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


def _flavour_faults(node: Node | None, one: Manifest, place: tuple[str, ...]) -> Iterator[ConfigFault]:
    """Modules without dma-buf, by name, or by a default that has led to them on this node: an error where
    the policy has no nvidia-peermem either. Without a node, GPUs may be too old for the open modules."""
    kind = one.at(*place, "kernelModuleType")
    if not isinstance(kind, Scalar) or (node is not None and not _has_open_modules(node)):
        return
    if kind.text == "proprietary" or (kind.text == "auto" and node is not None and _by_operator(node)):
        peermem = boolean(one.at(*place, "rdma", "enabled"))
        here = ", which on this node means the proprietary modules" if node is not None else ""
        seen = f"{kind.text}{here}: they have no dma-buf"
        seen = seen if peermem else f"{seen}, and without rdma.enabled there is no nvidia-peermem either"
        severities = ("error", "warning") if node is not None else ("warning", "note")
        path = ".".join((*place, "kernelModuleType"))
        yield fault_at(kind.line, driver_proprietary.code, path, seen, "open", severities[bool(peermem)])


def _by_operator(node: Node) -> bool:
    """Whether the node runs proprietary modules that the operator chose."""
    return if_missing(None, gpu_operator, node) is not None and _fails(node, driver_proprietary)


def _has_open_modules(node: Node) -> bool:
    """Whether the open modules support every GPU of the node, of which there is one."""
    found = if_missing((), gpus, node)
    return bool(found) and not any(if_missing(True, is_before_turing, node, gpu) for gpu in found)
