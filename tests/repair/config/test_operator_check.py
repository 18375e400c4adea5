"""`gdr config check` of policies that need an OFED: the same file's, the node's, or none."""

from __future__ import annotations

import pytest

from gdrkit.evidence.target import open_host
from gdrkit.node import Node
from gdrkit.repair.config.check import check, check_together
from tests.evidence_nodes import FOLDER, diagnosed, laid_down, names

POLICY = """\
apiVersion: nvidia.com/v1
kind: ClusterPolicy
metadata: {name: cluster-policy}
spec:
  driver:
    rdma:
      enabled: ENABLED
      useHostMofed: HOST
"""
NETWORK = """\
---
apiVersion: mellanox.com/v1alpha1
kind: NicClusterPolicy
metadata: {name: nic-cluster-policy}
spec: {WHAT}
"""
OF_NODE = "sos_commands/kubernetes/clusterpolicy.yaml"
WAITS, STUB = "operator-waits-for-ofed", "operator-stub"


def found(enabled: str, host: str, network: str = "", node: str = "") -> list[str]:
    """The codes about OFED, of a policy alone or beside a NicClusterPolicy."""
    text = POLICY.replace("ENABLED", enabled).replace("HOST", host)
    text += NETWORK.replace("WHAT", network) if network else ""
    on = Node(open_host(str(laid_down(node)))) if node else None
    faults = [one for one in check(text.encode(), "policy.yaml", node=on).faults if one.severity != "note"]
    assert all(fault.line in (7, 8) for fault in faults if fault.code in (WAITS, STUB))
    return [fault.code for fault in faults if fault.code in (WAITS, STUB)]


@pytest.mark.parametrize(
    ("enabled", "host", "network", "codes"),
    [
        ("true", "false", "psp: {}", [WAITS]),
        ("true", "false", "ofedDriver: {image: doca-driver}", []),
        ("true", "true", "ofedDriver: {image: doca-driver}", [STUB]),  # the driver takes none of them
        ("false", "true", "ofedDriver: {image: doca-driver}", []),
        ("true", "true", "psp: {}", []),  # the hosts have it, as far as the file shows
        ("false", "false", "psp: {}", []),
        ("true", "false", "", []),  # another file may have the NicClusterPolicy
    ],
)
def test_a_policy_waits_where_the_network_operator_deploys_no_ofed(enabled, host, network, codes):
    assert found(enabled, host, network) == codes


def test_a_policy_of_some_nodes_deploys_ofed_too():
    """NicNodePolicy, as the doctor counts it."""
    of_nodes = NETWORK.replace("NicClusterPolicy", "NicNodePolicy").replace("WHAT", "ofedDriver: {image: a}")
    text = POLICY.replace("ENABLED", "true").replace("HOST", "false") + NETWORK.replace("WHAT", "psp: {}")

    assert WAITS in [fault.code for fault in check(text.encode(), "policy.yaml").faults]
    assert WAITS not in [fault.code for fault in check((text + of_nodes).encode(), "policy.yaml").faults]


@pytest.mark.parametrize(
    ("node", "host", "codes"),
    [
        ("gpu-operator-stub", "true", [STUB]),
        ("rhel-9-mofed", "true", []),
        ("gpu-operator-stub", "false", []),  # no NicClusterPolicy was supplied
    ],
)
def test_a_policy_that_counts_on_the_hosts_ofed_needs_a_host_that_has_one(node, host, codes):
    assert found("true", host, node=node) == codes


def of_modules(text: str) -> list[tuple[int, str]]:
    """The lines and severities of faults about proprietary modules."""
    found = check(text.encode(), "policy.yaml").faults
    return [(fault.line, fault.severity) for fault in found if fault.code == "driver-proprietary"]


@pytest.mark.parametrize(
    ("kind", "enabled", "severities"),
    [
        ("proprietary", "true", ["note"]),  # nvidia-peermem is the other way
        ("proprietary", "false", ["warning"]),  # neither
        ("open", "false", []),
        ("auto", "false", []),  # the operator chooses by the GPUs, which no file shows
    ],
)
def test_proprietary_modules_are_named_without_a_node(kind, enabled, severities):
    text = POLICY.replace("ENABLED", enabled).replace("HOST", "false") + f"    kernelModuleType: {kind}\n"
    assert of_modules(text) == [(9, one) for one in severities]


