"""What kubectl shows of objects that are ready: nothing is wrong in them, and no job is shown."""

from __future__ import annotations

import pytest

from tests.explain.explaining import explained

POLICY = """\
apiVersion: nvidia.com/v1
kind: ClusterPolicy
metadata:
  creationTimestamp: "2026-02-18T12:55:45Z"
  labels:
    app.kubernetes.io/managed-by: Helm
    helm.sh/chart: gpu-operator-v25.10.1
  name: cluster-policy
spec:
  driver:
    enabled: true
status:
  conditions:
  - lastTransitionTime: "2026-02-18T12:58:01Z"
    message: ClusterPolicy is ready as all resources have been successfully reconciled
    reason: Reconciled
    status: "True"
    type: Ready
  - lastTransitionTime: "2026-02-18T12:58:01Z"
    message: ""
    reason: Ready
    status: "False"
    type: Error
  namespace: gpu-operator
  state: ready
"""
"""NVIDIA/gpu-operator issue 2150, cut by who pastes it; internal/conditions/clusterpolicy.go."""
NETWORK = """\
apiVersion: mellanox.com/v1alpha1
kind: NicClusterPolicy
metadata:
  name: nic-cluster-policy
spec:
  ofedDriver:
    image: mofed
    repository: nvcr.io/nvidia/mellanox
    version: 23.07-0.5.0.0
status:
  appliedStates:
  - name: state-pod-security-policy
    state: ignore
  - name: state-OFED
    state: ready
  state: ready
"""
"""Mellanox/network-operator issue 720."""
DESCRIBED = """\
$ kubectl describe clusterpolicy cluster-policy
Name:         cluster-policy
API Version:  nvidia.com/v1
Kind:         ClusterPolicy
Status:
  Conditions:
    Message:               ClusterPolicy is ready as all resources have been successfully reconciled
    Reason:                Reconciled
    Status:                True
    Type:                  Ready
    Message:
    Reason:                Ready
    Status:                False
    Type:                  Error
  State:                   ready
"""
AS_JSON = """\
{
    "apiVersion": "nvidia.com/v1",
    "kind": "ClusterPolicy",
    "metadata": {"name": "cluster-policy"},
    "status": {
        "namespace": "gpu-operator",
        "state": "ready"
    }
}
"""
SRIOV = """\
apiVersion: sriovnetwork.openshift.io/v1
kind: SriovNetworkNodeState
metadata:
  name: gpu01
status:
  syncStatus: Succeeded
"""
POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: trainer-0
spec:
  containers:
  - name: trainer
status:
  conditions:
  - lastProbeTime: null
    status: "True"
    type: Ready
  containerStatuses:
  - name: trainer
    ready: true
    state:
      running:
        startedAt: "2026-10-01T10:00:00Z"
  phase: Running
"""
DESCRIBED_POD = """\
Name:                 trainer-0
Node:                 gpu01/10.0.0.1
Status:               Running
Containers:
  trainer:
    State:          Running
    Ready:          True
Conditions:
  Type              Status
  Ready             True
"""
POLICIES = "NAME             STATUS   AGE\ncluster-policy   ready    2026-02-18T12:55:45Z\n"
DAEMONSETS = """\
NAME                      DESIRED   CURRENT   READY   UP-TO-DATE   AVAILABLE   NODE SELECTOR   AGE
nvidia-driver-daemonset   4         4         4       4            4           a.b/c=true      12d
"""
NODES = "NAME    STATUS   ROLES    AGE   VERSION\ngpu01   Ready    worker   12d   v1.30.4\n"
PODS = (
    "NAME        READY   STATUS      RESTARTS     AGE\ntrainer-0   1/1     Running     1 (5d ago)   12d\n"
    "eval-0      0/1     Completed   0            12d\n"
)
HEALTHY = (AS_JSON, SRIOV, POLICY, NETWORK, DESCRIBED, POD, DESCRIBED_POD, POLICIES, DAEMONSETS, NODES, PODS)


@pytest.mark.parametrize("text", HEALTHY)
def test_objects_that_are_ready_are_no_problem_and_show_no_job(text: str):
    found = explained(text).answer

    assert found.kind == "no-problem" and "does not show whether a job uses" in found.sentence
    assert "gdr nccl" in found.now[0] and "helm" not in "".join(found.now)


@pytest.mark.parametrize(
    ("text", "well", "ill"),
    [
        (POLICY, '"True"\n    type: Ready', '"False"\n    type: Ready'),
        (POLICY, "state: ready", "state: notReady"),
        (AS_JSON, '"ready"', '"notReady"'),
        (SRIOV, "Succeeded", "InProgress"),
        (NETWORK, "state-OFED\n    state: ready", "state-OFED\n    state: error"),
        (DESCRIBED, "Status:                True", "Status:                False"),
        (POD, "ready: true", "ready: false"),
        (POD, "phase: Running", "phase: Pending"),
        (POD, "running:", "waiting:"),
        (DESCRIBED_POD, "Ready             True", "Ready             False"),
        (DAEMONSETS, "4       4            4", "3       4            3"),
        (NODES, "Ready ", "NotReady "),
        (NODES, "Ready   ", "Ready,SchedulingDisabled   "),
        (PODS, "1/1 ", "0/1 "),
        (PODS, "Running", "Pending"),
        (PODS, "Running", "Init:0/1"),
    ],
)
def test_an_object_that_is_not_ready_is_not_called_so(text: str, well: str, ill: str):
    assert well in text
    assert explained(text.replace(well, ill)).answer.kind != "no-problem"


def test_what_a_person_wrote_is_no_state():
    assert explained("The kind: Pod is in phase: Running and its state: ready\n").answer.kind != "no-problem"


@pytest.mark.parametrize(("state", "all_run"), [("2/2     Running  ", True), ("0/2     Init:1/2", False)])
def test_pods_of_the_operators_run_only_if_none_is_in_init(state: str, all_run: bool):
    table = (
        "NAME                            READY   STATUS     RESTARTS   AGE\n"
        f"nvidia-driver-daemonset-7xk2p   {state}   0          38m\n"
        "network-operator-6c9d5f4b7d-8j  1/1     Running    0          41m\n"
    )
    sentence = explained(table).answer.sentence
    assert ("2 pods of NVIDIA's operators, all of which run" in sentence) == all_run
