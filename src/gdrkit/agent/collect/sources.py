"""The table of what is collected. Each row has a path or command, a size limit and a reason.

It has everything that a fact opens (a test checks this with `covers`).
"""

from __future__ import annotations

import re
from typing import Pattern, Tuple

from .patterns import expression, folders
from .source_rows import KIB, MIB, CommandSource, FileSource, FolderSource, ProbeSource

_SYSTEM = (
    FileSource("proc/cmdline", "boot parameters"),
    FileSource("proc/version", "kernel build"),
    FileSource("proc/sys/kernel/{osrelease,arch,hostname,tainted,modules_disabled,dmesg_restrict}",
          "release, taint, locks"),
    FileSource("proc/meminfo", "state of the system", listed=False),
    FileSource("proc/cpuinfo", "processor", MIB, "processors"),
    FileSource("proc/config.gz", "kernel options", MIB),
    FileSource("boot/config-<release>", "kernel options", MIB),
    FileSource("usr/src/linux-headers-<release>/.config", "kernel options", MIB),
    FileSource("{usr/,}lib/modules/<release>/build/.config", "kernel options", MIB, listed=False),
    FileSource("{usr/,}lib/modules/<release>/config", "kernel options", MIB, listed=False),
    FileSource("usr/lib/{kernel/config-<release>,ostree-boot/config-<release>}", "kernel options", MIB,
          listed=False),
    FileSource("proc/{1,self}/cgroup", "container", listed=False),
    FileSource("proc/1/environ", "container", reduce="container"),
    FileSource("proc/self/{limits,status,uid_map}", "limits and capabilities", listed=False),
    FileSource("proc/self/mountinfo", "mounts", 512 * KIB, "mounts"),
    FileSource("proc/self/environ", "NCCL, UCX and CUDA settings", 256 * KIB),
    FileSource("proc/device-tree/model", "product", listed=False),
    FileSource("sys/class/dmi/id/{sys_vendor,product_name,board_name,bios_version,chassis_type}", "product"),
    FileSource("{.dockerenv,run/.containerenv,run/systemd/container}", "container", listed=False),
    FileSource("sys/devices/system/node/online", "NUMA"),
    FileSource("sys/devices/system/node/node*/cpulist", "NUMA"),
    FileSource("etc/{os-release,nv_tegra_release,hostname}", "distribution", listed=False),
    FileSource("usr/lib/os-release", "distribution"),
    FileSource("run/nvidia-topologyd/virtualTopology.xml", "the topology that NCCL reads", MIB,
               listed=False),
)  # fmt: skip

_TRUST = (
    FileSource("proc/keys", "keys the kernel trusts", MIB, "trusted_keys", addresses=False),
    FileSource("sys/kernel/security/lockdown", "lockdown"),
    FileSource("sys/kernel/debug/dma_buf/bufinfo", "devices that hold dma-bufs now"),
    FileSource("sys/firmware/efi/efivars/{SecureBoot,SetupMode,MokListRT,MokListXRT,MokSBStateRT,db,dbx}-*",
          "Secure Boot and its keys", MIB, addresses=False),
    FileSource("sys/firmware/efi/efivars/LoaderInfo-*", "boot loader", KIB),
    FileSource("var/lib/{dkms/mok.pub,shim-signed/mok/MOK.der}", "DKMS key", listed=False, addresses=False),
)  # fmt: skip

