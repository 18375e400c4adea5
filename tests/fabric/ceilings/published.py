"""Published bandwidths, with the hardware that they were measured on.

Only what a public source states is here. A size that it does not state is None, and widens our bounds; a
link or port that it does not mention is left out. `python -m tools.measurements` writes docs/measurements.md
from this table.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from gdrkit.fabric.ceilings import paths
from gdrkit.fabric.ceilings.interval import Interval, least, total
from gdrkit.fabric.ceilings.links import PcieLink, both_ways
from gdrkit.fabric.ceilings.links import payload as link_payload
from gdrkit.fabric.ceilings.ports import NetworkPort
from gdrkit.fabric.ceilings.ports import payload as port_payload

Unit = Literal["Gb/s", "GB/s", "MiB/s", "MB/s"]
GB_PER_S = {"Gb/s": 1 / 8, "GB/s": 1.0, "MiB/s": 1048576 / 1e9, "MB/s": 1 / 1000}

CLOCK = 0.002
"""The error of a clock: perftest divides cycles by a processor frequency that it samples in whole MHz
(src/get_clock.c), and IEEE 802.3 allows each end of a link an error of 100 ppm."""


UNKNOWN = "unknown"


class Published(Struct, frozen=True, kw_only=True):
    """One measurement. `links` are those of the NICs, `ports` the physical ports, `gpus` the GPUs' links."""

    what: str
    hardware: str
    value: float
    unit: Unit
    source: str
    links: tuple[PcieLink, ...] = ()
    ports: tuple[NetworkPort, ...] = ()
    gpus: tuple[PcieLink, ...] = ()
    c2c: bool = False
    copy: Literal["", "read", "write"] = ""  # a copy by the GPU: reads host memory, or writes it
    error: float = CLOCK  # share of the value
    limited_by: str = ""  # what else than a link or port of the row; UNKNOWN if its source does not say
    note: str = ""

    @property
    def gb_per_s(self) -> float:
        return self.value * GB_PER_S[self.unit]

    @property
    def ceiling(self) -> Interval:
        """Our estimate for this hardware."""
        bounds = []
        if self.links:
            bounds.append(total(both_ways(link) for link in self.links))
        if self.ports:
            bounds.append(total(port_payload(port) for port in self.ports))
        if self.c2c:
            bounds.append(paths.C2C)
        if self.gpus:
            bounds.append(
                total(link_payload(g, self.copy) if self.copy else both_ways(g) for g in self.gpus)
            )
        return least(bounds)

    @property
    def is_outside(self) -> bool:
        """Whether it is outside our bounds, whatever the error of the measurement."""
        return self.gb_per_s not in self.ceiling

    @property
    def prediction_error(self) -> float:
        """The distance of the middle of our bounds from the measured value, as a share of it."""
        return abs(self.ceiling.middle_gb_per_s - self.gb_per_s) / self.gb_per_s


def pcie(gt_per_s: float, width: int, max_payload_bytes: int | None = None) -> PcieLink:
    return PcieLink(gt_per_s=gt_per_s, width=width, max_payload_bytes=max_payload_bytes)


def roce(rate: float, mtu: int | None = None, version: int | None = None) -> NetworkPort:
    return NetworkPort(rate_gbit_per_s=rate, link_layer="Ethernet", mtu_bytes=mtu, ip_version=version)


def infiniband(rate: float, generation: str, mtu: int | None = None) -> NetworkPort:
    return NetworkPort(rate_gbit_per_s=rate, link_layer="InfiniBand", mtu_bytes=mtu, generation=generation)


GEN3, GEN4, GEN5, SPARK = pcie(8.0, 16), pcie(16.0, 16), pcie(32.0, 16), pcie(32.0, 4)
HDR = infiniband(200, "HDR")
GUIDE = (
    "https://github.com/NVIDIA/dgx-spark-playbooks, "
    "nvidia/connect-two-sparks/assets/performance_benchmarking_guide.md"
)
DAQIRI = "https://github.com/NVIDIA/daqiri, docs/benchmarks/performance-dgx-spark.md"
NCCL, TESTS, PERFTEST, BANDWIDTH = (
    f"https://github.com/{name}/issues"
    for name in ("NVIDIA/nccl", "NVIDIA/nccl-tests", "linux-rdma/perftest", "NVIDIA/nvbandwidth")
)

