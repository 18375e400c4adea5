"""A machine's file system in a folder: two cards below a switch, modules, keys, secrets."""

from __future__ import annotations

import struct
from pathlib import Path

from tests.module_builder import RELEASE, Export, build_module, make_key, sign

HOSTNAME = "zgx-3285"
DOMAIN = "lab.example.com"
USERS = ("alice", "bob7", "max")
PASSWORD = "hunter2-in-clear"
TOKEN = "nvapi-0123456789abcdef0123"
MAC = "ec:0d:9a:44:b2:c4"
GUID = "ec0d:9a03:0044:b2c4"
GID = "fe80:0000:0000:0000:ec0d:9a03:0044:b2c4"
ADDRESS = "192.168.77.12"
MAPPED_GID = "0000:0000:0000:0000:0000:ffff:c0a8:4d0c"
SERIAL = "MT2043X12345"
UUID = "GPU-5f2c3a1b-1111-2222-3333-444455556666"
SECRETS = (PASSWORD, TOKEN, "MIIEvQIBADANBgkq")
TELLING = (
    HOSTNAME,
    DOMAIN,
    "alice",
    "bob7",
    "home/max",
    MAC,
    GUID,
    GID,
    ADDRESS,
    MAPPED_GID,
    SERIAL,
    UUID[4:],
    "ec0d9a44b2c4",
)

PORT, SWITCH, GPU, NIC = "0000:00:01.0", "0000:01:00.0", "0000:02:00.0", "0000:03:00.0"
BRIDGES = f"sys/devices/pci0000:00/{PORT}/{SWITCH}"
MODULES = f"usr/lib/modules/{RELEASE}"
KEY = make_key(f"{HOSTNAME} Secure Boot Module Signature key")

PEERMEM = build_module("nvidia_peermem", parameters={"peerdirect_support": "int"})
IB_CORE = build_module(
    "ib_core",
    exports={"ib_umem_get": Export(0x11, gpl_only=True)},
    imports={"printk_there": 0x22},
    intree=True,
)
NVIDIA = build_module(
    "nvidia", exports={"nvidia_p2p_get_pages": 0x33}, code_bytes=200_000, static_symbols=["rm_x"]
)


def config_space(serial: bytes = bytes.fromhex("ec0d9a030044b2c4")) -> bytes:
    """4 KiB with the card's serial number as an extended capability at 0x140, after another one."""
    space = bytearray(4096)
    struct.pack_into("<HH", space, 0, 0x15B3, 0x1021)
    struct.pack_into("<I", space, 0x100, 0x14000001)  # AER; next at 0x140
    lower, upper = serial[4:][::-1], serial[:4][::-1]
    space[0x140:0x14C] = struct.pack("<I", 0x0003) + lower + upper
    return bytes(space)


