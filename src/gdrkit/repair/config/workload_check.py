"""Faults of the pods that an object runs: devices, locked memory, huge pages, shared memory, settings.

An error is what the API server refuses. What only the nodes decide, such as the limit of locked memory that
their runtime gives, is a note.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from gdrkit.facts.assignments import literal
from gdrkit.facts.kubernetes import Manifest, settings_of
from gdrkit.formats.yaml_values import Scalar, at, items_at, text_at
from gdrkit.programs.nccl.contradictions import contradictions
from gdrkit.programs.setting_codes import is_interface
from gdrkit.repair.config.fault import ConfigFault, fault_at
from gdrkit.repair.config.node_check import DEVICE_LISTS
from gdrkit.repair.config.pod_settings import container_settings, shared_settings
from gdrkit.repair.config.pods_compared import (
    SEVERAL_PODS,
    compared_faults,
    gets_rdma,
    is_exempt,
    wanted_device,
)
from gdrkit.repair.config.workloads import EFA, SHM, Container, Pod, is_extended, pods_of

CONTAINER_SHM = "64 MiB"
"""What containerd, CRI-O and Docker mount at /dev/shm: containerd internal/cri/server, `size=65536k`."""


def workload_faults(manifest: Manifest, *, whole: bool = True) -> Iterator[ConfigFault]:
    """The faults of each pod of an object. In a patch (not `whole`), what is absent may be elsewhere."""
    shared = shared_settings(manifest)
    if whole:
        yield from compared_faults(manifest)
    for pod in pods_of(manifest.value):
        yield from _huge_page_volumes(pod, whole)
        if whole and manifest.kind in SEVERAL_PODS:
            yield from _names(pod)
        for container in pod.containers():
            yield from _quantities(container)
            yield from _values(container)
            yield from _contradictions(container)
            yield from _capability_names(container)
            if whole:
                settings = container_settings(container, shared)
                yield from _locked_memory(container)
                yield from _devices(container, settings)
                yield from _shared_memory(container, settings)


# -- quantities: kubernetes pkg/apis/core/validation, ValidateContainerResourceRequirements() --------


def _quantities(container: Container) -> Iterator[ConfigFault]:
    limits, requests = container.resources("limits"), container.resources("requests")
    path = f"{container.path}.resources"
    for name, asked in requests.items():
        if not (is_extended(name) or name.startswith("hugepages-")):
            continue
        limit = limits.get(name)
        if limit is None:
            seen = f"{asked.text} of it, and no limit: the API server refuses the object"
            yield fault_at(asked.line, "missing-key", f"{path}.requests.{name}", seen, "the same in limits")
        elif limit.text != asked.text and _is_number(limit.text) and _is_number(asked.text):
            seen = f"{asked.text}, with a limit of {limit.text}: the API server refuses the object"
            yield fault_at(
                asked.line, "wrong-value", f"{path}.requests.{name}", seen, "the same as the limit"
            )
    for kind, found in (("limits", limits), ("requests", requests)):
        for name, given in found.items():
            if is_extended(name) and re.fullmatch(r"[0-9]*\.[0-9]*[1-9][0-9]*|[0-9]{1,9}m", given.text):
                seen = f"{given.text}: a part of a device, which the API server refuses"
                yield fault_at(given.line, "wrong-value", f"{path}.{kind}.{name}", seen, "a whole number")
    huge = next(
        (found for name, found in {**requests, **limits}.items() if name.startswith("hugepages-")), None
    )
    if huge is not None and not {"cpu", "memory"} & {*limits, *requests}:
        seen = "huge pages without memory or cpu: the API server refuses the object"
        yield fault_at(huge.line, "missing-key", path, seen, "a request or a limit of memory")


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[0-9]{1,9}", text) is not None


def _huge_page_volumes(pod: Pod, whole: bool) -> Iterator[ConfigFault]:
    """Source: Kubernetes, Manage HugePages; pkg/volume/emptydir, getPageSizeMountOption()."""
    asked = any(
        name.startswith("hugepages-")
        for container in pod.containers()
        for name in (*container.resources("limits"), *container.resources("requests"))
    )
    for number, volume in enumerate(items_at(pod.spec, "volumes")):
        medium = at(volume, "emptyDir", "medium")
        if whole and not asked and isinstance(medium, Scalar) and medium.text.startswith("HugePages"):
            seen = f"{medium.text}, and no container asks for huge pages: the volume cannot be mounted"
            path = f"{pod.path}.volumes.{number}.emptyDir.medium"
            yield fault_at(
                medium.line, "missing-key", path, seen, "hugepages-2Mi or hugepages-1Gi in limits"
            )


# -- the environment ---------------------------------------------------------------------------------


def _values(container: Container) -> Iterator[ConfigFault]:
    """Numbers and truth values where the API server wants strings, and names that are given two values."""
    seen: dict[str, Scalar] = {}
    for number, item in enumerate(items_at(container.value, "env")):
        name, value = text_at(item, "name"), at(item, "value")
        if not isinstance(value, Scalar):
            continue
        path = f"{container.path}.env.{number}.value"
        if not value.quoted and re.fullmatch(r"[-+]?[0-9]+(\.[0-9]+)?|true|false", value.text):
            text = f"{name}: {value.text} must be a string, or the API server refuses the object"
            yield fault_at(value.line, "wrong-type", path, text, f'quotation marks: "{value.text}"')
        before = seen.get(name)
        if name and before is not None and before.text != value.text:
            text = (
                f"{name} is {value.text} here and {before.text} on line {before.line}: the last one counts"
            )
            yield fault_at(value.line, "set-twice", path, text, "each variable once", "warning")
        seen[name] = value


def _contradictions(container: Container) -> Iterator[ConfigFault]:
    found = list(literal(settings_of(container.value)))
    lines = {name: line for line, name, _, _ in found}
    yield from contradiction_faults({name: value for _, name, value, _ in found}, lines, container.path)


def contradiction_faults(
    settings: Mapping[str, str], lines: Mapping[str, int], path: str = ""
) -> Iterator[ConfigFault]:
    """The contradictions among the settings of one program, each at the line of what has no effect."""
    for one in contradictions(settings):
        where = f"{path}.{one.name}".lstrip(".")
        seen = f"{settings[one.name]} does not do what it says: {one.why}"
        yield fault_at(lines[one.name], "settings-contradict", where, seen, "only one of the two", "warning")


# -- devices, memory and names -----------------------------------------------------------------------


def _devices(container: Container, settings: Mapping[str, str]) -> Iterator[ConfigFault]:
    """GPUs whose settings name RDMA devices, in a container that is given none."""
    named = next(
        (f"{name}={settings[name]}" for name in DEVICE_LISTS if _is_device_list(settings.get(name, ""))), ""
    )
    is_off = settings.get("NCCL_IB_DISABLE") == "1" or settings.get("NCCL_NET", "").lower() == "socket"
    if not container.gpus or not named or is_off or gets_rdma(container):
        return
    seen = f"{named}, but this container gets no RDMA device: it will use sockets"
    path = f"{container.path}.resources"
    line = (at(container.value, "resources") or container.value).line
    expected = wanted_device(container)
    yield fault_at(line, "rdma-device-not-in-container", path, seen, expected, "warning")


def _is_device_list(value: str) -> bool:
    """Whether a list names RDMA devices that are to be used. Excluding some asks for none."""
    names = [name.strip("= ") for name in value.split(",")]
    if value.startswith("^") or value in ("", "all"):
        return False
    return not all(is_interface(name.partition(":")[0]) for name in names)


def _capability_names(container: Container) -> Iterator[ConfigFault]:
    for given in container.capabilities:
        if given.text.startswith("CAP_"):
            path = f"{container.path}.securityContext.capabilities.add"
            seen = f"{given.text}: manifests name capabilities without CAP_, and runtimes may refuse it"
            yield fault_at(given.line, "wrong-value", path, seen, given.text.removeprefix("CAP_"), "warning")


def _locked_memory(container: Container) -> Iterator[ConfigFault]:
    """RDMA devices, or what may be one beside a GPU, and a limit of locked memory. A capability counts for
    root only: Kubernetes gives none to another user (kubernetes/kubernetes issue 56374, ambient
    capabilities). The images of EKS raise the limit for EFA: awslabs/amazon-eks-ami pull request 595,
    bottlerocket-core-kit 141."""
    others = (name for name in container.other_devices if container.gpus and name != EFA)
    unclear = next(others, "")
    if not container.is_given_rdma and not unclear:
        return
    exempt = is_exempt(container)
    path = f"{container.path}.securityContext"
    line = (at(container.value, "securityContext") or container.value).line
    if exempt and container.user not in ("", "0"):
        seen = f"user {container.user}: a capability has no effect for a user that is not root"
        expected = "root, or nodes whose container runtime has LimitMEMLOCK=infinity"
        yield fault_at(line, "memlock-limit", path, seen, expected, "note")
    elif not exempt:
        what = "an RDMA device" if container.is_given_rdma else f"{unclear}, which may be an RDMA device,"
        seen = f"{what} without the capability IPC_LOCK: the runtime's limit of locked memory applies"
        expected = "IPC_LOCK, or nodes whose container runtime has LimitMEMLOCK=infinity"
        yield fault_at(line, "memlock-limit", path, seen, expected, "note")


def _shared_memory(container: Container, settings: Mapping[str, str]) -> Iterator[ConfigFault]:
    if container.gpus < 2 or text_at(container.pod.spec, "hostIPC") == "true":
        return
    volume = container.mounted(SHM)
    line, path = container.value.line, container.path
    if not container.has_mount(SHM):
        seen = f"{container.gpus} GPUs, and /dev/shm of {CONTAINER_SHM}: NCCL and loaders of data share it"
        severity = "warning" if any(name.startswith("NCCL_") for name in settings) else "note"
        expected = "an emptyDir with medium: Memory at /dev/shm"
        yield fault_at(line, "shared-memory-small", path, seen, expected, severity)
    elif at(volume, "emptyDir") is not None and text_at(volume, "emptyDir", "medium") != "Memory":
        seen = "/dev/shm is an emptyDir without medium: Memory, so a folder on the node's disk"
        yield fault_at(line, "shared-memory-on-disk", path, seen, "medium: Memory", "warning")


def _names(pod: Pod) -> Iterator[ConfigFault]:
    """Source: Kubernetes, DNS for Services and Pods: with hostNetwork, ClusterFirst means Default."""
    entry = pod.spec.entry("hostNetwork")
    if entry is None or not pod.has_host_network:
        return
    if text_at(pod.spec, "dnsPolicy") in ("", "ClusterFirst") and at(pod.spec, "dnsConfig") is None:
        seen = "hostNetwork with the default dnsPolicy: the pods do not resolve each other's names"
        expected = "dnsPolicy: ClusterFirstWithHostNet"
        yield fault_at(entry.line, "cluster-dns-lost", f"{pod.path}.dnsPolicy", seen, expected, "warning")