SPARKS = (
    Published(
        what="ib_write_bw, one of two functions in use",
        hardware="DGX Spark, one cable, MTU 1024",
        value=92.57, unit="Gb/s", source=GUIDE, links=(SPARK,), ports=(roce(100, 1024, 4),),
        note="half of a 200 Gb/s port at this MTU is 92.59: both functions were in use",
    ),
    Published(
        what="ib_write_bw, one function, one queue pair",
        hardware="DGX Spark, one cable, MTU 1024",
        value=97.28, unit="Gb/s", source=GUIDE, links=(SPARK,), ports=(roce(200, 1024, 4),),
        note="more than half of the port at this MTU, so the other function was idle",
    ),
    Published(
        what="ib_write_bw, the sum that the guide makes of both functions",
        hardware="DGX Spark, one cable, MTU 1024",
        value=189.85, unit="Gb/s", source=GUIDE, links=(SPARK, SPARK), ports=(roce(200, 1024, 4),),
        error=4.71 / 189.85,
        note="a 200 Gb/s port carries 185.17 at this MTU: the two numbers are from different moments; their "
        "difference of 4.71 counts as their error",
    ),
    Published(
        what="ib_write_bw, one function, four queue pairs",
        hardware="DGX Spark, MTU 1024",
        value=111.71, unit="Gb/s", links=(SPARK,), ports=(roce(200, 1024, 4),),
        source="https://github.com/eugr/spark-vllm-docker, docs/NETWORKING.md",
    ),
    Published(
        what="RoCE SEND of 8 MB, two functions on two links of their own",
        hardware="2 x DGX Spark, two links of 100 GbE, Ethernet MTU 9000",
        value=195.55, unit="Gb/s", source=DAQIRI, links=(SPARK, SPARK),
        ports=(roce(100, 4096, 4), roce(100, 4096, 4)),
    ),
    Published(
        what="NCCL 2.28.9 all_gather_perf, bus bandwidth",
        hardware="2 x DGX Spark, one cable, both functions, Ethernet MTU 9000",
        value=23.74, unit="GB/s", links=(SPARK, SPARK), ports=(roce(200, 4096),),
        source="https://github.com/NVIDIA/dgx-spark-playbooks/pull/103",
    ),
    Published(
        what="NCCL all_gather_perf, bus bandwidth in place",
        hardware="2 x DGX Spark, one cable, both functions, Ethernet MTU 1500",
        value=20.95, unit="GB/s", links=(SPARK, SPARK), ports=(roce(200, 1024),),
        limited_by="its setup, which its reporter calls untuned",
        source="https://github.com/NVIDIA/dgx-spark-playbooks/issues/25",
    ),
    Published(
        what="NCCL 2.28.3 all_gather_perf, 8 GB",
        hardware="2 x DGX Spark, two cables, all four functions",
        value=25.67, unit="GB/s", links=(SPARK, SPARK), ports=(roce(200), roce(200)),
        source="https://forums.developer.nvidia.com, topic 352051",
        note="its reporter calls it 52 % of 400 Gb/s. It does not state whether it is algorithm or bus "
        "bandwidth: for two ranks of all_gather one is twice the other",
    ),
    Published(
        what="nccl-tests, bus bandwidth over one function",
        hardware="2 x ASUS GX10 (GB10), one cable",
        value=98.0, unit="Gb/s", links=(SPARK,), ports=(roce(200),), error=0.005,
        source="https://github.com/tonyd2wild/DeepSeek-v4-Flash-Vision-Exp-DSpark-1M-NVFP4-KV-2x-DGX-Spark/pull/35",
    ),
    Published(
        what="nccl-tests, bus bandwidth over both functions",
        hardware="2 x ASUS GX10 (GB10), one cable",
        value=161.0, unit="Gb/s", links=(SPARK, SPARK), ports=(roce(200),), error=0.005, limited_by=UNKNOWN,
        source="https://github.com/tonyd2wild/DeepSeek-v4-Flash-Vision-Exp-DSpark-1M-NVFP4-KV-2x-DGX-Spark/pull/35",
    ),
)  # fmt: skip