_LOADING = (
    FileSource("proc/modules", "loaded modules", 2 * MIB),
    FileSource("sys/module/compression", "which modules the kernel decompresses itself", listed=False),
    FileSource("sys/module/*/{version,srcversion,taint,refcnt,initstate}", "loaded modules",
               4 * KIB),
    FileSource("sys/module/{module,nvidia*,nv_peer_mem,gdrdrv,ib_*,mlx*,rdma_*,irdma,bnxt_re,efa,siw,"
          "pcie_aspm,iommu*}/parameters/*", "parameters in force", 4 * KIB),
    FileSource("sys/module/{nvidia*,ib_core,ib_uverbs,mlx5_*,mlx_compat,nv_peer_mem}/{holders,notes}",
               "users"),
    FileSource("sys/module/*/notes/.note.gnu.build-id", "build loaded", 4 * KIB),
    FileSource("{usr/,}lib/modules/<release>/modules.{dep,softdep,weakdep,builtin,builtin.modinfo,order,devname}",
          "index of modules", 8 * MIB),
    FileSource("{usr/,}lib/modules/<release>/modules.{dep,builtin,builtin.alias}.bin",
          "indexes that modprobe reads", 8 * MIB, addresses=False),
    FileSource("{usr/,}lib/modules/*/modules.dep", "whether another kernel has the driver", 8 * MIB,
               "driver_modules"),
    FileSource("{usr/,}lib/modules/*/build", "whether DKMS can build for another kernel", listed=False),
    FileSource("etc/{rc.local,rc.d/rc.local}", "scripts that load nvidia-peermem", listed=False),
    FileSource("etc/udev/rules.d/*.rules", "rules that load nvidia-peermem"),
    FileSource("etc/systemd/system/*.service", "units that load nvidia-peermem"),
    FileSource("etc/{modules,modprobe.conf,nccl.conf,environment}", "loading and NCCL settings",
               listed=False),
    FileSource("etc/ucx/ucx.conf", "UCX settings"),
    FileSource("etc/cufile.json", "GPUDirect Storage"),
    FileSource("root/.nccl.conf", "NCCL settings"),
    FileSource("home/*/.nccl.conf", "NCCL settings", private=True),
    FileSource("var/log/pods/*{nvidia-driver-daemonset,nvidia-gpu-driver}*/nvidia-peermem-ctr/*.log",
               "log of the GPU Operator's container", MIB, private=True),
    FileSource("var/log/fabricmanager.log", "why NVSwitches are not set up", MIB),
    FileSource("var/lib/dpkg/status", "packages", 64 * MIB, "package_records"),
    FileSource("etc/security/limits.conf", "locked memory", listed=False),
    FileSource("etc/{default/grub,kernel/cmdline}", "boot parameters", listed=False),
    FileSource("etc/dnf/modules.d/nvidia-driver.module", "stream of the driver"),
    FileSource("boot/loader/entries/*.conf", "boot parameters", 16 * KIB),
    FileSource("boot/{grub2,grub}/grubenv", "boot parameters", 4 * KIB, listed=False),
    FileSource("{etc,usr/lib,lib}/systemd/system/*peer*mem*", "services that load nvidia-peermem", 4 * KIB),
    FileSource("usr/sbin/rdma_topo", "whether it is there", KIB, "nothing", listed=False),
)  # fmt: skip

_DEVICES = (
                  FileSource("sys/bus/pci/devices/*/{uevent,vendor,device,class,subsystem_vendor,subsystem_device,revision}",
          "PCI devices", KIB, listed=False),
    FileSource("sys/bus/pci/devices/*/driver", "PCI devices", listed=False),
                  FileSource("sys/bus/pci/devices/<pci>/{config,resource,current_link_speed,current_link_width,max_link_speed,"
          "max_link_width,numa_node,iommu_group,physfn,infiniband,infiniband_verbs,net,driver}",
          "GPUs, NICs and the bridges above them", 4 * KIB),
    FileSource("sys/kernel/iommu_groups/*/type", "IOMMU", 64),
    FileSource("sys/class/infiniband/*/{node_guid,sys_image_guid,fw_ver,board_id,parent,device,ports}",
          "RDMA devices", 4 * KIB),
    FileSource("sys/class/infiniband/*/ports/*/{state,phys_state,rate,link_layer}",
               "ports",
          256),
    FileSource("sys/class/infiniband/*/ports/*/hw_counters/{out_of_sequence,packet_seq_err}",
          "lost packets", 64),
    FileSource("sys/class/infiniband/*/ports/*/counters/{port_rcv_packets,symbol_error,link_downed}",
          "traffic and errors", 64),
    FileSource("sys/class/infiniband/*/device/p2p", "how EFA reaches GPU memory", 256),
    FileSource("sys/class/infiniband/*/tc/*/traffic_class", "traffic class of RDMA, OFED's", 4 * KIB),
    FileSource("sys/class/net/*/ecn/{roce_np,roce_rp}/enable/*", "ECN by priority, OFED's", 64),
    FileSource("sys/class/infiniband_verbs/*/{ibdev,dev,device}", "user access", 256),
                  FileSource("sys/class/net/*/{mtu,phys_port_name,device}", "network devices", 256),
)  # fmt: skip

FILES: Tuple[FileSource, ...] = _SYSTEM + _TRUST + _LOADING + _DEVICES

