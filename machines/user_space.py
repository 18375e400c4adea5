"""Libraries, settings and packages. Formats: deb-control(5), dkms(8), modprobe.d(5), nccl.conf."""

from __future__ import annotations

from machines import elf, other_programs, stacks
from machines.install import files
from machines.machine import Machine
from machines.tree import Tree


def write(tree: Tree, machine: Machine) -> None:
    """Write what programs load and read."""
    _libraries(tree, machine)
    _settings(tree, machine)
    _packages(tree, machine)


_VERBS = (
    "ibv_get_device_list",
    "ibv_open_device",
    "ibv_alloc_pd",
    "ibv_reg_mr",
    "ibv_create_cq",
    "ibv_create_qp",
    "ibv_reg_mr_iova2",
)
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
        tree.command(
            "sos_commands/infiniband/ucx_info_-v",
            ("ucx_info", "-v"),
            f"# Library version: {held.ucx}\n# Library path: /{place}/libucs.so.0\n"
            "# API headers version: 1.16.0\n# Git branch '', revision abcdef0\n",
        )
    if held.nvshmem:
        install(place, "libnvshmem_host.so.3", f"libnvshmem_host.so.{held.nvshmem}", ("nvshmem_init",))
    if held.mooncake:
        wheel = f"usr/local/lib/python3.12/dist-packages/mooncake_transfer_engine-{held.mooncake}.dist-info"
        tree.file(f"{wheel}/WHEEL", "Wheel-Version: 1.0\n")
        tree.folders.add(f"{wheel.rpartition('/')[0]}/mooncake")
    if machine.beside.gdrapi:
        install(place, "libgdrapi.so.2", f"libgdrapi.so.{machine.beside.gdrapi}", ("gdr_open",))
    if machine.beside.cufile:
        install("usr/local/cuda/lib64", "libcufile.so.0", "libcufile.so.1.14.1", ("cuFileDriverOpen",))
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
    if machine.environment:
        rows = (f'{name}="{value}"\n' for name, value in machine.environment.items())
        tree.file("etc/environment", "".join(rows))
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
    rows = (
        f"0x{stacks.checksum(name, version):08x}\t{name}\tdrivers/infiniband/core/ib_core\tEXPORT_SYMBOL\t\n"
        for name in stacks.PEER_API
    )
    return "".join(rows)


def _topology(machine: Machine) -> str:
    """A topology that puts each NIC below one switch with a GPU, as clouds give it to NCCL."""
    lines = [
        '<system version="1">',
        '<cpu numaid="0" arch="x86_64" vendor="GenuineIntel" affinity="ffffffff">',
    ]
    for number, gpu in enumerate(machine.gpus):
        lines.append(
            f'<pci busid="ffff:{number + 1:02x}:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" '
            'link_width="16">'
        )
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
    names |= other_programs.packages(machine)
    if driver and driver.packaged:  # also where it was not built for this kernel
        name = f"nvidia-dkms-{driver.branch}" + ("-open" if driver.is_open else "")
        names[name] = driver.version
    if ofed and ofed.on_disk:
        names[
            "mlnx-ofed-kernel-dkms" if machine.distribution.family == "deb" else "kmod-mlnx-ofa_kernel"
        ] = ofed.version
        tree.command(
            "sos_commands/gdr/ofed_info_-s",
            ("ofed_info", "-s"),
            f"{'OFED-internal' if ofed.kind == 'doca' else 'MLNX_OFED_LINUX'}-{ofed.version}:\n",
        )
        tree.file("etc/init.d/openibd", "#!/bin/bash\n")
    if machine.legacy_client:
        names["nvidia-peer-memory-dkms"] = "1.3-0"
    if machine.distribution.family == "deb":
        tree.file(
            "var/lib/dpkg/status",
            "\n".join(
                f"Package: {name}\nStatus: install ok installed\nArchitecture: amd64\nVersion: {version}\n"
                for name, version in sorted(names.items())
            )
            + "\n",
        )
        tree.command(
            "sos_commands/gdr/packages",
            ("dpkg-query", "-W", "-f=${Package}\\t${Version}\\t${Architecture}\\t${db:Status-Abbrev}\\n"),
            "".join(f"{name}\t{version}\tamd64\tii \n" for name, version in sorted(names.items())),
        )
    elif machine.distribution.family == "rpm":
        tree.folders.add("var/lib/rpm")
        tree.command(
            "sos_commands/gdr/packages",
            ("rpm", "--nodigest", "-qa", "--qf=%{NAME}\\t%{VERSION}-%{RELEASE}\\t%{ARCH}\\tii\\n"),
            "".join(f"{name}\t{version}-1\tx86_64\tii\n" for name, version in sorted(names.items())),
        )
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
            f"{place}/module/{name}",
            stacks.packed(module, machine.kernel, machine.distribution.compress, machine.build_ids),
        )
    tree.link(f"var/lib/dkms/nvidia/kernel-{release}-{arch}", place)
