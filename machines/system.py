"""The kernel, what it trusts, the distribution, libraries, settings, packages and the kernel's log.

Formats: Linux init/version.c, security/keys/proc.c, fs/efivarfs; UEFI 2.10, 32.4.1 (signature lists); shim's
MokVars.txt; deb-control(5), dkms(8)."""

from __future__ import annotations

import struct
import uuid
import zlib

from machines import elf, signing, stacks
from machines.hardware import ARM_CPUS, CPUS, PRODUCTS
from machines.install import files, running
from machines.machine import Machine
from machines.stacks import Module
from machines.tree import Tree

_GLOBAL, _SHIM = "8be4df61-93ca-11d2-aa0d-00e098032b8c", "605dab50-e046-4300-abb6-3dd810dd8b23"
_DATABASE = "d719b2cb-3d3a-4596-a3bc-dad00e67656f"
_X509 = uuid.UUID("a5c059a1-94e4-4aa7-87b5-ab155c2bf072")
_LISTED = ("sys/kernel/mm", "sys/module", "etc/modprobe.d", "etc/modules-load.d", "etc/depmod.d", "usr/lib/modprobe.d",
           "lib/modprobe.d", "run/modprobe.d", "var/lib", "var/log", "run", "opt", "usr/src", "usr/lib",
           "usr/local/lib", "lib", "boot", "sys/firmware", "sys/kernel", "sys/class", "etc", "proc", "home", "root",
           "usr/local", "usr", "dev", "sys", "sys/fs", "sys/hypervisor", "etc/security/limits.d", "usr/local/cuda",
           "usr/sbin", "usr/lib64", "etc/systemd/system", "sys/kernel/security", "sys/kernel/debug/dma_buf",
           "etc/init.d", "run/nvidia")  # fmt: skip
_CONFIG = ("CONFIG_MODULES", "CONFIG_MODULE_UNLOAD", "CONFIG_MODVERSIONS", "CONFIG_MODULE_SIG", "CONFIG_MODULE_SIG_SHA512",
           "CONFIG_SECURITY_LOCKDOWN_LSM", "CONFIG_IMA_ARCH_POLICY", "CONFIG_DMA_SHARED_BUFFER", "CONFIG_PCI_P2PDMA",
           "CONFIG_INFINIBAND_USER_MEM")  # fmt: skip


def write(tree: Tree, machine: Machine) -> None:
    """Write everything that is neither a device nor a module."""
    tree.folders |= set(_LISTED)
    _kernel(tree, machine)
    _trust(tree, machine)
    _libraries(tree, machine)
    _settings(tree, machine)
    _packages(tree, machine)
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
    for path, value in {"proc/version": banner, "proc/cmdline": command_line(machine),
                        "proc/sys/kernel/osrelease": release, "proc/sys/kernel/hostname": machine.name,
                        "proc/sys/kernel/modules_disabled": int(machine.modules_disabled),
                        "proc/sys/kernel/tainted": 12288 if machine.driver else 0,
                        "etc/hostname": machine.name}.items():  # fmt: skip
        tree.line(path, value)
    arch = kernel.arch
    tree.command("sos_commands/kernel/uname_-a", ("uname", "-a"),
                 f"Linux {machine.name} {release} #1 SMP PREEMPT_DYNAMIC {arch} {arch} {arch} GNU/Linux\n")  # fmt: skip
    tree.file("etc/os-release", machine.distribution.os_release)
    tree.file("proc/cpuinfo", _processors(machine))
    vendor, product = PRODUCTS[machine.cpu]
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
    tree.file("proc/self/mountinfo", _mounts(container))
    head = f"{'Limit':<26}{'Soft Limit':<21}{'Hard Limit':<21}{'Units':<10}\n"
    limit = machine.memlock
    tree.file("proc/self/limits", head + f"{'Max locked memory':<26}{limit:<21}{limit:<21}{'bytes':<10}\n")
    if machine.memlock == "unlimited":
        tree.file("etc/security/limits.d/99-memlock.conf", "* - memlock unlimited\n")
    tree.command("sos_commands/gdr/systemd-detect-virt", ("systemd-detect-virt",),
                 "kvm\n" if machine.virtual else "none\n", 0 if machine.virtual else 1)  # fmt: skip
    if container:
        tree.file(".dockerenv", "")


