"""Memory and computing rates of GPUs, by product. Dense rates: datasheets print those with sparsity."""

from __future__ import annotations

from msgspec import Struct


class GpuRates(Struct, frozen=True):
    """One product. GB/s and TFLOP/s, dense, FP32 accumulation."""

    name: str
    memory_gb_per_s: float
    bf16_tflop_per_s: float
    fp8_tflop_per_s: float | None  # None: has no FP8 arithmetic
    source: str
    words: tuple[str, ...] = ()  # a product whose name has all of them is this row
    joins_nodes: bool = False  # whether NVLink may connect it with GPUs of other nodes (MNNVL)


VARIANTS = frozenset(("TI", "D", "SUPER", "LAPTOP", "MAX"))
"""Words that mark another product than the known one: an RTX 3090 Ti reads faster, a 4090 D and a
Max-Q compute less."""

_HALF = "half of the rates with sparsity"
_RTX_PRO = "NVIDIA RTX Blackwell PRO GPU architecture whitepaper"
_H100 = "NVIDIA H100 Tensor Core GPU datasheet, half of the rates with sparsity"
GPUS: tuple[GpuRates, ...] = (
    GpuRates("GH200-144GB", 4900, 989.5, 1979, "NVIDIA GH200 datasheet, HBM3e", ("GH200", "144")),
    GpuRates("GH200", 4000, 989.5, 1979, "NVIDIA GH200 datasheet, HBM3", ("GH200",)),
    GpuRates("H200-NVL", 4800, 835.5, 1671, "NVIDIA H200 datasheet, NVL", ("H200", "NVL")),
    GpuRates("H200", 4800, 989.5, 1979, "NVIDIA H200 datasheet, SXM", ("H200",)),
    GpuRates("H100-NVL", 3900, 835.5, 1671, _H100, ("H100", "NVL")),
    GpuRates("H100-PCIe", 2000, 756, 1513, _H100 + " (2022 edition, PCIe)", ("H100", "PCIe")),
    GpuRates("H100-SXM", 3350, 989.5, 1979, _H100, ("H100",)),
    GpuRates("H800-PCIe", 2000, 756, 1513, "as H100-PCIe; NVLink of H800 is cut", ("H800", "PCIe")),
    GpuRates("H800", 3350, 989.5, 1979, "as H100-SXM; NVLink is 400 GB/s in both directions", ("H800",)),
    GpuRates("H20-3e", 4800, 148, 296, "NVIDIA H20 datasheet, HBM3e", ("H20", "3e")),
    GpuRates("H20", 4000, 148, 296, "NVIDIA H20 datasheet, dense", ("H20",)),
    GpuRates("A100-40GB", 1555, 312, None, "NVIDIA A100 datasheet", ("A100", "40GB")),
    GpuRates("A100-80GB-PCIe", 1935, 312, None, "NVIDIA A100 datasheet", ("A100", "80GB", "PCIe")),
    GpuRates("A100-80GB", 2039, 312, None, "NVIDIA A100 datasheet, SXM", ("A100",)),
    GpuRates("A30", 933, 165, None, "NVIDIA A30 datasheet", ("A30",)),
    GpuRates("A40", 696, 149.7, None, "NVIDIA A40 datasheet", ("A40",)),
    GpuRates("A10", 600, 125, None, "NVIDIA A10 datasheet", ("A10",)),
    GpuRates("B200", 7700, 2250, 4500, "NVIDIA HGX B200 datasheet", ("B200",)),
    GpuRates(
        "B300", 7750, 2250, 4500, f"NVIDIA Blackwell Ultra datasheet, 62 TB/s of 8 GPUs, {_HALF}",
        ("B300",),
    ),
    GpuRates(
        "GB200", 8000, 2500, 5000, f"NVIDIA GB200 NVL72 datasheet, per GPU, {_HALF}",
        ("GB200",), joins_nodes=True,
    ),
    GpuRates(
        "GB300", 8000, 2500, 5000, f"NVIDIA GB300 NVL72 datasheet, per GPU, {_HALF}",
        ("GB300",), joins_nodes=True,
    ),
    GpuRates(
        "GB10", 273, 125, 250,
        "NVIDIA DGX Spark hardware overview: 273 GB/s, 1 PFLOP/s of FP4 with sparsity; dense is half, "
        "FP8 half again, BF16 half again, which is inferred", ("GB10",),
    ),
    GpuRates("L4", 300, 121, 242.5, f"NVIDIA L4 datasheet, {_HALF}", ("L4",)),
    GpuRates("RTX-PRO-6000-Server", 1597, 500, 1000, f"NVIDIA RTX PRO 6000 Blackwell Server Edition "
             f"datasheet, {_HALF}", ("RTX", "PRO", "6000", "Server")),
    GpuRates("RTX-PRO-6000", 1792, 503.8, 1007.6, _RTX_PRO, ("RTX", "PRO", "6000")),
    GpuRates(
        "RTX-5090", 1792, 209.5, 419, "NVIDIA RTX Blackwell GPU whitepaper: FP32 accumulation",
        ("5090",),
    ),
    GpuRates("L40S", 864, 362, 733, "NVIDIA L40S datasheet", ("L40S",)),
    GpuRates(
        "RTX-4090", 1008, 165.2, 330.3, "NVIDIA Ada GPU architecture whitepaper, appendix A", ("4090",)
    ),
    GpuRates("RTX-3090", 936, 71, None, "NVIDIA GA102 whitepaper: FP32 accumulation", ("3090",)),
    GpuRates("V100-PCIe", 900, 112, None, "NVIDIA V100 datasheet, FP16", ("V100", "PCIe")),
    GpuRates("V100", 900, 125, None, "NVIDIA V100 datasheet, SXM2, FP16", ("V100",)),
)  # fmt: skip
"""More words first: `NVIDIA H100 PCIe` is one of the H100s.

Compared with NVIDIA's own tables, which name the datasheets:
A100, H100, H200, H20, A10, A30, A40, L4, L40S: github.com/NVIDIA/TensorRT-LLM at 16d2467
tensorrt_llm/auto_parallel/cluster_info.py, with a100-datasheet-us-nvidia-1758950, a40-datasheet,
a30-datasheet, nvidia-a10-datasheet, l40s-datasheet-28413, l4-datasheet-2595652.
B200, GB200: github.com/ai-dynamo/aiconfigurator at 095f58a aic-core/src/aiconfigurator_core/systems, with
nvdam.widen.net/s/wwnsxrhm2w/blackwell-datasheet-3384703; B300, GB300: the same, with
resources.nvidia.com/en-us-blackwell-architecture/blackwell-ultra-datasheet.
H800, H20-3e, GB10, RTX-5090: src/aiconfigurator/systems of the same repository at 77f0282, 6fc2ea0 (which
has 4917 GB/s for H20-3e), f0f1266 (which has 213 TFLOP/s for GB10, measured with mmapeak) and 603ba74.
RTX-PRO-6000-Server: NVIDIA's datasheet of December 2025 has 1597 GB/s, as public notes quote it; that
repository has the 1792 of the Workstation Edition.
GH200, V100, RTX-3090, RTX-4090, RTX-PRO-6000: no second table was found."""


def rates_of(product: str) -> GpuRates | None:
    """The row of a product's name (`NVIDIA H100 80GB HBM3`) or of a row's own name; None if there is
    none."""
    wanted = product.upper()
    for gpu in GPUS:
        if wanted == gpu.name.upper():
            return gpu
    parts = set("".join(c if c.isalnum() else " " for c in wanted).split())
    if not VARIANTS.isdisjoint(parts):
        return None
    return next((gpu for gpu in GPUS if all(_is_in(word.upper(), parts) for word in gpu.words)), None)


def _is_in(word: str, parts: set[str]) -> bool:
    """Whether a product's name has a word of a row: `H100` is not `GH100`, but `144` matches `144G`."""
    return word in parts or (
        word.isdigit() and any(p.startswith(word) and not p[len(word) :].isdigit() for p in parts)
    )
