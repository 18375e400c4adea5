"""What NVIDIA's operators are told: GPU Operator and Network Operator.

A patch or a resource of one's own, never a whole ClusterPolicy: nine of its sections are required, and what
Helm made of them would be lost. Custom resources know no strategic merge, so a patch is a JSON merge patch
(RFC 7386) or a JSON patch (RFC 6902).
"""

from __future__ import annotations

from gdrkit.facts.driver import driver_version
from gdrkit.facts.pci import devices
from gdrkit.facts.rdma import nic_address
from gdrkit.formats.versions import numbers
from gdrkit.node import Node
from gdrkit.repair.config.boot_files import REASONS, impossible, never_peermem, parameters, state_of_dmabuf
from gdrkit.repair.config.output import ConfigOutput, ConfigRefused, OutputLine
from gdrkit.repair.config.request import (
    ConfigRequest,
    PathChoice,
    active_ports,
    ask,
    before_turing,
    choose_declared,
)
from gdrkit.repair.config.yaml_writer import Field, Literal, lines
from gdrkit.verdict.path_state import State

GPU_FORMS = ("merge", "json-patch", "helm", "nvidiadriver", "configmap")
GPU_VERSIONS = ("v25.3.4", "v26.7.0")
"""Tags of NVIDIA/gpu-operator whose CustomResourceDefinitions the texts were held against."""
OFED_OF = {
    "v25.7.0": "doca3.1.0-25.07-0.9.7.0-0",
    "v26.1.0": "doca3.3.0-26.01-1.0.0.0-0",
    "v26.4.0": "doca3.4.0-26.04-0.8.6.0-0",
    "v26.4.1": "doca3.4.1-26.04-1.1.0.0-1",
}
"""The OFED that goes with a Network Operator. Source: Mellanox/network-operator hack/release.yaml at each
tag, Mofed.version."""
CONFIG_MAP = "gdrkit-kernel-modules"
NAMESPACE = "gpu-operator"
KUBECTL = "kubectl patch clusterpolicy/cluster-policy --type"


def gpu_operator(request: ConfigRequest) -> ConfigOutput | ConfigRefused:
    """The GPU Operator's driver settings in one of their forms."""
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
    if parameters(request):
        notes.append(f"apply the ConfigMap {CONFIG_MAP} first: gdr config gpu-operator --form configmap")
    if choice.path == "dmabuf" and state_of_dmabuf(request) is not State.IMPOSSIBLE:
        notes.append("pods need an RDMA device, the capability IPC_LOCK, and rdma-core 34 or newer inside")
    return ConfigOutput(
        kind="gpu-operator", form=form, title=title, file=file, use=use, lines=out,
        assumed=tuple(assumed), notes=tuple(notes), commentable=form != "json-patch",
    )  # fmt: skip


def _driver(request: ConfigRequest, choice: PathChoice, assumed: list[str]) -> tuple[Field, ...]:
    """spec.driver of ClusterPolicy, spec of NVIDIADriver: the fields have the same names in both."""
    fields = []
    if before_turing(request):
        why = "a GPU before Turing has no open kernel modules"
        fields.append(Field("kernelModuleType", "proprietary", why))
    else:
        why = "dma-buf needs the open kernel modules; auto chooses them by itself from driver 570 on only"
        if choice.path == "peermem":
            why = "the open kernel modules serve peermem as well, and dma-buf later"
        fields.append(Field("kernelModuleType", "open", why))
    fields.append(Field("rdma", _rdma(request, choice, assumed), "the nvidia-peermem container, no more"))
    if choice.path == "peermem":
        why = "precompiled images were built without an OFED: their nvidia-peermem is a stub"
        fields.append(Field("usePrecompiled", False, why))
    if parameters(request):
        why = "module parameters, from a ConfigMap in the operator's namespace"
        fields.append(Field("kernelModuleConfig", (Field("name", CONFIG_MAP),), why))
    return tuple(fields)