PORTS = (
    Published(
        what="ib_write_bw, GPU memory by peermem, 1 MiB",
        hardware="RTX 3090 on 16 GT/s, 25 GbE on 8 GT/s x8, MTU 4096, patched modules and perftest",
        value=2921.73, unit="MiB/s", links=(pcie(8.0, 8),), ports=(roce(25, 4096, 4),), gpus=(GEN4,),
        source="blog post “Enabling GPUDirect RDMA on GeForce GPUs”, 5 April 2026",
    ),
    Published(
        what="ib_write_bw, 64 KiB",
        hardware="DGX-1, ConnectX-5 at 100 GbE, MTU printed as 4096",
        value=92.40, unit="Gb/s", links=(GEN3,), ports=(roce(100, 4096, 4),),
        source="https://github.com/NVIDIA/deepops, docs on RoCE performance in Kubernetes",
        note="exactly the rate at an MTU of 1024; used as printed",
    ),
    Published(
        what="NCCL all_reduce_perf, 2 GiB, bus bandwidth of the ring",
        hardware="2 x DGX-1, two virtual functions of ConnectX-5 at 100 GbE",
        value=22.92, unit="GB/s", links=(GEN3, GEN3), ports=(roce(100), roce(100)),
        source="https://github.com/NVIDIA/deepops, docs on RoCE performance in Kubernetes",
    ),
    Published(
        what="ib_write_bw, host memory, 128 KiB",
        hardware="H100 SXM, ConnectX-7 at 400 GbE on 32 GT/s x16, Ethernet MTU 9000",
        value=392.1, unit="Gb/s", links=(GEN5,), ports=(roce(400, 4096, 4),), source=f"{NCCL}/2409",
    ),
    Published(
        what="ib_write_bw, host memory, 128 KiB, 8 queue pairs",
        hardware="H100 SXM, ConnectX-7 at 400 GbE on 32 GT/s x16, Ethernet MTU 9000",
        value=391.8, unit="Gb/s", links=(GEN5,), ports=(roce(400, 4096, 4),), source=f"{NCCL}/2409",
    ),
    Published(
        what="ib_write_bw, 64 KiB, one queue pair",
        hardware="ConnectX-7 at 400 Gb/s",
        value=348.54, unit="Gb/s", ports=(roce(400),),
        limited_by=f"{UNKNOWN}; its source ran one queue pair, to show that PCIe does not limit TCP",
        source="https://github.com/perftool-incubator/crucible/issues/661",
    ),
    Published(
        what="ib_send_bw between GPUs, 16 KiB, the best of the run",
        hardware="AMD GPUs, ConnectX-5 EDR",
        value=96.74, unit="Gb/s", ports=(infiniband(100, "EDR"),),
        source="https://github.com/linux-rdma/perftest/pull/98",
    ),
    Published(
        what="ib_send_bw between GPUs, 8 MiB",
        hardware="AMD GPUs, ConnectX-5 EDR",
        value=95.41, unit="Gb/s", ports=(infiniband(100, "EDR"),),
        source="https://github.com/linux-rdma/perftest/pull/98",
    ),
    Published(
        what="ib_write_bw",
        hardware="InfiniBand at 100 Gb/s, packets of 4138 bytes",
        value=11728.47, unit="MiB/s", ports=(infiniband(100, "EDR", 4096),), source=f"{PERFTEST}/225",
    ),
    Published(
        what="RDMA write into host memory",
        hardware="IBM AC922, ConnectX-5 EN",
        value=97.0, unit="Gb/s", ports=(roce(100),), error=0.005,
        source="https://github.com/Mellanox/nv_peer_memory/issues/66",
    ),
    Published(
        what="RDMA write into GPU memory",
        hardware="IBM AC922, V100, ConnectX-5 EN: the way leads through the processor",
        value=39.0, unit="Gb/s", ports=(roce(100),), error=0.01,
        limited_by="the way through the processor",
        source="https://github.com/Mellanox/nv_peer_memory/issues/66",
    ),
    Published(
        what="ib_write_bw",
        hardware="BlueField-2 at 25 GbE",
        value=23.0, unit="Gb/s", ports=(roce(25),), error=0.02, source=f"{PERFTEST}/219",
    ),
    Published(
        what="ib_write_bw between pairs of devices",
        hardware="Azure NDv4, A100, HDR",
        value=194.0, unit="Gb/s", ports=(HDR,), error=0.003,
        source="https://github.com/Azure/azurehpc-health-checks/issues/46",
    ),
    Published(
        what="NCCL all_reduce_perf, peak bus bandwidth, 24 ranks of 3 nodes",
        hardware="8 x A100 SXM, 4 x HDR per node",
        value=96.69, unit="GB/s", ports=(HDR,) * 4, source=f"{TESTS}/119",
    ),
    Published(
        what="NCCL all_reduce, peak bus bandwidth",
        hardware="DGX A100, 8 x HDR per node",
        value=192.0, unit="GB/s", ports=(HDR,) * 8, error=0.003, source=f"{NCCL}/778",
    ),
    Published(
        what="NCCL all_reduce_perf over one NIC",
        hardware="A100, one HDR port",
        value=24.0, unit="GB/s", ports=(HDR,), error=0.02, source=f"{NCCL}/1048",
    ),
    Published(
        what="NCCL all_reduce_perf, ring, 1 GiB in place, 2 nodes",
        hardware="4 x H100 SXM, 4 NICs of 200 Gb/s per node",
        value=97.54, unit="GB/s", ports=(infiniband(200, "NDR"),) * 4, source=f"{TESTS}/252",
        limited_by=UNKNOWN, note="the answer there assumes that its NICs carry 200 Gb/s",
    ),
    Published(
        what="NCCL all_reduce_perf, bus bandwidth, 32 ranks of 4 nodes",
        hardware="8 x V100, one EDR port per node",
        value=12.2, unit="GB/s", ports=(infiniband(100, "EDR"),), error=0.005, source=f"{TESTS}/29",
    ),
    Published(
        what="NCCL 2.24.3 all_gather, GPUDirect RDMA, 2 nodes",
        hardware="GH200, 4 ports of 200 Gb/s per node",
        value=94.48, unit="GB/s", ports=(roce(200),) * 4, c2c=True, source=f"{NCCL}/1579",
    ),
    Published(
        what="NCCL 2.24.3 all_gather, staged, 2 nodes",
        hardware="GH200, 4 ports of 200 Gb/s per node",
        value=82.23, unit="GB/s", ports=(roce(200),) * 4, c2c=True, source=f"{NCCL}/1579",
        limited_by="copies through host memory: NCCL used no GPUDirect RDMA there by default",
    ),
    Published(
        what="NCCL sendrecv_perf, 512 MB, 8 nodes",
        hardware="4 x GH200, Slingshot at 200 Gb/s",
        value=24.24, unit="GB/s", ports=(NetworkPort(rate_gbit_per_s=200, link_layer="Slingshot"),),
        source=f"{NCCL}/1272", limited_by=UNKNOWN, note="headers of this network are not in our model",
    ),
    Published(
        what="NCCL all_reduce_perf with one GPU per node, 4 NICs, bus bandwidth",
        hardware="H100 SXM on 32 GT/s x16, 4 NICs of 400 Gb/s",
        value=50.0, unit="GB/s", gpus=(GEN5,), ports=(roce(400),) * 4, error=0.02,
        source=f"{TESTS}/232", note="the GPU's own link is the limit for any number of NICs",
    ),
    Published(
        what="osu_bw from host to device memory, 1 MiB",
        hardware="FDR",
        value=6122.04, unit="MB/s", ports=(infiniband(56, "FDR"),),
        limited_by="MPI and gdrcopy, which the number includes",
        source="https://github.com/openucx/ucx/issues/3984",
    ),
)  # fmt: skip

