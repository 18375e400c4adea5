"""PCI ids of NVIDIA's products, and whether NVIDIA supports the product for GPUDirect RDMA.

A product line is only a good guess; CUDA's attributes 116 and 124 decide. Not listed, and so unknown: laptop
and embedded parts, CMP, DRIVE, T400 to T1200 boards, and everything that is not in the sources.

Sources: NVIDIA open-gpu-kernel-modules, README.md, "Compatible GPUs" at 595.45.04, and
src/nvidia/generated/g_nv_name_released.h at 615.71.09 (names as the driver has them); pci.ids of 2026-08-22
for ids that are in neither and for GPUs before Turing. That data centre and Quadro or RTX professional
boards are supported and GeForce is not: NVIDIA, GPUDirect RDMA guide.

A GPU that is newer than all of these is judged by the name that its driver has for it: a product of the
data centre is likely supported. No number alone makes a GPU supported or integrated, so a Rubin (10de:3041
in a Vera Rubin NVL: kubevirt pull request 19070), which drivers before its release call `NVIDIA Graphics
Device`, a Jetson Thor (10de:2b00, pci.ids) and an RTX Spark (10de:2e03) are unknown until CUDA is asked.
"""

from __future__ import annotations

import re

from gdrkit.formats.regex import regex

INTEGRATED = {"2e12": "NVIDIA GB10"}  # README; has no memory of its own: DGX Spark Porting Guide, CUDA

SUPPORTED = {
    # open-gpu-kernel-modules README.md, Turing and later
    "1e30": "Quadro RTX 6000",
    "1e36": "Quadro RTX 6000",
    "1e78": "Quadro RTX 8000",
    "1eb0": "Quadro RTX 5000",
    "1eb1": "Quadro RTX 4000",
    "1eb8": "Tesla T4",
    "20b0": "NVIDIA A100-SXM4-40GB",
    "20b2": "NVIDIA A100-SXM4-80GB",
    "20b3": "NVIDIA A100-SXM-64GB",
    "20b5": "NVIDIA A100 80GB PCIe",
    "20b7": "NVIDIA A30",
    "20bd": "NVIDIA A800-SXM4-40GB",
    "20f1": "NVIDIA A100-PCIE-40GB",
    "20f3": "NVIDIA A800-SXM4-80GB",
    "20f5": "NVIDIA A800 80GB PCIe",
    "20f6": "NVIDIA A800 40GB Active",
    "20fd": "NVIDIA AX800",
    "2230": "NVIDIA RTX A6000",
    "2231": "NVIDIA RTX A5000",
    "2232": "NVIDIA RTX A4500",
    "2233": "NVIDIA RTX A5500",
    "2235": "NVIDIA A40",
    "2236": "NVIDIA A10",
    "2237": "NVIDIA A10G",
    "2238": "NVIDIA A10M",
    "230e": "NVIDIA H20 NVL16",
    "2321": "NVIDIA H100 NVL",
    "2322": "NVIDIA H800 PCIe",
    "2324": "NVIDIA H800",
    "2329": "NVIDIA H20",
    "232c": "NVIDIA H20-3e",
    "2330": "NVIDIA H100 80GB HBM3",
    "2331": "NVIDIA H100 PCIe",
    "2335": "NVIDIA H200",
    "2339": "NVIDIA H100",
    "233a": "NVIDIA H800 NVL",
    "233b": "NVIDIA H200 NVL",
    "2342": "NVIDIA GH200 120GB",
    "2348": "NVIDIA GH200 144G HBM3e",
    "24b0": "NVIDIA RTX A4000",
    "24b1": "NVIDIA RTX A4000H",
    "2531": "NVIDIA RTX A2000",
    "2571": "NVIDIA RTX A2000 12GB",
    "25b0": "NVIDIA RTX A1000",
    "25b2": "NVIDIA RTX A400",
    "25b6": "NVIDIA A16",
    "26b1": "NVIDIA RTX 6000 Ada Generation",
    "26b2": "NVIDIA RTX 5000 Ada Generation",
    "26b3": "NVIDIA RTX 5880 Ada Generation",
    "26b5": "NVIDIA L40",
    "26b9": "NVIDIA L40S",
    "26ba": "NVIDIA L20",
    "27b0": "NVIDIA RTX 4000 SFF Ada Generation",
    "27b1": "NVIDIA RTX 4500 Ada Generation",
    "27b2": "NVIDIA RTX 4000 Ada Generation",
    "27b6": "NVIDIA L2",
    "27b8": "NVIDIA L4",
    "28b0": "NVIDIA RTX 2000 Ada Generation",
    "2901": "NVIDIA B200",
    "2909": "NVIDIA B200",
    "2941": "NVIDIA GB200",
    "2bb1": "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
    "2bb3": "NVIDIA RTX PRO 5000 Blackwell",
    "2bb4": "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
    "2bb5": "NVIDIA RTX PRO 6000 Blackwell Server Edition",
    "2bb9": "NVIDIA RTX 6000D",
    "2c31": "NVIDIA RTX PRO 4500 Blackwell",
    "2c33": "NVIDIA RTX PRO 4000 Blackwell SFF Edition",
    "2c34": "NVIDIA RTX PRO 4000 Blackwell",
    "2c3a": "NVIDIA RTX PRO 4500 Blackwell Server Edition",
    "2d30": "NVIDIA RTX PRO 2000 Blackwell",
    "3182": "NVIDIA B300 SXM6 AC",
    "31c2": "NVIDIA GB300",
    "31c3": "NVIDIA GB300",
    # pci.ids, Turing and later
    "20b1": "NVIDIA A100 PCIe 40GB",
    "20b8": "NVIDIA A100X",
    "20b9": "NVIDIA A30X",
    "2313": "NVIDIA H100 CNX",
    "2328": "NVIDIA H20B",
    "2336": "NVIDIA H100",
    "2337": "NVIDIA H100 SXM5 64GB",
    "2338": "NVIDIA H100 SXM5 96GB",
    "233d": "NVIDIA H100 96GB",
    "26b7": "NVIDIA L20",
    "26b8": "NVIDIA L40G",
    "26f5": "NVIDIA L40 CNX",
    "29bc": "NVIDIA B100",
    "2bb2": "NVIDIA RTX PRO 6000D Blackwell Workstation Edition",
    "2bbc": "NVIDIA RTX PRO 6000D Blackwell Max-Q Workstation Edition",
    "31a1": "NVIDIA GB300 MaxQ",
    # pci.ids, before Turing
    "1023": "Tesla K40m",
    "1024": "Tesla K40c",
    "102d": "Tesla K80",
    "13bd": "Tesla M10",
    "13f2": "Tesla M60",
    "17fd": "Tesla M40",
    "15f0": "Quadro GP100",
    "15f7": "Tesla P100 PCIe 12GB",
    "15f8": "Tesla P100 PCIe 16GB",
    "15f9": "Tesla P100 SXM2 16GB",
    "1b38": "Tesla P40",
    "1bb3": "Tesla P4",
    "1bb4": "Tesla P6",
    "1db1": "Tesla V100 SXM2 16GB",
    "1db2": "Tesla V100 DGXS 16GB",
    "1db3": "Tesla V100 FHHL 16GB",
    "1db4": "Tesla V100 PCIe 16GB",
    "1db5": "Tesla V100 SXM2 32GB",
    "1db6": "Tesla V100 PCIe 32GB",
    "1db7": "Tesla V100 DGXS 32GB",
    "1db8": "Tesla V100 SXM3 32GB",
    "1dba": "Quadro GV100",
    "1df5": "Tesla V100 SXM2 16GB",
    "1df6": "Tesla V100S PCIe 32GB",
}
"""Data centre, Quadro and RTX professional boards by device id. Boards that share an id share a name."""

