"""Pods: the manifest fits the API of Kubernetes, and their states are read as the API writes them."""

import json
from pathlib import Path

import msgspec
import pytest
from jsonschema import Draft202012Validator

from gdrkit.fleet.pods import ClusterNode, Pod, manifest

SCHEMAS = sorted((Path(__file__).parent / "schemas").glob("Pod-*.json"))


def errors(schema, pod):
    return [error.message for error in Draft202012Validator(json.loads(schema.read_text())).iter_errors(pod)]


@pytest.mark.parametrize("privileged", [False, True])
@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda path: path.stem)
def test_a_pod_fits_the_schema_of_the_oldest_and_the_newest_release(schema, privileged):
    listed = manifest(
        {"gdr-1": "gpu1", "gdr-2": "gpu2"}, "gdr", image="i", seconds=60, privileged=privileged
    )

    assert [pod["spec"]["nodeName"] for pod in listed["items"]] == ["gpu1", "gpu2"]
    for pod in listed["items"]:
        assert errors(schema, pod) == []


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda path: path.stem)
def test_the_schema_refuses_what_the_api_refuses(schema):
    (pod,) = manifest({"gdr-1": "gpu1"}, "gdr", image="i", seconds=60)["items"]
    del pod["spec"]["containers"][0]["name"]
    pod["spec"]["nodename"] = "gpu1"

    assert len(errors(schema, pod)) == 2


def test_a_pod_takes_no_gpu_no_token_and_writes_nothing_of_the_root_file_system():
    (pod,) = manifest({"gdr-1": "gpu1"}, "gdr", image="i", seconds=60)["items"]
    spec, (container,) = pod["spec"], pod["spec"]["containers"]

    assert set(container["resources"]["limits"]) == {"memory"} and spec["activeDeadlineSeconds"] == 60
    assert spec["automountServiceAccountToken"] is False
    assert [mount["readOnly"] for mount in container["volumeMounts"]] == [True]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["DAC_READ_SEARCH"]}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)


def pod(phase, state=None, **status):
    statuses = [{"name": "collector", "state": state}] if state else []
    document = {
        "metadata": {"name": "p"},
        "status": {"phase": phase, "containerStatuses": statuses, **status},
    }
    return msgspec.json.decode(json.dumps(document), type=Pod)


STATES = [
    (pod("Pending"), False, ""),
    (pod("Pending", {"waiting": {"reason": "ContainerCreating"}}), False, ""),
    (pod("Running", {"running": {"startedAt": "2026-01-01T00:00:00Z"}}), True, ""),
    (
        pod("Pending", {"waiting": {"reason": "ErrImagePull", "message": "python:3: not found"}}),
        False,
        "ErrImagePull: python:3: not found",
    ),
    (pod("Pending", {"waiting": {"reason": "InvalidImageName"}}), False, "InvalidImageName"),
    (
        pod("Failed", {"terminated": {"exitCode": 128, "reason": "StartError", "message": "no python3"}}),
        False,
        "its Pod ended: StartError: no python3",
    ),
    (pod("Failed", reason="NodeAffinity", message="did not match"), False, "NodeAffinity: did not match"),
    (pod("Failed", reason="Evicted"), False, "its Pod ended: Evicted"),
    (pod("Succeeded", {"terminated": {"exitCode": 0}}), False, "its Pod ended: exit code 0"),
    (pod("Running", {"terminated": {"exitCode": 1}}), False, "its Pod ended: exit code 1"),
]


@pytest.mark.parametrize(("shown", "runs", "why"), STATES)
def test_a_pod_runs_may_still_start_or_failed(shown, runs, why):
    assert shown.runs is runs and why in shown.why_failed and bool(why) is bool(shown.why_failed)


@pytest.mark.parametrize(
    ("labels", "condition", "why"),
    [
        ({}, {"status": "True"}, ""),
        (
            {},
            {"status": "Unknown", "message": "Kubelet stopped posting"},
            "NotReady: Kubelet stopped posting",
        ),
        ({}, {"status": "False", "reason": "KubeletNotReady"}, "NotReady: KubeletNotReady"),
        ({"kubernetes.io/os": "windows"}, {"status": "True"}, "it runs windows"),
        ({"kubernetes.io/os": "linux"}, {"status": "True", "type": "DiskPressure"}, ""),
    ],
)
def test_a_node_that_is_not_ready_has_its_reason(labels, condition, why):
    conditions = [{"type": "Ready", **condition}]
    node = msgspec.convert(
        {"metadata": {"labels": labels}, "status": {"conditions": conditions}}, ClusterNode
    )

    assert why in node.why_down and bool(why) is bool(node.why_down)
