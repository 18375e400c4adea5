"""Nodes for benchmarks, built like those of tests/evidence, with any number of devices and modules of real
size.
"""

from __future__ import annotations

import lzma
import os
import shutil
from pathlib import Path

from cryptography.hazmat.bindings import _rust
from tests.evidence_builder import node
from tests.module_builder import make_key, sign

from gdrkit.formats import module_signature
from gdrkit.formats.compressed import decompress

EVIDENCE = Path(__file__).parent.parent / "tests" / "evidence"
MODEL = "ubuntu-6.8-h100"

SIZES_BYTES = {
    "nvidia": 14 << 20, "nvidia-uvm": 5 << 20, "nvidia-modeset": 2 << 20, "nvidia-drm": 150 << 10,
    "nvidia-peermem": 20 << 10, "mlx5_core": 3 << 20, "mlx5_ib": 700 << 10, "ib_core": 700 << 10,
    "ib_uverbs": 280 << 10, "rdma_cm": 200 << 10, "ib_cm": 150 << 10, "ib_umad": 60 << 10,
}  # fmt: skip
"""Sizes of stripped modules of the open 570 driver and of Ubuntu's 6.8 kernel, rounded. Others are not
extended.
"""

ROOT = """
0000:{bus:02x}:01.0 spr-root numa={numa}
  0000:{a:02x}:00.0 pex89-up numa={numa}
    0000:{b:02x}:00.0 pex89-down numa={numa}
      0000:{c:02x}:00.0 cx7-ib numa={numa} rdma=mlx5_{i} net=ibp{i}s0 rate=400
    0000:{b:02x}:01.0 pex89-down numa={numa}
      0000:{d:02x}:00.0 h100-sxm numa={numa}
"""
MORE_NIC = """
0000:{bus:02x}:01.0 spr-root numa={numa}
  0000:{a:02x}:00.0 cx7-eth numa={numa} rdma=mlx5_{i} net=ens{i}np0 rate=200 link=32.0x16
"""


def outline(gpus: int, nics: int) -> str:
    """Each GPU shares a switch with its own NIC; further NICs have their own root ports."""
    text = ""
    for i in range(nics):
        bus = 0x10 + 8 * i
        block = ROOT if i < gpus else MORE_NIC
        numa = i * 2 // gpus if i < gpus else i % 2
        text += block.format(bus=bus, a=bus + 1, b=bus + 2, c=bus + 3, d=bus + 4, i=i, numa=numa)
    return text


def build(folder: Path, gpus: int, nics: int, compress: str = "") -> Path:
    """Build a node below a folder: an unpacked bundle.

    With `compress` (xz, zst) it is the file system of a machine, with complete modules of real size,
    compressed.
    """
    page = folder / "nodes" / f"{gpus}x{nics}{compress}"
    page.mkdir(parents=True)
    shutil.copy(EVIDENCE / "presets.toml", page.parent)
    text = (EVIDENCE / MODEL / "node.toml").read_text()
    if compress:
        text = text.replace("reduced = true", 'format = "tree"\nlive = true')
        for table in ("[kernel]\n", "[driver]\n"):
            text = text.replace(table, f'{table}compress = "{compress}"\n')
    text += f'\n[pci]\nrepeat = []\noutline = """{outline(gpus, nics)}"""\n'
    (page / "node.toml").write_text(text)
    target = folder / page.name
    target.mkdir()
    tree = node.write(page, target)
    for module in tree.rglob("*.ko*") if compress else ():
        grow(module, compress)
    return tree


def grow(module: Path, compress: str) -> None:
    """Extend a module to its real size, and sign it again."""
    size = SIZES_BYTES.get(module.name.partition(".ko")[0])
    if size is None:
        return
    whole = bytes(decompress(module.read_bytes(), 1 << 30))
    length, trailer = module_signature.split(whole)
    content = whole[:length] + code(size - length)
    if trailer is not None:
        signature = module_signature.parse(trailer.pkcs7)
        content = sign(content, make_key(signature.issuer), digest="sha512")
    module.write_bytes(packed(content, module.suffix))


def code(size_bytes: int) -> bytes:
    """Machine code from a large library; empty if the size is negative."""
    library = Path(_rust.__file__).read_bytes()
    return (library * (max(0, size_bytes) // len(library) + 1))[: max(0, size_bytes)]


def packed(content: bytes, suffix: str) -> bytes:
    """Content compressed like the kernel's build does: scripts/Makefile.modinst, cmd_xz and cmd_zstd."""
    if suffix == ".xz":
        return lzma.compress(content, check=lzma.CHECK_CRC32, preset=6)
    if suffix == ".zst":
        from backports import zstd

        return zstd.compress(content, 19)
    return content


def flat_tree(folder: Path, gpus: int, nics: int) -> Path:
    """Write a plain tree of a made-up node: each H100 and each ConnectX-7 on a bus of its own."""
    _put(folder / "proc/sys/kernel/osrelease", "6.8.0-45-generic\n")
    _put(folder / "etc/os-release", "ID=ubuntu\n")
    for index in range(gpus):
        _function(folder, index + 1, "10DE:2330", "30200", "nvidia")
    for index in range(nics):
        device = _function(folder, gpus + 1 + index, "15B3:1021", "20700", "mlx5_core")
        port = device / f"infiniband/mlx5_{index}/ports/1"
        values = {"state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "400 Gb/sec (4X NDR)"}
        for name, text in {**values, "link_layer": "InfiniBand"}.items():
            _put(port / name, f"{text}\n")
        _link(folder / f"sys/class/infiniband/mlx5_{index}", device / f"infiniband/mlx5_{index}")
    return folder


def _function(folder: Path, number: int, vendor: str, device_class: str, driver: str) -> Path:
    address = f"{number >> 8:04x}:{number & 255:02x}:00.0"
    device = folder / f"sys/devices/pci{number >> 8:04x}:00/{address}"
    lines = f"DRIVER={driver}\nPCI_CLASS={device_class}\nPCI_ID={vendor}\nPCI_SLOT_NAME={address}\n"
    _put(device / "uevent", lines)
    _put(device / "numa_node", "0\n")
    _link(folder / f"sys/bus/pci/devices/{address}", device)
    return device


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _link(path: Path, target: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(os.path.relpath(target, path.parent))