BOARDS = {
    "1eb8": "12a2",
    "20b0": "1450",
    "20b2": "1463 147f 1622 1623 1625",
    "20b3": "14a7 14a8",
    "20b5": "1533 1642",
    "20b7": "1532 1804 1852",
    "20bd": "17f4",
    "20f1": "145f",
    "20f3": "179b 179c 179d 179e 179f 17a0 17a1 17a2",
    "20f5": "1799 179a",
    "20f6": "180a",
    "20fd": "17f8",
    "2235": "145a",
    "2236": "1482",
    "2237": "152f",
    "2238": "1677",
    "230e": "20df",
    "2321": "1839",
    "2322": "17a4",
    "2324": "17a6 17a8",
    "2329": "198b 198c",
    "232c": "2063",
    "2330": "16c0 16c1",
    "2331": "1626",
    "2335": "18be 18bf",
    "2339": "17fc",
    "233a": "183a",
    "233b": "1996",
    "2342": "16eb 1805 1809",
    "2348": "18d2",
    "25b6": "14a9 157e",
    "26b5": "169d 17da",
    "26b9": "1851 18cf",
    "26ba": "1957 1990",
    "27b6": "1933",
    "27b8": "16ca 16ee",
    "2901": "1999 199b 20da",
    "2941": "2046 20ca 20d5 21c9 21ca",
    "2bb5": "204e 220b",
    "3182": "20e6",
    "31c2": "21f1",
}
"""The subsystem ids, of NVIDIA, of whole boards for the data centre, by device id. A vGPU has the device id
of its board, and as subsystem id that of its type, such as 187e for an H100XM-3-40C.
Source: open-gpu-kernel-modules src/nvidia/generated/g_nv_name_released.h at 595.45.04."""

COHERENT = frozenset({"2342", "2348", "2941", "31a1", "31c2", "31c3"})
"""GH200, GB200, GB300: connected to their CPU by NVLink-C2C."""

