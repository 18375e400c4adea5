"""What lies between a GPU's memory and the PCIe bus, and what copies through host memory reach."""

from __future__ import annotations

from gdrkit.fabric.ceilings.interval import between

C2C = between(300.0, 450.0)
"""NVLink-C2C of a GH200, one direction. 900 GB/s in both: NVIDIA GH200 Grace Hopper Superchip datasheet.
Copies from host to GPU reach 346, those back some 15 % less: github.com/NVIDIA/nvbandwidth/issues/23."""

C2C_OTHER = between(150.0, 450.0)
"""The same where two GPUs share a Grace, as in GB200 and GB300: what one of them gets is not public."""

STAGED_SHARE = 36.5 / 55.4
"""What NCCL 2.28 makes of a copy through host memory, beside the copy alone: 36.5 GB/s of 55.4, measured on
two H200s of one machine (docs/measurements.md). A ring of large chunks reached 0.97 on the same machine."""

SOCKET_GB_PER_S = 3.5
"""What one NCCL socket transport is sure to reach: 3.5 GB/s over loopback, same machine. With eight streams
21.8 GB/s were seen over a DGX Spark's port; NVIDIA daqiri docs/benchmarks/performance-dgx-spark.md."""

THROUGH_CPU_SHARE = 0.4
"""The least that peer traffic was seen to keep through a processor's root complex, of what passes to host
memory: 39 of 97 Gbit/s on a POWER9, github.com/Mellanox/nv_peer_memory/issues/66; 11.0 of 23.0 GB/s across
two sockets, github.com/linux-rdma/perftest/issues/241. Older processors are known to be worse: NVIDIA
GPUDirect RDMA, "Supported Systems"."""
