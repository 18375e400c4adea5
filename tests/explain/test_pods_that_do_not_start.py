"""Events of Kubernetes, and logs of containers that build a driver: what keeps a pod from starting."""

from __future__ import annotations

import pytest

from gdrkit.explain.lines.transcript import read
from tests.explain.explaining import explained

EVENTS = (
    "Events:\n"
    "  Type     Reason     Age               From               Message\n"
    "  ----     ------     ----              ----               -------\n"
)
NOT_SCALED = (
    "  Normal   NotTriggerScaleUp  31m  cluster-autoscaler  pod didn't trigger scale-up: 1 Insufficient {}\n"
)
NOT_PLACED = (
    "  Warning  FailedScheduling  4m (x7 over 31m)  default-scheduler  0/4 nodes are available: 4"
    " Insufficient {}. preemption: 0/4 nodes are available\n"
)
NO_NETWORK = (
    "  Warning  FailedCreatePodSandBox  31s  kubelet  Failed create pod sandbox: [default/t:ib-net]: error"
    ' adding container to network "ib-net": SRIOV-CNI failed to load netconf: LoadConf(): {}\n'
)
NO_IMAGE = (
    '  Warning  Failed  8s (x3 over 52s)  kubelet  Failed to pull image "nvcr.io/nvidia/mellanox/'
    'doca-driver:25.01-0.6.0.0-0-debian11-amd64": rpc error: code = NotFound desc = not found\n'
    "  Warning  Failed  8s (x3 over 52s)  kubelet  Error: ErrImagePull\n"
)
NO_DEVICES = (
    "  Warning  UnexpectedAdmissionError  10s  kubelet  Allocate failed due to requested number of devices"
    " unavailable for rdma/hca_shared_devices_a. Requested: 1, Available: 0, which is unexpected\n"
)
NO_ADDRESS = (
    '  Warning  FailedCreatePodSandBox  20s  kubelet  Failed to create pod sandbox: plugin type="macvlan"'
    " failed (add): error at storage engine: Could not allocate IP in range: ip: 10.0.0.1 / - 10.0.0.1\n"
)
NO_PLUGIN = (
    "  Warning  FailedCreatePodSandBox  6m11s  kubelet  Failed to create pod sandbox: rpc error: code ="
    ' Unknown desc = failed to setup network for sandbox "8be0": plugin type="multus" failed'
    ' (add): [a/t:net]: error adding container to network "net": failed to find plugin "{}" in path [{}]\n'
)
NO_DEFINITION = (
    "  Warning  NoNetworkFound  24s  multus  cannot find a network-attachment-definition ({}) in namespace"
    ' ({}): network-attachment-definitions.k8s.cni.cncf.io "{}" not found\n'
)
NO_RUNTIME = (
    "  Warning  FailedCreatePodSandBox  12s  kubelet  Failed to create pod sandbox: rpc error: code ="
    ' Unknown desc = failed to get sandbox runtime: no runtime for "nvidia" is configured\n'
)
NOT_READY = (
    "  Warning  Unhealthy  2m (x30 over 12m)  kubelet  Startup probe failed: ls: cannot access"
    " '/run/mellanox/drivers/.driver-ready': No such file or directory\n"
)
ROW = "nvidia-driver-daemonset-6x9kq   0/2   ImagePullBackOff   0   9m\n"


def said(text: str) -> str:
    found = explained(text).answer
    return " ".join((found.sentence, *found.now))


