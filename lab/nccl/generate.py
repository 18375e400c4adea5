"""Random topologies for NCCL, determined by the seed: files for NCCL_TOPO_FILE, and an environment.

They vary everything that could reveal differences: depth of switches, Broadcom's double switches, links of
odd speeds and widths, several NUMA nodes and kinds of CPU, NVLink in every shape, C2C, several NICs on one
card, GPUs and NICs without GPUDirect RDMA, levels, and the other variables that NCCL reads from its
environment.
"""

from __future__ import annotations

import random
from typing import NamedTuple
from xml.sax.saxutils import quoteattr

SPEEDS = (
    "32.0 GT/s PCIe", "16.0 GT/s PCIe", "8.0 GT/s PCIe", "64.0 GT/s PCIe", "5.0 GT/s PCIe", "2.5 GT/s PCIe",
    "16.0 GT/s", "32.0 GT/s", "16 GT/s", "32 GT/s", "5 GT/s", "2.5 GT/s", "8 GT/s", "Unknown", "", "64 GT/s",
)  # fmt: skip
WIDTHS = (16, 16, 16, 8, 4, 1, 0, 2, 32)
CPUS = (
    ("x86_64", "GenuineIntel", 6, 0x4F), ("x86_64", "GenuineIntel", 6, 0x55),
    ("x86_64", "GenuineIntel", 6, 0x8F), ("x86_64", "GenuineIntel", 6, 0xCF),
    ("x86_64", "AuthenticAMD", 175, 17), ("arm64", "", 0, 0), ("ppc64", "", 0, 0),
    ("x86_64", "CentaurHauls", 7, 0x5B), ("x86_64", "  Shanghai  ", 7, 0x1B), ("riscv", "", 0, 0),
)  # fmt: skip
LEVELS = ("LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS", "0", "1", "2", "3", "4", "5",
          "9", "010", "0x2", "ALL", "sys", "NODE", "", "-1", "SYS ")  # fmt: skip
BRIDGES = (
    ("0x1000", "0xc010", "0x1000", "0xa096"), ("0x1000", "0xc030", "0x1000", "0x0001"),
    ("0x15b3", "0x197b", "0x15b3", "0x0000"), None,
)  # fmt: skip
LOWER = {BRIDGES[1]: ("0x1000", "0xc030", "0x1000", "0x1004")}
"""The second level of Broadcom's Gen5 switch. Above a first level, NCCL fails."""


class Case(NamedTuple):
    """A topology file and an environment. `mode` is how it runs on GPUs: see lab/nccl/on_gpus.py."""

    seed: int
    xml: str
    environment: dict[str, str]
    mode: str = "local"


class Shape(NamedTuple):
    """What a topology may contain. On real GPUs, with their addresses and the names of interfaces."""

    gpus: tuple[str, ...] = ()
    nets: tuple[str, ...] = ()
    capabilities: tuple[int, ...] = (70, 80, 86, 90, 100)
    cpus: tuple[tuple[str, str, int, int], ...] = CPUS
    c2c: bool = True
    nvlink_shapes: tuple[str, ...] = ("none", "switch", "mesh", "ring", "pairs", "cpu")
    """`off` is a link without width: on real GPUs, NCCL would look for links itself if there were none."""