ARGO = """\
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: gpu-operator}
spec:
  sources:
  - chart: gpu-operator
    helm:
      KEY
        CHART:
          kernelModuleType: proprietary
          rdma: {enabled: true, useHostMofed: true}
"""
FLUX = """\
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: gpu-operator}
spec:
  values:
    # the chart's


    driver:
      kernelModuleType: proprietary
      rdma: {enabled: true, useHostMofed: true}
"""


@pytest.mark.parametrize(
    "text",
    [
        ARGO.replace("KEY", "valuesObject:").replace("CHART", "driver"),
        ARGO.replace("KEY", "values: |").replace("CHART", "driver"),
        FLUX,
    ],
)
def test_values_of_the_chart_within_another_object_are_judged_as_a_policy(text):
    """Fields: CustomResourceDefinitions of Argo CD and of Flux."""
    found = check((text + NETWORK.replace("WHAT", "ofedDriver: {image: a}")).encode(), "a.yaml").faults
    lines = [(one.line, one.code) for one in found if one.code != "missing-key"][:3]
    first = text[: text.index("driver:")].count("\n") + 1
    assert (first + 1, "driver-proprietary") in lines and (first + 2, STUB) in lines
    assert any("helm template" in one.expected for one in found)


def test_values_of_another_chart_are_none_of_the_operators():
    text = ARGO.replace("KEY", "valuesObject:").replace("CHART", "images").replace("gpu-operator", "other")
    assert check(text.encode(), "a.yaml").is_not_judged


SHARED = """\
---
apiVersion: mellanox.com/v1alpha1
kind: NicClusterPolicy
metadata: {name: nic-cluster-policy}
spec:
  rdmaSharedDevicePlugin:
    config: |
      {"configList": [{"resourceName": "rdma_shared_device_a", "rdmaHcaMax": 63}]}
"""
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  containers:
  - {name: main, image: a, resources: {limits: {nvidia.com/gpu: GPUS, MORE}}}
"""


@pytest.mark.parametrize(
    ("gpus", "more", "beside", "is_told"),
    [
        ("8", "cpu: 1", SHARED, True),
        ("8", "rdma/rdma_shared_device_a: 1", SHARED, False),
        ("1", "cpu: 1", SHARED, False),  # a part of a node often is a whole job
        ("8", "cpu: 1", NETWORK.replace("WHAT", "ofedDriver: {image: a}"), False),  # nothing is offered
    ],
)
def test_a_pod_with_every_gpu_is_told_of_the_devices_that_a_policy_offers(gpus, more, beside, is_told):
    pod = POD.replace("GPUS", gpus).replace("MORE", more).encode()
    one, _ = check_together({"pod.yaml": pod, "policy.yaml": beside.encode()})
    for found in (one, check(pod + beside.encode(), "both.yaml")):
        told = [fault for fault in found.faults if fault.code == "rdma-device-not-in-container"]
        assert ["rdma/rdma_shared_device_a" in fault.expected for fault in told] == [True] * is_told


OPERATORS = [name for name in names() if (FOLDER / name / OF_NODE).exists()]


@pytest.mark.parametrize("name", OPERATORS)
def test_the_policy_of_a_node_has_every_fault_that_the_doctor_finds_in_it(name):
    """What is passed for the node's own policy, the doctor must not fault there."""
    content = (FOLDER / name / OF_NODE).read_bytes()
    known = {WAITS, STUB, "operator-ofed-changed", "operator-module-missing", "driver-proprietary"}
    by_doctor = {f.code for f in diagnosed(name).findings if f.status in ("failed", "warning", "note")}
    on = Node(open_host(str(laid_down(name))))

    assert {fault.code for fault in check(content, OF_NODE, node=on).faults} == by_doctor & known


def test_a_log_under_other_settings_says_nothing_of_a_policy():
    """The container of gpu-operator-waits waits for the Network Operator; this policy counts on the host."""
    assert found("true", "false", node="gpu-operator-waits") == [WAITS]
    assert found("false", "false", node="gpu-operator-waits") == []
    assert WAITS not in found("true", "true", node="gpu-operator-waits")