GIDS = FolderSource("sys/class/infiniband/*/ports/*/gids", "GIDs in use; empty slots are left out")
PARTITION_KEYS = FolderSource("sys/class/infiniband/*/ports/*/pkeys", "partitions; empty slots are left out")
GID_ATTRIBUTES = FolderSource("sys/class/infiniband/*/ports/*/gid_attrs", "their types and network devices")

_CONFIGURATION = ("etc", "run", "usr/local/lib", "usr/lib", "lib")

FOLDERS: Tuple[FolderSource, ...] = (
    FolderSource("proc/driver/nvidia", "state of the driver"),
    FolderSource("proc/driver/nvidia/capabilities", "MIG instances", 3, 0),
    FolderSource("sys/kernel/mm/memory_peers", "peer-memory clients"),
    FolderSource("var/lib/rpm", "whether rpm manages packages", 1, 0),
    FolderSource("usr/lib/sysimage/rpm", "whether rpm manages packages", 1, 0),
    *(
        FolderSource(f"{folder}/modprobe.d", "options, blacklists, install lines", 1)
        for folder in _CONFIGURATION
    ),
    *(FolderSource(f"{folder}/modules-load.d", "loaded at boot", 1) for folder in _CONFIGURATION),
    *(FolderSource(f"{folder}/depmod.d", "which copy of a module is used", 1) for folder in _CONFIGURATION),
    FolderSource("etc/security/limits.d", "locked memory", 1),
    FolderSource("etc/default/grub.d", "boot parameters", 1),
    FolderSource("etc/dkms", "module signing", 2),
    FolderSource("etc/cdi", "GPUs for containers", 1, 0),
    FolderSource("run/cdi", "GPUs for containers", 1, 0),
    FolderSource("etc/nvidia-container-runtime", "GPUs for containers", 1, 0),
    # without contents
    FolderSource("", "names in the root", 1, 0),
    FolderSource("usr/lib", "Python environments", 1, 0),
    FolderSource("usr/local/lib", "Python environments", 1, 0),
    FolderSource("opt/conda/lib", "Python environments", 1, 0),
    FolderSource("opt/venv/lib", "Python environments", 1, 0),
    FolderSource("dev", "device nodes", 1, 0),
    FolderSource("dev/infiniband", "device nodes", 1, 0),
    FolderSource("dev/nvidia-caps", "device nodes", 1, 0),
    FolderSource("dev/nvidia-caps-imex-channels", "NVLink between hosts", 1, 0),
    FolderSource("proc/driver/nvidia-fs", "GPUDirect Storage", 1, 16 * KIB),
    FolderSource("proc/driver/gdrdrv", "GPU memory mapped by the CPU", 1, 4 * KIB),
    FolderSource("lib/modules", "kernels with modules", 1, 0),
    FolderSource("usr/lib/modules", "kernels with modules", 1, 0),
    FolderSource("boot", "kernels", 1, 0),
    FolderSource("sys/firmware/efi", "UEFI", 1, 0),
    FolderSource("sys/class/infiniband_mad", "user access", 1, 0),
    FolderSource("sys/bus/pci/drivers/nvidia", "bound GPUs", 1, 0),
    FolderSource("sys/bus/pci/drivers/vfio-pci", "devices passed to virtual machines", 1, 0),
    FolderSource("var/lib/dkms", "DKMS states", 6, 0, ("build", "source", "log")),
    FolderSource("var/lib/shim-signed/mok", "DKMS signing key", 1, 0),
    FolderSource("usr/src", "module sources", 1, 0),
    FolderSource("usr/src/kernels", "headers of kernels", 1, 0),
    FolderSource("usr/src/ofa_kernel", "OFED headers", 2, 0, ("include", "scripts", "drivers")),
    FolderSource("run/nvidia", "driver container", 1, 0),
    FolderSource("run/mellanox/drivers", "OFED container", 1, 0),
    FolderSource("etc/init.d", "openibd, nv_peer_mem", 1, 0),
    FolderSource("usr/lib/wsl/lib", "WSL", 1, 0),
    FolderSource("usr/lib/x86_64-linux-gnu/ucx", "UCX transports", 1, 0),
    FolderSource("usr/lib/aarch64-linux-gnu/ucx", "UCX transports", 1, 0),
    FolderSource("usr/lib64/ucx", "UCX transports", 1, 0),
    FolderSource("etc/libibverbs.d", "verbs drivers", 1, 4 * KIB),
)

NET = "<net>"

