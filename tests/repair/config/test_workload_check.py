"""Faults of pods: each beside the manifest that differs in one thing and is right."""

from __future__ import annotations

import pytest

from gdrkit.repair.config.check import check

RDMA = "rdma/shared_a"
GPU = "nvidia.com/gpu"


def pod(container: str = "", spec: str = "", kind: str = "Pod") -> str:
    """A Pod, or a template of another kind, whose container and spec have more lines."""
    inner = "".join(f"    {line}\n" for line in ("containers:", "- name: main", "  image: x"))
    inner += "".join(f"      {line}\n" for line in container.splitlines())
    inner += "".join(f"    {line}\n" for line in spec.splitlines())
    head = f"apiVersion: x/v1\nkind: {kind}\nmetadata: {{name: a}}\n"
    if kind == "Pod":
        return f"{head}spec:\n{inner}"
    return f"{head}spec:\n  template:\n    spec:\n" + "".join(f"  {line}\n" for line in inner.splitlines())


def resources(limits: str = "", requests: str = "") -> str:
    rows = [
        f"  {kind}: {{{given}}}" for kind, given in (("limits", limits), ("requests", requests)) if given
    ]
    return "\n".join(["resources:", *rows])


def env(**settings: str) -> str:
    return "env:\n" + "".join(f"- {{name: {name}, value: '{value}'}}\n" for name, value in settings.items())


def codes(text: str) -> list[str]:
    return [f"{fault.severity} {fault.code}" for fault in check(text.encode(), "pod.yaml").faults]


LOCKED = "securityContext: {capabilities: {add: [IPC_LOCK]}}\n"
SHARED = "volumeMounts: [{name: shm, mountPath: /dev/shm}]\n"
MEMORY = "volumes: [{name: shm, emptyDir: {medium: Memory}}]"
DISK = "volumes: [{name: shm, emptyDir: {}}]"
DEVICES = "volumes: [{name: ib, hostPath: {path: /dev/infiniband}}]"
HUGE = "volumes: [{name: huge, emptyDir: {medium: HugePages-2Mi}}]"


@pytest.mark.parametrize(
    ("wrong", "code", "right"),
    [
        (pod(resources(requests=f"{RDMA}: 1")), "error missing-key",
         pod(LOCKED + resources(f"{RDMA}: 1", f"{RDMA}: 1"))),
        (pod(LOCKED + resources(f"{RDMA}: 1", f"{RDMA}: 2")), "error wrong-value",
         pod(LOCKED + resources(f"{RDMA}: 1, cpu: 2", f"{RDMA}: 1, cpu: 1"))),
        (pod(resources(f"{GPU}: 0.5")), "error wrong-value", pod(resources(f"{GPU}: 1, cpu: 0.5"))),
        (pod(resources("hugepages-2Mi: 1Gi")), "error missing-key",
         pod(resources("hugepages-2Mi: 1Gi, memory: 1Gi"))),
        (pod("volumeMounts: [{name: huge, mountPath: /h}]", HUGE), "error missing-key",
         pod(resources("hugepages-2Mi: 1Gi, memory: 1Gi"), HUGE)),
        (pod("env:\n- {name: NCCL_IB_TC, value: 41}"), "error wrong-type",
         pod("env:\n- {name: NCCL_IB_TC, value: '41'}\n- {name: A, value: eth0}\n- {name: B, value: v1}")),
        (pod("env:\n- {name: A, value: x}\n- {name: A, value: y}"), "warning set-twice",
         pod("env:\n- {name: A, value: x}\n- {name: A, value: x}")),
        (pod(resources(f"{RDMA}: 1")), "note memlock-limit",
         pod("securityContext: {privileged: true}\n" + resources(f"{RDMA}: 1"))),
        (pod(LOCKED + resources(f"{RDMA}: 1"), "securityContext: {runAsUser: 1000}"), "note memlock-limit",
         pod(LOCKED + resources(f"{RDMA}: 1"), "securityContext: {runAsUser: 0}")),
        (pod("volumeMounts: [{name: ib, mountPath: /dev/infiniband}]", DEVICES), "note memlock-limit",
         pod(resources("vpc.amazonaws.com/efa: 4"))),
        (pod(resources(f"{GPU}: 1, openshift.io/rail_0: 1")), "note memlock-limit",
         pod(resources(f"{GPU}: 1, vpc.amazonaws.com/efa: 4"))),
        (pod(resources(f"{GPU}: 1, nvidia.com/hostdev: 1")), "note memlock-limit",
         pod(LOCKED + resources(f"{GPU}: 1, nvidia.com/hostdev: 1"))),
        (pod(resources(f"{GPU}: 1, nvidia.com/hostdev: 1")), "note memlock-limit",
         pod(resources("squat.ai/tun: 1"))),  # no GPU: nothing says that it is about RDMA
        (pod(LOCKED.replace("IPC", "CAP_IPC") + resources(f"{RDMA}: 1")), "warning wrong-value",
         pod(LOCKED + resources(f"{RDMA}: 1"))),
        (pod(env(NCCL_IB_HCA="mlx5") + resources("nvidia.com/gpu: 1")),
         "warning rdma-device-not-in-container",
         pod(env(NCCL_IB_HCA="mlx5") + resources("nvidia.com/gpu: 1, openshift.io/rail_0: 1"))),
        (pod(resources(f"{GPU}: 2")), "note shared-memory-small", pod(resources(f"{GPU}: 1"))),
        (pod(env(NCCL_DEBUG="INFO") + resources("nvidia.com/gpu: 2")), "warning shared-memory-small",
         pod(env(NCCL_DEBUG="INFO") + resources("nvidia.com/gpu: 2"), "hostIPC: true")),
        (pod(SHARED + resources("nvidia.com/gpu: 8"), DISK), "warning shared-memory-on-disk",
         pod(SHARED + resources("nvidia.com/gpu: 8"), MEMORY)),
        (pod(spec="hostNetwork: true", kind="StatefulSet"), "warning cluster-dns-lost",
         pod(spec="hostNetwork: true\ndnsPolicy: ClusterFirstWithHostNet", kind="StatefulSet")),
        (pod(spec="hostNetwork: true", kind="MPIJob"), "warning cluster-dns-lost",
         pod(spec="hostNetwork: true", kind="DaemonSet")),
        (pod(env(NCCL_MNNVL_ENABLE="1", NCCL_CUMEM_ENABLE="0")), "warning settings-contradict",
         pod(env(NCCL_MNNVL_ENABLE="1", NCCL_CUMEM_ENABLE="1"))),
        (pod(env(NCCL_NET="Socket", NCCL_IB_TC="41")), "warning settings-contradict",
         pod(env(NCCL_NET="IB", NCCL_IB_TC="41"))),
    ],
)  # fmt: skip
def test_a_fault_is_found_and_its_near_miss_is_silent(wrong, code, right):
    assert codes(wrong) == [code] or code in codes(wrong)
    assert [one for one in codes(right) if one == code] == []


