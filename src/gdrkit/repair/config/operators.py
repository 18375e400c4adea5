"""Configuration of NVIDIA's GPU Operator and Network Operator.

A patch or a separate resource, never a whole ClusterPolicy: nine of its sections are required, and it would
overwrite what Helm set. Custom resources do not support strategic merge, so a patch is a JSON merge patch
(RFC 7386) or a JSON patch (RFC 6902).
"""

from __future__ import annotations

from gdrkit.facts.driver import driver_version
from gdrkit.facts.kubernetes import policy_name
from gdrkit.facts.pci import devices
from gdrkit.facts.rdma import nic_address
from gdrkit.formats.versions import numbers
from gdrkit.node import Node, if_missing
from gdrkit.repair.config.boot_files import (
    REASONS,
    impossible,
    module_parameters,
    never_peermem,
    state_of_dmabuf,
)
from gdrkit.repair.config.output import ConfigOutput, ConfigRefused, OutputLine
from gdrkit.repair.config.request import (
    ConfigRequest,
    PathChoice,
    active_ports,
    ask,
    choose_declared,
    has_gpu_before_turing,
)
from gdrkit.repair.config.yaml_writer import Field, Literal, lines
from gdrkit.verdict.path_state import State

GPU_FORMS = ("merge", "json-patch", "helm", "nvidiadriver", "configmap")
GPU_VERSIONS = ("v25.3.4", "v26.7.0")
"""Tags of NVIDIA/gpu-operator whose CustomResourceDefinitions the tests check the output against."""
OFED_OF = {
    "v25.7.0": "doca3.1.0-25.07-0.9.7.0-0",
    "v26.1.0": "doca3.3.0-26.01-1.0.0.0-0",
    "v26.4.0": "doca3.4.0-26.04-0.8.6.0-0",
    "v26.4.1": "doca3.4.1-26.04-1.1.0.0-1",
}
"""The OFED version that each Network Operator was released with. Source: Mellanox/network-operator
hack/release.yaml at each tag, Mofed.version."""
CONFIG_MAP = "gdrkit-kernel-modules"
NAMESPACE = "gpu-operator"


def gpu_operator(request: ConfigRequest) -> ConfigOutput | ConfigRefused:
    """The GPU Operator's driver settings, in the requested form."""
    choice = choose_declared(request)
    if never_peermem(request, choice.path):
        return impossible("gpu-operator", request)
    form = request.form or "merge"
    if form == "configmap":
        return _config_map(request)
    assumed, notes = list(choice.assumed), list(choice.notes)
    fields = _driver(request, choice, assumed)
    writes = {"merge": _merge, "json-patch": _json_patch, "helm": _helm, "nvidiadriver": _nvidia_driver}
    title, file, use, out = writes[form](request, fields, assumed)
    if module_parameters(request):
        notes.append(f"apply the ConfigMap {CONFIG_MAP} first: gdr config gpu-operator --form configmap")
    if choice.path == "dmabuf" and state_of_dmabuf(request) is not State.IMPOSSIBLE:
        notes.append(
            "pods need an RDMA device, the capability IPC_LOCK, and rdma-core 34 or newer in the image"
        )
    return ConfigOutput(
        kind="gpu-operator", form=form, title=title, file=file, use=use, lines=out,
        assumed=tuple(assumed), notes=tuple(notes), commentable=form != "json-patch",
    )  # fmt: skip


def _driver(request: ConfigRequest, choice: PathChoice, assumed: list[str]) -> tuple[Field, ...]:
    """Fields of ClusterPolicy spec.driver, and of NVIDIADriver spec, which have the same names."""
    fields = []
    if has_gpu_before_turing(request):
        why = "the open kernel modules do not support GPUs before Turing"
        fields.append(Field("kernelModuleType", "proprietary", why))
    else:
        why = "dma-buf needs the open kernel modules; auto chooses them only from driver 570 on"
        if choice.path == "peermem":
            why = "the open kernel modules support peermem too, and dma-buf later"
        fields.append(Field("kernelModuleType", "open", why))
    fields.append(Field("rdma", _rdma(request, choice, assumed), "only the nvidia-peermem container"))
    if choice.path == "peermem":
        why = "precompiled images are built without OFED: their nvidia-peermem is a stub"
        fields.append(Field("usePrecompiled", False, why))
    if module_parameters(request):
        why = "module parameters, from a ConfigMap in the operator's namespace"
        fields.append(Field("kernelModuleConfig", (Field("name", CONFIG_MAP),), why))
    return tuple(fields)


def _rdma(request: ConfigRequest, choice: PathChoice, assumed: list[str]) -> tuple[Field, ...]:
    if choice.path == "dmabuf":
        why = "dma-buf does not need the container, which would crash-loop with the kernel's own RDMA stack"
        return (
            Field("enabled", False, why),
            Field("useHostMofed", False, "do not wait for an OFED on the host"),
        )
    if not request.ofed:
        assumed.append("the Network Operator provides OFED; if the hosts have one, use --ofed host")
    host = request.ofed == "host"
    why = "the hosts' DOCA-OFED; any mlx5_core is accepted, even the kernel's own, which results in a stub"
    if not host:
        why = "waits for the OFED of NicClusterPolicy.spec.ofedDriver, forever if there is none"
    return (
        Field("enabled", True, "build nvidia-peermem against OFED, and load it"),
        Field("useHostMofed", host, why),
    )