COMMANDS: Tuple[CommandSource, ...] = (
    CommandSource(("dmesg",), "kernel log", "kernel", limit_bytes=16 * MIB),
    CommandSource(("journalctl", "--no-pager", "--dmesg"), "kernel log from boot", "logs",
                  limit_bytes=16 * MIB,
        instead_of="sos_commands/kernel/dmesg"),
    CommandSource(("lsmod",), "loaded modules", "kernel"),
    CommandSource(("uname", "-a"), "kernel", "kernel"),
    CommandSource(("dkms", "status"), "DKMS states", "kernel"),
    CommandSource(("lspci", "-nnvvv"), "PCI devices", "pci"),
    CommandSource(("lspci", "-tv"), "PCI tree", "pci"),
    CommandSource(("mokutil", "--sb-state"), "Secure Boot", "boot"),
    CommandSource(("lsinitrd",), "modules that the initramfs holds", "boot"),
    CommandSource(("lsinitramfs", "/boot/initrd.img"), "modules that the initramfs holds", "boot"),
    CommandSource(("find", "/boot", "/lib/modules", "-path", "*/kernel", "-prune", "-o", "-regex",
                   r".*/\(initr[a-z]*[-.][^/]*\|\(nvidia[^/]*\|ib_core\|ib_uverbs\|mlx[^/]*\)\.ko[^/]*\)",
                   "-printf", r"%T@ %C@ %p\n"), "whether the initramfs is older than a module", "boot"),
    CommandSource(("mokutil", "--list-enrolled"), "Secure Boot keys", limit_bytes=MIB, addresses=False),
    CommandSource(("nvidia-smi", "-q"), "GPUs"),
    CommandSource(("nvidia-smi", "-q", "-d", "MEMORY"), "BAR1 in use"),
    CommandSource(("nvidia-smi", "topo", "-m"), "distances"),
    CommandSource(("nvidia-smi", "conf-compute", "-f"), "confidential computing"),
    CommandSource(("systemctl", "list-units", "--all", "--plain", "--no-legend",
                   "nvidia-fabricmanager.service"), "whether NVSwitches are set up"),
    CommandSource(("nvidia-imex-ctl", "-N"), "NVLink between hosts"),
    CommandSource(("ibv_devinfo", "-v"), "RDMA devices", "infiniband"),
    CommandSource(("rdma", "-j", "link"), "RDMA links"),
    CommandSource(("rdma", "-j", "dev"), "RDMA devices"),
    CommandSource(("rdma", "system"), "RDMA namespaces"),
    CommandSource(("ip", "-j", "addr"), "addresses of network cards", reduce="cards"),
    CommandSource(("ip", "route", "show", "table", "all", "dev", "<net>"), "networks that a port reaches",
                  limit_bytes=64 * KIB),
    CommandSource(("ip", "neigh", "show", "dev", "<net>"), "which port a cable leads to",
                  limit_bytes=64 * KIB),
    CommandSource(("ethtool", "-a", "<net>"), "pause frames", "networking"),
    CommandSource(("ethtool", "-S", "<net>"), "discarded packets", "networking", reduce="statistics"),
    CommandSource(("dcb", "pfc", "show", "dev", "<net>"), "priority flow control"),
    CommandSource(("dcb", "-N", "app", "show", "dev", "<net>"), "priorities by DSCP"),
    CommandSource(("systemd-detect-virt",), "virtual machine or container"),
    CommandSource(("systemd-detect-virt", "--container"), "container"),
    CommandSource(("ofed_info", "-s"), "OFED version"),
    CommandSource(("ucx_info", "-v"), "UCX version", "infiniband"),
    CommandSource(("lscpu",), "processor", "processor"),
    CommandSource(("ldconfig", "-p", "-N", "-X"), "libraries", "libraries", reduce="libraries"),
    CommandSource(("dpkg-query", "-W",
                  "-f=${Package}\\t${Version}\\t${Architecture}\\t${db:Status-Abbrev}\\n"),
        "packages", limit_bytes=8 * MIB, reduce="packages"),
    CommandSource(("dpkg", "-S", "*peermem*.ko*", "*/nvidia.ko*", "*/nvidia-current*.ko*", "*/ib_core.ko*",
         "*/ib_uverbs.ko*", "*/mlx5_core.ko*", "*/mlx5_ib.ko*", "*/libibverbs.so.1*", "*/libnccl.so.2*",
         "*/libcuda.so.1*"), "owners of files"),
    CommandSource(("rpm", "--nodigest", "-qa", "--qf=%{NAME}\\t%{VERSION}-%{RELEASE}\\t%{ARCH}\\tii\\n"),
        "packages", limit_bytes=8 * MIB, reduce="packages"),
)  # fmt: skip

