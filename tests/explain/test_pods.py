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
