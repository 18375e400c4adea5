"""Manifests that do not fit the schema of their resource."""

from __future__ import annotations

from gdrkit.facts.kubernetes import Manifest, boolean, manifests
from gdrkit.formats.yaml_values import YamlMapping, at, items_at
from gdrkit.node import Node
from gdrkit.rules.rule import Failed, Layer, NotApplicable, Outcome, Passed, Status, rule

CRDS = "https://github.com/NVIDIA/gpu-operator/tree/main/config/crd/bases"
REQUIRED = {
    "ClusterPolicy": (
        *("daemonsets", "dcgm", "dcgmExporter", "devicePlugin", "driver", "gfd", "nodeStatusExporter"),
        *("operator", "toolkit"),
    ),
    "NVIDIADriver": ("driverType", "image"),
}
"""spec.required of nvidia.com_clusterpolicies.yaml and nvidia.com_nvidiadrivers.yaml, the same in v25.3.4
and v26.7.0; the latter also requires `default` in NVIDIADriver, and fills it in."""

RDMA_KEYS = ("enabled", "useHostMofed")
MODULE_TYPES = ("", "auto", "open", "proprietary")


@rule(
    "manifest-invalid",
    Layer.APPLICATION,
    per=manifests,
    default_status=Status.WARNING,
    whole_machine=True,
    cost="The API server refuses it, or drops the intended part.",
    references=(CRDS, "https://coreos.github.io/butane/specs/"),
)
def manifest_invalid(node: Node, manifest: Manifest) -> Outcome:
    """A manifest does not fit the schema of the resource that it names.

    Cost: The intended setting does not take effect, in the worst case without an error.

    How to tell: `kubectl apply --dry-run=server --validate=strict -f <manifest>` reports an error. Common
    faults are a ClusterPolicy with spec.driver and nothing else; a misspelt key below rdma; settings below
    spec.driver.rdma although useNvidiaDriverCRD moves them to NVIDIADriver; an ofedDriver without image; a
    MachineConfig with `contents.inline`.

    What to do: Patch the existing object
    (`kubectl patch "$(kubectl get clusterpolicy -o name)" --type merge -p ...`), or change the Helm values.
    Then check again with `kubectl apply --dry-run=server --validate=strict`.

    Why: Recipes show excerpts, or mix formats: `inline` belongs to Butane, Ignition needs `contents.source`
    with a data: URL. A key that the schema does not have is dropped unless validation is strict.

    Source: NVIDIA/gpu-operator and Mellanox/network-operator config/crd/bases; Ignition specification 3.x,
    storage.files.contents.
    """
    faults = {
        "ClusterPolicy": _cluster_policy,
        "NVIDIADriver": _nvidia_driver,
        "NicClusterPolicy": _nic_cluster_policy,
        "MachineConfig": _machine_config,
    }
    judge = faults.get(manifest.kind)
    if judge is None:
        return NotApplicable(f"{manifest.kind} is not checked")
    fault = judge(manifest)
    if not fault:
        return Passed("its settings for GPUDirect RDMA fit")
    return Failed(
        seen=fault,
        expected="what the schema requires",
        subject=node.describe_line(manifest.source, manifest.line),
    )


def _cluster_policy(manifest: Manifest) -> str:
    missing = _missing_keys(manifest, "ClusterPolicy")
    if missing:
        return missing
    if boolean(manifest.at("spec", "driver", "useNvidiaDriverCRD")) and manifest.at(
        "spec", "driver", "rdma"
    ):
        return "spec.driver.rdma is ignored: useNvidiaDriverCRD: true reads it from NVIDIADriver"
    return _rdma(manifest, "spec", "driver")


def _nvidia_driver(manifest: Manifest) -> str:
    return _missing_keys(manifest, "NVIDIADriver") or _rdma(manifest, "spec")


def _missing_keys(manifest: Manifest, kind: str) -> str:
    spec = manifest.at("spec")
    if not isinstance(spec, YamlMapping):
        return "no spec"
    missing = [key for key in REQUIRED[kind] if spec.entry(key) is None]
    return f"spec has no {', '.join(missing)}" if missing else ""


def _rdma(manifest: Manifest, *prefix: str) -> str:
    """What is wrong with the settings of nvidia-peermem; "" if nothing is."""
    rdma = manifest.at(*prefix, "rdma")
    where = ".".join((*prefix, "rdma"))
    for entry in rdma.entries if isinstance(rdma, YamlMapping) else ():
        if entry.key not in RDMA_KEYS:
            return f"{where}.{entry.key} at line {entry.line} is not a known key ({', '.join(RDMA_KEYS)})"
        if boolean(entry.value) is None:
            return f"{where}.{entry.key} at line {entry.line} is not true or false"
    kind = manifest.text(*prefix, "kernelModuleType")
    if kind not in MODULE_TYPES:
        return f"kernelModuleType: {kind}"
    return ""


def _nic_cluster_policy(manifest: Manifest) -> str:
    ofed = manifest.at("spec", "ofedDriver")
    if isinstance(ofed, YamlMapping) and ofed.entry("image") is None:
        return "spec.ofedDriver has no image"
    return ""


ROLE = "machineconfiguration.openshift.io/role"


def _machine_config(manifest: Manifest) -> str:
    config = manifest.at("spec", "config")
    for file in items_at(config, "storage", "files"):
        inline = at(file, "contents", "inline")
        if inline is not None:
            return f"contents.inline at line {inline.line} is for Butane; Ignition needs contents.source"
    labels = manifest.at("metadata", "labels")
    if not isinstance(labels, YamlMapping) or labels.entry(ROLE) is None:
        return f"no label {ROLE}, so no pool uses it"
    return ""
