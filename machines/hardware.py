"""Products: GPUs, NICs and the bridges above them.

Ids: pci.ids and the table of GPUs in NVIDIA open-gpu-kernel-modules' README. `since` and `until` bound the
driver branches: release notes of the data centre drivers; Volta and Pascal end with 580."""

from __future__ import annotations

from typing import NamedTuple


class Gpu(NamedTuple):
    """A GPU product."""

    device: int
    name: str
    architecture: str  # volta, turing, ampere, ada, hopper, blackwell
    kind: str  # datacentre, professional, consumer, integrated, vgpu
    link: str
    bar1_mib: int
    since: int  # the first driver branch
    open_only: bool = False
    coherent: bool = False
    is_vga: bool = False
    until: int = 999


class Nic(NamedTuple):
    """A NIC product."""

    vendor: int
    device: int
    name: str
    link: str
    ethernet: bool
    gbit_per_s: int
    hca: str = ""
    firmware: str = ""
    driver: str = "mlx5_core"
    is_vf: bool = False


class Bridge(NamedTuple):
    """One kind of bridge port."""

    vendor: int
    device: int
    kind: str  # root, up, down
    link: str


GPUS = {
    "V100": Gpu(0x1DB5, "Tesla V100-SXM2-32GB", "volta", "datacentre", "8.0x16", 32768, 470, until=580),
    "T4": Gpu(0x1EB8, "Tesla T4", "turing", "datacentre", "8.0x16", 16384, 470),
    "A100": Gpu(0x20B2, "NVIDIA A100-SXM4-80GB", "ampere", "datacentre", "16.0x16", 131072, 470),
    "A100 PCIe": Gpu(0x20B5, "NVIDIA A100 80GB PCIe", "ampere", "datacentre", "16.0x16", 131072, 470),
    "L40S": Gpu(0x26B9, "NVIDIA L40S", "ada", "datacentre", "16.0x16", 65536, 535),
    "H100": Gpu(0x2330, "NVIDIA H100 80GB HBM3", "hopper", "datacentre", "32.0x16", 131072, 535),
    "H100 PCIe": Gpu(0x2331, "NVIDIA H100 PCIe", "hopper", "datacentre", "32.0x16", 131072, 535),
    "H200": Gpu(0x2335, "NVIDIA H200", "hopper", "datacentre", "32.0x16", 262144, 550),
    "B200": Gpu(0x2901, "NVIDIA B200", "blackwell", "datacentre", "32.0x16", 262144, 570, open_only=True),
    "RTX A6000": Gpu(
        0x2230, "NVIDIA RTX A6000", "ampere", "professional", "16.0x16", 65536, 470, is_vga=True
    ),
    "RTX PRO 6000": Gpu(
        0x2BB5,
        "NVIDIA RTX PRO 6000 Blackwell Server Edition",
        "blackwell",
        "datacentre",
        "32.0x16",
        131072,
        575,
        open_only=True,
    ),
    "GH200": Gpu(
        0x2342,
        "NVIDIA GH200 480GB",
        "hopper",
        "datacentre",
        "32.0x16",
        131072,
        550,
        open_only=True,
        coherent=True,
    ),
    "GB200": Gpu(
        0x2941,
        "NVIDIA GB200",
        "blackwell",
        "datacentre",
        "32.0x16",
        262144,
        570,
        open_only=True,
        coherent=True,
    ),
    "GB10": Gpu(
        0x2E12, "NVIDIA GB10", "blackwell", "integrated", "2.5x16", 0, 580, open_only=True, is_vga=True
    ),
    "RTX 3090": Gpu(
        0x2204, "NVIDIA GeForce RTX 3090", "ampere", "consumer", "16.0x16", 256, 470, is_vga=True
    ),
    "RTX 4090": Gpu(0x2684, "NVIDIA GeForce RTX 4090", "ada", "consumer", "16.0x16", 256, 535, is_vga=True),
    "RTX 5090": Gpu(
        0x2B85,
        "NVIDIA GeForce RTX 5090",
        "blackwell",
        "consumer",
        "32.0x16",
        32768,
        570,
        open_only=True,
        is_vga=True,
    ),
    "GT 1030": Gpu(
        0x1D01, "NVIDIA GeForce GT 1030", "pascal", "consumer", "8.0x4", 256, 470, is_vga=True, until=580
    ),
    "A40 vGPU": Gpu(0x2235, "NVIDIA A40-48Q", "ampere", "vgpu", "16.0x16", 256, 535),
}

