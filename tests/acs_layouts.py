"""Dumps of machines with GPUs and NICs in the layouts that need certain ACS bits, made from a seed.

What is right for each is not known here: rdma-core's own rdma_topo judges them, and its verdicts are kept in
tests/rules/acs_verdicts.txt, which `python -m tools.acs_witness RDMA_TOPO` writes.
"""

from __future__ import annotations

import base64
import json
import random
import zlib
from collections.abc import Callable
from typing import NamedTuple

GRACE, VERA, X86 = (0x10DE, 0x22B1), (0x10DE, 0x2F95), (0x8086, 0x352A)
SWITCH, BF3_SWITCH, PLX = (0x15B3, 0x1979), (0x15B3, 0x197B), (0x1000, 0xC030)
CX7, CX8, CX9 = (0x15B3, 0x1021), (0x15B3, 0x1023), (0x15B3, 0x1025)
BF3, DIRECT = (0x15B3, 0xA2DC), (0x15B3, 0x2100)
GB300, H100, RTX = (0x10DE, 0x31C2), (0x10DE, 0x2330), (0x10DE, 0x2BB5)
BRIDGE, DISPLAY, NETWORK, OTHER = 0x060400, 0x030200, 0x020000, 0x088000
SEEDS = range(240)


class Function(NamedTuple):
    """One PCI function. `acs`: the Control Register; None without the capability."""

    path: str
    ids: tuple[int, int]
    kind: int
    acs: int | None = None
    ats: bool = False
    group: int | None = None
    numa: int = 0
    uuid: str = ""
    rdma: str = ""

    def dumped(self) -> dict[str, object]:
        vendor, device = self.ids
        return {
            "realpath": f"/sys/devices/{self.path}",
            "config": _packed(self._config()),
            "modalias": f"pci:v{vendor:08X}d{device:08X}sv00000000sd00000000bc{self.kind >> 16:02X}"
            f"sc{self.kind >> 8 & 0xFF:02X}i{self.kind & 0xFF:02X}",
            "iommu_group": self.group,
            "numa_node": self.numa,
            "vpd": _packed(_vpd(self.uuid)) if self.uuid else None,
            "subsystems": {"infiniband": [self.rdma]} if self.rdma else {},
        }

    def _config(self) -> bytes:
        """PCI Local Bus 3.0, 6.1; PCI Express Base 5.0, 7.5.3, 7.6.3, 7.7.8 and 10.5.1."""
        config = bytearray(4096)
        config[0:4] = self.ids[0].to_bytes(2, "little") + self.ids[1].to_bytes(2, "little")
        config[6] = 0x10
        config[9:12] = self.kind.to_bytes(3, "little")
        config[0x0E] = 1 if self.kind == BRIDGE else 0
        config[0x34], config[0x40] = 0x40, 0x10
        config[0x42] = 0x02
        at = 0x100
        if self.acs is not None:
            config[at : at + 8] = (0x1000D | (0x140 << 20 if self.ats else 0)).to_bytes(4, "little") + bytes(
                (0x5F, 0, self.acs, 0)
            )
            at = 0x140
        if self.ats:
            config[at : at + 8] = (0x1000F).to_bytes(4, "little") + bytes(4)
        return bytes(config)


def _packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data)).decode()


def _vpd(uuid: str) -> bytes:
    """PCI Local Bus 3.0, appendix I: an identifier string, and one read-only field."""
    field = b"V3" + bytes((len(uuid),)) + uuid.encode()
    return b"\x82\x03\x00NIC" + b"\x90" + len(field).to_bytes(2, "little") + field + b"\x78"


def dump(functions: list[Function]) -> bytes:
    return json.dumps([function.dumped() for function in functions]).encode()


