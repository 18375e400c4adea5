"""Manifests of a Kubernetes cluster and logs of its operators' pods, as supplied with a node.

Exported manifests and logs are below `sos_commands/kubernetes/`; the node itself keeps the logs of its pods
below /var/log/pods. They are optional: a node without them is not a finding.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from msgspec import Struct

from gdrkit.facts.assignments import NAME
from gdrkit.facts.driver_files import has_driver_container
from gdrkit.facts.machine import distribution
from gdrkit.facts.object_owner import Owner, owner_of
from gdrkit.formats.regex import regex
from gdrkit.formats.yaml_values import Scalar, Value, YamlMapping, YamlSequence, at, text_at
from gdrkit.node import Node, fact, if_missing

FOLDER = "sos_commands/kubernetes"
POD_LOGS = "var/log/pods"
DEPTH = 6
"""Levels of folders below FOLDER that are searched: cluster-info/<namespace>/podlogs/<pod>/ has four."""


class Manifest(Struct, frozen=True):
    """One object of a manifest. For Talos, whose files have no `kind`, it is MachineConfiguration."""

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
    """A document with syntax that this reader does not support."""

    source: str
    line: int
    fault: str


class OperatorSettings(Struct, frozen=True):
    """The GPU Operator's settings for the driver. None: not set, so the operator's default applies."""

    source: str
    line: int
    kind: str  # ClusterPolicy, NVIDIADriver
    rdma_enabled: bool | None
    use_host_mofed: bool | None
    use_precompiled: bool | None
    use_driver_crd: bool | None
    installs_driver: bool | None


# -- files -----------------------------------------------------------------------------------------------


@fact
def files(node: Node) -> tuple[str, ...]:
    """Every file about the cluster that was supplied with the node; () if there is none."""
    return tuple(_below(node, FOLDER, DEPTH))


def _below(node: Node, folder: str, depth: int) -> list[str]:
    found = []
    for name in if_missing((), node.list, folder):  # a file, or nothing was supplied
        path = f"{folder}/{name}"
        inside = _below(node, path, depth - 1) if depth and "." not in name else []
        found += inside or [path]
    return found


@fact
def pod_logs(node: Node) -> tuple[str, ...]:
    """Logs of the containers that load nvidia-peermem: supplied ones, and those of this node's kubelet."""
    found = [path for path in files(node) if "peermem" in path or path.endswith((".log", ".txt"))]
    # Pods' logs need root, and only add to what the node itself shows.
    for pod in if_missing((), node.list, POD_LOGS):
        if "nvidia-driver-daemonset" in pod or "nvidia-gpu-driver" in pod:
            found += _below(node, f"{POD_LOGS}/{pod}/nvidia-peermem-ctr", 0)
    return tuple(found)


# -- manifests -------------------------------------------------------------------------------------------


@fact
def parsed(node: Node, source: str) -> tuple[tuple[Manifest, ...], tuple[UnreadableManifest, ...]]:
    """The objects in one file, those in lists included, and the documents that could not be parsed."""
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
    """The object of one document, or each item of a list; [] for a document without a kind."""
    items = at(value, "items")
    if text_at(value, "kind").endswith("List") and isinstance(items, YamlSequence):
        return [manifest for item in items.items for manifest in objects(item, source)]
    kind = text_at(value, "kind")
    if not kind and isinstance(at(value, "machine"), YamlMapping):
        kind = "MachineConfiguration"
    return [Manifest(kind, text_at(value, "metadata", "name"), source, value.line, value)] if kind else []


def settings_of(value: Value) -> Iterator[tuple[int, str, str, str]]:
    """The variables of programs that an object sets: line, name, value, and the key that they are below."""
    yield from _settings_below(value, "")


_IN_TEXT = rf"(?<![\w$-])(?P<name>{NAME})=(?P<value>\"[^\"]*\"|'[^']*'|[^\s;&\"']*)"
"""An assignment in the text of a command or a file, where there are no sentences."""


def _settings_below(value: Value, key: str) -> Iterator[tuple[int, str, str, str]]:
    if isinstance(value, YamlSequence):
        for item in value.items:
            if not isinstance(item, Scalar) or "=" in item.text:
                yield from _settings_below(item, key)
    elif isinstance(value, YamlMapping):
        if (name := text_at(value, "name")) and isinstance(given := at(value, "value"), Scalar):
            yield given.line, name, given.text, "env"
        for entry in value.entries:
            given = entry.value
            if not isinstance(given, Scalar):
                yield from _settings_below(given, entry.key)
            elif "_" in entry.key and re.fullmatch(NAME, entry.key):
                yield given.line, entry.key, given.text, key
            elif "=" in given.text:
                yield from _settings_below(given, entry.key)
    elif isinstance(value, Scalar) and "=" in value.text:
        first = value.line + ("\n" in value.text and not value.quoted)  # a block begins below its key
        for number, line in enumerate(value.text.split("\n"), first):
            if not line.lstrip().startswith("#"):
                for found in re.finditer(_IN_TEXT, line):
                    yield number, found["name"], found["value"].strip("\"'"), key