_MLX, _AMAZON, _INTEL = 0x15B3, 0x1D0F, 0x8086
NICS = {
    "CX4 Lx": Nic(_MLX, 0x1015, "MT27710 Family [ConnectX-4 Lx]", "8.0x8", True, 25, "MT4117", "14.32.1010"),
    "CX5": Nic(
        _MLX, 0x1019, "MT28800 Family [ConnectX-5 Ex]", "16.0x16", False, 100, "MT4121", "16.35.4030"
    ),
    "CX6": Nic(_MLX, 0x101B, "MT28908 Family [ConnectX-6]", "16.0x16", False, 200, "MT4123", "20.39.3004"),
    "CX6 Dx": Nic(
        _MLX, 0x101D, "MT2892 Family [ConnectX-6 Dx]", "16.0x16", True, 100, "MT4125", "22.39.2048"
    ),
    "CX7 IB": Nic(_MLX, 0x1021, "MT2910 Family [ConnectX-7]", "32.0x16", False, 400, "MT4129", "28.43.2026"),
    "CX7": Nic(_MLX, 0x1021, "MT2910 Family [ConnectX-7]", "32.0x16", True, 400, "MT4129", "28.43.2026"),
    "CX8": Nic(_MLX, 0x1023, "CX8 Family [ConnectX-8]", "64.0x16", False, 400, "MT4131", "40.45.1020"),
    "BF3 NIC": Nic(
        _MLX,
        0xA2DC,
        "MT43244 BlueField-3 integrated ConnectX-7 network controller",
        "32.0x16",
        True,
        400,
        "MT41692",
        "32.43.2026",
    ),
    "BF3 DPU": Nic(
        _MLX,
        0xA2DC,
        "MT43244 BlueField-3 integrated ConnectX-7 network controller",
        "32.0x16",
        True,
        200,
        "MT41692",
        "32.43.2026",
    ),
    "CX6 VF": Nic(
        _MLX,
        0x101E,
        "ConnectX Family mlx5Gen Virtual Function",
        "16.0x16",
        True,
        100,
        "MT4126",
        "22.39.2048",
        is_vf=True,
    ),
    "CX7 Spark": Nic(
        _MLX, 0x1021, "MT2910 Family [ConnectX-7]", "32.0x4", True, 200, "MT4129", "28.45.4028"
    ),
    "EFA": Nic(_AMAZON, 0xEFA1, "Elastic Fabric Adapter (EFA)", "16.0x8", True, 100, driver="efa"),
}

BRIDGES = {
    "intel": Bridge(_INTEL, 0x352A, "root", "32.0x16"),
    "amd": Bridge(0x1022, 0x14AB, "root", "32.0x16"),
    "grace": Bridge(0x10DE, 0x22B1, "root", "64.0x16"),
    "altra": Bridge(0x1DEF, 0xE100, "root", "32.0x16"),
    "gb10": Bridge(0x10DE, 0x22CE, "root", "32.0x4"),
    "gb10-gpu": Bridge(0x10DE, 0x22D1, "root", "2.5x16"),
    "qemu": Bridge(0x1B36, 0x000C, "root", "16.0x32"),
    "switch-up": Bridge(0x1000, 0xC030, "up", "64.0x16"),
    "switch-down": Bridge(0x1000, 0xC030, "down", "64.0x16"),
    "qemu-up": Bridge(0x104C, 0x8232, "up", "2.5x1"),
    "qemu-down": Bridge(0x104C, 0x8233, "down", "2.5x1"),
}
CPUS = {  # lines of /proc/cpuinfo
    "intel": ("GenuineIntel", 6, 143, "Intel(R) Xeon(R) Platinum 8480+"),
    "amd": ("AuthenticAMD", 25, 17, "AMD EPYC 9554 64-Core Processor"),
    "qemu": ("GenuineIntel", 6, 207, "Intel(R) Xeon(R) Processor"),
}
ARM_CPUS = {"grace": ("0x41", "0xd4f"), "altra": ("0x41", "0xd0c"), "gb10": ("0x41", "0xd85")}
PRODUCTS = {
    "intel": ("Supermicro", "SYS-821GE-TNHR"),
    "amd": ("Dell Inc.", "PowerEdge XE9680"),
    "grace": ("NVIDIA", "GB200 NVL"),
    "altra": ("Ampere", "Mt.Jade"),
    "gb10": ("NVIDIA", "NVIDIA_DGX_Spark"),
    "qemu": ("QEMU", "Standard PC (Q35 + ICH9, 2009)"),
}
