"""The templates of one job beside each other: what one has, the other needs."""

from __future__ import annotations

import pytest

from gdrkit.repair.config.check import check

RDMA, LOCK, HUGE = "rdma/hca: 1", "capabilities: {add: [IPC_LOCK]}", "hugepages-2Mi: 1Gi, memory: 8Gi"
DEVICE, LIMIT, DIFFER = "rdma-device-not-in-container", "memlock-limit", "pods-differ"


def template(gpus: int = 8, *limits: str, lock: bool = True, more: str = "") -> str:
    given = ", ".join((*([f"nvidia.com/gpu: {gpus}"] if gpus else []), *limits))
    security = LOCK if lock else ""
    mount = "volumeMounts: [{name: shm, mountPath: /dev/shm}]"
    container = f"{{name: a, resources: {{limits: {{{given}}}}}, securityContext: {{{security}}}, {mount}}}"
    volume = "volumes: [{name: shm, emptyDir: {medium: Memory}}]"
    return f"{{spec: {{containers: [{container}], {volume}{more}}}}}"


def lws(leader: str, worker: str) -> list[str]:
    text = "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata: {name: a}\nspec:\n"
    text += f"  leaderWorkerTemplate:\n    leaderTemplate: {leader}\n    workerTemplate: {worker}\n"
    return codes(text)


def mpi(launcher: str, worker: str) -> list[str]:
    text = "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {name: a}\nspec:\n"
    text += f"  mpiReplicaSpecs:\n    Launcher:\n      template: {launcher}\n"
    return codes(f"{text}    Worker:\n      replicas: 2\n      template: {worker}\n")


def codes(text: str) -> list[str]:
    return [f"{one.line} {one.severity} {one.code}" for one in check(text.encode(), "job.yaml").faults]


def test_templates_that_agree_have_no_fault():
    assert lws(template(8, RDMA), template(8, RDMA)) == []
    assert lws(template(8, RDMA, HUGE), template(4, RDMA, HUGE)) == []
    assert mpi(template(0, lock=False), template(8, RDMA)) == []  # a launcher needs nothing


@pytest.mark.parametrize(
    ("leader", "worker", "found"),
    [
        (template(8, RDMA), template(8), [f"7 warning {DEVICE}"]),
        (template(8), template(8, RDMA), [f"6 warning {DEVICE}"]),
        (template(8, RDMA), template(8, RDMA, lock=False), [f"7 note {LIMIT}", f"7 warning {LIMIT}"]),
        (template(8, RDMA, HUGE), template(8, RDMA), [f"7 warning {DIFFER}"]),
        (template(8, RDMA), template(0), []),  # workers without GPUs do something else
        (template(8, RDMA), template(8, "nvidia.com/rail_0: 1"), []),  # what it gives is not known
        (template(8, RDMA), template(8, more=", resourceClaims: [{name: nics}]"), []),
    ],
)
def test_what_one_template_has_and_the_other_lacks_is_a_fault_of_the_other(leader, worker, found):
    assert sorted(lws(leader, worker)) == sorted(found)


def trained(first: str, other: str, kind: str = "PyTorchJob") -> list[str]:
    """The faults of a job of two templates, whose containers have more keys."""
    text = f"apiVersion: kubeflow.org/v1\nkind: {kind}\nmetadata: {{name: a}}\nspec:\n  replicas:\n"
    for role, more in (("Master", first), ("Worker", other)):
        text += f"    {role}:\n      template: " + template(8, RDMA).replace("name: a, ", f"name: a, {more}")
        text += "\n"
    return codes(text)


LEVEL, OTHER = (
    "env: [{name: NCCL_NET_GDR_LEVEL, value: SYS}],",
    "env: [{name: NCCL_NET_GDR_LEVEL, value: PHB}],",
)
ENV = "env-differs-between-ranks"


@pytest.mark.parametrize(
    ("first", "other", "found"),
    [
        (LEVEL, "", [f"9 warning {ENV}"]),
        ("", LEVEL, [f"9 warning {ENV}"]),
        (LEVEL, OTHER, [f"9 warning {ENV}"]),
        (LEVEL, LEVEL, []),
        (LEVEL, "command: [sh, -c, NCCL_NET_GDR_LEVEL=SYS ./train],", []),
        ("env: [{name: NCCL_IB_GID_INDEX, value: '3'}],", "", [f"9 note {ENV}"]),
        ("env: [{name: NCCL_DEBUG, value: INFO}],", "", []),  # the log of one rank is enough
        ("env: [{name: NCCL_SOCKET_IFNAME, value: eth0}],", "", []),
        ("env: [{name: EPOCHS, value: '3'}],", "", []),
        (LEVEL, "envFrom: [{configMapRef: {name: a}}],", []),  # what that sets is not known
        (LEVEL, "env: [{name: NCCL_NET_GDR_LEVEL, valueFrom: {configMapKeyRef: {name: a, key: b}}}],", []),
        ("image: 'a:25.03',", "image: 'a:24.01',", [f"9 note {DIFFER}"]),
        ("image: 'a:25.03',", "image: 'a:25.03',", []),
        ("image: 'a:25.03',", "image: 'a:{{ .Values.tag }}',", []),
    ],
)
def test_what_ranks_of_one_job_do_not_share_is_said(first, other, found):
    assert trained(first, other) == found


@pytest.mark.parametrize("kind", ["MPIJob", "RayCluster", "Deployment"])
def test_settings_are_compared_where_each_template_gives_its_ranks_their_own(kind):
    """mpirun gives all ranks one environment; pods that work alone need not be alike."""
    assert not any(ENV in one or DIFFER in one for one in trained(LEVEL + "image: a,", "image: b,", kind))


def test_workers_of_mpi_without_an_rdma_device_talk_over_sockets():
    (fault,) = mpi(template(0, lock=False), template(8))
    assert fault.endswith(f"note {DEVICE}")


def test_one_pod_and_servers_that_may_work_alone_need_no_rdma_device():
    for kind in ("Pod", "StatefulSet", "Deployment", "RayCluster"):
        text = f"apiVersion: v1\nkind: {kind}\nmetadata: {{name: a}}\nspec:\n  template: {template(8)}\n"
        assert not any(DEVICE in one for one in codes(text))


@pytest.mark.parametrize(
    ("instance", "provider", "severity", "resource"),
    [
        ("p5.48xlarge", "tcp", "warning", "vpc.amazonaws.com/efa"),
        ("g6.48xlarge", "efa", "warning", "vpc.amazonaws.com/efa"),
        ("g6.48xlarge", "tcp", "note", "rdma/rdma_shared_device_a"),  # no GPU that an EFA reaches
    ],
)
def test_a_job_that_counts_on_efa_is_told_of_its_resource(instance, provider, severity, resource):
    pod = (
        f"      spec:\n        nodeSelector: {{node.kubernetes.io/instance-type: {instance}}}\n"
        "        containers:\n        - name: one\n          image: a\n"
        f"          env: [{{name: FI_PROVIDER, value: {provider}}}]\n"
        "          resources: {limits: {nvidia.com/gpu: 1}}\n"
    )
    text = (
        "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata: {name: a}\nspec:\n"
        f"  leaderWorkerTemplate:\n    size: 2\n    leaderTemplate:\n{pod}    workerTemplate:\n{pod}"
    )

    found = [
        one for one in check(text.encode(), "job.yaml").faults if one.code == "rdma-device-not-in-container"
    ]

    assert [(one.severity, resource in one.expected) for one in found] == [(severity, True)]