@pytest.mark.parametrize(
    "event, words",
    [
        (NOT_PLACED.format("vpc.amazonaws.com/efa"), "aws-efa-k8s-device-plugin"),
        (NOT_PLACED.format("rdma/hca_shared_devices_a"), "ifNames"),
        (NO_NETWORK.format("VF pci addr is required"), "k8s.v1.cni.cncf.io/resourceName"),
        (NO_IMAGE, "the registry has no such tag"),
        (NO_DEVICES, "Allocatable"),
        (NO_ADDRESS, "no free address"),
        (NO_PLUGIN.format("sriov", "/opt/cni/bin"), "no CNI plugin sriov in /opt/cni/bin"),
        (NO_PLUGIN.format("macvlan", "/usr/libexec/cni /opt/cni/bin"), "secondaryNetwork.cniPlugins"),
        (NO_DEFINITION.format("ib-net", "team-a", "ib-net"), "no NetworkAttachmentDefinition ib-net in the"),
        (NO_DEFINITION.format("w.conf", "kube-system", "w.conf"), "networkNamespace: kube-system"),
        (NO_RUNTIME, "nvidia-container-toolkit-daemonset"),
        (NOT_READY, "nvidia.com/ofed-driver"),
    ],
)
def test_an_event_that_kubectl_describes_is_an_output(event, words):
    """aws-samples/aws-efa-eks issue 8, sriov-network-device-plugin 310, Mellanox/network-operator 1052,
    NVIDIA/gpu-operator 730, rancher/rke2 8687, multus-cni 386."""
    assert {line.kind for line in read(EVENTS.partition("\n")[2] + event)} == {"machine"}
    assert words in said(EVENTS + event)


def test_events_that_kubectl_gets_are_an_output():
    events = (
        "LAST SEEN   TYPE      REASON      OBJECT      MESSAGE\n"
        "3m4s        Warning   Unhealthy   pod/mofed   Startup probe failed\n"
    )
    assert {line.kind for line in read(events)} == {"machine"}


def test_an_event_that_nothing_is_known_of_is_quoted():
    found = explained(EVENTS + NO_NETWORK.format("no device ID")).answer
    assert (found.kind, found.lines[0].line) == ("nothing", 4)


def test_efa_has_no_selectors_of_another_vendor_and_another_resource_is_no_efa():
    assert "ifNames" not in said(EVENTS + NOT_PLACED.format("vpc.amazonaws.com/efa"))
    of_pods = said(EVENTS + NOT_PLACED.format("vpc.amazonaws.com/pod-eni"))  # branch interfaces: no RDMA
    assert "EFA" not in of_pods and "network resource" not in of_pods


def test_a_warning_precedes_an_event_that_kubernetes_calls_normal():
    resource = "vpc.amazonaws.com/efa"
    found = explained(EVENTS + NOT_SCALED.format(resource) + NOT_PLACED.format(resource)).answer
    assert found.lines[0].line == 5


def test_what_a_node_offers_is_surer_than_an_event():
    """Mellanox/network-operator issue 438."""
    offered = '$ kubectl get node n1 -o json | jq .status\n  "rdma/rdma_shared_device_a": "0"\n'
    assert "offers none of a network resource" in said(
        EVENTS + NOT_PLACED.format("rdma/rdma_shared_device_a") + offered
    )


def test_the_status_of_a_policy_is_no_line_of_its_controllers_log():
    states = "ClusterPolicy is not ready, states not ready: [state-driver]"
    assert "waits for pods" in said(f'{{"level":"error","ts":1.7,"msg":"{states}"}}\n')
    assert "waits for pods" not in said(f"status:\n  conditions:\n  - message: '{states}'\n")


def test_why_an_image_is_not_pulled_precedes_the_row_of_its_pod():
    assert "kubectl describe" in said(ROW)
    assert "no such tag" in said(ROW + EVENTS + NO_IMAGE)


# -- containers that build a driver --------------------------------------------------------------------


