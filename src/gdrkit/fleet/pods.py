"""The Pods that collect on the nodes of a Kubernetes cluster: their manifest, and their states.

A Pod is bound to its node by name, so it passes by the scheduler and needs none of the node's GPUs. It sees
the node's files below /host. Source: Kubernetes API, v1 Node and v1 Pod.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

IMAGE = "python:3-slim"
CONTAINER = "collector"
HOST = "/host"
RUN_LABEL = "app.kubernetes.io/instance"
MEMORY = "1Gi"
"""Of a collector: it packs one file at a time, and takes none above 256 MiB."""
MARGIN_S = 30
"""How long after the deadline the Pods end by themselves, if gdr was killed before it removed them."""
_STARTING = ("ContainerCreating", "PodInitializing", "")


class Named(msgspec.Struct, frozen=True):
    name: str = ""
    labels: dict[str, str] = {}


class PodCondition(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class NodeStatus(msgspec.Struct, frozen=True):
    conditions: tuple[PodCondition, ...] = ()


class ClusterNode(msgspec.Struct, frozen=True):
    """A node of the cluster."""

    metadata: Named = Named()
    status: NodeStatus = NodeStatus()

    @property
    def why_down(self) -> str:
        """Why nothing would start there; "" if something would."""
        system = self.metadata.labels.get("kubernetes.io/os", "linux")
        if system != "linux":
            return f"it runs {system}"
        ready = next((c for c in self.status.conditions if c.type == "Ready"), PodCondition(status="True"))
        if ready.status == "True":
            return ""
        return f"Kubernetes has it as NotReady: {ready.message or ready.reason or ready.status}"


class ContainerReason(msgspec.Struct, frozen=True):
    reason: str = ""
    message: str = ""
    exitCode: int = 0  # as the API spells it

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.reason, self.message))) or f"exit code {self.exitCode}"


class ContainerState(msgspec.Struct, frozen=True):
    waiting: ContainerReason | None = None
    running: dict[str, str] | None = None
    terminated: ContainerReason | None = None


class ContainerStatus(msgspec.Struct, frozen=True):
    state: ContainerState = ContainerState()


class PodStatus(msgspec.Struct, frozen=True):
    phase: str = ""
    reason: str = ""
    message: str = ""
    containerStatuses: tuple[ContainerStatus, ...] = ()


class Pod(msgspec.Struct, frozen=True):
    """A Pod as the API shows it."""

    metadata: Named = Named()
    status: PodStatus = PodStatus()

    @property
    def _state(self) -> ContainerState:
        statuses = self.status.containerStatuses
        return statuses[0].state if statuses else ContainerState()

    @property
    def runs(self) -> bool:
        return self.status.phase == "Running" and self._state.running is not None

    @property
    def why_failed(self) -> str:
        """Why it will not run; "" if it runs or may still start."""
        state, status = self._state, self.status
        if state.waiting and state.waiting.reason not in _STARTING:
            return str(state.waiting)
        if status.phase in ("Failed", "Succeeded") or state.terminated:
            own = ": ".join(filter(None, (status.reason, status.message)))
            return f"its Pod ended: {own or state.terminated or status.phase}"
        return ""


def manifest(
    pods: Mapping[str, str], run: str, *, image: str, seconds: int, privileged: bool = False
) -> dict[str, Any]:
    """The Pods of a run, by their name with their node; each ends by itself after these seconds."""
    return {
        "apiVersion": "v1",
        "kind": "List",
        "items": [_pod(name, node, run, image, seconds, privileged) for name, node in pods.items()],
    }


def _pod(name: str, node: str, run: str, image: str, seconds: int, privileged: bool) -> dict[str, Any]:
    # To read every file takes the first capability. All PCI registers of a device are shown to a privileged
    # container alone: pci_read_config() of Linux asks for CAP_SYS_ADMIN.
    security: dict[str, Any] = {"runAsUser": 0, "readOnlyRootFilesystem": True}
    if privileged:
        security["privileged"] = True
    else:
        security["allowPrivilegeEscalation"] = False
        security["capabilities"] = {"drop": ["ALL"], "add": ["DAC_READ_SEARCH"]}
    container = {
        "name": CONTAINER,
        "image": image,
        "command": ["python3", "-c", f"import time; time.sleep({seconds})"],
        "resources": {"requests": {"cpu": "0", "memory": "0"}, "limits": {"memory": MEMORY}},
        "securityContext": security,
        "volumeMounts": [{"name": "host", "mountPath": HOST, "readOnly": True}],
    }
    labels = {"app.kubernetes.io/name": "gdr-fleet", RUN_LABEL: run}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "nodeName": node,
            "restartPolicy": "Never",
            "activeDeadlineSeconds": seconds,
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "tolerations": [{"operator": "Exists"}],
            "containers": [container],
            "volumes": [{"name": "host", "hostPath": {"path": "/", "type": "Directory"}}],
        },
    }