def _rdma(request: ConfigRequest, choice: PathChoice, assumed: list[str]) -> tuple[Field, ...]:
    if choice.path == "dmabuf":
        why = "dma-buf needs no container; with the kernel's own RDMA stack it would crash for ever"
        return (Field("enabled", False, why), Field("useHostMofed", False, "no OFED is waited for"))
    if not request.ofed:
        assumed.append("the Network Operator brings the OFED; --ofed host if the hosts have one")
    host = request.ofed == "host"
    why = "the hosts' own DOCA-OFED; any mlx5_core passes for one, the kernel's own too, and makes a stub"
    if not host:
        why = "waits for the OFED of NicClusterPolicy.spec.ofedDriver, for ever if there is none"
    return (
        Field("enabled", True, "builds nvidia-peermem against the OFED, and loads it"),
        Field("useHostMofed", host, why),
    )


Written = tuple[str, str, str, tuple[OutputLine, ...]]


def _merge(request: ConfigRequest, driver: tuple[Field, ...], assumed: list[str]) -> Written:
    del request, assumed
    out = lines((Field("spec", (Field("driver", driver),)),))
    use = f"{KUBECTL} merge --patch-file gpu-operator-patch.yaml"
    return "a JSON merge patch of the ClusterPolicy", "gpu-operator-patch.yaml", use, out


def _json_patch(request: ConfigRequest, driver: tuple[Field, ...], assumed: list[str]) -> Written:
    """`add` replaces what is there (RFC 6902, 4.1), whole objects included."""
    del request, assumed
    rows = [
        OutputLine(f'  {{"op": "add", "path": "/spec/driver/{f.name}", "value": {_json(f.value)}}},', f.why)
        for f in driver
    ]
    rows[-1] = OutputLine(rows[-1].text[:-1], rows[-1].why)
    use = f"{KUBECTL} json --patch-file gpu-operator-patch.json"
    title = "a JSON patch of the ClusterPolicy"
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
    """A resource of one's own, for clusters with useNvidiaDriverCRD: true."""
    version = request.driver_version or ask(request, driver_version) or ""
    own = [
        Field("driverType", "gpu", "a data centre driver, not one for vGPU; it cannot be changed later"),
        Field("repository", "nvcr.io/nvidia", "where the image is pulled from"),
        Field("image", "driver", "required, with driverType"),
    ]
    if version:
        why = "that of this node" if not request.driver_version else "as wished"
        own.append(Field("version", version, why))
    else:
        assumed.append("spec.version is left out: add the driver's, or say --driver-version")
    if _knows_default(request, assumed):
        own.insert(
            0, Field("default", False, "required; a default driver serves nodes that no other selects")
        )
    selector = (Field("nvidia.com/gpu.present", "true"),)
    own.append(Field("nodeSelector", selector, "the nodes; two NVIDIADrivers must not select the same one"))
    out = lines(
        (
            Field("apiVersion", "nvidia.com/v1alpha1"),
            Field("kind", "NVIDIADriver"),
            Field("metadata", (Field("name", "gdrkit"),)),
            Field("spec", (*own, *driver)),
        )
    )
    use = "kubectl apply -f nvidiadriver.yaml; counts where the ClusterPolicy says useNvidiaDriverCRD: true"
    return "an NVIDIADriver", "nvidiadriver.yaml", use, out


def _knows_default(request: ConfigRequest, assumed: list[str]) -> bool:
    """Whether the resource has `default`, as in v26.7.0 and not in v25.3.4; between them nobody looked."""
    oldest, newest = (numbers(tag.removeprefix("v")) for tag in GPU_VERSIONS)
    wished = numbers(request.operator_version.removeprefix("v")) or newest
    if oldest < wished < newest:
        assumed.append(f"the fields of {GPU_VERSIONS[0]}: {request.operator_version} was not looked at")
    return wished >= newest


