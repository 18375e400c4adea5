"""Short logs of many versions and launchers, in the forms of NCCL's own lines, with the expected results.

Each expectation was worked out by hand from the lines, before the program saw them: state, legs by what
carries them, codes of the findings, and codes that stay open. The forms are those of the source at the tag
in the name; where a public thread shows the same form, it is named. Excerpts in which all is direct are
`unknown`: their channels name peers that print nothing, and that may go through host memory.
"""

from __future__ import annotations

from msgspec import Struct


class Sample(Struct, frozen=True, kw_only=True):
    """A log, and what it proves."""

    name: str
    text: str
    state: str
    legs: tuple[int, int, int]  # direct, bounced, TCP: one rank's channel in one direction each
    ranks: int
    version: str = ""
    codes: tuple[str, ...] = ()  # of findings
    causes: tuple[str, ...] = ()  # possible ones, of legs and of errors
    devices: tuple[str, ...] = ()


def info(process: str, device: int, *lines: str) -> str:
    """Lines of one process, with NCCL's prefix."""
    host, pid = process.split(":")
    return "".join(f"{host}:{pid}:{int(pid) + 7} [{device}] NCCL INFO {line}\n" for line in lines)


def warn(process: str, device: int, place: str, line: str, stamp: str = "") -> str:
    """A warning, after its empty line."""
    host, pid = process.split(":")
    return f"\n{stamp}{host}:{pid}:{int(pid) + 9} [{device}] {place} NCCL WARN {line}\n"