ASKED_POLICY = '"$(kubectl get clusterpolicy -o name)"'
"""The shell's word for the policy of a cluster, whatever its name."""


def patch_command(node: Node | None) -> str:
    """The command that patches a node's ClusterPolicy, or the cluster's, without the type of the patch."""
    name = if_missing("", policy_name, node) if node is not None else ""
    return f"kubectl patch {f'clusterpolicy/{name}' if name else ASKED_POLICY} --type"


Written = tuple[str, str, str, tuple[OutputLine, ...]]


def _merge(request: ConfigRequest, driver: tuple[Field, ...], assumed: list[str]) -> Written:
    del assumed
    out = lines((Field("spec", (Field("driver", driver),)),))
    use = f"{patch_command(request.node)} merge --patch-file gpu-operator-patch.yaml"
    return "JSON merge patch for the ClusterPolicy", "gpu-operator-patch.yaml", use, out


def _json_patch(request: ConfigRequest, driver: tuple[Field, ...], assumed: list[str]) -> Written:
    """Uses `add`, which replaces existing values, also whole objects (RFC 6902, 4.1)."""
    del assumed
    rows = [
        OutputLine(f'  {{"op": "add", "path": "/spec/driver/{f.name}", "value": {_json(f.value)}}},', f.why)
        for f in driver
    ]
    rows[-1] = OutputLine(rows[-1].text[:-1], rows[-1].why)
    use = f"{patch_command(request.node)} json --patch-file gpu-operator-patch.json"
    title = "JSON patch for the ClusterPolicy"
    return title, "gpu-operator-patch.json", use, (OutputLine("["), *rows, OutputLine("]"))