@pytest.mark.parametrize(
    ("node", "peermem", "severities"),
    [
        ("gpu-operator-stub", "true", ["warning"]),
        ("gpu-operator-stub", "false", ["error"]),  # neither path is left
        ("volta-proprietary", "true", []),  # no open modules support it
        ("no-gpu", "true", []),
        ("", "true", []),
    ],
)
def test_proprietary_modules_are_a_fault_where_the_open_ones_would_do(node, peermem, severities):
    text = POLICY.replace("ENABLED", peermem).replace("HOST", "true")
    text = text.replace("  driver:\n", "  driver:\n    kernelModuleType: proprietary\n")
    on = Node(open_host(str(laid_down(node)))) if node else None
    faults = [one for one in check(text.encode(), "policy.yaml", node=on).faults if one.severity != "note"]

    assert [one.severity for one in faults if one.code == "driver-proprietary"] == severities


def test_a_policy_alone_is_to_be_checked_with_the_other_one():
    policy = POLICY.replace("ENABLED", "true").replace("HOST", "false").encode()
    (note,) = [one for one in check(policy, "policy.yaml").faults if one.code == WAITS]
    assert note.severity == "note" and "check both files together" in note.expected


@pytest.mark.parametrize(("what", "severity"), [("psp: {}", ["error"]), ("ofedDriver: {image: a}", [])])
def test_a_policy_is_judged_with_the_objects_of_other_files(what, severity):
    files = {
        "a": POLICY.replace("ENABLED", "true").replace("HOST", "false"),
        "b": NETWORK.replace("WHAT", what),
    }
    policy, _ = check_together({name: text.encode() for name, text in files.items()})
    assert [one.severity for one in policy.faults if one.code == WAITS] == severity


LIVE = """\
apiVersion: mellanox.com/v1alpha1
kind: NicClusterPolicy
metadata: {name: nic-cluster-policy}
spec: {ofedDriver: {image: doca-driver, repository: a, version: b}}
status:
  appliedStates:
  - {name: state-multus-cni, state: ignore}
  - {name: NAME, state: STATE, error: 'WHY'}
  state: STATE
"""


@pytest.mark.parametrize(
    ("name", "why", "words"),
    [
        ("state-OFED", "", "nvidia.com/ofed-driver"),
        ("state-OFED", "precompiled tag was not found", "state-OFED: precompiled tag was not found"),
        ("state-RDMA-device-plugin", "", "kubectl get pods"),
    ],
)
def test_an_object_of_a_cluster_says_which_part_is_not_ready(name, why, words):
    """Mellanox/network-operator issues 888 and 1322."""
    text = LIVE.replace("NAME", name).replace("STATE", "notReady").replace("WHY", why)
    (fault,) = check(text.encode(), "policy.yaml").faults
    assert (fault.line, fault.severity) == (9, "warning")
    assert name in fault.seen and words in fault.message


def test_an_object_that_is_ready_has_no_fault():
    text = LIVE.replace("STATE", "ready").replace("WHY", "")
    assert check(text.encode(), "policy.yaml").faults == ()


NODE_STATE = """\
apiVersion: sriovnetwork.openshift.io/v1
kind: SriovNetworkNodeState
metadata: {name: gpu-w2}
status:
  lastSyncError: "WHY"
  syncStatus: STATE
"""
WRITE = "write /sys/bus/pci/devices/0000:3b:00.0/sriov_numvfs: cannot allocate memory"


@pytest.mark.parametrize(
    ("state", "why", "seen"),
    [
        ("Failed", WRITE, [f"Failed in the cluster: {WRITE}"]),
        ("Failed", "", ["Failed in the cluster"]),
        ("Succeeded", "", []),
        ("InProgress", WRITE, []),  # of an attempt before: the operator tries again
    ],
)
def test_an_object_of_another_kind_says_that_it_failed(state: str, why: str, seen: list[str]):
    text = NODE_STATE.replace("STATE", state).replace("WHY", why)
    assert [fault.seen for fault in check(text.encode(), "state.yaml").faults] == seen


def test_a_failure_that_a_spec_only_names_is_none():
    text = NODE_STATE.replace("status:", "spec:").replace("STATE", "Failed")
    assert not check(text.encode(), "state.yaml").faults