_PROBE = "sos_commands/gdr/probe_"
PROBES: Tuple[ProbeSource, ...] = (
    ProbeSource(("gdr", "probe", "cuda", "--json"), "cuda_probe", _PROBE + "cuda", "GPUs, by libcuda"),
    ProbeSource(("gdr", "probe", "verbs", "--json"), "verbs_probe", _PROBE + "verbs", "NICs and dma-buf"),
    ProbeSource(("gdr", "probe", "rm", "--json"), "rm_probe", _PROBE + "rm", "GPUs, by the kernel module"),
    ProbeSource(
        ("gdr", "ps", "--record"),
        "running_probe",
        "sos_commands/gdr/running",
        "processes that use GPUs and RDMA devices",
        asks_driver=False,
    ),
)

# -- modules, symbol tables, libraries ---------------------------------------------------------

MODULE_FOLDERS = (
    "lib/modules/<release>",
    "usr/lib/modules/<release>",
    "run/nvidia/driver/lib/modules/<release>",  # GPU Operator's driver container
)
WHOLE_MODULES = ("*peermem*", "*peer_mem*")
"""Names of module files that are kept complete: they are small, and decide most findings."""

MODULES = (
    "nvidia*", "nv_peer_mem", "nv_p2p*", "gdrdrv", "mlx_compat", "mlx5_core", "mlx5_ib", "mlx4_core",
    "mlx4_ib",
    "ib_core", "ib_uverbs", "ib_umad", "ib_cm", "iw_cm", "rdma_cm", "rdma_ucm", "irdma", "bnxt_re", "efa",
    "mana_ib",
    "erdma", "hns_roce*", "rdma_rxe", "siw",
)  # fmt: skip
"""Modules that are kept with their dependencies, reduced to what the kernel's loader reads."""

DKMS_MODULES = "var/lib/dkms/*/*/<release>/*/module/*.ko*"


def _table(pattern: str, why: str = "the kernel's exports", listed: bool = False) -> FileSource:
    return FileSource(pattern, why, 64 * MIB, listed=listed)


SYMBOL_TABLES: Tuple[FileSource, ...] = (
    _table("{usr/,}lib/modules/<release>/build/Module.symvers", "first one that conftest reads"),
    _table(
        "usr/src/ofa_kernel/{x86_64,aarch64,arm64}/<release>/Module.symvers",
        "second one that conftest reads",
    ),
    _table(
        "usr/src/ofa_kernel/{x86_64,aarch64,arm64,<release>,default}/Module.symvers",
        "third and fourth one that conftest reads",
    ),
    _table("usr/src/ofa_kernel/*/<release>/Module.symvers", "other locations of OFED", listed=True),
    _table(
        "var/lib/dkms/mlnx-ofed-kernel/*/build/Module.symvers", "fifth one that conftest reads", listed=True
    ),
    _table("{usr/,}lib/modules/<release>/symvers{.gz,.xz,.zst,}"),
    _table("boot/symvers-<release>{.gz,.xz,.zst}"),
    _table("usr/src/{linux-headers-<release>,kernels/<release>}/Module.symvers"),
    _table("boot/System.map-<release>"),
    _table("{usr/,}lib/modules/<release>/modules.alias", "aliases of modules"),
    _table("{usr/,}lib/modules/<release>/modules.symbols", "exports of modules"),
    _table("{usr/,}lib/modules/<release>/modules.{alias,symbols}.bin", "indexes that modprobe reads"),
    _table("proc/kallsyms", "exports of the running kernel"),
)
"""Reduced to the lines about symbols that the collected modules import or export, and about
WANTED_SYMBOLS."""

WANTED_SYMBOLS = re.compile(
    rb"module_layout|ib_(?:un)?register_peer_memory_client|ib_umem_|nvidia_p2p_|mm_kobj$|__start___ksymtab_gpl$"
)

