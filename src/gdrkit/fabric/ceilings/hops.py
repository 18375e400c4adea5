"""The time of a small message over one hop of NCCL between two nodes, on each path.

Source: NCCL 2.30.7 src/graph/tuning.cc, ncclTunerConstantsDefaults, for the lower bounds; a measurement for
the upper ones. NCCL's constants do not cover staging: it is assumed to add NCCL's latency of a PCIe hop at
each end, which is our inference."""

from __future__ import annotations

from gdrkit.fabric.ceilings.chain import LatencyRange, PathName

HOP_LL_US = (5.0, 14.0)
"""One hop between nodes with the protocol LL. Low: hwLatencies NET, Tree; with one rank per node NCCL uses
it for rings, too. High: derived from two DGX Sparks, 30 to 35 us for an all-reduce of 8 to 16 KiB and 65 to
68 for 64 KiB, with NCCL 2.31.2 over host memory: github.com/NVIDIA/dgx-spark-playbooks/pull/103."""

EXTRA_HOP_US: dict[PathName, tuple[float, float]] = {
    "direct": (0.0, 0.0),
    "host-mapped": (0.0, 2.0),  # a GPU with its own memory reads over PCIe: LL's 1.0 at each end
    "staged": (2.0, 11.4),  # hwLatencies PCI, Ring: LL 1.0 to Simple 5.7, at each end
    "socket": (8.0, 50.0),  # assumed: a TCP round trip of 20 to 110 us between hosts; not measured
}
"""Compared with a published measurement. osu_bw of one byte from GPU memory between two DGX A100
(github.com/openucx/ucx/issues/6206) sends a message each 1.25 us directly, each 2.7 if the CPU copies with
GDRCopy, and each 12.5 with cudaMemcpy. So one staged end adds 1.5 to 11.3 us; NCCL's kernels, which stage
for it, are between."""


def hop_latency(path: PathName, *, in_place: bool = False) -> LatencyRange:
    """The time of a small message over one hop, with LL, from GPU to GPU. `in_place`: the GPU uses host
    memory as its own, so host-mapped buffers add nothing."""
    low, high = EXTRA_HOP_US["direct" if in_place and path == "host-mapped" else path]
    return LatencyRange(HOP_LL_US[0] + low, HOP_LL_US[1] + high)
