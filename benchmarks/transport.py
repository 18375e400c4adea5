"""GPU to GPU between two processes: our paths against the copies that bound them, and against NCCL, in
one run.

    python -m benchmarks.transport             all that this machine has; --json FILE keeps the numbers

One message is timed as half of a ping-pong, so that it contains the filling of the pipeline; streaming
as messages sent one after another with one acknowledgement. The bound is the slower of the two copies
between GPU and pinned memory, of the same size, in the same run. NCCL runs through PyTorch, with
NCCL_P2P_DISABLE=1 for the staged path. Needs an NVIDIA GPU; two make it what it is meant to be. Every
path's bytes are checked once.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from gdrkit.native.cuda import Cuda, cuda
from gdrkit.transport import Buffer, Connection, connect, generate_key, listen

SIZES = (64 << 10, 1 << 20, 16 << 20, 256 << 20)
STREAMED = 8
PATHS = ("shared", "peer", "tcp")


def repeats(size: int) -> int:
    return 200 if size <= 1 << 20 else 30 if size <= 16 << 20 else 10


def allocate(driver: Cuda, device: int, size: int) -> Buffer:
    driver.use(device)
    return Buffer(driver.number("cuMemAlloc_v2", size), size, device, None)


def timed(work: Callable[[], object], count: int) -> float:
    """Median seconds of one call, after two that are not counted."""
    work()
    work()
    samples = []
    for _ in range(count):
        begun = time.perf_counter()
        work()
        samples.append(time.perf_counter() - begun)
    return statistics.median(samples)


def copies(driver: Cuda, device: int) -> dict[str, float]:
    """GB/s between a device and pinned memory, both ways, 256 MiB."""
    size = SIZES[-1]
    gpu = allocate(driver, device, size)
    host = driver.number("cuMemHostAlloc", size, 1)
    found = {}
    for name, to, of in (
        ("device_to_host", host, gpu.address),
        ("host_to_device", gpu.address, host),
    ):

        def copy(to: int = to, of: int = of) -> None:
            driver.call("cuMemcpyAsync", to, of, size, 0)
            driver.call("cuStreamSynchronize", 0)

        found[name] = size / timed(copy, 10) / 1e9
    driver.call("cuMemFreeHost", host)
    driver.call("cuMemFree_v2", gpu.address)
    return found


def pattern(driver: Cuda, buffer: Buffer) -> None:
    """Fill GPU memory with bytes that differ everywhere."""
    host = os.urandom(1 << 20) * (buffer.size_bytes // (1 << 20) + 1)
    view = (ctypes.c_char * buffer.size_bytes).from_buffer_copy(host[: buffer.size_bytes])
    driver.call("cuMemcpy", buffer.address, ctypes.addressof(view), buffer.size_bytes)


def pairs(connection: Connection, driver: Cuda, device: int, first: bool) -> dict[str, dict[str, float]]:
    """Both sides run this; `first` sends first and takes the time."""
    found = {}
    for size in SIZES:
        memory = allocate(driver, device, size)
        count, ack = repeats(size), Buffer(memory.address, 1, device, None)
        if first:
            pattern(driver, memory)
            connection.send(memory, integrity=True).wait(60)
        else:
            connection.recv(memory).wait(60)

        def ping_pong(memory: Buffer = memory) -> None:
            for step in (first, not first):
                (connection.send if step else connection.recv)(memory).wait(60)

        def stream(memory: Buffer = memory, ack: Buffer = ack) -> None:
            transfers = [(connection.send if first else connection.recv)(memory) for _ in range(STREAMED)]
            for transfer in transfers:
                transfer.wait(60)
            (connection.recv if first else connection.send)(ack).wait(60)

        one = timed(ping_pong, count) / 2
        many = timed(stream, max(3, count // STREAMED)) / STREAMED
        found[str(size)] = {
            "one_us": one * 1e6,
            "one_gb_per_s": size / one / 1e9,
            "streaming_gb_per_s": size / many / 1e9,
        }
        driver.call("cuMemFree_v2", memory.address)
    return found


def ours(path: str, devices: tuple[int, int]) -> dict[str, dict[str, float]]:
    key = generate_key()
    with listen("127.0.0.1", key=key, gpu=devices[0], paths=(path,)) as door:
        child = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "benchmarks.transport",
                "--peer",
                path,
                str(door.address[1]),
                str(devices[1]),
            ],
            stdin=subprocess.PIPE,
        )
        assert child.stdin
        child.stdin.write(key.hex().encode())
        child.stdin.close()
        with door.accept(120) as connection:
            driver = cuda()
            driver.use(devices[0])
            found = pairs(connection, driver, devices[0], True)
        if child.wait(60):
            raise SystemExit(f"the other process of {path} failed")
    return found


def other(path: str, port: int, device: int) -> None:
    key = bytes.fromhex(sys.stdin.read())
    driver = cuda()
    driver.use(device)
    with connect("127.0.0.1", port, key=key, gpu=device, paths=(path,)) as connection:
        pairs(connection, driver, device, False)


def nccl_rank(rank: int, port: int, device: int, report: str) -> None:
    import torch  # type: ignore[import-not-found, unused-ignore]
    import torch.distributed as dist  # type: ignore[import-not-found, unused-ignore]

    torch.cuda.set_device(device)
    dist.init_process_group("nccl", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    found = {}
    for size in SIZES:
        tensor = torch.zeros(size, dtype=torch.uint8, device=f"cuda:{device}")
        ack = torch.zeros(1, dtype=torch.uint8, device=f"cuda:{device}")

        def ping_pong(tensor: object = tensor) -> None:
            for step in (rank == 0, rank == 1):
                (dist.send if step else dist.recv)(tensor, 1 - rank)
                torch.cuda.synchronize()

        def stream(tensor: object = tensor, ack: object = ack) -> None:
            for _ in range(STREAMED):
                (dist.send if rank == 0 else dist.recv)(tensor, 1 - rank)
            torch.cuda.synchronize()
            (dist.recv if rank == 0 else dist.send)(ack, 1 - rank)
            torch.cuda.synchronize()

        one = timed(ping_pong, repeats(size)) / 2
        many = timed(stream, max(3, repeats(size) // STREAMED)) / STREAMED
        found[str(size)] = {
            "one_us": one * 1e6,
            "one_gb_per_s": size / one / 1e9,
            "streaming_gb_per_s": size / many / 1e9,
        }
    dist.destroy_process_group()
    if rank == 0:
        Path(report).write_text(json.dumps(found))


def nccl(devices: tuple[int, int], report: Path, **environment: str) -> dict[str, dict[str, float]] | None:
    """NCCL's send and receive, or None where PyTorch or a second GPU is missing."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    ranks = [
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "benchmarks.transport",
                "--nccl",
                str(rank),
                str(port),
                str(device),
                str(report),
            ],
            env={**os.environ, **environment},
        )
        for rank, device in enumerate(devices)
    ]
    codes = [rank.wait(300) for rank in ranks]
    return json.loads(report.read_text()) if not any(codes) else None


