"""A small system tree with several faults, and snapshots of such a tree."""

from __future__ import annotations

import functools
import hashlib
import lzma
import os
import stat
import subprocess
from pathlib import Path

from cryptography.hazmat.primitives import serialization

from tests.module_builder import RELEASE, build_module, make_key
from tests.system_programs import needs, program

FOLDER = f"lib/modules/{RELEASE}"
STEPS = (
    "allow-module",
    "remove-nv-peer-mem",
    "sign-module",
    "load-peermem",
    "raise-memlock",
    "override-topology-check",
    "iommu-passthrough",
    "clean-nccl-settings",
)
needs_depmod = needs("depmod")


@functools.cache
def _modules() -> dict[str, bytes]:
    provider = build_module("mlx_compat", exports={"ib_register_peer_memory_client": 1})
    driver = build_module("nvidia", exports={"nvidia_p2p_get_pages": 2}, license="Dual MIT/GPL")
    client = build_module(
        "nvidia_peermem",
        imports={"ib_register_peer_memory_client": 1, "nvidia_p2p_get_pages": 2},
        depends=("mlx_compat", "nvidia"),
    )
    return {
        "updates/dkms/mlx_compat.ko": provider,
        "updates/dkms/nvidia.ko.xz": lzma.compress(driver, check=lzma.CHECK_CRC32),
        "updates/dkms/nvidia-peermem.ko": client,
        "updates/dkms/nv_peer_mem.ko": build_module("nv_peer_mem"),
    }


@functools.cache
def _key() -> tuple[bytes, bytes]:
    made = make_key("A user's key")
    private = made.private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private, made.certificate_der


def machine(root: Path) -> Path:
    """A tree with a blacklist, an option, an old module, unsigned modules, and dma-buf turned off."""
    private, certificate = _key()
    files: dict[str, bytes] = {
        "etc/os-release": b'ID=debian\nVERSION_ID="12"\nPRETTY_NAME="Debian 12"\n',
        "proc/sys/kernel/osrelease": RELEASE.encode() + b"\n",
        "proc/sys/kernel/hostname": b"scratch\n",
        "proc/version": f"Linux version {RELEASE} (x) (y) #1 SMP\n".encode(),
        "proc/modules": b"",
        "proc/cmdline": b"root=/dev/vda1\n",
        "etc/modprobe.d/local.conf": b"# ours\nblacklist nvidia-peermem\noptions nouveau modeset=0\n",
        "usr/lib/modprobe.d/vendor.conf": b"install nvidia_peermem \\\n  /bin/false\n",
        "etc/modules-load.d/old.conf": b"nv_peer_mem\nib_umad\n",
        "etc/nccl.conf": b"NCCL_DEBUG=WARN\nNCCL_DMABUF_ENABLE=0\n",
        "boot/grub/grub.cfg": b"# grub's\n",
        "etc/keys/own.key": private,
        "etc/keys/own.der": certificate,
    }
    files |= {f"{FOLDER}/{name}": content for name, content in _modules().items()}
    for name in ("modules.order", "modules.builtin"):
        files[f"{FOLDER}/{name}"] = b""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    for folder in ("proc/1", "sys/module", "sys/firmware/efi", "var/lib/gdrkit", "etc/default"):
        (root / folder).mkdir(parents=True)
    (root / "etc/keys/own.key").chmod(0o600)
    (root / "etc/modprobe.d/local.conf").chmod(0o640)
    (root / f"{FOLDER}/updates/dkms/nvidia.ko.xz").chmod(0o600)
    subprocess.run([program("depmod"), "-b", str(root), RELEASE], check=True)
    return root


def snapshot(root: Path) -> dict[str, tuple[object, ...]]:
    """Kind, mode, owner, content and attributes of every path, by path."""
    found: dict[str, tuple[object, ...]] = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(folder, name)
            short = str(path.relative_to(root))
            status = path.lstat()
            content: object = None
            if stat.S_ISREG(status.st_mode):
                content = hashlib.sha256(path.read_bytes()).hexdigest()
            elif stat.S_ISLNK(status.st_mode):
                content = str(path.readlink())
            attributes = tuple(sorted(os.listxattr(path, follow_symlinks=False)))
            found[short] = (stat.S_IFMT(status.st_mode), stat.S_IMODE(status.st_mode), status.st_uid,
                            status.st_gid, content, attributes)  # fmt: skip
    return found
