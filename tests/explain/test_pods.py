"""What `kubectl get pods -A` shows of the pods of NVIDIA's operators, and what to look at next."""

from __future__ import annotations

import pytest

from tests.explain.explaining import explained

HEAD = "NAMESPACE      NAME                              READY   STATUS             RESTARTS      AGE\n"
ROWS = {
    "driver": "gpu-operator   nvidia-driver-daemonset-abcde     1/2     {state}   34 (2m ago)   2h\n",
    "validator": "gpu-operator   nvidia-operator-validator-fghij   0/1     {state}           0         2h\n",
    "ofed": "network        mofed-ubuntu22.04-ds-pqrst        0/1     {state}   0             2h\n",
}
LOGS = "kubectl logs -n gpu-operator -l app=nvidia-driver-daemonset --all-containers"


def answered(*rows: str) -> str:
    found = explained(HEAD + "".join(rows)).answer
    return " ".join((found.sentence, *found.now))


@pytest.mark.parametrize("state", ["CrashLoopBackOff", "Error", "Init:CrashLoopBackOff"])
def test_a_driver_pod_that_does_not_stay_up_is_the_answer_with_the_command_that_says_why(state):
    said = answered(ROWS["validator"].format(state="Init:0/4"), ROWS["driver"].format(state=state))
    assert "driver pod does not stay up" in said and LOGS in said and "gdr explain" in said


@pytest.mark.parametrize("state", ["ImagePullBackOff", "ErrImagePull", "CreateContainerError"])
@pytest.mark.parametrize("row", ["driver", "ofed"])
def test_a_container_that_never_started_has_no_log_to_read(row, state):
    """`kubectl logs` answers that the container waits to start."""
    said = answered(ROWS[row].format(state=state))
    assert "kubectl describe pod" in said and "kubectl logs" not in said


def test_pods_that_wait_point_to_the_driver():
    said = answered(ROWS["validator"].format(state="Init:0/4"))
    assert "waits for the driver" in said and LOGS in said


def test_an_ofed_pod_that_fails_has_its_own_log():
    assert "nvidia.com/ofed-driver" in answered(ROWS["ofed"].format(state="CrashLoopBackOff"))


@pytest.mark.parametrize("row", ROWS.values())
def test_pods_that_run_are_no_failure(row):
    said = answered(row.format(state="Running"), row.format(state="Completed"))
    assert "kubectl logs" not in said


NO_DEVICE = (
    "{0}:273:273 [3] NCCL INFO NET/IB : No device found.\n{0}:273:273 [3] NCCL INFO Using network Socket\n"
)


@pytest.mark.parametrize(
    "text",
    [
        NO_DEVICE.format("vllm-worker-0"),  # vllm-project/vllm issue 9193
        f"$ kubectl exec -it trainer -- python train.py\n{NO_DEVICE.format('trainer')}",
        f"apiVersion: v1\nkind: Pod\n{NO_DEVICE.format('trainer')}",
    ],
)
def test_a_pod_without_a_device_has_first_of_all_not_been_given_one(text: str):
    assert first_of(text) == "rdma-device-not-in-container"


@pytest.mark.parametrize("name", ["gpu-node-17", "worker", "node17"])
def test_a_host_without_a_device_has_none(name: str):
    assert first_of(NO_DEVICE.format(name)) == "no-rdma-device"


def first_of(text: str) -> str:
    """The likeliest of the causes that a text leaves open."""
    return explained(text).answer.others[0].code


REFUSED = (
    "{0}:412:601 [0] misc/ibvwrap.cc:278 NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot"
    " allocate memory\n$ {1}ulimit -l{2}\n8192\n"
)


def test_the_limit_of_locked_memory_of_a_pod_is_lifted_by_its_manifest():
    """NVIDIA/nccl-tests issue 206."""
    in_pod = explained(REFUSED.format("trainer-worker-1", "kubectl exec trainer-worker-1 -- sh -c '", "'"))
    on_host = explained(REFUSED.format("node17", "", ""))
    assert in_pod.answer.cause == on_host.answer.cause == "memlock-limit"
    assert in_pod.answer.now[0].startswith("In a pod ") and "--form kubernetes" in in_pod.answer.now[0]
    assert on_host.answer.now[0].startswith("On a host")
