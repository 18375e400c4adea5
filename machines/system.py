"""The kernel, its distribution and its log.

Formats: Linux init/version.c, fs/proc/cmdline.c; os-release(5)."""

from __future__ import annotations

from machines import health, other_programs, signing, trust, user_space
from machines.hardware import ARM_CPUS, CPUS, PRODUCTS
from machines.install import running
from machines.machine import Machine
from machines.stacks import Module
from machines.tree import Tree

_LISTED = (
    "sys/kernel/mm",
    "sys/module",
    "etc/modprobe.d",
    "etc/modules-load.d",
    "etc/depmod.d",
    "usr/lib/modprobe.d",
    "lib/modprobe.d",
    "run/modprobe.d",
    "var/lib",
    "var/log",
    "run",
    "opt",
    "usr/src",
    "usr/lib",
    "usr/local/lib",
    "lib",
    "boot",
    "sys/firmware",
    "sys/kernel",
    "sys/class",
    "etc",
    "proc",
    "home",
    "root",
    "usr/local",
    "usr",
    "dev",
    "sys",
    "sys/fs",
    "sys/hypervisor",
    "etc/security/limits.d",
    "usr/local/cuda",
    "usr/sbin",
    "usr/lib64",
    "etc/systemd/system",
    "sys/kernel/security",
    "sys/kernel/debug/dma_buf",
    "etc/init.d",
    "run/nvidia",
)
_CONFIG = (
    "CONFIG_MODULES",
    "CONFIG_MODULE_UNLOAD",
    "CONFIG_MODVERSIONS",
    "CONFIG_MODULE_SIG",
    "CONFIG_MODULE_SIG_SHA512",
    "CONFIG_SECURITY_LOCKDOWN_LSM",
    "CONFIG_IMA_ARCH_POLICY",
    "CONFIG_DMA_SHARED_BUFFER",
    "CONFIG_PCI_P2PDMA",
    "CONFIG_INFINIBAND_USER_MEM",
)


def write(tree: Tree, machine: Machine) -> None:
    """Write everything that is neither a device nor a module."""
    tree.folders |= set(_LISTED)
    _kernel(tree, machine)
    trust.write(tree, machine)
    user_space.write(tree, machine)
    tree.command("sos_commands/kernel/dmesg", ("dmesg",), _log(machine))


def command_line(machine: Machine) -> str:
    """The kernel's command line."""
    words = [f"BOOT_IMAGE=/boot/vmlinuz-{machine.kernel.release}", "root=/dev/nvme0n1p2", "ro"]
    if machine.iommu == "identity":
        words.append("iommu.passthrough=1" if machine.kernel.arch == "aarch64" else "iommu=pt")
    if machine.trust.name == "sig_enforce":
        words.append("module.sig_enforce=1")
    if machine.trust.name == "lockdown":
        words.append("lockdown=integrity")
    words += [f"module_blacklist={name}" for name in machine.module_blacklist]
    return " ".join(words)


def _kernel(tree: Tree, machine: Machine) -> None:
    kernel, release = machine.kernel, machine.kernel.release
    banner = f"Linux version {release} (buildd@lcy02) (gcc 12.3.0, GNU ld 2.40) #1 SMP PREEMPT_DYNAMIC"
    for path, value in {
        "proc/version": banner,
        "proc/cmdline": command_line(machine),
        "proc/sys/kernel/osrelease": release,
        "proc/sys/kernel/hostname": machine.name,
        "proc/sys/kernel/modules_disabled": int(machine.modules_disabled),
        "proc/sys/kernel/tainted": 12288 if machine.driver else 0,
        "etc/hostname": machine.name,
    }.items():
        tree.line(path, value)
    arch = kernel.arch
    tree.command(
        "sos_commands/kernel/uname_-a",
        ("uname", "-a"),
        f"Linux {machine.name} {release} #1 SMP PREEMPT_DYNAMIC {arch} {arch} {arch} GNU/Linux\n",
    )
    tree.file("etc/os-release", machine.distribution.os_release)
    tree.file("proc/cpuinfo", _processors(machine))
    vendor, product = PRODUCTS[machine.cpu]
    if machine.beside.instance:
        vendor, product = "Amazon EC2", machine.beside.instance
    tree.line("sys/class/dmi/id/sys_vendor", vendor)
    tree.line("sys/class/dmi/id/product_name", product)
    config = dict.fromkeys(_CONFIG, "y") | {"CONFIG_INFINIBAND": "m", "CONFIG_MLX5_INFINIBAND": "m"}
    config["CONFIG_INFINIBAND_ON_DEMAND_PAGING"] = "y" if kernel.odp else "n"
    if machine.distribution.os_release.startswith('NAME="Ubuntu"'):
        config["CONFIG_SYSTEM_REVOCATION_LIST"] = "y"
    if kernel.arch == "aarch64" and release.endswith("64k"):
        config["CONFIG_ARM64_64K_PAGES"] = "y"
    rows = (f"# {k} is not set" if v == "n" else f"{k}={v}" for k, v in sorted(config.items()))
    tree.file(f"boot/config-{release}", "\n".join(rows) + "\n")
    container = machine.scope == "container"
    tree.file("proc/1/cgroup", "0::/\n" if container else "0::/init.scope\n")
    if container:  # with the capabilities that Docker gives by default
        tree.file("proc/self/status", "Name:\tpython3\nCapEff:\t00000000a80425fb\n")
        tree.file("proc/self/uid_map", "         0          0 4294967295\n")
    tree.file("proc/self/mountinfo", _mounts(container))
    head = f"{'Limit':<26}{'Soft Limit':<21}{'Hard Limit':<21}{'Units':<10}\n"
    limit = machine.memlock
    tree.file("proc/self/limits", head + f"{'Max locked memory':<26}{limit:<21}{limit:<21}{'bytes':<10}\n")
    if machine.memlock == "unlimited":
        tree.file("etc/security/limits.d/99-memlock.conf", "* - memlock unlimited\n")
    tree.command(
        "sos_commands/gdr/systemd-detect-virt",
        ("systemd-detect-virt",),
        "kvm\n" if machine.virtual else "none\n",
        0 if machine.virtual else 1,
    )
    if container:
        tree.file(".dockerenv", "")


