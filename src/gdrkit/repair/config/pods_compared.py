"""The pods of one job beside each other: a job goes the direct path only where all of its pods do.

A leader and its workers, or a master and its workers, have templates of their own, which differ by mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from gdrkit.facts.assignments import is_filled_in
from gdrkit.facts.kubernetes import Manifest, settings_of
from gdrkit.formats.regex import regex
from gdrkit.formats.yaml_values import at, items_at, scalars, text_at
from gdrkit.programs.aws_ofi_nccl.rules import GPUS_WITH_EFA
from gdrkit.programs.nccl.diagnostic_environment import OF_EACH_HOST
from gdrkit.programs.nccl.log import COMPARED
from gdrkit.repair.config.fault import ConfigFault, fault_at
from gdrkit.repair.config.workloads import EFA, Container, pods_of

SEVERAL_PODS = frozenset(
    ("MPIJob", "PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob", "TrainJob", "JobSet",
     "LeaderWorkerSet", "StatefulSet", "RayCluster", "RayJob")
)  # fmt: skip
"""Kinds whose pods find each other by names of the cluster's DNS: in a hostfile, MASTER_ADDR and others."""
NOT_ONE_JOB = frozenset(("StatefulSet", "RayCluster", "RayJob"))
"""Of these, those whose pods may each work alone, as servers do."""
CAPABILITY = "IPC_LOCK"


def compared_faults(manifest: Manifest) -> Iterator[ConfigFault]:
    """What a pod with GPUs lacks and another one of the object has; that no pod of a job has RDMA."""
    if manifest.kind not in SEVERAL_PODS:
        return
    every = [
        one
        for pod in pods_of(manifest.value)
        for one in pod.containers()
        if ".initContainers." not in one.path
    ]
    asking = [one for one in every if one.gpus]
    yield from _lacking(asking, gets_rdma, "RDMA device", "rdma-device-not-in-container")
    yield from _lacking(asking, is_exempt, f"capability {CAPABILITY}", "memlock-limit")
    yield from _lacking(asking, _has_huge_pages, "huge pages", "pods-differ")
    if manifest.kind not in NOT_ONE_JOB and manifest.kind != "MPIJob":
        for one in asking[1:]:
            yield from _environments(asking[0], one)
            yield from _images(asking[0], one)
    if asking and manifest.kind not in NOT_ONE_JOB and not any(map(gets_rdma, asking)):
        one = next(filter(wants_efa, asking), asking[0])
        seen = "GPUs of several pods, and no RDMA device in any: the pods talk over sockets"
        expected, severity = wanted_device(one), "warning" if wants_efa(one) else "note"
        yield fault_at(_line(one), "rdma-device-not-in-container", one.path, seen, expected, severity)


def offered_faults(manifests: Iterable[Manifest], beside: Iterable[Manifest]) -> Iterator[ConfigFault]:
    """Pods with all GPUs of a node and none of the RDMA devices that a policy in the same files offers."""
    every = tuple(manifests)
    configs = (one.text("spec", "rdmaSharedDevicePlugin", "config") for one in (*every, *beside))
    offered = [f"rdma/{name}" for text in configs for name in _RESOURCE.findall(text)]
    for one in every if offered else ():
        for container in (each for pod in pods_of(one.value) for each in pod.containers()):
            if container.gpus >= NODE_GPUS and not gets_rdma(container):
                seen = f"{container.gpus} GPUs and no RDMA device, which the NicClusterPolicy offers"
                expected = f"{offered[0]} in limits, as gdr config container --form kubernetes writes it"
                yield fault_at(
                    _line(container), "rdma-device-not-in-container", container.path, seen, expected, "note"
                )


NODE_GPUS = 8
"""GPUs of a node with an HGX baseboard: a pod that takes all of them is often one of several."""
_RESOURCE = regex(r'"resourceName": *"([\w.-]{1,63})"')
"""Source: k8s-rdma-shared-dev-plugin README, its configuration, and the prefix rdma/."""


