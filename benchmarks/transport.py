"""GPU to GPU between two processes: our paths compared with the copies that limit them, and with NCCL, in
one run.

    python -m benchmarks.transport [--paths A,B] [--json FILE]

Our numbers are those of `gdr bench pair`: the time of one message is half of a ping-pong, which includes
the filling of the pipeline; streaming sends messages one after another with one acknowledgement. The bytes
of every path are checked. The bound is the slower of the two copies between GPU and pinned memory in the
same run. NCCL runs the same pattern through PyTorch, with NCCL_P2P_DISABLE=1 for the staged path. Needs
two NVIDIA GPUs, and PyTorch for NCCL.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from gdrkit.transport.measure.copies import slower_copy
from gdrkit.transport.measure.job import MeasureEnd, measure
from gdrkit.transport.native.cuda import cuda

SIZES = (64 << 10, 1 << 20, 16 << 20, 256 << 20)
PATHS = ("shared", "peer", "tcp")
Rows = dict[str, dict[str, float]]


def repeats(size: int) -> int:
    return 200 if size <= 1 << 20 else 100 if size <= 16 << 20 else 50


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


def ours(path: str, devices: tuple[int, int]) -> Rows:
    points = measure(path, MeasureEnd(devices[0]), MeasureEnd(devices[1]), SIZES)
    return {
        str(point.size_bytes): {
            "one_us": point.median_us,
            "one_gb_per_s": point.gb_per_s,
            "streaming_gb_per_s": point.streaming_gb_per_s,
        }
        for point in points
    }


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

        def stream(count: int, tensor: object = tensor, ack: object = ack) -> None:
            for _ in range(count):
                (dist.send if rank == 0 else dist.recv)(tensor, 1 - rank)
            torch.cuda.synchronize()
            (dist.recv if rank == 0 else dist.send)(ack, 1 - rank)
            torch.cuda.synchronize()

        one = timed(ping_pong, repeats(size)) / 2
        stream(8)
        begun = time.perf_counter()
        stream(repeats(size))
        many = (time.perf_counter() - begun) / repeats(size)
        found[str(size)] = {
            "one_us": one * 1e6,
            "one_gb_per_s": size / one / 1e9,
            "streaming_gb_per_s": size / many / 1e9,
        }
    dist.destroy_process_group()
    if rank == 0:
        Path(report).write_text(json.dumps(found))


def nccl(devices: tuple[int, int], report: Path, **environment: str) -> Rows | None:
    """The results of NCCL's send and receive, or None if PyTorch or a second GPU is missing."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    module = [sys.executable, "-m", "benchmarks.transport", "--nccl"]
    ranks = [
        subprocess.Popen(
            [*module, str(rank), str(port), str(device), str(report)], env={**os.environ, **environment}
        )
        for rank, device in enumerate(devices)
    ]
    codes = [rank.wait(300) for rank in ranks]
    return json.loads(report.read_text()) if not any(codes) else None


def table(bound: float, results: dict[str, Rows | None]) -> str:
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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    parser.add_argument("--paths", default=",".join((*PATHS, "nccl")), help="comma-separated paths")
    parser.add_argument("--nccl", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.nccl:
        rank, port, device, report = options.nccl
        nccl_rank(int(rank), int(port), int(device), report)
        return
    devices = (0, 1 if cuda().device_count() > 1 else 0)
    bound = min(slower_copy(device) for device in devices)
    chosen = options.paths.split(",")
    results: dict[str, Rows | None] = {path: ours(path, devices) for path in PATHS if path in chosen}
    if devices[0] != devices[1] and "nccl" in chosen:
        report = Path("/tmp/gdrkit-benchmark-nccl.json")
        results["NCCL, P2P disabled"] = nccl(devices, report, NCCL_P2P_DISABLE="1")
        results["NCCL"] = nccl(devices, report)
    print(table(bound, results))
    if options.json:
        options.json.write_text(json.dumps({"bound": bound, "results": results}, indent=1))


if __name__ == "__main__":
    main()