@fact
def manifests(node: Node) -> tuple[Manifest, ...]:
    """Every object in the files supplied with the node."""
    return tuple(found for source in _manifest_files(node) for found in parsed(node, source)[0])


@fact
def unreadable(node: Node) -> tuple[UnreadableManifest, ...]:
    """The documents in these files that could not be parsed."""
    return tuple(fault for source in _manifest_files(node) for fault in parsed(node, source)[1])


def _manifest_files(node: Node) -> list[str]:
    return [path for path in files(node) if path.endswith((".yaml", ".yml", ".json"))]


def boolean(value: Value | None) -> bool | None:
    """A bare true or false; None for anything else. Quoted words are strings to the API server."""
    if isinstance(value, Scalar) and not value.quoted:
        return {"true": True, "false": False}.get(value.text.lower())
    return None


@fact
def gpu_operator(node: Node) -> OperatorSettings | None:
    """The driver settings of ClusterPolicy, or of NVIDIADriver where the policy refers to it; None if
    neither was supplied.

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
            boolean(manifest.at("spec", "driver", "enabled")),
        )
        if found is None or manifest.kind == "NVIDIADriver" or not found.use_driver_crd:
            found = settings
    return found


TALOS_KINDS = ("MachineConfiguration", "KernelModuleConfig")
"""Documents of a machine configuration of Talos."""
OPENSHIFT = frozenset(("rhcos", "rhel/coreos"))
"""Its nodes, as `Distribution.systems`."""
_NAME = regex(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
"""A name that the API server takes: RFC 1123, DNS subdomain."""


@fact
def policy_name(node: Node) -> str:
    """The name of the GPU Operator's ClusterPolicy: of the one supplied, else the usual one of the platform.
    Raises EvidenceMissing.

    Source: the Helm chart of gpu-operator creates `cluster-policy`; NVIDIA's guide for OpenShift, whose
    console creates it, `gpu-cluster-policy`."""
    supplied = (one.name for one in manifests(node) if one.kind == "ClusterPolicy")
    if name := next(filter(_NAME.fullmatch, supplied), ""):
        return name
    return "gpu-cluster-policy" if distribution(node).systems & OPENSHIFT else "cluster-policy"


@fact
def policy_owner(node: Node) -> Owner | None:
    """What manages the policy of an operator that was supplied; None if nothing shows it."""
    for one in manifests(node):
        if one.kind in ("ClusterPolicy", "NVIDIADriver", "NicClusterPolicy"):
            lines = node.text(one.source).splitlines()[max(one.line - 1, 0) :]
            if (owner := owner_of(lines)) is not None:
                return owner
    return None


@fact
def has_gpu_operator(node: Node) -> bool:
    """Whether the GPU Operator manages this node's driver: its driver container or its policy is present."""
    return has_driver_container(node) or gpu_operator(node) is not None


@fact
def has_operator_driver(node: Node) -> bool:
    """Whether the GPU Operator is known to bring and load this node's driver, as it does by default."""
    settings = gpu_operator(node)
    return has_driver_container(node) or (settings is not None and settings.installs_driver is not False)


@fact
def operator_namespace(node: Node) -> str:
    """The namespace of the GPU Operator: that of its guide for the platform."""
    systems = if_missing(frozenset(), lambda: distribution(node).systems)
    return "nvidia-gpu-operator" if systems & OPENSHIFT else "gpu-operator"


@fact
def is_talos(node: Node) -> bool:
    """Whether this is known to be Talos, which has no shell: by its os-release, or by the machine
    configuration supplied with it."""
    if if_missing("", lambda: distribution(node).id) == "talos":
        return True
    return any(one.kind in TALOS_KINDS for one in manifests(node))


@fact
def runs_pods(node: Node) -> bool:
    """Whether the programs that use the GPUs are known to run in pods, each with the libraries of its image:
    on a node of the GPU Operator, and on Talos, which runs nothing else."""
    return has_gpu_operator(node) or is_talos(node)


OFED_READY = "run/mellanox/drivers/.driver-ready"
"""The file that the Network Operator's driver container makes on the host once its modules are loaded."""


@fact
def deploys_ofed(node: Node) -> bool | None:
    """Whether a NicClusterPolicy deploys an OFED driver container; None if no such policy was supplied."""
    return has_ofed_driver(manifests(node))


def has_ofed_driver(some: Iterable[Manifest]) -> bool | None:
    """Whether a NicClusterPolicy or NicNodePolicy among these objects deploys an OFED; None without one."""
    policies = [one for one in some if one.kind in ("NicClusterPolicy", "NicNodePolicy")]
    if not policies:
        return None
    return any(isinstance(policy.at("spec", "ofedDriver"), YamlMapping) for policy in policies)
