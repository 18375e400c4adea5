"""The rate of NVLink-C2C, and the rates of copies through host memory, sockets and processors."""

from __future__ import annotations

from gdrkit.fabric.ceilings.interval import between

C2C = between(300.0, 450.0)
"""NVLink-C2C of a GH200, one direction. 900 GB/s in both: NVIDIA GH200 Grace Hopper Superchip datasheet.
Copies from host to GPU reach 346, those back about 15 % less: github.com/NVIDIA/nvbandwidth/issues/23."""

C2C_OTHER = between(150.0, 450.0)
"""The same where two GPUs share a Grace, as in GB200 and GB300: the share of one GPU is not public."""

STAGED_SHARE = 36.5 / 55.4
"""NCCL 2.28's rate through host memory relative to a plain copy: 36.5 GB/s of 55.4, measured on two H200s of
one machine (docs/measurements.md). A ring of large chunks reached 0.97 on the same machine."""

SOCKET_GB_PER_S = 3.5
"""What one NCCL socket transport reaches at least: 3.5 GB/s over loopback, same machine. Eight streams
reached 21.8 GB/s over a DGX Spark's port; NVIDIA daqiri docs/benchmarks/performance-dgx-spark.md."""

THROUGH_CPU_SHARE = 0.4
"""The lowest rate of peer traffic seen through a processor's root complex, as a share of the rate to host
memory: 39 of 97 Gbit/s on a POWER9, github.com/Mellanox/nv_peer_memory/issues/66; 11.0 of 23.0 GB/s across
two sockets, github.com/linux-rdma/perftest/issues/241. Older processors are known to be worse: NVIDIA
GPUDirect RDMA, "Supported Systems"."""