def _processors(machine: Machine) -> str:
    blocks = []
    for number in range(2):
        if machine.kernel.arch == "aarch64":
            implementer, part = ARM_CPUS.get(machine.cpu, ARM_CPUS["grace"])
            blocks.append(
                f"processor\t: {number}\nCPU implementer\t: {implementer}\nCPU architecture: 8\n"
                f"CPU variant\t: 0x0\nCPU part\t: {part}\nCPU revision\t: 0\n"
            )
            continue
        vendor, family, model, name = CPUS["qemu" if machine.virtual else machine.cpu]
        flags = "fpu vme pae sse2 lm nx" + (" hypervisor" if machine.virtual else "")
        blocks.append(
            f"processor\t: {number}\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\n"
            f"model name\t: {name}\nphysical id\t: {number}\nflags\t\t: {flags}\n"
        )
    return "\n".join(blocks) + "\n"


def _mounts(container: bool) -> str:
    if container:
        return (
            "2190 1804 0:412 / / rw,relatime master:612 - overlay overlay rw\n"
            "2191 2190 0:414 / /proc rw,nosuid - proc proc rw\n"
            "2195 2190 0:420 / /sys ro,nosuid - sysfs sysfs ro\n"
        )
    return (
        "22 28 0:21 / /sys rw,nosuid shared:7 - sysfs sysfs rw\n"
        "23 28 0:22 / /proc rw shared:12 - proc proc rw\n"
        "28 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw\n"
    )


def _log(machine: Machine) -> str:
    keys, driver = machine.trust, machine.driver
    lines = [
        f"Linux version {machine.kernel.release} (buildd@lcy02) (gcc 12.3.0) #1 SMP PREEMPT_DYNAMIC",
        f"{'Kernel c' if machine.kernel.arch == 'aarch64' else 'C'}ommand line: {command_line(machine)}",
    ]
    if keys.efi:
        on = keys.secure_boot and keys.shim_validation
        lines.append(f"secureboot: Secure boot {'enabled' if on else 'disabled'}")
        if on:
            lines.append("Kernel is locked down from EFI Secure Boot mode; see man kernel_lockdown.7")
    elif keys.lockdown != "none":
        lines.append("Kernel is locked down from command line; see man kernel_lockdown.7")
    lines += [f"Loaded X.509 cert '{name}: {signing.key(name).key_id}'" for name in machine.builtin]
    foreign = [module for module in running(machine) if not module.in_tree]
    lines += _taints(machine, foreign)
    before, after = health.log(machine)
    lines += [*before, *machine.early_log]
    if driver and driver.loaded:
        kind = (
            f"Open Kernel Module for {machine.kernel.arch}"
            if driver.is_open
            else f"{machine.kernel.arch} Kernel Module"
        )
        lines.append(f"NVRM: loading NVIDIA UNIX {kind}  {driver.running_version or driver.version}")
    lines += [*other_programs.log(machine), *machine.log, *after]
    return "".join(f"[{0.5 * at:12.6f}] {line}\n" for at, line in enumerate(lines))


def _taints(machine: Machine, foreign: list[Module]) -> list[str]:
    if not foreign:
        return []
    lines = [f"{foreign[0].name}: loading out-of-tree module taints kernel."]
    for module in foreign:
        if not (module.signer and machine.trust.trusts(module.signer, machine.builtin)):
            tail = "module verification failed: signature and/or required key missing - tainting kernel"
            return [*lines, f"{module.name}: {tail}"]
    return lines