COPIES = (
    Published(
        what="cudaMemcpy, pinned host to device, 256 MiB",
        hardware="H200 SXM in a virtual machine, 32 GT/s x16",
        value=55.4, unit="GB/s", gpus=(GEN5,), copy="read", source="measured for gdrkit",
    ),
    Published(
        what="cudaMemcpy, device to pinned host, 256 MiB",
        hardware="H200 SXM in a virtual machine, 32 GT/s x16",
        value=55.2, unit="GB/s", gpus=(GEN5,), copy="write", source="measured for gdrkit",
    ),
    Published(
        what="NCCL 2.28.9 send and receive through shared memory",
        hardware="2 x H200 SXM in a virtual machine, 32 GT/s x16",
        value=36.5, unit="GB/s", gpus=(GEN5,), source="measured for gdrkit",
        limited_by="copies through host memory: NCCL's staged path",
    ),
    Published(
        what="bandwidthTest, pinned host to device",
        hardware="P100 PCIe, 8 GT/s x16, memory of its own NUMA node",
        value=12150.7, unit="MiB/s", gpus=(GEN3,), copy="read",
        source="https://github.com/mpicbg-scicomp/gearshifft/pull/82",
        note="bandwidthTest of CUDA 8 prints MB and means MiB",
    ),
    Published(
        what="bandwidthTest, device to pinned host",
        hardware="P100 PCIe, 8 GT/s x16, memory of its own NUMA node",
        value=12890.6, unit="MiB/s", gpus=(GEN3,), copy="write",
        source="https://github.com/mpicbg-scicomp/gearshifft/pull/82",
        note="bandwidthTest of CUDA 8 prints MB and means MiB",
    ),
    Published(
        what="bandwidthTest, pinned host to device, the best",
        hardware="RTX 2080 Ti, 8 GT/s x16",
        value=13.1, unit="GB/s", gpus=(GEN3,), copy="read", error=0.005,
        source="https://github.com/usadellab/Helixer/issues/22",
    ),
    Published(
        what="nvbandwidth host_to_device_memcpy_ce, the best of 8 GPUs",
        hardware="RTX 4090, 16 GT/s x16",
        value=26.38, unit="GB/s", gpus=(GEN4,), copy="read", source=f"{BANDWIDTH}/15",
    ),
    Published(
        what="nvbandwidth device_to_host_memcpy_ce, the best of 8 GPUs",
        hardware="RTX 4090, 16 GT/s x16",
        value=27.11, unit="GB/s", gpus=(GEN4,), copy="write", source=f"{BANDWIDTH}/15",
    ),
    Published(
        what="nvbandwidth host_to_device_memcpy_sm, 512 MiB",
        hardware="A100 SXM, 16 GT/s x16",
        value=25.13, unit="GB/s", gpus=(GEN4,), copy="read", source=f"{BANDWIDTH}/42",
    ),
    Published(
        what="nvbandwidth device_to_device_memcpy_read_ce, near GPUs",
        hardware="RTX A6000, 16 GT/s x16",
        value=26.35, unit="GB/s", gpus=(GEN4,), copy="read", source=f"{BANDWIDTH}/50",
    ),
    Published(
        what="nvbandwidth device_to_host_memcpy_sm",
        hardware="H100, 32 GT/s x16",
        value=52.77, unit="GB/s", gpus=(GEN5,), copy="write", source=f"{BANDWIDTH}/24",
    ),
    Published(
        what="nvbandwidth host_to_device_memcpy_sm",
        hardware="H100, 32 GT/s x16",
        value=35.3, unit="GB/s", gpus=(GEN5,), copy="read", limited_by=UNKNOWN, source=f"{BANDWIDTH}/24",
        note="its reporter asks why a kernel reads so much slower than it writes",
    ),
    Published(
        what="nvbandwidth host_to_device_memcpy_ce",
        hardware="GH200, NVLink-C2C",
        value=346.0, unit="GB/s", c2c=True, error=0.003, source=f"{BANDWIDTH}/23",
    ),
    Published(
        what="bandwidthTest, local",
        hardware="K40, 8 GT/s x16, Ivy Bridge",
        value=10.06, unit="GB/s", gpus=(GEN3,), copy="read", limited_by=UNKNOWN,
        source="http://rcuda.net/index.php/48-rcuda-connectib-perf.html",
    ),
    Published(
        what="rCUDA, host memory of one node to GPU of another",
        hardware="K40, Connect-IB, two FDR ports",
        value=9.91, unit="GB/s", gpus=(GEN3,), ports=(infiniband(56, "FDR"),) * 2,
        limited_by="the copy into that GPU by its own host, of which it reaches 98.5 %",
        source="http://rcuda.net/index.php/48-rcuda-connectib-perf.html",
    ),
)  # fmt: skip

PUBLISHED = (*SPARKS, *PORTS, *COPIES)
