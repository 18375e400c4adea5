"""Generates NCCL logs like those of large jobs, in the formats of NCCL 2.27. No log is stored.

Each rank prints what NCCL_DEBUG=INFO with NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH shows: settings, network,
topology decisions, rings and trees, and then, as in an all-to-all, connections to other nodes, each with
the lines of its proxy. `plain` is NCCL_DEBUG=INFO alone, where nearly every line is a channel. Ranks are
interleaved a few lines at a time, as with a launcher. Source of the formats: NCCL v2.27.5-1, src/init.cc,
src/transport/net.cc, src/transport/net_ib.cc, src/proxy.cc.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import BinaryIO

GPUS = 8
CHANNELS = 16
BURST = 12
"""The most consecutive lines of one rank: what a pipe transfers at a time."""


def write(out: BinaryIO, ranks: int, size_bytes: int, *, plain: bool = False, seed: int = 1) -> int:
    """Write a log of at least that size; returns the number of its lines."""
    chance = random.Random(seed)
    streams = [_rank(rank, ranks, plain, random.Random(seed * 7919 + rank)) for rank in range(ranks)]
    out.write(b"NCCL version 2.27.5+cuda12.9\n")
    written, lines = 29, 1
    order = list(range(ranks))
    while written < size_bytes:
        chance.shuffle(order)
        for rank in order:
            part = "".join(next(streams[rank]) for _ in range(chance.randint(1, BURST)))
            written += out.write(part.encode())
            lines += part.count("\n")
    return lines


def _rank(rank: int, ranks: int, plain: bool, chance: random.Random) -> Iterator[str]:
    gpu, node = rank % GPUS, rank // GPUS
    pid = 40_000 + node * 16 + gpu
    main, proxy = (f"gpu-{node:04d}:{pid}:{pid + k * 40} [{gpu}] NCCL INFO " for k in (3, 5))
    for line in _start(rank, ranks, gpu, node, plain):
        yield f"{main}{line}\n"
    count = 0
    while True:
        yield from _connection(rank, ranks, gpu, count, plain, (main, proxy), chance)
        count += 1


def _start(rank: int, ranks: int, gpu: int, node: int, plain: bool) -> Iterator[str]:
    yield f"Bootstrap: Using bond0:10.{node // 250}.{node % 250}.1<0>"
    yield "NCCL_SOCKET_IFNAME set by environment to bond0"
    yield "NCCL_IB_HCA set by environment to =mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_7"
    yield "NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin."
    devices = " ".join(f"[{i}]mlx5_{i}:1/IB" for i in range(GPUS))
    yield f"NET/IB : Using {devices} [RO]; OOB bond0:10.{node // 250}.{node % 250}.1<0>"
    yield "Using network IB"
    yield f"DMA-BUF is available on GPU device {gpu}"
    yield (
        f"ncclCommInitRank comm 0x{0x5500000000 + rank * 4096:x} rank {rank} nranks {ranks} cudaDev {gpu} "
        f"nvmlDev {gpu} busId {gpu * 0x10000 + 0x1B000:x} commId 0x2f6c1c3a5b7d9e01 - Init START"
    )
    if not plain:
        for i in range(GPUS):
            yield f"NET/IB : GPU Direct RDMA Enabled for HCA {i} 'mlx5_{i}'"
        for i in range(GPUS):
            for read in (0, 1):
                yield (
                    f"GPU Direct RDMA Enabled for GPU {rank} / HCA {i:x} (distance 4 <= 5), "
                    f"read {read} mode Default"
                )
    yield "Trees " + " ".join(f"[{c}] {rank + 1}/-1/-1->{rank}->{rank - 1}" for c in range(CHANNELS))
    yield "P2P Chunksize set to 131072"


def _connection(
    rank: int, ranks: int, gpu: int, count: int, plain: bool, heads: tuple[str, str], chance: random.Random
) -> Iterator[str]:
    main, proxy = heads
    near = (gpu + 1) % GPUS
    channel, peer = count % CHANNELS, (rank + GPUS * (1 + count // CHANNELS)) % ranks
    if count % 9 == 0:
        ring = f"Channel {channel:02d}/0 : {rank}[{gpu}] -> {rank - gpu + near}[{near}]"
        yield f"{main}{ring} via P2P/CUMEM\n"
    shared = "/Shared" if count >= CHANNELS else ""
    index = int(bool(shared))
    if not plain:
        yield f"{proxy}New proxy send connection {count} from local rank {gpu}, transport 2\n"
        yield f"{main}Connected to proxy localRank {gpu} -> connection 0x{chance.getrandbits(40):x}\n"
        yield (
            f"{proxy}NET/IB: ncclIbConnect {count} IbDev {gpu} Port 1 qpn {chance.getrandbits(16)} mtu 5 "
            f"LID {rank} subnet-prefix 18338657682652659712  FLID 0 fifoRkey=0x{chance.getrandbits(24):x} "
            f"fifoLkey=0x{chance.getrandbits(24):x}\n"
        )
    via = f"via NET/IB/{gpu}/GDRDMA{shared}"
    yield f"{main}Channel {channel:02d}/{index} : {peer}[{gpu}] -> {rank}[{gpu}] [receive] {via}\n"
    yield f"{main}Channel {channel:02d}/{index} : {rank}[{gpu}] -> {peer}[{gpu}] [send] {via}\n"