def _json(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return "{" + ", ".join(f'"{field.name}": {_json(field.value)}' for field in value) + "}"
    return f'"{value}"'


def _helm(request: ConfigRequest, driver: tuple[Field, ...], assumed: list[str]) -> Written:
    del request, assumed
    use = "helm upgrade gpu-operator nvidia/gpu-operator -n gpu-operator --reuse-values -f FILE"
    return "values for the GPU Operator's Helm chart", "gpu-operator-values.yaml", use, lines(
        (Field("driver", driver),)
    )  # fmt: skip


def _nvidia_driver(request: ConfigRequest, driver: tuple[Field, ...], assumed: list[str]) -> Written:
    """An NVIDIADriver resource, for clusters with useNvidiaDriverCRD: true."""
    version = request.driver_version or ask(request, driver_version) or ""
    own = [
        Field("driverType", "gpu", "a data center driver, not for vGPU; cannot be changed later"),
        Field("repository", "nvcr.io/nvidia", "registry of the image"),
        Field("image", "driver", "required with driverType"),
    ]
    if version:
        why = "requested with --driver-version" if request.driver_version else "as on this node"
        own.append(Field("version", version, why))
    else:
        assumed.append("spec.version is missing: add the driver's version, or use --driver-version")
    if _has_default(request, assumed):
        own.insert(
            0, Field("default", False, "required; true would serve nodes that no other NVIDIADriver selects")
        )
    selector = (Field("nvidia.com/gpu.present", "true"),)
    own.append(
        Field(
            "nodeSelector", selector, "the nodes to manage; two NVIDIADrivers must not select the same node"
        )
    )
    out = lines(
        (
            Field("apiVersion", "nvidia.com/v1alpha1"),
            Field("kind", "NVIDIADriver"),
            Field("metadata", (Field("name", "gdrkit"),)),
            Field("spec", (*own, *driver)),
        )
    )
    use = "kubectl apply -f nvidiadriver.yaml; needs useNvidiaDriverCRD: true in the ClusterPolicy"
    return "NVIDIADriver", "nvidiadriver.yaml", use, out


def _has_default(request: ConfigRequest, assumed: list[str]) -> bool:
    """Whether the resource has `default`: in v26.7.0, not in v25.3.4, unknown for versions between them."""
    oldest, newest = (numbers(tag.removeprefix("v")) for tag in GPU_VERSIONS)
    version = numbers(request.operator_version.removeprefix("v")) or newest
    if oldest < version < newest:
        assumed.append(f"{request.operator_version} has the fields of {GPU_VERSIONS[0]} (not verified)")
    return version >= newest


WHY_NAMESPACE = "must be the operator's namespace"


def _config_map(request: ConfigRequest) -> ConfigOutput | ConfigRefused:
    """Module parameters for the driver container: a file per module, one parameter per line."""
    by_module: dict[str, list[tuple[str, str]]] = {}
    for module, name, value in module_parameters(request):
        by_module.setdefault(module, []).append((name, value))
    if not by_module:
        return ConfigRefused(
            kind="gpu-operator",
            why="no module parameter needs to be set",
            instead="set one with --parameter nvidia-peermem:persistent_api_support=0",
        )
    files = tuple(
        Field(
            f"{module}.conf",
            Literal("".join(f"{name}={value}\n" for name, value in values)),
            "; ".join(
                REASONS.get((module, name), f"{name}: requested with --parameter") for name, _ in values
            ),
        )
        for module, values in by_module.items()
    )
    out = lines(
        (
            Field("apiVersion", "v1"),
            Field("kind", "ConfigMap"),
            Field("metadata", (Field("name", CONFIG_MAP), Field("namespace", NAMESPACE, WHY_NAMESPACE))),
            Field("data", files),
        )
    )
    return ConfigOutput(
        kind="gpu-operator",
        form="configmap",
        title="module parameters for the GPU Operator's driver",
        file="kernel-modules.yaml",
        use="kubectl apply -f kernel-modules.yaml; then apply the patch with kernelModuleConfig.name",
        lines=out,
    )


# -- Network Operator --------------------------------------------------------------------------------

REPOSITORY = "nvcr.io/nvidia/mellanox"
WHY_OFED = "provides the peer-memory API that nvidia-peermem is built against"
WHY_SHARED = "provides /dev/infiniband to pods that request rdma/rdma_shared_device_a: 1"
WHY_NAME = "the operator accepts no other name"


def network_operator(request: ConfigRequest) -> ConfigOutput | ConfigRefused:
    """A NicClusterPolicy: OFED if peermem needs it, and RDMA devices for pods."""
    choice = choose_declared(request)
    requested = request.operator_version or list(OFED_OF)[-1]
    version = next((tag for tag in OFED_OF if tag.removeprefix("v") == requested.removeprefix("v")), "")
    if not version and not request.ofed_version:
        known = ", ".join(OFED_OF)
        return ConfigRefused(
            kind="network-operator",
            why=f"unknown OFED version for Network Operator {requested}; known for {known}",
            instead="set --ofed-version to the one in the operator's release notes",
        )
    tag = version or "v" + requested.removeprefix("v")
    spec = []
    if choice.path == "peermem" and request.ofed != "host":
        spec.append(Field("ofedDriver", _ofed(request.ofed_version or OFED_OF[version]), WHY_OFED))
    spec.append(Field("rdmaSharedDevicePlugin", _shared(request, tag), WHY_SHARED))
    notes = list(choice.notes)
    if choice.path == "dmabuf":
        notes.append("no ofedDriver: dma-buf works with the kernel's own RDMA stack")
    notes.append("a cluster has only one NicClusterPolicy: merge this into an existing one")
    return ConfigOutput(
        kind="network-operator",
        form="nicclusterpolicy",
        title=f"NicClusterPolicy for Network Operator {tag}",
        file="nicclusterpolicy.yaml",
        use="kubectl apply --server-side -f nicclusterpolicy.yaml",
        lines=lines(
            (
                Field("apiVersion", "mellanox.com/v1alpha1"),
                Field("kind", "NicClusterPolicy"),
                Field("metadata", (Field("name", "nic-cluster-policy", WHY_NAME),)),
                Field("spec", tuple(spec)),
            )
        ),
        assumed=choice.assumed,
        notes=tuple(notes),
    )


WHY_DRAIN = "GPU pods use nvidia-peermem, which uses the RDMA modules to be replaced"


def _ofed(version: str) -> tuple[Field, ...]:
    return (
        Field("image", "doca-driver", "required"),
        Field("repository", REPOSITORY, "required up to v25.7"),
        Field("version", version, "OFED version for this operator"),
        Field(
            "upgradePolicy",
            (
                Field("autoUpgrade", True, "upgrade nodes one after the other"),
                Field("drain", (Field("enable", True, WHY_DRAIN),)),
            ),
        ),
    )


def _shared(request: ConfigRequest, tag: str) -> tuple[Field, ...]:
    ids = ask(request, _device_ids) or ()
    listed = ", ".join(f'"{number}"' for number in ids)
    config = (
        '{"configList": [{\n'
        '  "resourceName": "rdma_shared_device_a",\n'
        '  "rdmaHcaMax": 63,\n'
        '  "selectors": {"vendors": ["15b3"]' + (f', "deviceIDs": [{listed}]' if ids else "") + "}\n"
        "}]}\n"
    )
    why = "up to 63 pods share a NIC; " + (
        "NICs with an active port on this node" if ids else "all NVIDIA NICs"
    )
    return (
        Field("image", "k8s-rdma-shared-dev-plugin", "required"),
        Field("repository", REPOSITORY, "required up to v25.7"),
        Field("version", f"network-operator-{tag}", "same version as the operator"),
        Field("config", Literal(config), why),
    )


def _device_ids(node: Node) -> tuple[str, ...]:
    """PCI device ids of NVIDIA's NICs with an active port."""
    addresses = {nic_address(node, port.device) for port in active_ports(node)}
    return tuple(sorted({d.device for d in devices(node) if d.address in addresses and d.vendor == "15b3"}))