def _processors(machine: Machine) -> str:
    blocks = []
    for number in range(2):
        if machine.kernel.arch == "aarch64":
            implementer, part = ARM_CPUS.get(machine.cpu, ARM_CPUS["grace"])
            blocks.append(f"processor\t: {number}\nCPU implementer\t: {implementer}\nCPU architecture: 8\n"
                          f"CPU variant\t: 0x0\nCPU part\t: {part}\nCPU revision\t: 0\n")  # fmt: skip
            continue
        vendor, family, model, name = CPUS["qemu" if machine.virtual else machine.cpu]
        flags = "fpu vme pae sse2 lm nx" + (" hypervisor" if machine.virtual else "")
        blocks.append(f"processor\t: {number}\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\n"
                      f"model name\t: {name}\nphysical id\t: {number}\nflags\t\t: {flags}\n")  # fmt: skip
    return "\n".join(blocks) + "\n"


def _mounts(container: bool) -> str:
    if container:
        return ("2190 1804 0:412 / / rw,relatime master:612 - overlay overlay rw\n"
                "2191 2190 0:414 / /proc rw,nosuid - proc proc rw\n2195 2190 0:420 / /sys ro,nosuid - sysfs sysfs ro\n")  # fmt: skip
    return ("22 28 0:21 / /sys rw,nosuid shared:7 - sysfs sysfs rw\n23 28 0:22 / /proc rw shared:12 - proc proc rw\n"
            "28 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw\n")  # fmt: skip


# -- trust -----------------------------------------------------------------------------------------------


def _trust(tree: Tree, machine: Machine) -> None:
    trust = machine.trust
    tree.line("sys/module/module/parameters/sig_enforce", "Y" if trust.sig_enforce else "N")
    words = [
        f"[{word}]" if word == trust.lockdown else word for word in ("none", "integrity", "confidentiality")
    ]
    tree.line("sys/kernel/security/lockdown", " ".join(words))
    if trust.efi:
        variables = "sys/firmware/efi/efivars"
        tree.line("sys/firmware/efi/fw_platform_size", 64)

        def variable(name: str, guid: str, content: bytes) -> None:
            tree.file(f"{variables}/{name}-{guid}", struct.pack("<I", 6) + content)

        variable("SecureBoot", _GLOBAL, bytes([trust.secure_boot]))
        variable("SetupMode", _GLOBAL, b"\0")
        variable("db", _DATABASE, _list(["Microsoft UEFI CA 2011", *trust.db]))
        variable("dbx", _DATABASE, b"")
        variable("MokListRT", _SHIM, _list(trust.mok))
        variable("MokListXRT", _SHIM, _list(trust.revoked))
        variable("MokListTrustedRT", _SHIM, b"\x01")
        if not trust.shim_validation:
            variable("MokSBStateRT", _SHIM, b"\x01")
        shown = "enabled" if trust.secure_boot else "disabled"
        tree.command(
            "sos_commands/boot/mokutil_--sb-state", ("mokutil", "--sb-state"), f"SecureBoot {shown}\n"
        )
    rings: dict[str, list[str]] = {".builtin_trusted_keys": list(machine.builtin), ".secondary_trusted_keys": [],
                                   ".blacklist": list(trust.revoked)}  # fmt: skip
    if trust.efi and trust.secure_boot and trust.shim_validation:
        rings |= {".platform": ["Microsoft UEFI CA 2011", *trust.db], ".machine": list(trust.mok)}
    lines = []
    for ring, names in rings.items():
        count = len(names) or "empty"
        lines.append(f"{_serial(ring)} I------     1 perm 1f0b0000     0     0 keyring   {ring}: {count}")
        for name in names:
            identity = signing.key(name).key_id
            lines.append(f"{_serial(ring + name)} I------     1 perm 1f030000     0     0 asymmetri "
                         f"{name}: {identity}: X509.rsa {identity[-8:]} []")  # fmt: skip
    tree.file("proc/keys", "".join(f"{line}\n" for line in sorted(lines)))


def _serial(text: str) -> str:
    return f"{zlib.crc32(text.encode()) & 0x3FFFFFFF:08x}"


def _list(names: list[str]) -> bytes:
    """EFI_SIGNATURE_LISTs, one for each certificate."""
    content = b""
    for name in names:
        der = signing.key(name).der
        content += _X509.bytes_le + struct.pack("<III", 44 + len(der), 0, 16 + len(der)) + bytes(16) + der
    return content


# -- user space --------------------------------------------------------------------------------------------

_VERBS = ("ibv_get_device_list", "ibv_open_device", "ibv_alloc_pd", "ibv_reg_mr", "ibv_create_cq", "ibv_create_qp",
          "ibv_reg_mr_iova2")  # fmt: skip
_NCCL = ("ncclGetVersion", "ncclCommInitRank", "ncclAllReduce")
_CUDA = ("cuInit", "cuDriverGetVersion", "cuDeviceGetAttribute", "cuMemGetHandleForAddressRange")


