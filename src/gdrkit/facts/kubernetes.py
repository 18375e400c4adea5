"""What Kubernetes was told and what its operators' pods said: manifests and logs that came with a node.

Manifests and logs lie below `sos_commands/kubernetes/`, as somebody exported them; the node itself keeps its
pods' logs below /var/log/pods. A node that came without any has none: that is not a finding.
"""

from __future__ import annotations

import re

from msgspec import Struct

from gdrkit.facts.driver_files import has_driver_container
from gdrkit.formats.yaml_values import Scalar, Value, YamlMapping, YamlSequence, at, text_at
from gdrkit.node import Node, fact, if_missing

FOLDER = "sos_commands/kubernetes"
POD_LOGS = "var/log/pods"
DEPTH = 6
"""Folders below FOLDER that are entered: cluster-info/<namespace>/podlogs/<pod>/ has four, with room for
two."""


class Manifest(Struct, frozen=True):
    """One object as somebody wrote it. `kind` is MachineConfiguration for Talos, whose files have none."""

    kind: str
    name: str
    source: str
    line: int
    value: Value

    def text(self, *path: str) -> str:
        return text_at(self.value, *path)

    def at(self, *path: str) -> Value | None:
        return at(self.value, *path)


class UnreadableManifest(Struct, frozen=True):
    """A document that uses what this reader does not know."""

    source: str
    line: int
    fault: str


class OperatorSettings(Struct, frozen=True):
    """What the GPU Operator is told about the driver. None: not said, so the operator's default holds."""

    source: str
    line: int
    kind: str  # ClusterPolicy, NVIDIADriver
    rdma_enabled: bool | None
    use_host_mofed: bool | None
    use_precompiled: bool | None
    use_driver_crd: bool | None


# -- files -----------------------------------------------------------------------------------------------


@fact
def files(node: Node) -> tuple[str, ...]:
    """Every file that came with the node about its cluster; () if nothing was handed over."""
    return tuple(_below(node, FOLDER, DEPTH))


def _below(node: Node, folder: str, depth: int) -> list[str]:
    found = []
    for name in if_missing((), node.list, folder):  # none of a file, or where nothing was handed over
        path = f"{folder}/{name}"
        inside = _below(node, path, depth - 1) if depth and "." not in name else []
        found += inside or [path]
    return found


@fact
def pod_logs(node: Node) -> tuple[str, ...]:
    """Logs of the containers that load nvidia-peermem: handed over, or kept by this node's own kubelet."""
    found = [path for path in files(node) if "peermem" in path or path.endswith((".log", ".txt"))]
    # Logs of pods are for root, and add to what the node itself shows.
    for pod in if_missing((), node.list, POD_LOGS):
        if "nvidia-driver-daemonset" in pod or "nvidia-gpu-driver" in pod:
            found += _below(node, f"{POD_LOGS}/{pod}/nvidia-peermem-ctr", 0)
    return tuple(found)


# -- manifests -------------------------------------------------------------------------------------------


@fact
def parsed(node: Node, source: str) -> tuple[tuple[Manifest, ...], tuple[UnreadableManifest, ...]]:
    """The objects in one file, lists of objects taken apart, and the documents that could not be read."""
    text = node.text(source)
    if not re.search(r"(?:^|[{,])\s*\"?(?:apiVersion|machine|kind)\"?\s*:", text, re.MULTILINE):
        return (), ()
    from gdrkit.formats.yaml_text import documents

    manifests: list[Manifest] = []
    faults = []
    for document in documents(text):
        if document.value is None:
            faults.append(UnreadableManifest(source, document.line, document.fault))
        else:
            manifests += objects(document.value, source)
    return tuple(manifests), tuple(faults)


def objects(value: Value, source: str) -> list[Manifest]:
    """The objects of one document; of a list, each of its items. [] for what names no kind."""
    items = at(value, "items")
    if text_at(value, "kind").endswith("List") and isinstance(items, YamlSequence):
        return [manifest for item in items.items for manifest in objects(item, source)]
    kind = text_at(value, "kind")
    if not kind and isinstance(at(value, "machine"), YamlMapping):
        kind = "MachineConfiguration"
    return [Manifest(kind, text_at(value, "metadata", "name"), source, value.line, value)] if kind else []


@fact
def manifests(node: Node) -> tuple[Manifest, ...]:
    """Every object in the files that came with the node."""
    return tuple(found for source in _manifest_files(node) for found in parsed(node, source)[0])


@fact
def unreadable(node: Node) -> tuple[UnreadableManifest, ...]:
    """Documents among them that this reader cannot judge."""
    return tuple(fault for source in _manifest_files(node) for fault in parsed(node, source)[1])


def _manifest_files(node: Node) -> list[str]:
    return [path for path in files(node) if path.endswith((".yaml", ".yml", ".json"))]


def boolean(value: Value | None) -> bool | None:
    """A bare true or false; None for anything else, quoted words included: those are strings to the API
    server."""
    if isinstance(value, Scalar) and not value.quoted:
        return {"true": True, "false": False}.get(value.text.lower())
    return None


@fact
def gpu_operator(node: Node) -> OperatorSettings | None:
    """The driver settings of ClusterPolicy, or of NVIDIADriver where the policy leaves them to it; None if
    unseen.

    Sources: the operator's CustomResourceDefinitions, nvidia.com/v1 and nvidia.com/v1alpha1.
    """
    found = None
    for manifest in manifests(node):
        if manifest.kind not in ("ClusterPolicy", "NVIDIADriver"):
            continue
        prefix = ("spec", "driver") if manifest.kind == "ClusterPolicy" else ("spec",)
        settings = OperatorSettings(
            manifest.source,
            manifest.line,
            manifest.kind,
            boolean(manifest.at(*prefix, "rdma", "enabled")),
            boolean(manifest.at(*prefix, "rdma", "useHostMofed")),
            boolean(manifest.at(*prefix, "usePrecompiled")),
            boolean(manifest.at("spec", "driver", "useNvidiaDriverCRD")),
        )
        if found is None or manifest.kind == "NVIDIADriver" or not found.use_driver_crd:
            found = settings
    return found


@fact
def has_gpu_operator(node: Node) -> bool:
    """Whether the GPU Operator looks after this node's driver: its container or its policy is seen."""
    return has_driver_container(node) or gpu_operator(node) is not None


@fact
def deploys_ofed(node: Node) -> bool | None:
    """Whether a NicClusterPolicy deploys an OFED driver container; None if no such policy came with the
    node."""
    policies = [m for m in manifests(node) if m.kind in ("NicClusterPolicy", "NicNodePolicy")]
    if not policies:
        return None
    return any(isinstance(policy.at("spec", "ofedDriver"), YamlMapping) for policy in policies)
