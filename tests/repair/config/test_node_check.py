"""`gdr config check FILE --node TARGET`: what a file names and a node lacks, and what it has."""

from __future__ import annotations

import pytest

from gdrkit.cli import main
from gdrkit.evidence.target import open_host
from gdrkit.node import Node
from gdrkit.repair.config.check import CheckedFile, check
from tests.evidence_nodes import build
from tests.hiding_host import HidingHost

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  hostNetwork: HOST
  containers:
    - name: main
      securityContext: {capabilities: {add: [IPC_LOCK]}}
      resources: {limits: {RESOURCE: 1}}
      env:
        - {name: NCCL_IB_HCA, value: mlx5_7}
        - {name: NCCL_SOCKET_IFNAME, value: bond0}
"""
NODE = """\
apiVersion: v1
kind: Node
metadata: {name: NAME}
status:
  allocatable: {cpu: '8', nvidia.com/gpu: '8', rdma/hca: '63', rdma/empty: '0'}
"""


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    names = ("acs-redirect", "spark-two-cables", "gpu-operator-stub")
    return {name: build(name, tmp_path_factory.mktemp(name)) for name in names}


@pytest.fixture(scope="module")
def nodes(paths):
    return {name: Node(open_host(str(path))) for name, path in paths.items()}


def codes(found: CheckedFile) -> list[str]:
    return [f"{fault.line} {fault.severity} {fault.code}" for fault in found.faults]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("NCCL_IB_HCA=mlx5_0,mlx5_9", ["1 warning hca-not-selected"]),
        ("NCCL_IB_HCA=mlx5_9", ["1 error hca-not-selected"]),
        ("NCCL_IB_HCA==mlx5", ["1 error hca-not-selected"]),
        ("NCCL_IB_HCA=mlx5", []),
        ("NCCL_IB_HCA==mlx5_0:1,mlx5_1:1", []),
        ("NCCL_IB_HCA=^mlx5_9", []),  # leaving out what is not there does no harm
        ("UCX_NET_DEVICES=mlx5_0:1,eth9", []),  # the name of an interface, of which a pod may have others
        ("UCX_NET_DEVICES=mlx5_0,ib9", []),
        ("UCX_NET_DEVICES=mlx5_9", ["1 error hca-not-selected"]),  # a device without its port
        ("UCX_NET_DEVICES=mlx5_9:1,eth9", ["1 error hca-not-selected"]),
        ("NCCL_SOCKET_IFNAME=bond0", ["1 error interface-missing"]),
        ("NCCL_SOCKET_IFNAME=ens", []),
        ("NCCL_SOCKET_IFNAME=^docker", []),
    ],
)
def test_lists_are_compared_with_the_names_of_the_node(nodes, line, expected):
    assert codes(check(f"{line}\n".encode(), "nccl.conf", "", nodes["acs-redirect"])) == expected
    assert codes(check(f"{line}\n".encode(), "nccl.conf")) == []


@pytest.mark.parametrize(
    ("resource", "host", "expected"),
    [
        ("rdma/hca", "true", ["11 error hca-not-selected", "12 error interface-missing"]),
        ("rdma/hca", "false", ["11 error hca-not-selected"]),  # the pod has interfaces of its own
        ("openshift.io/rail_0", "false", []),  # a virtual function has a name of its own
    ],
)
def test_a_pod_is_compared_as_far_as_it_sees_the_node(nodes, resource, host, expected):
    text = POD.replace("RESOURCE", resource).replace("HOST", host).encode()
    assert codes(check(text, "pod.yaml", "", nodes["acs-redirect"])) == expected


def test_roce_needs_an_interface_in_the_pod_and_infiniband_does_not(nodes):
    text = POD.replace("RESOURCE", "rdma/hca").partition("      env:")[0]
    alone, on_host = (text.replace("HOST", word).encode() for word in ("false", "true"))
    noted = alone.replace(b"{name: a}", b"{name: a, annotations: {k8s.v1.cni.cncf.io/networks: net}}")
    spark = nodes["spark-two-cables"]
    assert codes(check(alone, "pod.yaml", "", spark)) == ["9 warning roce-without-network"]
    assert codes(check(on_host, "pod.yaml", "", spark)) == codes(check(noted, "pod.yaml", "", spark)) == []
    assert codes(check(alone, "pod.yaml", "", nodes["gpu-operator-stub"])) == []


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        ("rdma/hca", []),
        ("rdma/empty", ["9 error resource-missing"]),
        ("rdma/ib", ["9 error resource-missing"]),
    ],
)
def test_a_resource_is_one_that_the_kubelet_offers(tmp_path, resource, expected):
    path = build("gpu-operator-stub", tmp_path)
    text = POD.replace("RESOURCE", resource).replace("HOST", "true").partition("      env:")[0].encode()
    assert codes(check(text, "pod.yaml", "", Node(open_host(str(path))))) == []  # nobody said what it offers
    with (path / "sos_commands/kubernetes/clusterpolicy.yaml").open("a") as file:
        file.write("\n---\n" + NODE.replace("NAME", "k8s-a100-1"))
    assert codes(check(text, "pod.yaml", "", Node(open_host(str(path))))) == expected


OPTIONS = (
    b"options nvidia NVreg_Nothing=1\noptions nvidia_peermem persistent_api_support=x\noptions gdrdrv a=1\n"
    b"options nvidia_peermem persistent_api_support=1\noptions snd_nothing a=1\n"
)


def test_options_are_compared_with_the_modules_of_the_node(nodes):
    found = check(OPTIONS, "/etc/modprobe.d/a.conf", "", nodes["acs-redirect"])
    assert codes(found) == [
        "1 warning unknown-key", "2 error module-bad-parameter", "3 warning module-not-found",
        "4 warning set-twice",
    ]  # fmt: skip


def test_options_for_a_driver_in_a_container_belong_to_its_operator(nodes):
    found = check(OPTIONS, "/etc/modprobe.d/a.conf", "", nodes["gpu-operator-stub"])
    assert codes(found)[0] == "1 warning module-not-found" and "configmap" in found.faults[0].expected


def test_what_is_not_known_of_a_node_is_not_a_fault(paths):
    hidden = {"sys/class/infiniband", "sys/class/net", "lib/modules"}
    node = Node(HidingHost(open_host(str(paths["acs-redirect"])), hidden))
    conf = b"NCCL_IB_HCA=mlx5_0\nNCCL_SOCKET_IFNAME=ens3\n"
    assert codes(check(conf, "nccl.conf", "", node))[1:] == ["2 unreadable not-collected"]
    found = check(OPTIONS, "/etc/modprobe.d/a.conf", "", node)
    assert {fault.severity for fault in found.faults} == {"unreadable", "warning"}
    assert {fault.code for fault in found.faults} == {"not-collected", "set-twice"}


def test_a_node_is_for_check_alone(capsys):
    assert main(["config", "gpu-operator", "--node", "/"]) == 64
    assert "--node" in capsys.readouterr().err


def gpus_of_a_pod(counts: str, init: str = "0") -> bytes:
    limits = [
        f"{{name: c{n}, resources: {{limits: {{nvidia.com/gpu: {one}}}}}}}" for n, one in enumerate(counts)
    ]
    text = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n"
    text += f"  initContainers: [{{name: i, resources: {{limits: {{nvidia.com/gpu: {init}}}}}}}]\n"
    return f"{text}  containers: [{', '.join(limits)}]\n".encode()


@pytest.mark.parametrize(
    ("name", "counts", "init", "severities"),
    [
        ("gpu-operator-stub", "8", "0", ["warning"]),  # it has one GPU, which a plugin may offer as several
        ("gpu-operator-stub", "1", "0", []),
        ("gpu-operator-stub", "11", "0", ["warning"]),  # two containers share no GPU
        ("gpu-operator-stub", "1", "1", []),  # the first ends before the second starts
        ("gpu-operator-stub", "1", "2", ["warning"]),
    ],
)
def test_a_pod_asks_for_no_more_gpus_than_the_node_has(nodes, name, counts, init, severities):
    faults = check(gpus_of_a_pod(counts, init), "pod.yaml", "", nodes[name]).faults

    assert [one.severity for one in faults if one.code == "resource-missing"] == severities


def test_what_the_kubelet_offers_counts_before_what_pci_lists(tmp_path):
    """The Node object has eight GPUs: a plugin offers the one of the machine as several."""
    path = build("gpu-operator-stub", tmp_path)
    with (path / "sos_commands/kubernetes/clusterpolicy.yaml").open("a") as file:
        file.write("\n---\n" + NODE.replace("NAME", "k8s-a100-1"))
    node = Node(open_host(str(path)))
    found = {count: check(gpus_of_a_pod(count), "pod.yaml", "", node).faults for count in ("8", "9")}
    severities = {
        count: [fault.severity for fault in faults if fault.code == "resource-missing"]
        for count, faults in found.items()
    }

    assert severities == {"8": [], "9": ["error"]}