def table(bound: float, results: dict[str, dict[str, dict[str, float]] | None]) -> str:
    lines = [f"bound: {bound:.1f} GB/s, the slower copy between GPU and pinned memory", ""]
    lines.append(
        f"{'path':<22}{'bytes':>12}{'one us':>10}{'GB/s':>8}{'of bound':>10}"
        f"{'streaming':>11}{'of bound':>10}"
    )
    for name, result in results.items():
        if result is None:
            lines.append(f"{name:<22}not measured")
            continue
        for size, row in result.items():
            lines.append(
                f"{name:<22}{int(size):>12}{row['one_us']:>10.1f}{row['one_gb_per_s']:>8.2f}"
                f"{row['one_gb_per_s'] / bound:>10.0%}{row['streaming_gb_per_s']:>11.2f}"
                f"{row['streaming_gb_per_s'] / bound:>10.0%}"
            )
    return "\n".join(lines)


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--json", type=Path, help="write the numbers to this file")
    options.add_argument("--paths", default=",".join((*PATHS, "nccl")), help="which, with commas")
    options.add_argument("--peer", nargs=3, help=argparse.SUPPRESS)
    options.add_argument("--nccl", nargs=4, help=argparse.SUPPRESS)
    asked = options.parse_args()
    if asked.peer:
        other(asked.peer[0], int(asked.peer[1]), int(asked.peer[2]))
        return
    if asked.nccl:
        rank, port, device, report = asked.nccl
        nccl_rank(int(rank), int(port), int(device), report)
        return
    driver = cuda()
    devices = (0, 1 if driver.device_count() > 1 else 0)
    measured = [copies(driver, device) for device in devices]
    bound = min(min(row.values()) for row in measured)
    results: dict[str, dict[str, dict[str, float]] | None] = {
        path: ours(path, devices) for path in PATHS if path in asked.paths.split(",")
    }
    if devices[0] != devices[1] and "nccl" in asked.paths:
        report = Path("/tmp/gdrkit-benchmark-nccl.json")
        results["NCCL, P2P disabled"] = nccl(devices, report, NCCL_P2P_DISABLE="1")
        results["NCCL"] = nccl(devices, report)
    print(table(bound, results))
    if asked.json:
        asked.json.write_text(json.dumps({"copies": measured, "bound": bound, "results": results}, indent=1))


if __name__ == "__main__":
    main()
