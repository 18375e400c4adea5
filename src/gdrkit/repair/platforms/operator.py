"""Where the GPU Operator's container installs the driver: a resource is changed, or its pod replaced.

Sources: gpu-operator, CustomResourceDefinitions and assets/state-driver; gpu-driver-container,
nvidia-driver; k8s-driver-manager, FORCE_REINSTALL (gpu-operator issues 2619 and 2868).
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from gdrkit.evidence.quoting import quoted
from gdrkit.facts.driver import peer_api_exporter
from gdrkit.facts.driver_files import DRIVER
from gdrkit.facts.kernel import hostname
from gdrkit.facts.kubernetes import deploys_ofed, gpu_operator, policy_owner
from gdrkit.node import Node, if_missing
from gdrkit.repair.config import operators
from gdrkit.repair.config.boot_files import module_parameters
from gdrkit.repair.config.request import ConfigRequest
from gdrkit.repair.platforms.action import AskPerson
from gdrkit.repair.platforms.change import Change
from gdrkit.repair.platforms.declared import asked
from gdrkit.repair.platforms.driver_options import arguments
from gdrkit.repair.platforms.means import has_ofed_container
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.rules.capabilities import DIRECT
from gdrkit.rules.remedy_names import RemedyName

_FORCE = (
    '[{"op": "add", "path": "/spec/driver/manager/env/-", '
    '"value": {"name": "FORCE_REINSTALL", "value": "true"}}]'
)
_PODS = "app=nvidia-driver-daemonset"


def carry_out(node: Node, remedy: Remedy) -> Iterator[AskPerson]:
    """The resources that `gdr config` writes for this node, or the commands that replace a pod, in order.

    Raises EvidenceMissing if the options of the driver are not known."""
    if remedy.name == RemedyName.RESTART_OFED:
        yield _new_pod(node, "nvidia.com/ofed-driver", "OFED's pod: the new one loads its modules")
    elif remedy.changes is Change.WITHOUT_PEERMEM or remedy.name == RemedyName.OPEN_KERNEL_MODULES:
        yield from _policy(node, ConfigRequest(node=node, path="dmabuf"))
    elif remedy.name == RemedyName.REBUILD_DRIVER:
        what = "make the driver manager install the driver again, also where one is loaded (from 26.3 on)"
        yield AskPerson(what=what, commands=(f"{operators.patch_command(node)} json -p '{_FORCE}'",))
        yield _new_pod(node, _PODS, "the driver's pod: the new one builds the driver for the OFED that runs")
    elif remedy.changes is Change.PEERMEM:
        yield from _with_peermem(node)
    elif remedy.changes is Change.OFED:
        yield _network_policy(node)
    elif remedy.driver_options is not None:
        yield from _options(node, remedy)
    else:
        yield _new_pod(node, _PODS, "the driver's pod: the new one builds the driver and loads it")


def _options(node: Node, remedy: Remedy) -> Iterator[AskPerson]:
    assert remedy.driver_options is not None
    if remedy.changes is Change.DRIVER:
        yield AskPerson(what=f"{remedy.title}: name its release in spec.driver.version of the ClusterPolicy")
    given = arguments(node, remedy.driver_options)
    parameters = tuple((DRIVER, name, value) for name, value in given.items())
    request = ConfigRequest(node=node, parameters=parameters)
    if len(direct := set(remedy.paths) & set(DIRECT)) == 1:
        request = replace(request, path=direct.pop())
    yield from _policy(node, request)


def _with_peermem(node: Node) -> Iterator[AskPerson]:
    """nvidia-peermem-ctr waits for an OFED, for ever if there is none: that comes first."""
    source = _ofed(node)
    if not source:
        yield _network_policy(node)
    yield from _policy(node, ConfigRequest(node=node, path="peermem", ofed=source or "network-operator"))


def _ofed(node: Node) -> str:
    """Who provides what nvidia-peermem is built against, as ConfigRequest.ofed; "" if that is not known.

    With useHostMofed: true any mlx5_core is taken, also that of a kernel that has the API itself."""
    if has_ofed_container(node):
        return "network-operator"
    return "host" if if_missing("", peer_api_exporter, node) else ""


def _network_policy(node: Node) -> AskPerson:
    if if_missing(None, deploys_ofed, node):
        return AskPerson(
            what="a NicClusterPolicy deploys OFED already: wait until its state is ready",
            commands=("kubectl get nicclusterpolicy nic-cluster-policy -o jsonpath='{.status.state}'",),
        )
    request = ConfigRequest(node=node, path="peermem", ofed="network-operator")
    return asked(operators.network_operator(request), "let the Network Operator deploy OFED")


def _policy(node: Node, request: ConfigRequest) -> Iterator[AskPerson]:
    """The container reads no modprobe.d: options of the driver, also those that other findings need, are in
    a ConfigMap. It comes first, since the driver's pod does not start without it."""
    if module_parameters(request):
        found = operators.gpu_operator(replace(request, form="configmap"))
        yield asked(found, "give the driver of the container its options")
    settings = if_missing(None, gpu_operator, node)
    why = "change the GPU Operator's ClusterPolicy: its container rebuilds the driver at each start"
    if settings is not None and (settings.kind == "NVIDIADriver" or settings.use_driver_crd):
        why = "change these fields of the NVIDIADriver that selects this node (no two may select it)"
        request = replace(request, form="nvidiadriver")
    if (owner := if_missing(None, policy_owner, node)) is not None:
        why = f"{why}; {owner.who} manages it, so make this change {owner.where}"
    yield asked(operators.gpu_operator(request), why)


def _new_pod(node: Node, label: str, what: str) -> AskPerson:
    name = if_missing("", hostname, node)
    where = f"spec.nodeName={quoted(name) if name else 'NODE'}"
    return AskPerson(
        what=f"delete {what} (this drains the node of its GPU pods)",
        commands=(f"kubectl delete pod -A -l {label} --field-selector {where}",),
    )