def _lacking(
    asking: list[Container], has: Callable[[Container], bool], what: str, code: str
) -> Iterator[ConfigFault]:
    """The containers that lack something which another one has."""
    having = [one for one in asking if has(one)]
    for one in asking if having else ():
        if one not in having:
            seen = f"no {what}, which {having[0].pod.path} has: a job is as slow as its slowest pod"
            yield fault_at(_line(one), code, one.path, seen, "the same in both templates", "warning")


def _environments(first: Container, other: Container) -> Iterator[ConfigFault]:
    """The settings of NCCL that two templates do not share. mpirun gives all ranks one environment, so that
    those of an MPIJob are not compared. What a ConfigMap sets, or is filled in later, is not known."""
    one, two = _settings(first), _settings(other)
    for name in dict.fromkeys((*one, *two)):
        if name in OF_EACH_HOST or name.startswith("NCCL_DEBUG") or not name.startswith("NCCL_"):
            continue
        values = [given.get(name, UNKNOWN if _has_more(container) else UNSET)
                  for container, given in ((first, one), (other, two))]  # fmt: skip
        if UNKNOWN in values or values[0] == values[1]:
            continue
        seen = (
            f"{name} is {values[1]} here, and {values[0]} in {first.pod.path}: the ranks of the job differ"
        )
        severity = "warning" if name in COMPARED else "note"
        path, expected = f"{other.path}.env.{name}", "one value in all templates"
        line = (at(other.value, "env") or other.value).line
        yield fault_at(line, "env-differs-between-ranks", path, seen, expected, severity)


UNSET, UNKNOWN = "unset", ""


def _settings(container: Container) -> dict[str, str]:
    """The variables of a container; UNKNOWN for a value that the manifest does not show."""
    named = (text_at(item, "name") for item in items_at(container.value, "env"))
    found = {name: UNKNOWN for name in named if name}
    for _, name, value, _ in settings_of(container.value):
        found[name] = UNKNOWN if is_filled_in(value) else value
    return found


def _has_more(container: Container) -> bool:
    """Whether a container has variables that the manifest does not list: those of a ConfigMap."""
    return at(container.value, "envFrom") is not None


def _images(first: Container, other: Container) -> Iterator[ConfigFault]:
    one, two = text_at(first.value, "image"), text_at(other.value, "image")
    if one != two and not is_filled_in(one + two):
        seen = f"{two[:100]}, and {one[:100]} in {first.pod.path}: NCCL may be of another version"
        line = (at(other.value, "image") or other.value).line
        yield fault_at(line, "pods-differ", f"{other.path}.image", seen, "one image", "note")


def gets_rdma(container: Container) -> bool:
    """Whether a container gets an RDMA device, or may: by a resource whose name tells nothing, a claim, or
    another network."""
    claims = at(container.value, "resources", "claims") is not None
    given = container.is_given_rdma or container.is_privileged or bool(container.other_devices)
    return given or claims or container.pod.has_more_networks


def wanted_device(container: Container) -> str:
    """The resource that a container without RDMA devices lacks."""
    if wants_efa(container):
        return f"{EFA} in limits, from the EFA device plugin"
    return "the resource of an RDMA device plugin in limits, such as rdma/rdma_shared_device_a"


def wants_efa(container: Container) -> bool:
    """Whether a container counts on EFA: by its variables, or by an instance whose GPUs an EFA reaches."""
    given = {name: value for _, name, value, _ in settings_of(container.value)}
    if given.get("FI_PROVIDER") == "efa" or any(name.startswith("FI_EFA_") for name in given):
        return True
    texts = (one.text for one in scalars(at(container.pod.spec, "nodeSelector")))
    return any(GPUS_WITH_EFA.match(text) for text in texts)


def is_exempt(container: Container) -> bool:
    """Whether the limit of locked memory does not hold for it, if it runs as root."""
    names = {given.text.removeprefix("CAP_") for given in container.capabilities}
    return container.is_privileged or not names.isdisjoint((CAPABILITY, "ALL"))


def _has_huge_pages(container: Container) -> bool:
    given = (*container.resources("limits"), *container.resources("requests"))
    return any(name.startswith("hugepages-") for name in given)


def _line(container: Container) -> int:
    return (at(container.value, "resources") or container.value).line