class _Builder:
    def __init__(self, seed: int, shape: Shape) -> None:
        self.random = random.Random(seed)
        self.shape = shape
        self.bus = 0x10
        pick = self.random
        self.plain = pick.random() < 0.4  # realistic links, so that ties are common
        count = len(shape.gpus) or pick.choice((1, 2, 2, 4, 8))
        self.gpus = list(shape.gpus) or [f"0000:{0x80 + at:02x}:00.0" for at in range(count)]
        self.nets = list(shape.nets) or [f"mlx5_{at}" for at in range(pick.choice((1, 2, 4, 8)))]
        self.sm = pick.choice(shape.capabilities)
        self.nvlink = pick.choice(shape.nvlink_shapes) if count > 1 else pick.choice(("none", "switch"))
        self.has_c2c = shape.c2c and pick.random() < 0.3

    def link(self) -> str:
        pick = self.random
        if self.plain or pick.random() < 0.5:
            speed, width = pick.choice(SPEEDS[:2]), 16
        else:
            speed, width = pick.choice(SPEEDS), pick.choice(WIDTHS)
        return f'link_speed="{speed}" link_width="{width}"'

    def address(self) -> str:
        self.bus += 1
        return f"0001:{self.bus:02x}:00.0"

    def switch(self, inside: str, bridge: tuple[str, ...] | None) -> str:
        names = ("vendor", "device", "subsystem_vendor", "subsystem_device")
        ids = "".join(f' {name}="{value}"' for name, value in zip(names, bridge or (), strict=bool(bridge)))
        return f'<pci busid="{self.address()}" class="0x060400"{ids} {self.link()}>{inside}</pci>'

    def leaves(self) -> list[str]:
        pick = self.random
        found = []
        for rank, address in enumerate(self.gpus):
            gdr = 0 if pick.random() < 0.1 else 1
            inside = self.nvlinks(rank) + self.c2c()
            found.append(
                f'<pci busid="{address}" class="0x030200" {self.link()}>'
                f'<gpu dev="{rank}" sm="{self.sm}" rank="{rank}" gdr="{gdr}">{inside}</gpu></pci>'
            )
        at = 0
        while at < len(self.nets):
            on_card = pick.choice((1, 1, 1, 2)) if len(self.nets) - at > 1 else 1
            nets = "".join(self.net(at + port, port) for port in range(on_card))
            found.append(
                f'<pci busid="{self.address()}" class="0x020700" {self.link()}><nic>{nets}</nic></pci>'
            )
            at += on_card
        return found

    def net(self, dev: int, port: int) -> str:
        pick = self.random
        speed = pick.choice((400000, 400000, 200000, 100000, 25000, 10000, 0, -1))
        gdr = 0 if pick.random() < 0.1 else 1
        return (
            f'<net name="{self.nets[dev]}" dev="{dev}" speed="{speed}" port="{port + 1}" latency="0" '
            f'guid="{hex(0x100 + dev)}" maxconn="65536" gdr="{gdr}"/>'
        )

    def nvlinks(self, rank: int) -> str:
        count = self.random.choice((1, 2, 4)) if not self.plain else 4
        others = [other for other in range(len(self.gpus)) if other != rank]
        if self.nvlink == "off":
            return '<nvlink target="fffffff:ff:ff.0" count="0" tclass="0x068000"/>'
        if self.nvlink == "switch":
            return f'<nvlink target="fffffff:ff:ff.0" count="{count}" tclass="0x068000"/>'
        if self.nvlink == "cpu":
            return f'<nvlink target="0004:00:00.0" count="{count}" tclass="0x068001"/>'
        if self.nvlink == "pairs":
            others = [other for other in others if other == rank ^ 1]
        elif self.nvlink == "ring":
            size = len(self.gpus)
            others = [other for other in others if (other - rank) % size in (1, size - 1)]
        elif self.nvlink == "none":
            others = []
        return "".join(
            f'<nvlink target="{self.gpus[other]}" count="2" tclass="0x030200"/>' for other in others
        )

    def c2c(self) -> str:
        return '<c2c bw="44712" count="10"/>' if self.has_c2c else ""

    def tree(self, leaves: list[str], depth: int) -> str:
        """Leaves below a random tree of switches."""
        pick = self.random
        if depth == 0 or not leaves:
            return "".join(leaves)
        bridge = pick.choice(BRIDGES)
        groups: list[list[str]] = [[] for _ in range(pick.choice((1, 2, 2, 3)))]
        for leaf in leaves:
            pick.choice(groups).append(leaf)
        below = []
        for group in filter(None, groups):
            inside = self.tree(group, depth - 1)
            double = bridge is not None and pick.random() < 0.4
            lower = LOWER.get(bridge, bridge) if bridge else None
            below.append(self.switch(self.switch(inside, lower) if double else inside, bridge))
        return "".join(below)

    def xml(self) -> str:
        pick = self.random
        arch, vendor, family, model = pick.choice(self.shape.cpus)
        nodes = pick.choice((1, 1, 2, 2, 4))
        leaves = self.leaves()
        shares: list[list[str]] = [[] for _ in range(nodes)]
        for leaf in leaves:
            pick.choice(shares).append(leaf)
        cpus = []
        for numa, share in enumerate(shares):
            pick.shuffle(share)
            inside = self.tree(share, pick.choice((0, 1, 1, 2, 3)))
            cpus.append(
                f'<cpu numaid="{numa}" affinity="ffffffff" arch="{arch}" vendor={quoteattr(vendor)} '
                f'familyid="{family}" modelid="{model}">{inside}</cpu>'
            )
        return f'<system version="1">{"".join(cpus)}</system>\n'

    def environment(self) -> dict[str, str]:
        pick = self.random
        options = (
            (0.5, "NCCL_NET_GDR_LEVEL", LEVELS), (0.2, "NCCL_NET_GDR_READ", ("0", "1", "-2", "2", "no")),
            (0.3, "NCCL_NET_GDR_C2C", ("0", "1")), (0.2, "NCCL_PXN_DISABLE", ("0", "1")),
            (0.3, "NCCL_PXN_C2C", ("0", "1")), (0.2, "NCCL_P2P_LEVEL", LEVELS),
            (0.1, "NCCL_NVB_DISABLE", ("0", "1")), (0.1, "NCCL_P2P_DISABLE", ("0", "1")),
            (0.1, "NCCL_NETDEVS_POLICY", ("ALL", "MAX:1", "MAX:2", "auto", "x")),
        )  # fmt: skip
        return {name: pick.choice(values) for chance, name, values in options if pick.random() < chance}


def case(seed: int, shape: Shape | None = None) -> Case:
    """One case, determined by the seed and the shape."""
    builder = _Builder(seed, shape or Shape())
    return Case(seed, builder.xml(), builder.environment())