def _config_map(request: ConfigRequest) -> ConfigOutput | ConfigRefused:
    """Module parameters for the driver container: one file for each module, one parameter a line."""
    by_module: dict[str, list[tuple[str, str]]] = {}
    for module, name, value in parameters(request):
        by_module.setdefault(module, []).append((name, value))
    if not by_module:
        return ConfigRefused(
            kind="gpu-operator",
            why="no module parameter needs setting",
            instead="--parameter nvidia-peermem:persistent_api_support=0 sets one",
        )
    files = tuple(
        Field(
            f"{module}.conf",
            Literal("".join(f"{name}={value}\n" for name, value in values)),
            "; ".join(REASONS.get((module, name), f"{name} was wished for") for name, _ in values),
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
        use="kubectl apply -f kernel-modules.yaml; then the patch that names it in kernelModuleConfig.name",
        lines=out,
    )


WHY_NAMESPACE = "the operator's own, or it is not found"


# -- Network Operator --------------------------------------------------------------------------------

REPOSITORY = "nvcr.io/nvidia/mellanox"


def network_operator(request: ConfigRequest) -> ConfigOutput | ConfigRefused:
    """A NicClusterPolicy: OFED where peermem asks for one, and RDMA devices for pods."""
    choice = choose_declared(request)
    wished = request.operator_version or list(OFED_OF)[-1]
    version = next((tag for tag in OFED_OF if tag.removeprefix("v") == wished.removeprefix("v")), "")
    if not version and not request.ofed_version:
        known = ", ".join(OFED_OF)
        return ConfigRefused(
            kind="network-operator",
            why=f"the OFED that goes with Network Operator {wished} is not known here; {known} are",
            instead="--ofed-version names it: see the operator's release notes",
        )
    tag = version or "v" + wished.removeprefix("v")
    spec = []
    if choice.path == "peermem" and request.ofed != "host":
        spec.append(Field("ofedDriver", _ofed(request.ofed_version or OFED_OF[version]), WHY_OFED))
    spec.append(Field("rdmaSharedDevicePlugin", _shared(request, tag), WHY_SHARED))
    notes = list(choice.notes)
    if choice.path == "dmabuf":
        notes.append("no ofedDriver: without peermem, the kernel's own RDMA stack is enough")
    notes.append("there is one NicClusterPolicy in a cluster: merge this into the one that is there")
    return ConfigOutput(
        kind="network-operator",
        form="nicclusterpolicy",
        title=f"a NicClusterPolicy for Network Operator {tag}",
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


WHY_OFED = "brings the peer-memory API that nvidia-peermem is built against"
WHY_SHARED = "gives pods /dev/infiniband: they ask for rdma/rdma_shared_device_a: 1"
WHY_NAME = "the operator takes no other name"


def _ofed(version: str) -> tuple[Field, ...]:
    return (
        Field("image", "doca-driver", "required"),
        Field("repository", REPOSITORY, "required up to v25.7"),
        Field("version", version, "the OFED that this operator was released with"),
        Field(
            "upgradePolicy",
            (
                Field("autoUpgrade", True, "a new version reaches the nodes one after the other"),
                Field("drain", (Field("enable", True, WHY_DRAIN),)),
            ),
        ),
    )


WHY_DRAIN = "GPU pods hold nvidia-peermem, which holds the RDMA modules that are replaced"


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
    why = "63 pods may share a card; " + (
        "the cards with an active port on this node" if ids else "every card of NVIDIA's"
    )
    return (
        Field("image", "k8s-rdma-shared-dev-plugin", "required"),
        Field("repository", REPOSITORY, "required up to v25.7"),
        Field("version", f"network-operator-{tag}", "tagged like the operator"),
        Field("config", Literal(config), why),
    )


def _device_ids(node: Node) -> tuple[str, ...]:
    """PCI device ids of NVIDIA's NICs with an active port."""
    addresses = {nic_address(node, port.device) for port in active_ports(node)}
    return tuple(sorted({d.device for d in devices(node) if d.address in addresses and d.vendor == "15b3"}))
