"""Containers, hypervisors and WSL."""

import pytest

from gdrkit.evidence import EvidenceMissing
from gdrkit.explain.outputs.pasted_host import PastedHost
from gdrkit.facts import virtual
from gdrkit.node import Node
from tests.hardware import BARE_METAL, GUEST
from tests.memory_host import MemoryHost

HOST = {"proc/1/cgroup": "0::/init.scope\n"}
OVERLAY = "600 500 0:50 / / rw,relatime - overlay overlay rw,lowerdir={folder}/1/fs:{folder}/2/fs\n"


def node(files, **options):
    return Node(MemoryHost(files, complete=True, **options))


@pytest.mark.parametrize(
    "files",
    [
        {".dockerenv": ""},
        {"run/.containerenv": ""},
        {"proc/1/cgroup": "12:pids:/kubepods/besteffort/pod1/abc\n"},
        {"proc/1/cgroup": "0::/\n", "proc/1/environ": "PATH=/bin\0container=podman\0"},
        {"proc/1/cgroup": "0::/\n", "proc/1/environ": "KUBERNETES_SERVICE_HOST=10.0.0.1\0"},
        {
            "proc/self/mountinfo": OVERLAY.format(
                folder="/var/lib/containerd/io.containerd.snapshotter.v1/snapshots"
            )
        },
    ],
)
def test_a_container_is_recognized_by_any_of_its_marks(files):
    assert virtual.scope(node(files)) == "container"


def test_a_host_is_recognized_by_its_first_process():
    assert virtual.scope(node(HOST)) == "host"
    live_cd = {**HOST, "proc/self/mountinfo": "1 1 0:1 / / rw - overlay overlay rw,lowerdir=/cow/squashfs\n"}
    assert virtual.scope(node(live_cd)) == "host"


def test_without_evidence_the_scope_is_unknown():
    with pytest.raises(EvidenceMissing):
        virtual.scope(Node(MemoryHost({"proc/version": "Linux version 6.1"})))


@pytest.mark.parametrize(
    ("vendor", "product", "answer"),
    [
        ("QEMU", "Standard PC (Q35 + ICH9, 2009)", "qemu"),
        ("VMware, Inc.", "VMware7,1", "vmware"),
        ("Amazon EC2", "p5.48xlarge", "amazon"),
        ("Microsoft Corporation", "Virtual Machine", "microsoft"),
        ("Google", "Google Compute Engine", "google"),
        ("ACME", "Thing", "vm-other"),
    ],
)
def test_a_guest_is_named_by_its_product(vendor, product, answer):
    about = {"sys/class/dmi/id/sys_vendor": vendor + "\n", "sys/class/dmi/id/product_name": product + "\n"}

    assert virtual.virtual_machine(node(GUEST | about)) == answer


def test_a_guest_without_dmi_is_a_guest():
    """Firecracker has no DMI; the processor's flag decides."""
    files = {name: text for name, text in GUEST.items() if "dmi" not in name}

    assert virtual.virtual_machine(node(files)) == "vm-other"


def test_bare_metal_is_recognized_by_its_processor_whatever_its_vendor():
    metal = {"sys/class/dmi/id/sys_vendor": "Amazon EC2\n", "sys/class/dmi/id/product_name": "p5.metal\n"}

    assert virtual.virtual_machine(node(BARE_METAL)) == "none"
    assert virtual.virtual_machine(node(BARE_METAL | metal)) == "none"


def test_arm_has_no_such_flag_and_is_recognized_by_its_product():
    arm = BARE_METAL | {"proc/cpuinfo": "processor\t: 0\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\n"}
    guest = arm | {"sys/class/dmi/id/sys_vendor": "QEMU\n"}

    assert virtual.virtual_machine(node(arm)) == "none"
    assert virtual.virtual_machine(node(guest)) == "qemu"


def test_wsl_is_recognized_by_its_kernel():
    wsl = {"proc/sys/kernel/osrelease": "5.15.167.4-microsoft-standard-WSL2\n"}

    assert virtual.virtual_machine(node(wsl)) == "wsl"
    assert virtual.is_wsl(node(wsl))
    assert not virtual.is_wsl(node(BARE_METAL))


def test_without_any_of_this_it_is_unknown():
    with pytest.raises(EvidenceMissing):
        virtual.virtual_machine(Node(MemoryHost()))


def test_a_log_in_which_the_kernel_names_its_hypervisor_is_enough():
    """As a text has it that shows no other file: microsoft/wslg, issue 716."""
    log = "[    0.000000] Hypervisor detected: Microsoft Hyper-V\n"
    assert virtual.virtual_machine(Node(PastedHost(f"$ dmesg\n{log}"))) == "microsoft"
    with pytest.raises(EvidenceMissing):
        virtual.virtual_machine(Node(PastedHost("$ dmesg\n[    0.1] DMI not present or invalid.\n")))
