"""Whether the evidence was read in a container, a virtual machine or WSL.

Follows systemd-detect-virt(1) (systemd src/basic/virt.c), as far as files show it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from gdrkit.evidence import EvidenceMissing
from gdrkit.facts.kernel import product, release
from gdrkit.facts.kernel_log import lines
from gdrkit.formats.errors import FormatError
from gdrkit.formats.regex import regex
from gdrkit.node import Node, fact, if_absent, if_missing, seek

CONTAINER_FILES = (".dockerenv", "run/.containerenv", "run/systemd/container")
"""Files of Docker, of Podman, and of the systemd Container Interface."""

CONTAINER_WORDS = ("docker", "kubepods", "libpod", "containerd", "crio", "lxc", "garden")
"""Parts of the first process's cgroup name in a container (cgroup v1; v2 hides it), and of the paths of
layers in overlay mounts."""

HYPERVISORS = (  # systemd src/basic/virt.c, detect_vm_dmi(): the vendor's name -> systemd's name
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
UNNAMED = "vm-other"  # systemd's name for an unknown hypervisor


@fact
def scope(node: Node) -> str:
    """Where the evidence was read: "host" or "container"."""
    checks = (_container_file, _container_cgroup, _container_root, _container_environment)
    try:
        return "host" if seek(checks, lambda check: if_absent(False, check, node)) is None else "container"
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
        mount, _, kind = line.partition(" - ")
        if mount.split()[4:5] == ["/"] and kind.startswith("overlay"):
            return any(word in kind for word in (*CONTAINER_WORDS, "containers/storage"))
    return False


def _container_environment(node: Node) -> bool:
    """Whether the first process has variables of a container manager or Kubernetes; readable by root
    only."""
    entries = node.text("proc/1/environ").split("\0")
    return any(entry.startswith(("container=", "KUBERNETES_SERVICE_HOST=")) for entry in entries)


def _first_process_is_init(node: Node) -> bool:
    """Whether the first process is in init.scope (systemd.special(7)), which shows that this is the host.

    On a host it can also be in the root cgroup, `0::/`, but so it is in a container with a cgroup
    namespace."""
    return if_missing(False, lambda: "/init.scope" in node.text("proc/1/cgroup"))


@fact
def virtual_machine(node: Node) -> str:
    """The hypervisor by systemd's name: kvm, vmware, microsoft, wsl, ...; "none" on bare metal.

    The processor's flag takes precedence: x86 has the flag `hypervisor` in every guest, so a cloud's
    bare-metal machine is not mistaken for a virtual one because of its vendor's name."""
    reason: EvidenceMissing | None = None
    sources: tuple[Callable[[Node], str], ...] = (_by_kernel, _by_processor, _by_product)
    for source in sources:
        try:
            answer = source(node)
        except EvidenceMissing as error:
            reason = reason or error.fresh()
            continue
        if answer:
            return answer
    if reason is None:
        return "none"
    if answer := if_missing("", _by_log, node):
        return answer
    raise reason.fresh()


@fact
def is_wsl(node: Node) -> bool:
    """Whether the kernel is that of the Windows Subsystem for Linux: `5.15.167.4-microsoft-standard-WSL2`.

    Source: WSL2-Linux-Kernel, CONFIG_LOCALVERSION."""
    return "microsoft" in release(node).lower()


def _by_kernel(node: Node) -> str:
    return "wsl" if is_wsl(node) else ""


def _by_processor(node: Node) -> str:
    """ "none" without the flag `hypervisor`, the product's name with it, "" if the processor has no
    flags."""
    rows = node.text("proc/cpuinfo").splitlines()
    flags = next((line for line in rows if line.startswith("flags")), "")
    if not flags:  # Arm has no such flag
        return ""
    if "hypervisor" not in flags.split():
        return "none"
    return if_missing(UNNAMED, lambda: _by_product(node) or UNNAMED)


def _by_product(node: Node) -> str:
    """By the names in DMI; "" if they match no hypervisor."""
    about = product(node)
    if ".metal" in about.name:  # Amazon's bare-metal instances have the vendor's name too
        return ""
    names = (about.vendor, about.name, about.board)
    for word, answer in HYPERVISORS:
        if any(name.startswith(word) or name == word for name in names):
            return answer
    return ""


_DETECTED = regex(r"Hypervisor detected: (?P<name>[A-Z][\w -]{1,30})$")
_OF_LOG = {"Microsoft": "microsoft", "KVM": "kvm", "VMware": "vmware", "Xen": "xen"}


def _by_log(node: Node) -> str:
    """By what the kernel says at its start; "" if the log has no such line.

    Source: Linux arch/x86/kernel/cpu/hypervisor.c, init_hypervisor_platform()."""
    found = (_DETECTED.match(line.text) for line in lines(node).lines)
    name = next((one["name"].split()[0] for one in found if one), "")
    return _OF_LOG.get(name, UNNAMED) if name else ""


IPC_LOCK, SYS_ADMIN, SYS_RESOURCE = 14, 21, 24  # include/uapi/linux/capability.h, CAP_*


STATUS = "proc/self/status"


USERS = "proc/self/uid_map"


EVERY_USER = ["0", "0", "4294967295"]
"""The map of the initial user namespace: user_namespaces(7)."""


@fact
def has_capability(node: Node, number: int) -> bool:
    """Whether the process of the evidence has a capability in the initial user namespace: what capable()
    asks."""
    found = re.search(r"^CapEff:\s*([0-9a-f]{1,16})$", node.text(STATUS), re.MULTILINE)
    if found is None:
        raise FormatError("no line `CapEff`")
    if not int(found[1], 16) >> number & 1:
        return False
    return node.text(USERS).split() == EVERY_USER


@fact
def is_administrator(node: Node) -> bool:
    """Whether that process has CAP_SYS_ADMIN."""
    return has_capability(node, SYS_ADMIN)
