"""The pods of one job beside each other: a job goes the direct path only where all of its pods do.

A leader and its workers, or a master and its workers, have templates of their own, which differ by mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gdrkit.facts.kubernetes import Manifest
from gdrkit.formats.yaml_values import at
from gdrkit.repair.config.fault import ConfigFault, fault_at
from gdrkit.repair.config.workloads import Container, pods_of

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
    if asking and manifest.kind not in NOT_ONE_JOB and not any(map(gets_rdma, asking)):
        one = asking[0]
        seen = "GPUs of several pods, and no RDMA device in any: the pods talk over sockets"
        expected = "the resource of an RDMA device plugin in limits, such as rdma/rdma_shared_device_a"
        yield fault_at(_line(one), "rdma-device-not-in-container", one.path, seen, expected, "note")


def _lacking(
    asking: list[Container], has: Callable[[Container], bool], what: str, code: str
) -> Iterator[ConfigFault]:
    """The containers that lack something which another one has."""
    having = [one for one in asking if has(one)]
    for one in asking if having else ():
        if one not in having:
            seen = f"no {what}, which {having[0].pod.path} has: a job is as slow as its slowest pod"
            yield fault_at(_line(one), code, one.path, seen, "the same in both templates", "warning")


def gets_rdma(container: Container) -> bool:
    """Whether a container gets an RDMA device, or may: by a resource whose name tells nothing, a claim, or
    another network."""
    claims = at(container.value, "resources", "claims") is not None
    given = container.is_given_rdma or container.is_privileged or bool(container.other_devices)
    return given or claims or container.pod.has_more_networks


def is_exempt(container: Container) -> bool:
    """Whether the limit of locked memory does not hold for it, if it runs as root."""
    names = {given.text.removeprefix("CAP_") for given in container.capabilities}
    return container.is_privileged or not names.isdisjoint((CAPABILITY, "ALL"))


def _has_huge_pages(container: Container) -> bool:
    given = (*container.resources("limits"), *container.resources("requests"))
    return any(name.startswith("hugepages-") for name in given)


def _line(container: Container) -> int:
    return (at(container.value, "resources") or container.value).line