def _libraries(tree: Tree, machine: Machine) -> None:
    held, arch = machine.libraries, machine.kernel.arch
    place = machine.distribution.libraries.format(arch=arch)

    def install(folder: str, soname: str, file: str, names: tuple[str, ...], data: bytes = b"") -> None:
        tree.file(f"{folder}/{file}", elf.library(soname, names, arch, data))
        tree.links[f"{folder}/{soname}"] = file

    if held.verbs:
        names = (*_VERBS, *(["ibv_reg_dmabuf_mr"] if held.verbs_dmabuf else []))
        install(place, "libibverbs.so.1", f"libibverbs.so.1.14.{held.verbs}.0", names)
        install(place, "libmlx5.so.1", f"libmlx5.so.1.24.{held.verbs}.0", ("mlx5dv_open_device",))
    if held.second_verbs:
        install(
            "opt/mellanox/ucx/lib", "libibverbs.so.1", f"libibverbs.so.1.8.{held.second_verbs}.0", _VERBS
        )
    if held.nccl:
        data = f"NCCL version {held.nccl}+cuda12.8\0".encode()
        install(place, "libnccl.so.2", f"libnccl.so.{held.nccl}", _NCCL, data)
    if held.net_plugin:
        tree.file(f"{place}/libnccl-net.so", elf.library("libnccl-net.so", ("ncclNetPlugin_v8",), arch))
    if held.ucx:
        install(place, "libucp.so.0", "libucp.so.0.0.0", ("ucp_init",))
        install(place, "libuct.so.0", "libuct.so.0.0.0", ("uct_md_open",))
        tree.file(f"{place}/pkgconfig/ucx.pc", f"Name: ucx\nVersion: {held.ucx}\n")
        tree.command("sos_commands/infiniband/ucx_info_-v", ("ucx_info", "-v"),
                     f"# Library version: {held.ucx}\n# Library path: /{place}/libucs.so.0\n"
                     "# API headers version: 1.16.0\n# Git branch '', revision abcdef0\n")  # fmt: skip
    if held.nvshmem:
        install(place, "libnvshmem_host.so.3", f"libnvshmem_host.so.{held.nvshmem}", ("nvshmem_init",))
    driver = machine.driver
    if driver:
        install(place, "libcuda.so.1", f"libcuda.so.{driver.library_version or driver.version}", _CUDA)


def _settings(tree: Tree, machine: Machine) -> None:
    distribution = machine.distribution
    tree.file("etc/depmod.d/search.conf", f"search {distribution.search}\n")
    if machine.modprobe_d:
        tree.file("etc/modprobe.d/local.conf", "".join(f"{line}\n" for line in machine.modprobe_d))
    if machine.peermem.at_boot:
        tree.file("etc/modules-load.d/nvidia-peermem.conf", "nvidia-peermem\n")
    if machine.nccl_conf:
        tree.file("etc/nccl.conf", "".join(f"{name}={value}\n" for name, value in machine.nccl_conf.items()))
    if machine.ucx_conf:
        tree.file(
            "etc/ucx/ucx.conf", "".join(f"{name}={value}\n" for name, value in machine.ucx_conf.items())
        )
    if machine.topology_file:
        tree.file("run/nvidia-topologyd/virtualTopology.xml", _topology(machine))
    for version in machine.dkms_builds:
        tree.folders.add(f"var/lib/dkms/mlnx-ofed-kernel/{version}/build")
        tree.file(f"var/lib/dkms/mlnx-ofed-kernel/{version}/build/Module.symvers", _api_row(version))
    if machine.operator:
        folder = "var/log/pods/gpu-operator_nvidia-driver-daemonset-abcde_1234/nvidia-peermem-ctr"
        tree.file(f"{folder}/0.log", machine.operator)


def _api_row(version: str) -> str:
    rows = (f"0x{stacks.checksum(name, version):08x}\t{name}\tdrivers/infiniband/core/ib_core\tEXPORT_SYMBOL\t\n"
            for name in stacks.PEER_API)  # fmt: skip
    return "".join(rows)


def _topology(machine: Machine) -> str:
    """A topology that puts each NIC below one switch with a GPU, as clouds give it to NCCL."""
    lines = [
        '<system version="1">',
        '<cpu numaid="0" arch="x86_64" vendor="GenuineIntel" affinity="ffffffff">',
    ]
    for number, gpu in enumerate(machine.gpus):
        lines.append(f'<pci busid="ffff:{number + 1:02x}:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" '
                     'link_width="16">')  # fmt: skip
        lines.append(
            f'<pci busid="{gpu.address}" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16"/>'
        )
        for nic in machine.nics[number :: len(machine.gpus)]:
            lines.append(
                f'<pci busid="{nic.address}" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16"/>'
            )
        lines.append("</pci>")
    return "\n".join([*lines, "</cpu>", "</system>"]) + "\n"


