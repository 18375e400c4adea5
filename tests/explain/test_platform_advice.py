"""What to do on systems that boot an image, as far as a text shows that it is one."""

from __future__ import annotations

import pytest

from tests.explain.explaining import EINVAL, explained

NOT_FOUND = "modprobe: FATAL: Module {} not found in directory /lib/modules/{}\n"
PACKAGES = ("package", "dkms", "depmod", "sudo")


@pytest.mark.parametrize(
    ("text", "system"),
    [
        (NOT_FOUND.format("nvidia_peermem", "6.12.18-talos"), "Talos"),
        (NOT_FOUND.format("nvidia_peermem", "6.6.95-flatcar"), "Flatcar"),
        (f"Linux n1 6.12.18-talos #1 SMP x86_64 GNU/Linux\n{EINVAL}\n", "Talos"),
        (
            "$ cat /etc/os-release\nNAME=Bottlerocket\nID=bottlerocket\nVERSION_ID=1.50.0\n"
            f"$ modprobe nvidia-peermem\n{NOT_FOUND.format('nvidia_peermem', '6.1.112')}",
            "Bottlerocket",
        ),
    ],
)
def test_nothing_is_installed_for_peermem_on_a_system_that_boots_an_image(text: str, system: str):
    (step, *_) = explained(text).answer.now
    assert f"on {system}, no OFED is built" in step and "Use dma-buf" in step and "gdr fix" not in step
    assert not any(word in step for word in PACKAGES)


TALOS = """\
$ talosctl -n 10.0.0.21 dmesg | grep nvidia_peermem
error loading module "nvidia_peermem": load nvidia_peermem failed: invalid argument
$ talosctl -n 10.0.0.21 read /proc/version
Linux version 6.12.48-talos (@buildkitsandbox) (gcc (GCC) 14.2.0) #1 SMP Mon Sep 22 17:10:17 UTC 2025
$ talosctl -n 10.0.0.21 read /proc/driver/nvidia/version
"""
CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.148.08  Wed Apr 30 19:10:39 UTC 2025\n"
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.148.08  Release Build  (root@b)\n"


@pytest.mark.parametrize(("banner", "needs_open"), [(CLOSED, True), (OPEN, False)])
def test_talos_without_a_shell_is_changed_by_its_configuration(banner: str, needs_open: bool):
    """siderolabs/talos issue 12021."""
    (step, *_) = explained(f"{TALOS}{banner}").answer.now
    assert "`talosctl -n 10.0.0.21 edit machineconfig`" in step and "gdr fix" not in step
    assert ("`gdr config talos --form schematic`" in step) is needs_open


def test_another_module_is_a_matter_of_the_image():
    (step, *_) = explained(NOT_FOUND.format("nvidia", "6.12.18-talos")).answer.now
    assert "the image or the configuration of Talos" in step
    assert not any(word in step for word in PACKAGES)


@pytest.mark.parametrize("release", ["6.12.18-generic", "5.14.0-570.el9.x86_64", "6.12.18-talosfork"])
def test_a_release_that_names_no_such_system_leaves_the_packages(release: str):
    (step, *_) = explained(NOT_FOUND.format("nvidia_peermem", release)).answer.now
    assert "the distribution's package" in step


def test_a_person_who_names_the_system_shows_none():
    (step, *_) = explained(f"We run Talos.\n\n{NOT_FOUND.format('nvidia_peermem', '6.12.18')}").answer.now
    assert "the distribution's package" in step


BUILT = (
    "$ kubectl -n gpu-operator logs {} -c {} --tail=30\n"
    "Kernel module compilation complete.\n"
    "[  512.441905] Lockdown: nvidia-installe: unsigned module loading is restricted; see man"
    " kernel_lockdown.7\n"
)
REJECTED = "$ dmesg | tail -1\n[ 1423.774018] Loading of unsigned module is rejected\n"


