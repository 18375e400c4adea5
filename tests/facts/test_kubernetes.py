"""Manifests and pod logs supplied with a node."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.evidence import EvidenceMissing
from gdrkit.facts.kubernetes import (
    FOLDER,
    boolean,
    deploys_ofed,
    files,
    gpu_operator,
    manifests,
    pod_logs,
    policy_name,
    unreadable,
)
from gdrkit.facts.peermem_container import ContainerEvent, events, last_attempt, parse
from gdrkit.facts.peermem_container import ContainerEventKind as Kind
from gdrkit.formats.yaml_values import Scalar
from gdrkit.node import Node
from gdrkit.repair.config.operators import patch_command
from tests.memory_host import MemoryHost

POLICY = """\
apiVersion: nvidia.com/v1
kind: ClusterPolicy
metadata: {name: cluster-policy}
spec:
  driver:
    kernelModuleType: open
    usePrecompiled: false
    useNvidiaDriverCRD: true
"""
DRIVER = """\
kind: NVIDIADriver
metadata: {name: default}
spec:
  driverType: gpu
  rdma:
    enabled: true
    useHostMofed: false
"""


def node(**texts: str) -> Node:
    return Node(MemoryHost({f"{FOLDER}/{name.replace('__', '.')}": text for name, text in texts.items()}))


def test_objects_of_several_documents_and_of_lists():
    listed = "kind: List\nitems:\n- kind: Pod\n  metadata: {name: a}\n- kind: Pod\n  metadata: {name: b}\n"
    found = manifests(node(one__yaml=f"{POLICY}---\n{DRIVER}", two__yaml=listed))

    assert [(manifest.kind, manifest.name) for manifest in found] == [
        ("ClusterPolicy", "cluster-policy"),
        ("NVIDIADriver", "default"),
        ("Pod", "a"),
        ("Pod", "b"),
    ]


def test_json_can_be_a_manifest_and_values_files_are_not():
    found = manifests(
        node(p__json='{"kind": "ClusterPolicy", "spec": {}}', values__yaml="driver:\n  rdma: {}\n")
    )

    assert [manifest.kind for manifest in found] == ["ClusterPolicy"]


def test_unreadable_manifests_are_reported():
    (fault,) = unreadable(node(p__yaml="kind: ClusterPolicy\nspec: *anchor\n"))

    assert (fault.source, fault.line) == (f"{FOLDER}/p.yaml", 1)


def test_a_talos_configuration_has_no_kind_of_its_own():
    assert (
        manifests(node(mc__yaml="version: v1alpha1\nmachine:\n  type: worker\n"))[0].kind
        == "MachineConfiguration"
    )


def test_settings_are_the_policys_or_the_drivers_if_the_policy_refers_to_it():
    both = gpu_operator(node(a__yaml=POLICY, b__yaml=DRIVER))
    alone = gpu_operator(node(a__yaml=POLICY))

    assert both is not None
    assert (both.kind, both.rdma_enabled, both.use_host_mofed) == ("NVIDIADriver", True, False)
    assert alone is not None
    assert (alone.use_precompiled, alone.rdma_enabled) == (False, None)
    assert gpu_operator(node()) is None


RHCOS = "ID=rhel\nID_LIKE=fedora\nVARIANT_ID=coreos\n"
RHEL = "ID=rhel\nID_LIKE=fedora\nVARIANT_ID=server\n"


@pytest.mark.parametrize(
    ("release", "supplied", "name"),
    [
        (RHEL, "", "cluster-policy"),
        (RHCOS, "", "gpu-cluster-policy"),
        ("ID=rhcos\n", "", "gpu-cluster-policy"),
        (RHCOS, "mine", "mine"),
        (RHEL, "x; reboot", "cluster-policy"),
    ],
)
def test_the_policy_has_the_supplied_name_or_that_which_the_platform_gives_it(release, supplied, name):
    policy = POLICY.replace("{name: cluster-policy}", f"{{name: '{supplied}'}}") if supplied else ""
    files = {"etc/os-release": release, f"{FOLDER}/policy.yaml": policy}
    assert policy_name(Node(MemoryHost(files))) == name


def test_a_policy_that_no_evidence_names_is_asked_for():
    """Without os-release nobody knows whether the node is of OpenShift, whose policy has another name."""
    assert patch_command(None) == patch_command(Node(MemoryHost({})))
    assert patch_command(None).startswith('kubectl patch "$(kubectl get clusterpolicy -o name)" --type')


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        (Scalar("true", 1), True),
        (Scalar("False", 1), False),
        (Scalar("true", 1, quoted=True), None),
        (None, None),
    ],
)
def test_only_bare_words_are_booleans(scalar: Scalar | None, value: bool | None):
    assert boolean(scalar) is value


def test_an_ofed_container_is_deployed_or_not_or_that_is_unknown():
    with_ofed = "kind: NicClusterPolicy\nspec:\n  ofedDriver: {image: doca-driver}\n"

    assert deploys_ofed(node(n__yaml=with_ofed)) is True
    assert deploys_ofed(node(n__yaml="kind: NicClusterPolicy\nspec: {nvIpam: {}}\n")) is False
    assert deploys_ofed(node()) is None


def test_files_in_folders_and_the_nodes_own_logs_are_found():
    own = "var/log/pods/gpu-operator_nvidia-driver-daemonset-ab_1/nvidia-peermem-ctr/0.log"
    other = "var/log/pods/kube-system_coredns_2/coredns/0.log"
    host = MemoryHost({f"{FOLDER}/cluster-info/gpu-operator/p.log": "x", own: "y", other: "z"})

    assert pod_logs(Node(host)) == (f"{FOLDER}/cluster-info/gpu-operator/p.log", own)
    assert files(Node(MemoryHost())) == ()


# -- the container's log -----------------------------------------------------------------------------------

LINES = {
    "waiting for mellanox ofed and nvidia drivers to be installed": Kind.WAITING,
    "2026-11-20T16:00:00Z stdout F successfully loaded nvidia-peermem module, now waiting": Kind.LOADED,
    "nvidia-peermem module already loaded, skipping modprobe": Kind.ALREADY_LOADED,
    "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument": Kind.INVALID_ARGUMENT,
    "modprobe: ERROR: could not insert 'nvidia_peermem': Key was rejected by service": Kind.KEY_REJECTED,
    "modprobe: FATAL: Module nvidia-peermem not found in directory /lib/modules/6.8": Kind.NOT_FOUND,
    "failed to load nvidia-peermem module": Kind.FAILED,
    "nvidia-peermem module is not loaded": Kind.NOT_LOADED,
}


@pytest.mark.parametrize(("line", "kind"), LINES.items())
def test_each_line_of_the_container_is_recognized(line: str, kind: Kind):
    assert [event.kind for event in parse(line, "log")] == [kind]


def test_errors_of_other_modules_are_ignored():
    assert parse("modprobe: ERROR: could not insert 'nvidia_uvm': Invalid argument", "log") == []


def test_only_lines_after_the_last_restart_count():
    kinds = (
        Kind.NOT_FOUND,
        Kind.FAILED,
        Kind.WAITING,
        Kind.INVALID_ARGUMENT,
        Kind.FAILED,
    )
    lines = tuple(ContainerEvent(kind, "", "log", number) for number, kind in enumerate(kinds))

    assert [event.kind for event in last_attempt(lines)] == [
        Kind.WAITING,
        Kind.INVALID_ARGUMENT,
        Kind.FAILED,
    ]


def test_without_a_log_it_is_not_collected():
    with pytest.raises(EvidenceMissing):
        events(node(p__log="unrelated\n"))


@given(st.text())
def test_any_text_is_parsed(text: str):
    assert isinstance(parse(text, "log"), list)