_SELF_HOSTED = ((0x2340, 0x237F), (0x2940, 0x297F), (0x31C0, 0x31FF), (0x31A1, 0x31A1))
"""Ids that the driver takes for GPUs that are coherent with their CPU, by chip: GH100, GB100, GB110. Source:
open-gpu-kernel-modules kernel-open/nvidia/detect-self-hosted.h at 595.45.04. It has none of Rubin's."""

_DATA_CENTRE_NAME = regex(
    r"(?!.*\b(?:Active|Laptop|Embedded)\b)(?:NVIDIA )?"
    r"(?:[AHBR]\d{2,3}[A-Z]?|L\d{1,2}[GS]?|(?:GH|GB|GR|VR)\d{3}|RTX PRO \d{4}D? .*Server Edition)(?: .*)?"
)
"""How the driver names boards of the data centre: the lines from Ampere to Blackwell are in
g_nv_name_released.h, Rubin's name is on NVIDIA's product pages. GB10 has two digits; T400 to T1200 are
boards for workstations, and so is the A800 40GB Active."""

FIRST_TURING = 0x1E00
"""pci.ids: lower ids are Volta or older, higher ones Turing (TU102 starts at 1e02) or newer."""

MIG_CHIPS = ("20", "23", "29", "2b", "31")
"""First two digits of GA100, GH100, GB100 and GB102, GB202, GB110 in pci.ids: the chips of NVIDIA's
Multi-Instance GPU User Guide, "Supported GPUs". No other chip has confidential computing."""

_CONSUMER = """
1e02 1e04 1e07 1e81 1e82 1e84 1e87 1e89 1e90 1e91 1e93 1ec2 1ec7 1ed0 1ed1 1ed3 1f02 1f03 1f06 1f07 1f08
1f0a 1f10 1f11 1f12 1f14 1f15 1f42 1f47 1f50 1f51 1f54 1f55 1f82 1f83 1f91 1f95 1f96 1f97 1f98 1f99 1f9c
1f9d 1f9f 1fa0 1fdd 2182 2184 2187 2188 2191 2192 21c4 21d1 2203 2204 2206 2207 2208 220a 2216 2414 2420
2460 2482 2484 2486 2487 2488 2489 249c 249d 24a0 24c7 24c9 24dc 24dd 24e0 2503 2504 2507 2508 2520 2521
2523 2544 2560 2563 2582 2584 25a0 25a2 25a5 25a6 25a7 25a9 25aa 25ab 25ac 25ad 25e0 25e2 25e5 25ec 25ed
2684 2685 2689 2702 2704 2705 2709 2717 2757 2782 2783 2786 2788 27a0 27e0 2803 2805 2808 2820 2822 2860
2882 28a0 28a1 28a3 28e0 28e1 28e3 2b85 2b87 2b8c 2c02 2c05 2c09 2c18 2c19 2c58 2c59 2d04 2d05 2d18 2d19 2d58
2d59 2d83 2d98 2dd8 2f04 2f06 2f18 2f58
"""


def is_consumer(device_id: str) -> bool:
    """Whether every board of this id is called GeForce or TITAN in the driver's table."""
    return device_id in _CONSUMER.split()


def is_consumer_name(product: str) -> bool:
    """Whether a board of this name is a GeForce or TITAN."""
    return "GEFORCE" in product.upper() or "TITAN" in product.upper()


def is_integrated_name(product: str) -> bool:
    """Whether a GPU of this name is a GB10, which shares the memory of its processor."""
    return re.search(r"\bGB10\b", product) is not None


def is_coherent_name(product: str) -> bool:
    """Whether a GPU of this name is one of those in COHERENT, with any amount of memory."""
    return re.search(r"\bG(?:H200|B200|B300)\b", product) is not None


def is_data_centre_name(product: str) -> bool:
    """Whether the driver's name of a GPU is that of a board for the data centre."""
    return _DATA_CENTRE_NAME.fullmatch(product) is not None


def is_self_hosted(device_id: str) -> bool:
    """Whether the driver takes a GPU of this id to be coherent with its CPU."""
    number = int(device_id, 16) if device_id else 0
    return any(first <= number <= last for first, last in _SELF_HOSTED)


def supported_name(product: str) -> str:
    """The id of a supported board of this name, with or without `NVIDIA` and `Tesla`; "" if there is
    none."""
    wanted = _bare(product)
    return next((key for key, name in SUPPORTED.items() if _bare(name) == wanted), "")


def is_supported_model(word: str) -> bool:
    """Whether a supported board has this name, or one that begins so, with or without its maker and line."""
    model = _model(word)
    return bool(re.search(r"\d", model)) and any(
        _model(name).startswith(model) for name in SUPPORTED.values()
    )


def _model(name: str) -> str:
    return f"{re.sub(r'^(?:quadro )?(?:rtx )?', '', _bare(name).replace('_', ' '))} "


def _bare(name: str) -> str:
    return name.removeprefix("NVIDIA ").removeprefix("Tesla ").replace("-", " ").casefold()