INSTALLER = (
    "========== NVIDIA Software Installer ==========\n\n"
    "Starting installation of NVIDIA driver version 580.95.05 for Linux kernel version 5.15.0-1089-azure\n\n"
    "Updating the package cache...\n{}Resolving Linux kernel version...\n"
    "Could not resolve Linux kernel version\n"
)
NO_NAME = (
    "W: Failed to fetch http://archive.ubuntu.com/ubuntu/dists/jammy/InRelease  Temporary failure resolving"
    " 'archive.ubuntu.com'\n"
)
NO_HOST = (
    "Errors during downloading metadata for repository 'rhel-9-for-x86_64-appstream-rpms':\n"
    "  - Curl error (6): Couldn't resolve host name for https://example.com/content [Could not resolve"
    " host: example.com]\n"
)
UNMET = (
    "[24-Apr-25_09:28:20] Skipping driver build, reusing previously built packages for kernel 5.15.0-130\n"
    "E: Unable to correct problems, you have held broken packages.\n"
    "The following packages have unmet dependencies:\n"
    " mlnx-ofed-kernel-modules : Depends: linux-modules-extra-5.15.0-130-generic but it is not installable\n"
)
VALIDATOR = (
    "2024-10-24T09:25:48.17+08:00 running command chroot with args [/run/nvidia/driver nvidia-smi]\n"
    "2024-10-24T09:25:48.18+08:00 chroot: failed to run command 'nvidia-smi': No such file or directory\n"
    "2024-10-24T09:25:48.19+08:00 command failed, retrying after 5 seconds\n"
)


@pytest.mark.parametrize(
    "log, words",
    [
        (INSTALLER.format(""), "no headers of the node's running kernel"),
        (NO_HOST, "the name of its server does not resolve"),
        (UNMET, "no package of the running kernel"),
        ("E: Unable to locate package linux-objects-nvidia-535-server-5.10.0-23-amd64\n", "no package of"),
        ("Error: Unable to find a match: kernel-devel-4.18.0-513.el8_9.x86_64\n", "no package of"),
        (VALIDATOR, "/run/nvidia/driver"),
        (
            "FATAL: failed to install elfutils packages. RHEL entitlement may be improperly deployed.\n",
            "toolkit",
        ),
        ('[21-Mar-25_03:03:41] Command "/etc/init.d/openibd restart" failed with exit code: 1\n', "dmesg"),
    ],
)
def test_a_container_that_builds_no_driver_says_what_it_lacks(log, words):
    """NVIDIA/gpu-operator issues 155, 557 and 1063, Mellanox/network-operator 830 and 1450."""
    assert words in said(log)


def test_a_name_that_does_not_resolve_is_why_no_headers_are_found():
    assert "does not resolve" in said(INSTALLER.format(NO_NAME))


@pytest.mark.parametrize(
    "line",
    [
        "E: Unable to locate package nvtop\n",
        "xserver-xorg-video : Depends: linux-headers-generic but 6.8 is to be installed\n",
        "I wonder why a kernel version cannot be resolved.\n",
    ],
)
def test_another_package_keeps_no_driver_from_being_built(line):
    assert "running kernel" not in said(line)


# -- torch's store -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "[E socket.cpp:860] [c10d] The client socket has timed out after 60s while trying to connect to"
        " (10.20.0.11, 1234).\n",
        "[rank3]:[E1124 10:01:12.000000000 socket.cpp:1019] [c10d] The client socket has timed out after"
        " 60000ms while trying to connect to (trainer-0, 29500).\n",
        "torch.distributed.DistNetworkError: The client socket has failed to connect to any network address"
        " of (trainer-0, 29500).\n",
    ],
)
def test_a_store_that_is_not_reached_is_no_failure_of_rdma(line):
    """pytorch/pytorch issues 107021 and 105782."""
    assert "store of rank 0" in said(line) and "Neither NCCL nor RDMA" in said(line)


def test_any_line_of_torchs_log_is_an_output():
    line = "[W1124 10:00:12.000000000 socket.cpp:767] [c10d] The client socket cannot be initialized\n"
    assert [found.kind for found in read(line)] == ["machine"]


def test_processes_that_did_not_join_are_to_be_looked_for():
    assert "did not join" in said(
        "torch.distributed.DistStoreError: Timed out after 301 seconds waiting for clients. 1/2 clients"
        " joined.\n"
    )
