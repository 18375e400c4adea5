"""The bandwidths in NCCL's model of a machine.

Source: NCCL src/graph/topo.h and topo.cc. Differences between releases are in programs/nccl/releases.py.
"""

from __future__ import annotations

from gdrkit.programs.nccl.releases import Release

LOCAL_BANDWIDTH = 5000.0
"""GB/s: LOC_BW. Also of a NIC without a PCI address, and of links between Broadcom switches."""
DEFAULT_SPEED = 10_000
"""Mb/s of a network device whose speed is 0 or less: topo.cc, ncclTopoAddNet()."""

SPEEDS: tuple[tuple[str, int], ...] = (
    ("2.5 GT/s", 15),
    ("5 GT/s", 30),
    ("8 GT/s", 60),
    ("16 GT/s", 120),
    ("32 GT/s", 240),
    ("2.5 GT/s PCIe", 15),
    ("5.0 GT/s PCIe", 30),
    ("8.0 GT/s PCIe", 60),
    ("16.0 GT/s PCIe", 120),
    ("32.0 GT/s PCIe", 240),
    ("64.0 GT/s PCIe", 480),
)
"""Known prefixes of link speeds, in hundreds of Mb/s per lane: topo.cc, kvDictPciGen. The first match
counts; "16.0 GT/s" without " PCIe" matches none."""
UNKNOWN_SPEED = 60
"""Any other speed counts as PCIe 3.0."""
UNKNOWN_WIDTH = 16
"""Lanes if the width is 0: topo.cc, ncclTopoAddPci()."""
GRANITE_RAPIDS = (0xAD, 0xAE, 0xAF)
"""Models of Granite Rapids and Sierra Forest, whose numbers are lower than those of older models: topo.cc,
ncclTopoAddCpu()."""


def nvlink(rules: Release, capability: int) -> float:
    """GB/s of one NVLink of a GPU, by its compute capability: topo.h, ncclTopoNVLinkBw()."""
    if capability >= 100:
        return rules.blackwell_nvlink
    if capability >= 90:
        return rules.hopper_nvlink
    if capability == 86:
        return 12.0
    return 18.0 if 60 <= capability < 70 else 20.0


def between_cpus(rules: Release, arch: str, vendor: str, family: int, model: int) -> float:
    """GB/s between NUMA nodes: topo.cc, ncclTopoGetInterCpuBw() and ncclTopoAddCpu()."""
    if arch.startswith("ppc64"):
        return 32.0
    if arch.startswith("arm64"):
        return 6.0
    if not arch.startswith("x86_64"):
        return LOCAL_BANDWIDTH
    if vendor.startswith("GenuineIntel"):
        return _intel(rules, family, model)
    if vendor.startswith("AuthenticAMD"):
        return _amd(rules, family)
    if vendor.startswith(("CentaurHauls", "  Shanghai  ")):
        return 9.0 if (family, model) == (7, 0x5B) else 6.0
    return LOCAL_BANDWIDTH


def _amd(rules: Release, family: int) -> float:
    """GB/s by the family of CPUID, or by the number that files from before 2.31 have instead."""
    if not rules.amd_links:
        return rules.amd_link
    zen_1, zen_3, zen_5 = rules.amd_links
    return {25: zen_3, 0xAF: zen_3, 26: zen_5, 0xBF: zen_5}.get(family, zen_1)


def _intel(rules: Release, family: int, model: int) -> float:
    if family != 6 or model < 0x55:
        return 6.0  # Broadwell and before
    if model >= 0xCF or (rules.knows_granite_rapids and model in GRANITE_RAPIDS):
        return rules.emerald_rapids_link
    return rules.sapphire_rapids_link if model >= 0x8F else 10.0  # Skylake
