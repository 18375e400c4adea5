"""The files of a kernel and its distribution in /proc, /sys, /etc and /boot.

Formats: Linux init/version.c, fs/proc/cmdline.c, arch/*/kernel/cpu*.c, drivers/firmware/dmi-id.c."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.evidence_builder.tree import Tree

CPUS = {  # what proc/cpuinfo says of one processor
    "sapphire-rapids": ("GenuineIntel", 6, 143, "Intel(R) Xeon(R) Platinum 8480+"),
    "ice-lake": ("GenuineIntel", 6, 106, "Intel(R) Xeon(R) Platinum 8358 CPU @ 2.60GHz"),
    "skylake": ("GenuineIntel", 6, 85, "Intel(R) Xeon(R) Gold 6148 CPU @ 2.40GHz"),
    "vm-intel": ("GenuineIntel", 6, 207, "Intel(R) Xeon(R) Processor"),
    "genoa": ("AuthenticAMD", 25, 17, "AMD EPYC 9554 64-Core Processor"),
    "rome": ("AuthenticAMD", 23, 49, "AMD EPYC 7742 64-Core Processor"),
    "ryzen": ("AuthenticAMD", 25, 97, "AMD Ryzen 9 7950X 16-Core Processor"),
}
ARM_CPUS = {"gb10": ("0x41", "0xd85"), "grace": ("0x41", "0xd4f")}  # implementer, part
_LOOKED_AT = (  # folders that every machine has and every collector lists
    *("sys/kernel/mm", "sys/module", "etc/modprobe.d", "var/lib", "var/log", "run", "opt", "usr/src"),
    *("usr/lib", "usr/local/lib", "usr/share", "lib", "boot", "sys/firmware", "sys/kernel", "sys/class"),
)
_MOUNTS = """\
22 28 0:21 / /sys rw,nosuid,nodev,noexec,relatime shared:7 - sysfs sysfs rw
23 28 0:22 / /proc rw,nosuid,nodev,noexec,relatime shared:12 - proc proc rw
28 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw,errors=remount-ro
"""
CONFIG = {
    "CONFIG_MODULES": "y",
    "CONFIG_MODULE_UNLOAD": "y",
    "CONFIG_MODVERSIONS": "y",
    "CONFIG_MODULE_SIG": "y",
    "CONFIG_MODULE_SIG_SHA512": "y",
    "CONFIG_SECURITY_LOCKDOWN_LSM": "y",
    "CONFIG_IMA_ARCH_POLICY": "y",
    "CONFIG_DMA_SHARED_BUFFER": "y",
    "CONFIG_DMABUF_MOVE_NOTIFY": "y",
    "CONFIG_PCI_P2PDMA": "y",
    "CONFIG_INFINIBAND": "m",
    "CONFIG_INFINIBAND_USER_ACCESS": "m",
    "CONFIG_INFINIBAND_USER_MEM": "y",
    "CONFIG_INFINIBAND_ON_DEMAND_PAGING": "y",
    "CONFIG_MLX5_CORE": "m",
    "CONFIG_MLX5_INFINIBAND": "m",
}


def write(tree: Tree, spec: Mapping[str, Any]) -> None:
    """Write everything except modules, devices and keys."""
    kernel, host = spec["kernel"], spec["host"]
    release, arch = kernel["release"], kernel.get("arch", "x86_64")
    banner = version_line(kernel)
    tree.line("proc/version", banner)
    tree.line("proc/cmdline", kernel["cmdline"])
    tree.line("proc/sys/kernel/osrelease", release)
    tree.line("proc/sys/kernel/hostname", host["name"])
    tree.line("proc/sys/kernel/modules_disabled", int(kernel.get("modules_disabled", False)))
    tree.line("proc/sys/kernel/tainted", kernel.get("tainted", 4096))
    tree.line("etc/hostname", host["name"])
    words = banner.split(" ")
    stamp = banner[banner.rindex("#") :]
    tree.line(
        "sos_commands/kernel/uname_-a",
        f"{words[0]} {host['name']} {release} {stamp} {arch} {arch} {arch} GNU/Linux",
    )
    tree.file("proc/cpuinfo", _cpuinfo(host, arch))
    tree.file("etc/os-release", spec["distribution"]["text"])
    for folder in _LOOKED_AT:
        tree.folder(folder)
    for name, text in host.get("dmi", {}).items():
        tree.line(f"sys/class/dmi/id/{name}", text)
    options = {**CONFIG, **kernel.get("config", {})}
    config = f"#\n# Automatically generated file; DO NOT EDIT.\n# Linux/{arch} {release}"
    config += " Kernel Configuration\n#\n" + "".join(
        f"# {name} is not set\n" if value == "n" else f"{name}={value}\n"
        for name, value in sorted(options.items())
    )
    place = kernel.get("config_file", f"boot/config-{release}")
    if place.endswith(".gz"):
        import gzip

        tree.file(place, gzip.compress(config.encode(), mtime=0))
    elif place:
        tree.file(place, config)
    if not spec.get("bundle", {}).get("format", "bundle").startswith(("tree", "sos", "bug")):
        tree.file("proc/1/cgroup", host.get("cgroup", "0::/init.scope\n"))
        tree.file("proc/self/mountinfo", host.get("mountinfo", _MOUNTS))
    memlock = host.get("memlock", "unlimited")
    tree.file("proc/self/limits", _limits(memlock))


def version_line(kernel: Mapping[str, Any]) -> str:
    """The kernel's banner, as in /proc/version and the first line of its log."""
    builder = kernel.get("builder", "buildd@lcy02-amd64-116")
    compiler = kernel.get(
        "compiler", "x86_64-linux-gnu-gcc-13 (Ubuntu 13.2.0-23ubuntu4) 13.2.0, GNU ld 2.42"
    )
    stamp = kernel.get("stamp", "#1 SMP PREEMPT_DYNAMIC")
    return f"Linux version {kernel['release']} ({builder}) ({compiler}) {stamp}"


def _cpuinfo(host: Mapping[str, Any], arch: str) -> str:
    blocks = []
    for index in range(2):
        if arch == "aarch64":
            implementer, part = ARM_CPUS[host["cpu"]]
            blocks.append(
                f"processor\t: {index}\nBogoMIPS\t: 2000.00\nFeatures\t: fp asimd aes sha2\n"
                f"CPU implementer\t: {implementer}\nCPU architecture: 8\n"
                f"CPU variant\t: 0x0\nCPU part\t: {part}\n"
                "CPU revision\t: 1\n"
            )
            continue
        vendor, family, model, name = CPUS[host["cpu"]]
        flags = "fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat sse sse2 ht syscall nx lm"
        flags += " hypervisor" if host.get("virtual") else ""
        blocks.append(
            f"processor\t: {index}\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\n"
            f"model name\t: {name}\nphysical id\t: {index % host.get('sockets', 1)}\nflags\t\t: {flags}\n"
        )
    return "\n".join(blocks) + "\n"


def _limits(memlock: str) -> str:
    head = f"{'Limit':<26}{'Soft Limit':<21}{'Hard Limit':<21}{'Units':<10}\n"
    rows = (("Max open files", "1024", "files"), ("Max locked memory", memlock, "bytes"))
    return head + "".join(f"{name:<26}{value:<21}{value:<21}{unit:<10}\n" for name, value, unit in rows)