@pytest.mark.parametrize(
    "given",
    [
        env(NCCL_IB_HCA="^mlx5_3") + resources("nvidia.com/gpu: 1"),  # leaves one out, and asks for none
        env(NCCL_IB_HCA="eth0") + resources("nvidia.com/gpu: 1"),
        env(NCCL_IB_HCA="mlx5") + "securityContext: {privileged: true}\n" + resources("nvidia.com/gpu: 1"),
        env(NCCL_IB_HCA="mlx5") + resources("nvidia.com/gpu: 1") + "\n  claims: [{name: rdma}]",
        env(NCCL_IB_HCA="mlx5"),  # the launcher, which has no GPU
    ],
)
def test_no_device_is_missed_where_none_is_asked_for_or_it_may_come_otherwise(given):
    assert "warning rdma-device-not-in-container" not in codes(pod(given))


def test_a_network_of_an_annotation_may_bring_the_device():
    text = pod(env(NCCL_IB_HCA="mlx5") + resources("nvidia.com/gpu: 1"))
    noted = text.replace("{name: a}", "{name: a, annotations: {k8s.v1.cni.cncf.io/networks: rail-0}}")
    assert "warning rdma-device-not-in-container" in codes(text) and codes(noted) == []


@pytest.mark.parametrize("kind", ["Deployment", "Job", "PyTorchJob", "LeaderWorkerSet", "SomethingNew"])
def test_pods_are_found_in_any_kind(kind):
    assert codes(pod(resources("nvidia.com/gpu: 0.5"), kind=kind)) == ["error wrong-value"]


def test_a_patch_is_not_asked_for_what_may_be_elsewhere():
    patch = (
        "spec:\n  containers:\n    - name: main\n      resources: {limits: {rdma/a: 1, nvidia.com/gpu: 8}}\n"
    )
    found = check(patch.encode(), "patch.yaml")
    assert found.faults == () and found.documents[0].kind == "patch of a Pod"


def test_settings_of_a_launcher_are_found_at_their_lines():
    options = "    -x NCCL_DEBUG=INFO \\\n    -x UCX_TLS=tcp \\\n    prog"
    command = f"command:\n- bash\n- -c\n- |\n  set -e\n  mpirun \\\n{options}"
    text = pod(command, kind="MPIJob")
    line = next(number for number, line in enumerate(text.splitlines(), 1) if "UCX_TLS" in line)
    found = check(text.encode(), "job.yaml").faults
    assert {(fault.line, fault.severity) for fault in found} == {(line, "note")}


EMBEDDED = "kind: ConfigMap\ndata:\n  job.yaml: |\n    {0} \\\n      -x UCX_TLS=tcp ./train\n"
SCRIPT = "{0} \\\n  -x UCX_TLS=tcp ./train\n"


@pytest.mark.parametrize("text", [EMBEDDED, SCRIPT])
@pytest.mark.parametrize(
    ("start", "severity"),
    [
        ("mpirun -np 2", "note"),
        ("/opt/hpcx/bin/mpirun -np 2", "note"),
        ("run-mpirun -np 2", "warning"),
        ("srun --mpi=pmix", "note"),
        ("srun -N 2", "warning"),
        ("OMPI_MCA_pml=ucx srun", "note"),
        ("echo a # no mpirun\n    launch", "warning"),
    ],
)
def test_ucx_of_a_job_that_mpi_starts_is_a_note_wherever_its_command_stands(text, start, severity):
    """Open MPI sends its own messages by UCX. And what is off because RDMA is off is not said again."""
    found = check(text.format(start).encode(), "file").faults
    assert [(fault.code, fault.severity) for fault in found] == [("ib-disabled-by-env", severity)]


def test_an_object_that_is_not_judged_says_so():
    found = check(b"apiVersion: v1\nkind: Service\nspec: {clusterIP: None}\n", "service.yaml")
    assert found.is_not_judged and found.summary() == "service.yaml: Service (not judged)"


@pytest.mark.parametrize(
    ("name", "content", "is_judged"),
    [("settings", "{a: b}", False), ("nvidia.conf", "NVreg_X=1", True), ("env", "{NCCL_DEBUG: INFO}", True)],
)
def test_a_config_map_is_judged_for_what_is_read_of_it_alone(name, content, is_judged):
    text = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: x}}\ndata: {{{name}: {content}}}\n"
    assert check(text.encode(), "map.yaml").is_not_judged is not is_judged