@pytest.mark.parametrize(
    "text",
    [
        BUILT.format("nvidia-driver-daemonset-w8c4r", "nvidia-driver-ctr"),
        "========== NVIDIA Software Installer ==========\n[ 3.1] Loading of unsigned module is rejected\n",
    ],
)
def test_nobody_signs_what_the_operators_container_builds(text: str):
    """NVIDIA/gpu-operator issues 1142 and 1726."""
    (step,) = explained(text).answer.now
    assert "usePrecompiled" in step and "Secure Boot" in step and "DKMS" not in step


@pytest.mark.parametrize("text", [REJECTED, BUILT.format("trainer-0", "main")])
def test_a_module_of_the_host_is_signed_there(text: str):
    assert "usePrecompiled" not in " ".join(explained(text).answer.now)
    assert any("ign" in step for step in explained(text).answer.now)


DTK = """\
$ oc logs -n nvidia-gpu-operator nvidia-driver-daemonset-x8k2p -c nvidia-driver-ctr
FATAL: failed to install elfutils packages. RHEL entitlement may be improperly deployed.
"""
POLICY = """\
$ oc get clusterpolicy gpu-cluster-policy -o yaml | head -7
apiVersion: nvidia.com/v1
kind: ClusterPolicy
metadata:
  labels:
    {}
  name: gpu-cluster-policy
"""


def test_who_manages_the_policy_is_named_beside_the_change():
    """NVIDIA/gpu-operator, issue 1692: Argo CD changed the policy back, and nobody knew of it."""
    (step, *_) = explained(DTK + POLICY.format("argocd.argoproj.io/instance: gpu-operator")).answer.now
    assert "By line 8, Argo CD (application gpu-operator) manages this object" in step


@pytest.mark.parametrize(
    "label", ["app.kubernetes.io/managed-by: Helm", "app.kubernetes.io/name: gpu-operator"]
)
def test_without_a_sign_of_an_owner_the_change_is_as_it_was(label: str):
    assert explained(DTK + POLICY.format(label)).answer.now == explained(DTK).answer.now
    assert "manages" not in " ".join(explained(EINVAL).answer.now)


def far(line: str, above: str = "") -> str:
    return (
        f"{above}n1:61:120 [0] NCCL INFO NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'\n"
        "n1:61:120 [0] NCCL INFO Using network IB\n"
        f"n1:61:120 [0] NCCL INFO GPU Direct RDMA Disabled for GPU 6000 / HCA 0 ({line})\n"
        "n1:61:120 [0] NCCL INFO Channel 00/0 : 2[6000] -> 0[6000] [receive] via NET/IB/0\n"
    )


@pytest.mark.parametrize(
    "shown",
    [
        "root@n1:/# systemd-detect-virt --vm\nkvm\nroot@n1:/# cat nccl.log\n",
        "$ lscpu\nHypervisor vendor:     KVM\n$ cat nccl.log\n",
        "[    0.000000] Hypervisor detected: KVM\n",
        "$ hostnamectl\n    Virtualization: vmware\n$ cat nccl.log\n",
    ],
)
def test_in_a_virtual_machine_a_distance_may_be_that_of_its_own_tree(shown: str):
    (step, *_) = explained(far("distance 7 > 4", shown)).answer.now
    assert "NCCL_TOPO_FILE" in step and step.startswith("The text shows a virtual machine")


@pytest.mark.parametrize("shown", ["", "$ lscpu\nVirtualization:        VT-x\n$ cat nccl.log\n"])
def test_elsewhere_a_distance_is_the_machines(shown: str):
    (step, *_) = explained(far("distance 7 > 4", shown)).answer.now
    assert "virtual machine" not in step and "NCCL_NET_GDR_LEVEL=SYS" in step


@pytest.mark.parametrize(
    ("line", "cause"), [("distance 7 > 4", "pair-cross-socket"), ("distance 8 > 5", "pair-distant")]
)
def test_the_default_level_tells_what_a_distance_means(line: str, cause: str):
    """8 is SYS or PHB where 5 is PXB: NCCL src/graph/topo.h, of 2.20 and 2.29."""
    found = explained(far(line)).answer
    assert found.cause == cause and found.sureness == "possible"