def _packages(tree: Tree, machine: Machine) -> None:
    """The package database, with the owner of each module file and library that has one."""
    release, driver, ofed = machine.kernel.release, machine.driver, machine.ofed
    names = {f"linux-image-{release}" if machine.distribution.family == "deb" else "kernel-core": "1"}
    if machine.libraries.verbs:
        names["libibverbs1" if machine.distribution.family == "deb" else "libibverbs"] = (
            f"{machine.libraries.verbs}.0"
        )
    if machine.libraries.nccl:
        names["libnccl2" if machine.distribution.family == "deb" else "libnccl"] = machine.libraries.nccl
    if driver and driver.on_disk and driver.packaged:
        name = f"nvidia-dkms-{driver.branch}" + ("-open" if driver.is_open else "")
        names[name] = driver.version
    if ofed and ofed.on_disk:
        names[
            "mlnx-ofed-kernel-dkms" if machine.distribution.family == "deb" else "kmod-mlnx-ofa_kernel"
        ] = ofed.version
        tree.command("sos_commands/gdr/ofed_info_-s", ("ofed_info", "-s"),
                     f"{'OFED-internal' if ofed.kind == 'doca' else 'MLNX_OFED_LINUX'}-{ofed.version}:\n")  # fmt: skip
        tree.file("etc/init.d/openibd", "#!/bin/bash\n")
    if machine.legacy_client:
        names["nvidia-peer-memory-dkms"] = "1.3-0"
    if machine.distribution.family == "deb":
        tree.file("var/lib/dpkg/status", "\n".join(
            f"Package: {name}\nStatus: install ok installed\nArchitecture: amd64\nVersion: {version}\n"
            for name, version in sorted(names.items())) + "\n")  # fmt: skip
        tree.command("sos_commands/gdr/packages", (
            "dpkg-query", "-W", "-f=${Package}\\t${Version}\\t${Architecture}\\t${db:Status-Abbrev}\\n"),
            "".join(f"{name}\t{version}\tamd64\tii \n" for name, version in sorted(names.items())))  # fmt: skip
    elif machine.distribution.family == "rpm":
        tree.folders.add("var/lib/rpm")
        tree.command("sos_commands/gdr/packages", (
            "rpm", "--nodigest", "-qa", "--qf=%{NAME}\\t%{VERSION}-%{RELEASE}\\t%{ARCH}\\tii\\n"),
            "".join(f"{name}\t{version}-1\tx86_64\tii\n" for name, version in sorted(names.items())))  # fmt: skip
    if driver and driver.on_disk and driver.packaged:
        _dkms(tree, machine)


def _dkms(tree: Tree, machine: Machine) -> None:
    """DKMS's copy of what it installed."""
    driver, release, arch = machine.driver, machine.kernel.release, machine.kernel.arch
    assert driver
    if driver.folder != "updates/dkms" and machine.distribution.family == "deb":
        return
    place = f"var/lib/dkms/nvidia/{driver.version}/{release}/{arch}"
    for module in [m for m in files(machine) if m.name.startswith("nvidia")]:
        name = module.file + (f".{machine.distribution.compress}" if machine.distribution.compress else "")
        tree.file(
            f"{place}/module/{name}", stacks.packed(module, machine.kernel, machine.distribution.compress)
        )
    tree.link(f"var/lib/dkms/nvidia/kernel-{release}-{arch}", place)


# -- the log -----------------------------------------------------------------------------------------------


def _log(machine: Machine) -> str:
    trust, driver = machine.trust, machine.driver
    lines = [f"Linux version {machine.kernel.release} (buildd@lcy02) (gcc 12.3.0) #1 SMP PREEMPT_DYNAMIC",
             f"{'Kernel c' if machine.kernel.arch == 'aarch64' else 'C'}ommand line: {command_line(machine)}"]  # fmt: skip
    if trust.efi:
        on = trust.secure_boot and trust.shim_validation
        lines.append(f"secureboot: Secure boot {'enabled' if on else 'disabled'}")
        if on:
            lines.append("Kernel is locked down from EFI Secure Boot mode; see man kernel_lockdown.7")
    elif trust.lockdown != "none":
        lines.append("Kernel is locked down from command line; see man kernel_lockdown.7")
    lines += [f"Loaded X.509 cert '{name}: {signing.key(name).key_id}'" for name in machine.builtin]
    foreign = [module for module in running(machine) if not module.in_tree]
    lines += _taints(machine, foreign)
    if driver and driver.loaded:
        kind = (
            f"Open Kernel Module for {machine.kernel.arch}"
            if driver.is_open
            else f"{machine.kernel.arch} Kernel Module"
        )
        lines.append(f"NVRM: loading NVIDIA UNIX {kind}  {driver.running_version or driver.version}")
    lines += machine.log
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
