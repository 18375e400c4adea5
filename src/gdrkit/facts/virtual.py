"""What stands between us and the hardware: a container, a hypervisor, WSL.

Follows what systemd-detect-virt(1) looks at (systemd src/basic/virt.c), as far as files tell.
"""

from __future__ import annotations

from collections.abc import Callable

from gdrkit.evidence import EvidenceMissing
from gdrkit.facts.kernel import product, release
from gdrkit.node import Node, fact, if_absent, if_missing, seek

CONTAINER_FILES = (".dockerenv", "run/.containerenv", "run/systemd/container")
"""Docker, Podman, and what container managers tell systemd (systemd Container Interface)."""

CONTAINER_WORDS = ("docker", "kubepods", "libpod", "containerd", "crio", "lxc", "garden")
"""Names of cgroups that container runtimes make for a first process (cgroup v1; v2 hides them), and of the
places of layers in their overlay mounts."""

HYPERVISORS = (  # systemd src/basic/virt.c, detect_vm_dmi(): the vendor's words -> systemd's name
    ("KVM", "kvm"),
    ("QEMU", "qemu"),
    ("Amazon EC2", "amazon"),
    ("Google Compute Engine", "google"),
    ("OpenStack", "kvm"),
    ("Nutanix", "kvm"),
    ("VMware", "vmware"),
    ("VMW", "vmware"),
    ("innotek GmbH", "oracle"),
    ("VirtualBox", "oracle"),
    ("Oracle Corporation", "oracle"),
    ("Xen", "xen"),
    ("Bochs", "bochs"),
    ("Parallels", "parallels"),
    ("BHYVE", "bhyve"),
    ("Hyper-V", "microsoft"),
    ("Virtual Machine", "microsoft"),
    ("Apple Virtualization", "apple"),
)
UNNAMED = "vm-other"  # systemd's word for a hypervisor that it cannot name


@fact
def scope(node: Node) -> str:
    """Where the evidence was read: "host" or "container"."""
    looks = (_container_file, _container_cgroup, _container_root, _container_environment)
    try:
        return "host" if seek(looks, lambda look: if_absent(False, look, node)) is None else "container"
    except EvidenceMissing:
        if _first_process_is_init(node):
            return "host"
        raise


def _container_file(node: Node) -> bool:
    return any(node.exists(path) for path in CONTAINER_FILES)


def _container_cgroup(node: Node) -> bool:
    text = node.text("proc/1/cgroup")
    return any(word in text for word in CONTAINER_WORDS)


def _container_root(node: Node) -> bool:
    """Whether the root is an overlay of a container's layers. Source: proc_pid_mountinfo(5)."""
    for line in node.text("proc/self/mountinfo").splitlines():
        place, _, kind = line.partition(" - ")
        if place.split()[4:5] == ["/"] and kind.startswith("overlay"):
            return any(word in kind for word in (*CONTAINER_WORDS, "containers/storage"))
    return False


def _container_environment(node: Node) -> bool:
    """What managers and Kubernetes put in the environment of the first process, which root may read."""
    entries = node.text("proc/1/environ").split("\0")
    return any(entry.startswith(("container=", "KUBERNETES_SERVICE_HOST=")) for entry in entries)


def _first_process_is_init(node: Node) -> bool:
    """On the host the first process lives in init.scope (systemd.special(7)) or at the root of its cgroups.

    A container with a namespace of cgroups also shows the root, `0::/`; so only init.scope settles it."""
    return if_missing(False, lambda: "/init.scope" in node.text("proc/1/cgroup"))


@fact
def virtual_machine(node: Node) -> str:
    """The hypervisor in systemd's words: kvm, vmware, microsoft, wsl, ...; "none" on bare metal.

    The processor's word comes first where it has one: x86 sets the flag `hypervisor` in every guest, so a
    cloud's bare-metal machine is not taken for a virtual one by its vendor's name."""
    reason: EvidenceMissing | None = None
    sources: tuple[Callable[[Node], str], ...] = (_by_kernel, _by_processor, _by_product)
    for look in sources:
        try:
            answer = look(node)
        except EvidenceMissing as lacks:
            reason = reason or lacks
            continue
        if answer:
            return answer
    if reason is not None:
        raise reason
    return "none"


@fact
def is_wsl(node: Node) -> bool:
    """Whether the kernel is that of the Windows Subsystem for Linux: `5.15.167.4-microsoft-standard-WSL2`.

    Source: WSL2-Linux-Kernel, CONFIG_LOCALVERSION."""
    return "microsoft" in release(node).lower()


def _by_kernel(node: Node) -> str:
    return "wsl" if is_wsl(node) else ""


def _by_processor(node: Node) -> str:
    """ "none" where the processor denies it, the product's word where it admits it, "" if it is silent."""
    lines = node.text("proc/cpuinfo").splitlines()
    flags = next((line for line in lines if line.startswith("flags")), "")
    if not flags:  # Arm has no such flag
        return ""
    if "hypervisor" not in flags.split():
        return "none"
    return if_missing(UNNAMED, lambda: _by_product(node) or UNNAMED)


def _by_product(node: Node) -> str:
    """By the names that DMI gives. "" where they are nobody's."""
    about = product(node)
    if ".metal" in about.name:  # Amazon's bare-metal instances bear the vendor's name all the same
        return ""
    names = (about.vendor, about.name, about.board)
    for word, answer in HYPERVISORS:
        if any(name.startswith(word) or name == word for name in names):
            return answer
    return ""