SAMPLES = (
    Sample(
        name="2.4.7: GPU and index, rings without bus ids, no module",  # Mellanox/nv_peer_memory issue 56
        text=info(
            "master_node:22", 2,
            "NET/Socket : Using [0]ib0:192.168.11.1<0>",
            "NET/Plugin : No plugin found (libnccl-net.so).",
            "NCCL_IB_DISABLE set by environment to 0.",
            "NET/IB : Using [0]mlx5_0:1/IB ; OOB ib0:192.168.11.1<0>",
        )
        + "NCCL version 2.4.7+cuda10.0\n"
        + info(
            "master_node:22", 2,
            "comm 0x7f2b44000dc0 rank 2 nranks 8 cudaDev 2 nvmlDev 2 - Init COMPLETE",
            "NET/IB : GPU Direct RDMA Disabled for GPU 2[2] / HCA 0 'mlx5_0' "
            "(no module or not supported by GPU)",
            "Ring 00 : 1 -> 2 [receive] via NET/IB/0",
            "Ring 00 : 2 -> 3 [send] via NET/IB/0",
            "Ring 00 : 2[2] -> 3[3] via P2P/IPC",
        ),
        state="blocked", legs=(0, 2, 0), ranks=1, version="2.4.7", devices=("mlx5_0",),
        causes=("nccl-misses-peermem", "nccl-lacks-dmabuf", "peermem-not-loaded"),
    ),
    Sample(
        name="2.5.7: receiving is direct, sending is not",  # NVIDIA/nccl issue 392
        text="[0] NCCL INFO NCCL version 2.5.7+cuda10.0\n"
        " [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE ; OOB br0:10.0.0.16<0>\n"
        " [0] NCCL INFO Ring 00 : 15[41000] -> 0[1b000] [receive] via NET/IB/0/GDRDMA\n"
        " [0] NCCL INFO Ring 00 : 0[1b000] -> 1[1c000] [send] via NET/IB/0\n"
        " [0] NCCL INFO Ring 00 : 0[1b000] -> 7[41000] via direct shared memory\n",
        state="blocked", legs=(1, 1, 0), ranks=1, version="2.5.7", devices=("mlx5_0",),
    ),
    Sample(
        name="2.6.4: no libibverbs, sockets",
        text=info(
            "gpu23:1513", 3,
            "Failed to open libibverbs.so[.1]",
            "NET/Socket : Using [0]eth0:10.0.0.23<0>",
            "Using network Socket",
        )
        + "NCCL version 2.6.4+cuda10.2\n"
        + info("gpu23:1513", 3, "Ring 00 : 3[84000] -> 4[2000] [send] via NET/Socket/0"),
        state="blocked", legs=(0, 0, 1), ranks=1, version="2.6.4",
        codes=("verbs-library-missing",),
    ),
    Sample(
        name="2.30.3: no libibverbs, sockets",
        text=info(
            "gpu23:1513", 3,
            "NCCL version 2.30.3+cuda13.0",
            "Count not open libibverbs.so",
            "Count not open libibverbs.so.1",
            "Using network Socket",
            "Channel 00/0 : 3[3] -> 4[4] [send] via NET/Socket/0",
        ),
        state="blocked", legs=(0, 0, 1), ranks=1, version="2.30.3",
        codes=("verbs-library-missing",),
    ),
    Sample(
        name="2.7.8: NCCL_NET_GDR_LEVEL=LOC",
        text="NCCL version 2.7.8+cuda11.0\n"
        + info(
            "n1:11", 0,
            "NCCL_NET_GDR_LEVEL set by environment to LOC",
            "NET/IB : Using [0]mlx5_0:1/IB ; OOB eth0:10.0.0.1<0>",
            "Channel 00 : 0[1b000] -> 8[1b000] [send] via NET/IB/0",
            "Channel 00 : 8[1b000] -> 0[1b000] [receive] via NET/IB/0",
        ),
        state="blocked", legs=(0, 2, 0), ranks=1, version="2.7.8", codes=("gdr-level-too-low",),
        devices=("mlx5_0",),
    ),
    Sample(
        name="2.7.6: all direct, then ACS ends it",  # NVIDIA/nccl issue 707
        text="NCCL version 2.7.6+cuda11.1\n"
        + info(
            "10-90-43-152:120890", 0,
            "NET/IB : Using [0]mlx5_8:1/IB [1]mlx5_9:1/IB ; OOB ib8:192.168.1.8<0>",
            "Channel 01 : 2[c7000] -> 0[87000] [receive] via NET/IB/1/GDRDMA",
            "Channel 01 : 0[87000] -> 2[c7000] [send] via NET/IB/0/GDRDMA",
        )
        + warn("10-90-43-152:120890", 0, "transport/net_ib.cc:818",
               "NET/IB : Got completion with error 4, opcode 8983, len 0, vendor err 81"),
        state="unknown", legs=(2, 0, 0), ranks=1, version="2.7.6", devices=("mlx5_8", "mlx5_9"),
        causes=("acs-redirect", "iommu-translating"),
    ),
    Sample(
        name="2.10.3: no module for a device, wrong GID",
        text="NCCL version 2.10.3+cuda11.3\n"
        + info(
            "n1:31", 0,
            "NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0' (no module)",
            "Channel 00 : 0[1b000] -> 1[1b000] [send] via NET/IB/0",
        )
        + warn("n1:31", 0, "misc/ibvwrap.cc:187",
               "Call to ibv_modify_qp failed with error Invalid argument"),
        state="blocked", legs=(0, 1, 0), ranks=1, version="2.10.3",
        causes=("nccl-misses-peermem", "nccl-lacks-dmabuf", "peermem-not-loaded", "gid-index-wrong",
                "rail-unreachable"),
        devices=("mlx5_0",),
    ),
    Sample(
        name="2.12.12: collective network and shared buffers",
        text="NCCL version 2.12.12+cuda11.7\n"
        + info(
            "dgx1:500", 1,
            "CollNet 00 : 1 [send] via COLLNET/SHARP/0/GDRDMA",
            "Channel 00/1 : 1[43000] -> 9[43000] [send] via NET/IB/1/GDRDMA/Shared",
            "Channel 00/0 : 9[43000] -> 1[43000] [receive] via NET/IB/1/GDRDMA",
        ),
        state="unknown", legs=(2, 0, 0), ranks=1, version="2.12.12",
    ),
    Sample(
        name="2.16.5: distance 7 > 4 is SYS",  # NVIDIA/nccl issue 1151
        text="NCCL version 2.16.5+cuda11.8\n"
        + info(
            "n1:40", 0,
            "comm 0x55aa rank 0 nranks 2 cudaDev 0 busId ca000 commId 0x1f - Init COMPLETE",
            "NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'",
            "GPU Direct RDMA Disabled for GPU ca000 / HCA 0 (distance 7 > 4)",
            "Channel 00/0 : 0[ca000] -> 1[ca000] [send] via NET/IB/0",
            "Channel 00/0 : 1[ca000] -> 0[ca000] [receive] via NET/IB/0",
        ),
        state="blocked", legs=(0, 2, 0), ranks=1, version="2.16.5", codes=("pair-cross-socket",),
        devices=("mlx5_0",),
    ),
    Sample(
        name="2.18.6: distance 6 > 4 is PHB",  # NVIDIA/nccl issue 1657
        text="NCCL version 2.18.6+cuda12.1\n"
        + info(
            "leader-0:88", 0,
            "comm 0x55aa rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId 42000 commId 0x1f - Init START",
            "GPU Direct RDMA Disabled for GPU 42000 / HCA 0 (distance 6 > 4)",
            "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0",
        ),
        state="blocked", legs=(0, 1, 0), ranks=1, version="2.18.6", codes=("pair-distant",),
    ),
    Sample(
        name="the same without a version: the number says nothing",
        text=info(
            "leader-0:88", 0,
            "comm 0x55aa rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId 42000 commId 0x1f - Init START",
            "GPU Direct RDMA Disabled for GPU 42000 / HCA 0 (distance 7 > 4)",
            "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0",
        ),
        state="blocked", legs=(0, 1, 0), ranks=1, causes=("pair-distant", "pair-cross-socket"),
    ),
    Sample(
        name="2.19.3: Network is unreachable",  # NVIDIA/nccl-tests issue 185
        text="NCCL version 2.19.3+cuda12.3\n"
        + info("dgxh100-4:460770", 0, "Using non-device net plugin version 0", "Using network IB")
        + warn("dgxh100-4:460770", 0, "misc/ibvwrap.cc:187",
               "Call to ibv_modify_qp failed with error Network is unreachable"),
        state="unknown", legs=(0, 0, 0), ranks=1, version="2.19.3",
        causes=("rail-unreachable", "gid-index-wrong"),
    ),
    Sample(
        name="2.20.5: two ports fused by NET/IB, Disabled for both",  # NVIDIA/nccl issue 1537
        text="NCCL version 2.20.5+cuda12.4\n"
        + info(
            "hostname1:25668", 0,
            "NCCL_NET_GDR_LEVEL set by environment to SYS",
            "NET/IB : Using [0]={[0] mlx5_0:1/RoCE, [1] mlx5_1:1/RoCE} [RO]; OOB bond0:10.10.10.10<0>",
            "Using network IB",
            "comm 0x55cc rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId 1c000 commId 0x65e0bd - Init START",
            "NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0+mlx5_1'",
            "Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IB/0",
        ),
        state="blocked", legs=(0, 1, 0), ranks=1, version="2.20.5", devices=("mlx5_0+mlx5_1",),
        causes=(
            "nccl-misses-peermem", "peermem-not-loaded", "dmabuf-disabled-by-env", "driver-proprietary",
            "verbs-lacks-dmabuf", "kernel-lacks-dmabuf", "kernel-lacks-odp", "dmabuf-mr-refused",
            "provider-lacks-dmabuf", "gpu-integrated", "gpu-consumer", "gpu-unsupported",
        ),
    ),
    Sample(
        name="2.21.5: the level differs between ranks",  # NVIDIA/nccl-tests issue 350
        text="NCCL version 2.21.5+cuda12.4\n"
        + info(
            "n1:7", 0,
            "NCCL_NET_GDR_LEVEL set by environment to PHB",
            "NCCL_IB_HCA set by environment to mlx5_0",
            "ncclCommInitRank comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 "
            "commId 0xab - Init START",
            "Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA",
        )
        + info(
            "n2:9", 0,
            "NCCL_IB_HCA set by environment to mlx5_0",
            "ncclCommInitRank comm 0x2 rank 1 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 "
            "commId 0xab - Init START",
            "GPU Direct RDMA Disabled for GPU 1b000 / HCA 0 (distance 6 > 4)",
            "Channel 00/0 : 0[0] -> 1[0] [receive] via NET/IB/0",
        ),
        state="blocked", legs=(1, 1, 0), ranks=2, version="2.21.5",
        codes=("env-differs-between-ranks", "pair-distant"),
    ),
    Sample(
        name="2.22.3: one of two devices carries nothing",
        text="NCCL version 2.22.3+cuda12.5\n"
        + info(
            "n1:7", 0,
            "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>",
            "Channel 00/0 : 0[0] -> 2[0] [send] via NET/IB/0/GDRDMA",
        )
        + info(
            "n1:8", 1,
            "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>",
            "Channel 00/0 : 3[1] -> 1[1] [receive] via NET/IB/0/GDRDMA",
        ),
        state="unknown", legs=(2, 0, 0), ranks=2, version="2.22.3", codes=("hca-not-selected",),
        devices=("mlx5_0",),
    ),
    Sample(
        name="2.32.3: devices with rails and planes, one of which carries nothing",
        text="NCCL version 2.32.3+cuda13.4\n"
        + info(
            "n1:7", 0,
            "NET/IB : Using [0]mlx5_0:1:0:1/IB [1]mlx5_1:1::2/IB [2]mlx5_2:1:3/IB [RO]; OOB eth0:1.0.0.1<0>",
            "Channel 00/0 : 0[0] -> 2[0] [send] via NET/IB/0/GDRDMA",
            "Channel 01/0 : 0[0] -> 2[0] [send] via NET/IB/2/GDRDMA",
        ),
        state="unknown", legs=(2, 0, 0), ranks=1, version="2.32.3", codes=(),
        devices=("mlx5_0", "mlx5_2"),
    ),
    Sample(
        name="2.23.4: two versions in one job",
        text="NCCL version 2.23.4+cuda12.6\n"
        + info("n1:7", 0, "Using network IB", "Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA")
        + warn("n2:7", 0, "init.cc:995",
               "Mismatched NCCL version detected : rank 0 version 22304 rank 1 version 22005"),
        state="unknown", legs=(1, 0, 0), ranks=1, version="2.23.4", codes=("versions-differ-between-ranks",),
    ),
    Sample(
        name="2.24.3: through a neighbour's GPU, GDR 1",
        text=info(
            "n1:7", 3,
            "NCCL version 2.24.3+cuda12.6",
            "ncclCommInitRankConfig comm 0x1 rank 3 nranks 16 cudaDev 3 nvmlDev 3 busId 5d000 commId 0xab "
            "- Init START",
            "Channel 02/0 : 3[3] -> 13[5] [send] via NET/IB/5(5)/GDRDMA",
            "Channel 02/0 : 13[5] -> 3[3] [receive] via NET/IB/3/GDRDMA",
            "Connected all rings, use ring PXN 1 GDR 1",
        ),
        state="unknown", legs=(2, 0, 0), ranks=1, version="2.24.3",  # 15 ranks are not in the log
    ),
    Sample(
        name="2.25.1: GH200 under the old default",  # NVIDIA/nccl issue 1579
        text=info(
            "gh1:7", 0,
            "NCCL version 2.25.1+cuda12.8",
            "ncclCommInitRankConfig comm 0x1 rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId 901000 commId 0xab "
            "- Init START",
            "GPU Direct RDMA Disabled for GPU 0 / HCA 1 (distance 6 > 4)",
            "Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/1",
        ),
        state="blocked", legs=(0, 1, 0), ranks=1, version="2.25.1", codes=("pair-distant",),
    ),
    Sample(
        name="2.26.5: a PCIe mapping forced on a machine with C2C",
        text=info(
            "gb1:7", 0,
            "NCCL version 2.26.5+cuda12.9",
            "GPU Direct RDMA Enabled for GPU 0 / HCA 1 (distance 4 <= 5), read 0 mode PCI",
            "Channel 00/0 : 1[0] -> 0[0] [receive] via NET/IB/1/GDRDMA(PCI)",
        ),
        state="unknown", legs=(1, 0, 0), ranks=1, version="2.26.5",
    ),
    Sample(
        name="2.27.3: distance 8 > 5 is PHB",
        text=info(
            "n1:7", 0,
            "NCCL version 2.27.3+cuda12.9",
            "ncclCommInitRankConfig comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 commId 0xab "
            "- Init START",
            "GPU Direct RDMA Disabled for GPU 0 / HCA 0 (distance 8 > 5)",
            "Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0",
        ),
        state="blocked", legs=(0, 1, 0), ranks=1, version="2.27.3", codes=("pair-distant",),
    ),
    Sample(
        name="2.27.7: aws-ofi-nccl, NICs in groups",  # NVIDIA/nccl issue 1597
        text=info(
            "8h200-2:6831", 0,
            "NCCL version 2.27.7+cuda12.9",
            "NET/OFI Selected Provider is efa (found 16 nics)",
            "NET/OFI NIC group 0 device #0 0000:56:00.0",
            "NET/OFI NIC group 0 device #1 0000:55:00.0",
            "Using network Libfabric",
            "Channel 00/0 : 8[0] -> 0[0] [receive] via NET/Libfabric/0/GDRDMA",
        ),
        state="unknown", legs=(1, 0, 0), ranks=1, version="2.27.7", codes=("net-plugin-replaced",),
        devices=("0000:56:00.0+0000:55:00.0",),
    ),
    Sample(
        name="EFA without the direct path",  # aws/aws-ofi-nccl issue 547
        text=info(
            "g6e:68", 0,
            "NET/OFI Could not disable CUDA API usage for HMEM, disabling GDR",
            "DMA-BUF is available on GPU device 0",
            "Using network AWS Libfabric",
            "Channel 00/0 : 1[0] -> 0[0] [receive] via NET/AWS Libfabric/0",
        ),
        state="blocked", legs=(0, 1, 0), ranks=1, codes=("net-plugin-replaced",),
        causes=("efa-p2p-unavailable", "libfabric-too-old", "efa-driver-too-old", "efa-mapping-refused"),
    ),
    Sample(
        name="Google's plugin under Ray",
        text="(BenchmarkWorker pid=2050, ip=10.52.2.7) worker-4wkhd:2050:3084 [0] NCCL INFO NET/gIB : "
        "Initializing gIB v1.0.6\n"
        "\x1b[36m(BenchmarkWorker pid=2050, ip=10.52.2.7)\x1b[0m worker-4wkhd:2050:3084 [0] NCCL INFO "
        "Channel 03/0 : 2[2] -> 11[3] [send] via NET/gIB/3/GDRDMA\n",
        state="unknown", legs=(1, 0, 0), ranks=1,
    ),
    Sample(
        name="GB10 under vLLM: the plugin says enabled",  # mark-ramsey-ri/vllm-dgx-spark issue 1
        text="".join(
            "(EngineCore_DP0 pid=2301) (RayWorkerWrapper pid=2981, ip=169.254.28.198) "
            f"spark-3995:2981:3113 [0] NCCL INFO {line}\n"
            for line in (
                "P2P plugin v10 IBext_v10",
                "Using network IBext_v10",
                "NET/IB : GPU Direct RDMA (DMABUF) enabled for HCA 0 'rocep1s0f1",
                "NET/IB : GPU Direct RDMA (DMABUF) enabled for HCA 1 'roceP2p1s0f1",
                "Channel 09/0 : 1[0] -> 0[0] [send] via NET/IBext_v10/1",
                "Channel 10/0 : 1[0] -> 0[0] [send] via NET/IBext_v10/0",
            )
        ),
        state="blocked", legs=(0, 2, 0), ranks=1, codes=("net-plugin-replaced",),
        causes=("gpu-integrated", "gpu-consumer", "gpu-unsupported"), devices=("rocep1s0f1", "roceP2p1s0f1"),
    ),
    Sample(
        name="2.28.9: ports fused in the topology",
        text=info(
            "n1:7", 0,
            "NCCL version 2.28.9+cuda13.0",
            "NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>",
            "NET/IB : Made virtual device [0] name=mlx5_0 speed=200000 ndevs=1",
            "NET/IB : Made virtual device [1] name=mlx5_1 speed=200000 ndevs=1",
            "NET/IB : Made virtual device [2] name=mlx5_0+mlx5_1 speed=400000 ndevs=2",
            "Channel 00/0 : 1[0] -> 0[0] [receive] via NET/IB/2/GDRDMA",
        ),
        state="unknown", legs=(1, 0, 0), ranks=1, version="2.28.9", devices=("mlx5_0+mlx5_1",),
    ),
    Sample(
        name="2.28.7: retries exceeded, and what follows from it",  # NVIDIA/nccl issue 1814
        text=info("n1:7", 0, "NCCL version 2.28.7+cuda13.0",
                  "Channel 00/0 : 1[0] -> 0[0] [receive] via NET/IB/2/GDRDMA")
        + warn("n1:7", 0, "transport/net_ib.cc:2280",
               "NET/IB: Got completion from peer 10.0.0.2<55921> with status=IBV_WC_RETRY_EXC_ERR(12) "
               "opcode=IBV_WC_SEND(0) reqSize=0 vendor_err=129 req_type=Send hca mlx5_2",
               stamp="[2026-01-02 03:04:05] ")
        + warn("n1:7", 0, "transport/net_ib.cc:2280",
               "NET/IB: Got completion from peer 10.0.0.3<55922> with status=IBV_WC_WR_FLUSH_ERR(5) "
               "opcode=IBV_WC_SEND(0) reqSize=0 vendor_err=249 req_type=Recv hca mlx5_2",
               stamp="[2026-01-02 03:04:06] "),
        state="unknown", legs=(1, 0, 0), ranks=1, version="2.28.7", codes=("retry-exceeded",),
    ),
    Sample(
        name="2.29.2: GB200, PXB now forbids C2C",
        text=info(
            "gb1:7", 0,
            "NCCL version 2.29.2+cuda13.1",
            "NCCL_NET_GDR_LEVEL set by environment to PXB",
            "ncclCommInitRankConfig comm 0x1 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 801000 commId 0xab "
            "- Init START",
            "GPU Direct RDMA Disabled for GPU/0-801000 (rank 0) - NET/0-1",
            "Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/1/GDRDMA(PCI)",
            "Channel 01/0 : 0[0] -> 1[0] [send] via NET/IB/1",
        ),
        state="blocked", legs=(1, 1, 0), ranks=1, version="2.29.2",
        codes=("gdr-level-pxb-on-c2c", "gdr-level-too-low"),
    ),
    Sample(
        name="2.30.7: registration refused, nothing connects",
        text=info("n1:7", 0, "NCCL version 2.30.7+cuda13.2", "Using network IB")
        + warn("n1:7", 0, "misc/ibvwrap.cc:305",
               "Call to ibv_reg_mr_iova2 failed with error Bad address errno 14"),
        state="blocked", legs=(0, 0, 0), ranks=1, version="2.30.7",
        causes=(
            "peermem-not-loaded", "gpu-integrated", "gpu-consumer", "gpu-unsupported", "gpu-vgpu",
            "gpu-confidential", "gpu-mig", "bar1-exhausted", "memory-not-registrable",
        ),
    ),
    Sample(
        name="one node alone: GDR 1 proves nothing",
        text=info(
            "n1:7", 0,
            "NCCL version 2.27.5+cuda12.9",
            "DMA-BUF is available on GPU device 0",
            "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read",
            "Channel 01/0 : 0[0] -> 1[1] via SHM/direct/direct",
            "Connected all rings, use ring PXN 0 GDR 1",
        ),
        state="unknown", legs=(0, 0, 0), ranks=1, version="2.27.5",
    ),
    Sample(
        name="NCCL_IB_DISABLE=1 and a socket",
        text=info(
            "n1:7", 0,
            "NCCL_IB_DISABLE set by environment to 1.",
            "Using network Socket",
            "NET/Socket : GPU Direct RDMA Disabled for HCA 0 'eth0'",
            "Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0",
        ),
        state="blocked", legs=(0, 0, 1), ranks=1, codes=("ib-disabled-by-env",),
    ),
    Sample(
        name="a level that nobody took",
        text="$ mpirun -np 2 -x NCCL_DEBUG=INFO -x NCCL_NET_GDR_LEVEL=PHB ./all_reduce_perf\n"
        "NCCL version 2.22.3+cuda12.5\n"
        + info(
            "n1:7", 0,
            "NCCL_IB_HCA set by environment to mlx5_0",
            "Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0",
        ),
        state="blocked", legs=(0, 1, 0), ranks=1, version="2.22.3", codes=("gdr-level-ignored",),
    ),
    Sample(
        name="several lines copied from a screen as one",  # deepseek-ai/DeepEP issue 106
        text=(" " * 20).join(
            info(f"VM-17-82-centos:{11978 + n}", n,
                 f"Channel 05/0 : {n}[{n}] -> {n + 8}[{n}] [send] via NET/IBext/{n}/GDRDMA").rstrip()
            for n in range(3)
        )
        + "\n",
        state="unknown", legs=(3, 0, 0), ranks=3,
    ),
    Sample(
        name="a plugin with a name of four words, through a neighbour",
        text=info(
            "vm-host38:33958", 1,
            "Channel 01/1 : 3[0] -> 0[1] [send] via NET/NCCL RDMA Plugin v6/0(2)/GDRDMA/Shared",
        ),
        state="unknown", legs=(1, 0, 0), ranks=1,
    ),
    Sample(
        name="2.21.5: GH200 with HPC-X, only the channels show a fault",  # NVIDIA/nccl issue 1291
        text=info(
            "gh1:185972", 0,
            "Plugin Path : /opt/hpcx/nccl_rdma_sharp_plugin/lib/libnccl-net.so",
            "P2P plugin IBext_v8",
            "NET/IB : Using [0]mlx5_2:1/IB/SHARP [RO]; OOB bond0:10.0.0.1<0>",
            "Using non-device net plugin version 0",
            "Using network IBext_v8",
            "DMA-BUF is available on GPU device 0",
            "NCCL version 2.21.5+cuda12.4",
            "ncclCommInitRank comm 0xaaac rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 901000 commId 0x6e99 "
            "- Init START",
            "Channel 00/0 : 1[0] -> 0[0] [receive] via NET/IBext_v8/0",
        ),
        state="blocked", legs=(0, 1, 0), ranks=1, version="2.21.5", codes=("net-plugin-replaced",),
        devices=("mlx5_2",),
    ),
    Sample(
        name="sending turned off",
        text="NCCL version 2.22.3+cuda12.5\n"
        + info(
            "n1:7", 0,
            "NCCL_NET_GDR_READ set by environment to 0.",
            "Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0",
            "Channel 00/0 : 1[0] -> 0[0] [receive] via NET/IB/0/GDRDMA",
        ),
        state="blocked", legs=(1, 1, 0), ranks=1, version="2.22.3", codes=("gdr-read-off",),
    ),
    Sample(
        name="2.5: >= in a line means that PHB itself is refused, whatever the version",
        text=info(
            "old:31", 0,
            "NET/IB : GPU Direct RDMA Disabled for GPU 1b000 / HCA 0 (distance 4 >= 2)",
            "Ring 00 : 3[3d000] -> 0[1b000] [receive] via NET/IB/0",
        ),
        state="blocked", legs=(0, 1, 0), ranks=1, codes=("pair-cross-socket",),
    ),
    Sample(
        name="a level farther than the default is not what refuses a pair",
        text=info(
            "n2:81", 1,
            "NCCL_NET_GDR_LEVEL set by environment to PHB",
            "GPU Direct RDMA Disabled for GPU 3b000 / HCA 0 (distance 5 > 4)",
            "Channel 00 : 1[3b000] -> 9[3b000] [send] via NET/IB/0",
        ),
        state="blocked", legs=(0, 1, 0), ranks=1, codes=("pair-cross-socket",),
    ),
    Sample(
        name="Google's FastSocket is TCP",  # NVIDIA/nccl issue 1519
        text=info(
            "vm-a:90", 0,
            "NET/FastSocket : GPU Direct RDMA Disabled for HCA 0 'eth0'",
            "Using network FastSocket",
            "Channel 00/0 : 8[0] -> 0[0] [receive] via NET/FastSocket/0",
        ),
        state="blocked", legs=(0, 0, 1), ranks=1, codes=("net-plugin-replaced",),
    ),
    Sample(
        name="the plugin finds no device, NET/IB is off, the sockets are what is left",
        text=info(
            "pod-x:39", 0,
            "P2P plugin IBext",
            "NET/IB : No device found.",
            "NCCL_IB_DISABLE set by environment to 1.",
            "NET/Socket : Using [0]eth0:10.9.0.5<0>",
        ),
        state="blocked", legs=(0, 0, 0), ranks=1, codes=("ib-disabled-by-env",),
    ),
    Sample(
        name="the same plugin without the sockets' line may still work",
        text=info("pod-x:39", 0, "P2P plugin IBext", "NCCL_IB_DISABLE set by environment to 1."),
        state="unknown", legs=(0, 0, 0), ranks=1,
    ),
    Sample(
        name="one host is direct, another one has no RDMA device",
        text=info("good:17", 0, "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA")
        + info("bad:17", 0, "NET/IB : No device found.", "Using network Socket"),
        state="blocked", legs=(1, 0, 0), ranks=2,
    ),
    Sample(
        name="libfabric without GDR, pasted without any process",
        text="NCCL INFO NET/OFI Selected provider is efa, fabric is efa (found 1 nics)\n"
        "NCCL INFO NET/OFI Could not disable CUDA API usage for HMEM, disabling GDR\n",
        state="blocked", legs=(0, 0, 0), ranks=1,
    ),
    Sample(
        name="a plugin's device without GDR says nothing about nvidia-peermem",
        text=info(
            "ip-10-1-2-3:55", 0,
            "NET/AWS Libfabric : GPU Direct RDMA Disabled for HCA 0 'rdmap0s29'",
            "Channel 00/0 : 0[1d0] -> 1[1d0] [send] via NET/AWS Libfabric/0",
        ),
        state="blocked", legs=(0, 1, 0), ranks=1,
        causes=("efa-p2p-unavailable", "libfabric-too-old", "efa-driver-too-old", "efa-mapping-refused"),
        devices=("rdmap0s29",),
    ),
)  # fmt: skip