LIBRARY_FOLDERS = (
    "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/lib", "lib/x86_64-linux-gnu",
    "lib/aarch64-linux-gnu", "lib64", "usr/local/lib", "usr/local/lib64", "usr/local/cuda/lib64",
    "usr/local/cuda/compat", "usr/local/nccl/lib", "usr/local/nvidia/lib64", "usr/lib/wsl/lib",
    "opt/amazon/efa/lib", "opt/amazon/efa/lib64",
    "opt/amazon/ofi-nccl/lib64", "opt/amazon/ofi-nccl/lib/x86_64-linux-gnu",
    "opt/amazon/ofi-nccl/lib/aarch64-linux-gnu", "opt/amazon/ofi-nccl/lib",
    "opt/hpcx/ucx/lib",
    "opt/mellanox/ucx/lib", "opt/hpcx/nccl_rdma_sharp_plugin/lib",
    "usr/local/lib/python3*/*-packages/nvidia/nccl/lib", "opt/*/lib/python3*/site-packages/nvidia/nccl/lib",
)  # fmt: skip
LIBRARIES = (
    "libibverbs.so.1", "libmlx5.so.1", "libnccl.so.2", "libnccl-net.so", "libcuda.so.1", "libucp.so.0",
    "libuct.so.0",
    "librdmacm.so.1", "libnvshmem_host.so.3", "libgdrapi.so.2", "libfabric.so.1", "libnccl-net-ofi.so",
    "libcufile.so.0",
)  # fmt: skip
"""Reduced to their dynamic symbols. The version is in the name of the link's target."""
PROVIDERS = "libibverbs/lib{bnxt_re,efa,ionic,irdma,mana}-rdmav*.so"
"""The providers of libibverbs that can be older than its ibv_reg_dmabuf_mr, likewise."""

LIBRARY_NOTES: Tuple[FileSource, ...] = (
    *(FileSource(f"{folder}/pkgconfig/ucx.pc", "UCX version", 4 * KIB,
    listed=False) for folder in LIBRARY_FOLDERS),
    FileSource("{usr/lib,usr/local/lib,opt/conda/lib,opt/venv/lib}/python3*/{dist,site}-packages/"
          "nvidia_{nccl,nvshmem}_cu*.dist-info/WHEEL", "NCCL and NVSHMEM versions", 4 * KIB),
    FileSource("{usr/lib,usr/local/lib,opt/conda/lib,opt/venv/lib}/python3*/{dist,site}-packages/"
          "nvidia/n{ccl,vshmem}*", "whether the library of such a version is there", 4 * KIB),
)  # fmt: skip


# -- does the table have it? ---------------------------------------------------------------------------

_PCI = r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
_RESOLVED = (  # targets of the links in sys/class and sys/bus
    (
        rf"sys/devices/.*/({_PCI})(/(?!{_PCI}|infiniband/|infiniband_verbs/|net/).*)?\Z",
        r"sys/bus/pci/devices/\1\2",
    ),
    (r"sys/devices/.*/(infiniband|infiniband_verbs|net|iommu)/(.*)\Z", r"sys/class/\1/\2"),
    (r"sys/devices/virtual/dmi/id(.*)\Z", r"sys/class/dmi/id\1"),
    (r"proc/\d+/(.*)\Z", r"proc/self/\1"),
)


def covers(path: str) -> bool:
    """Whether the table has this file, or lists this folder."""
    for pattern, replacement in _RESOLVED:
        linked = re.sub(pattern, replacement, path)
        if linked != path and covers(linked):
            return True
    return any(row.match(path) for row in _expressions())


_compiled: Tuple[Pattern[str], ...] = ()


def _expressions() -> Tuple[Pattern[str], ...]:
    global _compiled
    if not _compiled:
        plain = [row.pattern for row in (*FILES, *SYMBOL_TABLES, *LIBRARY_NOTES)] + [DKMS_MODULES]
        plain += [f"{folder}/{name}*" for folder in LIBRARY_FOLDERS for name in LIBRARIES]
        plain += [f"{folder}/{PROVIDERS}" for folder in LIBRARY_FOLDERS]
        bounded = (*FOLDERS, GIDS, GID_ATTRIBUTES, PARTITION_KEYS)
        whole = [row.path for row in bounded if row.path and row.limit_bytes]
        whole += ["{usr/,}lib/modules/<release>", MODULE_FOLDERS[2]]
        listings = [folder for pattern in plain for folder in folders(pattern)]
        listings += [row.path for row in FOLDERS]
        listings += ["sys/class/infiniband/*/ports", "sys/bus/pci/devices/<pci>"]
        below = [row.path for row in FOLDERS if row.path and row.depth > 1] + whole
        patterns = [expression(pattern) for pattern in dict.fromkeys(plain + listings)]
        _compiled = (*patterns, *(expression(pattern, below=True) for pattern in dict.fromkeys(below)))
    return _compiled