class Root:
    """Files and links below a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def file(self, path: str, content: bytes | str = "") -> None:
        place = self.folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)

    def link(self, path: str, target: str) -> None:
        place = self.folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)


def build(folder: Path) -> Root:
    """Write the file system of the machine."""
    root = Root(folder)
    _system(root)
    _devices(root)
    _modules(root)
    _trust(root)
    return root


def _system(root: Root) -> None:
    root.link("lib", "usr/lib")
    root.file("proc/1/cgroup", "0::/init.scope\n")
    root.file("proc/sys/kernel/osrelease", f"{RELEASE}\n")
    root.file("proc/sys/kernel/hostname", f"{HOSTNAME}\n")
    root.file(
        "proc/cmdline", f"root=UUID=0a1b2c3d-1111-2222-3333-444455556666 quiet rd.password={PASSWORD}\n"
    )
    root.file("proc/modules", "ib_core 479232 1 ib_uverbs, Live 0x0\ntiny 16384 0 - Live 0x0\n")
    root.file(
        "proc/kallsyms",
        "ffffffff81000000 T ib_register_peer_memory_client\t[ib_core]\n"
        "ffffffff81000010 r __ksymtab_printk_there\nffffffff81000020 t nobody_asks\n",
    )
    root.file("etc/os-release", "ID=debian\nVERSION_ID=12\n")
    root.file("etc/hosts", f"127.0.0.1 localhost\n127.0.1.1 {HOSTNAME}.{DOMAIN} {HOSTNAME}\n")
    root.file(
        "etc/passwd",
        "root:x:0:0::/root:/bin/sh\n"
        + "".join(f"{user}:x:{1000 + n}:100::/home/{user}:/bin/sh\n" for n, user in enumerate(USERS)),
    )
    root.file(
        "etc/nccl.conf", f"NCCL_IB_HCA=mlx5_0\nNCCL_SOCKET_IFNAME=enxec0d9a44b2c4\nNGC_API_KEY={TOKEN}\n"
    )
    root.file("etc/environment", f"PATH=/usr/bin\nNCCL_DEBUG=INFO\nDB_PASSWORD={PASSWORD}\n")
    root.file("etc/modprobe.d/nvidia.conf", f"# by alice on {HOSTNAME}\noptions nvidia NVreg_X=1\n")
    root.link("etc/modprobe.d/blacklist.conf", "/etc/nvidia/alice/blacklist.conf")
    root.file("etc/nvidia/alice/blacklist.conf", "blacklist nouveau\n")
    root.file("etc/dkms/framework.conf", 'mok_signing_key="/var/lib/dkms/mok.key"\n')
    root.file(
        "etc/dkms/mok.key", "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkq\n-----END PRIVATE KEY-----\n"
    )
    root.file(
        "usr/sbin/rdma_topo",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEvQIBADANBgkq\n-----END RSA PRIVATE KEY-----\n",
    )
    root.file("home/max/.nccl.conf", "NCCL_DEBUG=WARN\n")
    root.file("home/alice/.nccl.conf", "NCCL_P2P_LEVEL=PIX\nMY_SECRET=x\n")
    root.file("var/lib/dkms/nvidia/580.95/source/secret.c", "never entered")
    root.file(f"var/lib/dkms/nvidia/580.95/{RELEASE}/x86_64/module/nvidia-peermem.ko", PEERMEM)
    root.link(f"var/lib/dkms/nvidia/kernel-{RELEASE}-x86_64", f"580.95/{RELEASE}/x86_64")


def _devices(root: Root) -> None:
    for path, kind, vendor in (
        (f"sys/devices/pci0000:00/{PORT}", "0x060400", "0x8086"),
        (BRIDGES, "0x060400", "0x1000"),
        (f"{BRIDGES}/{GPU}", "0x030200", "0x10de"),
        (f"{BRIDGES}/{NIC}", "0x020000", "0x15b3"),
        ("sys/devices/pci0000:00/0000:00:1f.0", "0x060100", "0x8086"),
    ):
        address = path.rpartition("/")[2]
        root.link(f"sys/bus/pci/devices/{address}", "../../../" + path.removeprefix("sys/"))
        for name, value in (("class", kind), ("vendor", vendor), ("device", "0x1021"), ("numa_node", "0")):
            root.file(f"{path}/{name}", value + "\n")
        root.file(f"{path}/config", config_space() if address == NIC else bytes(4096))
    root.link(f"{BRIDGES}/{GPU}/driver", "../../../../../bus/pci/drivers/nvidia")
    root.file("sys/bus/pci/drivers/nvidia/bind")
    device = f"{BRIDGES}/{NIC}/infiniband/mlx5_0"
    root.link("sys/class/infiniband/mlx5_0", "../../" + device.removeprefix("sys/"))
    root.link(f"{device}/device", "../..")
    root.file(f"{device}/node_guid", GUID + "\n")
    root.file(f"{device}/sys_image_guid", GUID + "\n")
    port = f"{device}/ports/1"
    root.file(f"{port}/state", "4: ACTIVE\n")
    for index, gid in ((0, GID), (1, MAPPED_GID), (2, ":".join(["0000"] * 8))):
        root.file(f"{port}/gids/{index}", gid + "\n")
        root.file(f"{port}/gid_attrs/types/{index}", "RoCE v2\n")
        root.file(f"{port}/gid_attrs/ndevs/{index}", "enxec0d9a44b2c4\n")
    root.file(
        "proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05\n",
    )
    root.file(
        f"proc/driver/nvidia/gpus/{GPU}/information",
        f"Model: NVIDIA H100\nGPU UUID: {UUID}\nSerial Number: {SERIAL}\nX: {ADDRESS}\n",
    )
    root.file("proc/driver/nvidia/params", "GrdmaPciTopoCheckOverride: 0\n")
    root.file(f"sys/module/nvidia/parameters/enx{MAC.replace(':', '')}", f"{MAC} 10.11.12.255 fe80::1\n")
    root.file("sys/module/ib_core/initstate", "live\n")


def _modules(root: Root) -> None:
    root.file(f"{MODULES}/kernel/ib_core.ko", sign(IB_CORE, KEY))
    root.file(f"{MODULES}/kernel/tiny.ko", sign(build_module("tiny", intree=True), KEY, digest="sha512"))
    root.file(f"{MODULES}/kernel/other.ko", build_module("other", intree=True))
    root.file(f"{MODULES}/updates/dkms/nvidia.ko", sign(NVIDIA, KEY))
    root.file(f"{MODULES}/updates/dkms/nvidia-peermem.ko", sign(PEERMEM, KEY))
    root.file(f"{MODULES}/extra/nvidia-drm.ko", b"not an ELF file")
    root.file(f"{MODULES}/extra/ours.ko", build_module("ours", depends=["helper"]))
    root.file(f"{MODULES}/extra/helper.ko", build_module("helper"))
    root.file(
        f"{MODULES}/modules.dep",
        "kernel/ib_core.ko:\nkernel/tiny.ko:\nkernel/other.ko:\n"
        "updates/dkms/nvidia.ko: kernel/ib_core.ko\nupdates/dkms/nvidia-peermem.ko:\n",
    )
    root.file(
        f"{MODULES}/modules.symbols", "# Aliases\nalias symbol:printk_there ib_core\nalias symbol:nobody x\n"
    )
    root.file(
        f"{MODULES}/modules.alias",
        "alias pci:v000015B3d* mlx5_core\nalias pci:v00008086d* e1000e\n"
        "alias net-pf-10 ipv6\nalias pci:v000010DEd* nvidia\n",
    )
    root.link(f"{MODULES}/build", f"/usr/src/linux-headers-{RELEASE}")
    root.file(
        f"usr/src/linux-headers-{RELEASE}/Module.symvers",
        "0x1\tmodule_layout\tvmlinux\tEXPORT_SYMBOL\t\n"
        "0x22\tprintk_there\tvmlinux\tEXPORT_SYMBOL\t\n0x9\tnobody\tvmlinux\tEXPORT_SYMBOL\t\n",
    )
    root.file("usr/lib/x86_64-linux-gnu/.keep")


def _trust(root: Root) -> None:
    root.file(
        "proc/keys",
        "0b8e I--Q---     1 perm 1f0b0000     0     0 asymmetri "
        "Debian Secure Boot CA: 6ccece7e4c6c0d1f: X509.rsa 4f1f0d1f []\n"
        "1c00 I--Q---     2 perm 3f010000  1000    -1 user      alice_login: 32\n"
        "2d00 I------     1 perm 1f0b0000     0     0 keyring   .builtin_trusted_keys: 2\n",
    )
    owner = bytes(16)
    entry = owner + KEY.certificate_der
    listing = bytes.fromhex("a159c0a5e494a74a87b5ab155c2bf072") + struct.pack(
        "<III", 28 + len(entry), 0, len(entry)
    )
    root.file(
        "sys/firmware/efi/efivars/MokListRT-605dab50-e046-4300-abb6-3dd810dd8b23",
        b"\6\0\0\0" + listing + entry,
    )
    root.file("sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c", b"\6\0\0\0\1")
    (root.folder / "sys/kernel/security").mkdir(parents=True)
