"""The log of a job of many hosts with eight GPUs and NICs each, in the forms of NCCL 2.27.5.

Sources of the forms at tag v2.27.5-1: src/init.cc (version, ncclCommInitRank), src/graph/topo.cc (HCA),
src/transport/net.cc (channels over the network), src/transport/p2p.cc (channels inside a host).
"""

from __future__ import annotations

from collections.abc import Collection

from tests.jobs.samples import info

EACH = 8
"""GPUs, NICs and ranks of a host."""


def large_job(
    hosts: int = 16, *, staged: Collection[str] = (), version: str = "2.27.5", nics: int = EACH
) -> str:
    """Two rings over all hosts, gpu01 and on. On the `staged` ones NCCL finds no way to register GPU memory
    with the first `nics` NICs."""
    names = [f"gpu{number:02}" for number in range(1, hosts + 1)]
    return "".join(
        _rank(name, host * EACH + gpu, gpu, hosts * EACH, nics if name in staged else 0, version)
        for host, name in enumerate(names)
        for gpu in range(EACH)
    )


def _rank(host: str, rank: int, gpu: int, ranks: int, without: int, version: str) -> str:
    """The lines of one rank."""
    before, after = (rank - EACH) % ranks, (rank + EACH) % ranks
    inside = rank - gpu + (gpu + 1) % EACH
    way = f"NET/IB/{gpu}" + ("" if gpu < without else "/GDRDMA")
    devices = " ".join(f"[{number}]mlx5_{number}:1/IB" for number in range(EACH))
    return info(
        f"{host}:{4100 + rank}", gpu,
        f"NCCL version {version}+cuda12.9",
        f"NET/IB : Using {devices} [RO]; OOB eth0:10.0.0.{rank // EACH + 1}<0>",
        "Using network IB",
        "DMA-BUF is available on GPU device " + str(gpu),
        f"ncclCommInitRank comm 0x{0x5500 + rank:x} rank {rank} nranks {ranks} cudaDev {gpu} nvmlDev {gpu} "
        f"busId {gpu + 1:x}b000 commId 0x2f6c1c3a5b7d9e01 - Init START",
        *(
            f"NET/IB : GPU Direct RDMA {'Disabled' if number < without else 'Enabled'} for HCA {number} "
            f"'mlx5_{number}'"
            for number in range(EACH)
        ),
        *(
            line
            for channel in range(2)
            for line in (
                f"Channel {channel:02}/0 : {before}[{gpu}] -> {rank}[{gpu}] [receive] via {way}",
                f"Channel {channel:02}/0 : {rank}[{gpu}] -> {after}[{gpu}] [send] via {way}",
                f"Channel {channel:02}/0 : {rank}[{gpu}] -> {inside}[{(gpu + 1) % EACH}] via P2P/CUMEM",
            )
        ),
    )  # fmt: skip