class _Draw:
    """Registers and groups that are mostly right, and sometimes not."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.faulty = self.random.random() < 0.7

    def acs(self, right: int) -> int:
        if self.faulty and self.random.random() < 0.25:
            return right ^ (1 << self.random.randrange(7))
        return right | (0x02 if self.random.random() < 0.1 else 0)

    def wrong(self) -> bool:
        return self.faulty and self.random.random() < 0.2


def _data_direct(draw: _Draw, number: int) -> list[Function]:
    domain, nic_domain = 8 + number, number
    root = f"pci{domain:04x}:00/{domain:04x}:00:00.0"
    up = f"{root}/{domain:04x}:01:00.0"
    to_direct, to_gpu = f"{up}/{domain:04x}:02:00.0", f"{up}/{domain:04x}:02:01.0"
    inner = f"{to_gpu}/{domain:04x}:04:00.0"
    last = f"{inner}/{domain:04x}:05:00.0"
    nic_root = f"pci{nic_domain:04x}:00/{nic_domain:04x}:00:00.0"
    group, uuid = 20 + number, f"uuid-{number}"
    gpu_group = 90 + number if draw.wrong() else group
    port = Function
    found = [
        port(nic_root, GRACE, BRIDGE, draw.acs(0x1D), group=1 + number),
        port(
            f"{nic_root}/{nic_domain:04x}:03:00.0", CX8, NETWORK, group=1 + number, uuid=uuid,
            rdma=f"mlx5_{number}",
        ),
        port(root, GRACE, BRIDGE, draw.acs(0x1C), group=group),
        port(up, SWITCH, BRIDGE, group=group),
        port(to_direct, SWITCH, BRIDGE, draw.acs(0x19), group=group),
        port(f"{to_direct}/{domain:04x}:03:00.0", DIRECT, OTHER, group=group, uuid=uuid),
        port(to_gpu, SWITCH, BRIDGE, draw.acs(0x15), group=group),
        port(inner, SWITCH, BRIDGE, group=group),
        port(last, SWITCH, BRIDGE, draw.acs(0x1D), group=group),
        port(f"{last}/{domain:04x}:06:00.0", GB300, DISPLAY, group=gpu_group),
    ]  # fmt: skip
    return [entry for entry in found if entry.path != inner] if draw.random.random() < 0.04 else found


def _numa(
    roots: tuple[int, int], right: int, nic: tuple[int, int]
) -> Callable[[_Draw, int], list[Function]]:
    def made(draw: _Draw, number: int) -> list[Function]:
        gpu_root = f"pci{number:04x}:00/{number:04x}:00:00.0"
        nic_root = f"pci{number + 8:04x}:00/{number + 8:04x}:00:00.0"
        groups = (
            (None, None) if draw.wrong() else (30 + number, 30 + number if draw.wrong() else 40 + number)
        )
        return [
            Function(gpu_root, roots, BRIDGE, draw.acs(right), group=groups[0], numa=number),
            Function(f"{gpu_root}/{number:04x}:01:00.0", GB300, DISPLAY, group=groups[0], numa=number),
            Function(nic_root, roots, BRIDGE, draw.acs(right), group=groups[1], numa=number),
            Function(
                f"{nic_root}/{number + 8:04x}:01:00.0", nic, NETWORK, ats=draw.wrong(), group=groups[1],
                numa=number, rdma=f"mlx5_{number}",
            ),
        ]  # fmt: skip

    return made


def _inline(virtual: bool) -> Callable[[_Draw, int], list[Function]]:
    def made(draw: _Draw, number: int) -> list[Function]:
        bus = f"{number:04x}"
        root = f"pci{bus}:00/{bus}:00:01.0"
        up = f"{root}/{bus}:01:00.0"
        to_nic, to_gpu = f"{up}/{bus}:02:00.0", f"{up}/{bus}:02:01.0"
        inner = f"{to_gpu}/{bus}:04:00.0"
        last = f"{inner}/{bus}:05:00.0"
        default, nic_port = (0x1D, 0x5D) if virtual else (0, 0)
        gpu_group = 60 + number if virtual != draw.wrong() else 50 + number
        if not virtual and draw.random.random() < 0.2:
            groups: tuple[int | None, int | None] = (None, None)
        else:
            groups = (50 + number, gpu_group)
        return [
            Function(root, X86, BRIDGE, draw.acs(default)),
            Function(up, SWITCH, BRIDGE),
            Function(to_nic, SWITCH, BRIDGE, draw.acs(nic_port)),
            Function(
                f"{to_nic}/{bus}:03:00.0", CX8, NETWORK, ats=virtual, group=groups[0], rdma=f"mlx5_{number}"
            ),
            Function(to_gpu, SWITCH, BRIDGE, draw.acs(default)),
            Function(inner, SWITCH, BRIDGE),
            Function(last, SWITCH, BRIDGE, draw.acs(default)),
            Function(f"{last}/{bus}:06:00.0", RTX, DISPLAY, group=groups[1]),
        ]

    return made


def _ordinary(draw: _Draw, number: int) -> list[Function]:
    bus = f"{number:04x}"
    root = f"pci{bus}:00/{bus}:00:01.0"
    up = f"{root}/{bus}:01:00.0"
    return [
        Function(root, X86, BRIDGE, draw.acs(0x1D)),
        Function(up, PLX, BRIDGE),
        Function(f"{up}/{bus}:02:00.0", PLX, BRIDGE, draw.acs(0)),
        Function(f"{up}/{bus}:02:00.0/{bus}:03:00.0", H100, DISPLAY),
        Function(f"{up}/{bus}:02:01.0", PLX, BRIDGE, draw.acs(0)),
        Function(f"{up}/{bus}:02:01.0/{bus}:04:00.0", CX7, NETWORK, rdma=f"mlx5_{number}"),
    ]


def _bluefield(draw: _Draw, right: int) -> list[Function]:
    root = "pci00f0:00/00f0:00:00.0"
    up = f"{root}/00f0:01:00.0"
    return [
        Function(root, PLX, BRIDGE),
        Function(up, BF3_SWITCH, BRIDGE),
        Function(f"{up}/00f0:02:00.0", BF3_SWITCH, BRIDGE, draw.acs(right)),
        Function(f"{up}/00f0:02:00.0/00f0:03:00.0", BF3, NETWORK, group=99, rdma="mlx5_bf"),
    ]


KINDS: dict[str, tuple[Callable[[_Draw, int], list[Function]], int]] = {
    "data-direct": (_data_direct, 0x1D),
    "grace": (_numa(GRACE, 0x1D, CX7), 0x1D),
    "vera": (_numa(VERA, 0x15, CX9), 0x1D),
    "inline": (_inline(False), 0),
    "inline-virtual": (_inline(True), 0x1D),
    "ordinary": (_ordinary, 0x1D),
}
"""What makes one part of each layout, and the register that the switch of a BlueField-3 beside it has."""


def layout(seed: int) -> tuple[str, list[Function]]:
    """The name of a layout, and its functions."""
    draw = _Draw(seed)
    name = list(KINDS)[seed % len(KINDS)]
    make, beside = KINDS[name]
    found = [part for number in range(draw.random.randint(1, 4)) for part in make(draw, number)]
    if draw.random.random() < 0.3:
        found += _bluefield(draw, beside)
    return name, found
