"""Memory between two processes: our paths compared with what bounds them, and with NCCL, in one run.

    python -m benchmarks.transport [--rounds N] [--only A,B] [--json FILE]

Our numbers are those of `gdr bench pair` and `gdr bench host`: the time of one message is half of a
ping-pong, which includes the filling of the pipeline; streaming sends messages one after another with one
acknowledgement. The bytes of every path are checked. All is measured in `--rounds` turns; the medians are
printed. What bounds a path is measured in the same turns, with 256 MiB: a copy from GPU to GPU for `peer`,
the slower copy between a GPU and pinned memory for `shared`, plain sockets for `tcp`, and one thread's
memcpy for host memory. NCCL runs the same pattern through PyTorch, with its paths P2P, SHM and Socket; its
processes start once, and sleep until their turn. After each turn standard error has the medians so far.
Needs two NVIDIA GPUs, and PyTorch for NCCL; without GPUs only host memory is measured.
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
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

from gdrkit.transport.measure.copies import slower_copy, slower_peer_copy
from gdrkit.transport.measure.job import MeasureEnd, measure
from gdrkit.transport.measure.sweep import FEWEST, MOST
from gdrkit.transport.native.cuda import CudaError, CudaNotAvailable, cuda

SIZES = (64 << 10, 1 << 20, 16 << 20, 256 << 20)
LARGEST = SIZES[-1]
MODULE = (sys.executable, "-m", "benchmarks.transport")
STREAMS = 4  # sockets for each direction of `tcp`: gdrkit.transport.negotiation
_BLOCK = 4 << 20
_SECONDS_PER_SIZE = 0.2  # in each turn
NCCL = {
    "NCCL": ({}, "peer"),
    "NCCL, P2P disabled": ({"NCCL_P2P_DISABLE": "1"}, "shared"),
    "NCCL, sockets": ({"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_NET": "Socket"}, "tcp"),
}
"""The environment of each of NCCL's paths, and our path with the same bound."""
Rows = dict[str, dict[str, float]]
Measured = tuple[str, Callable[[], "Rows | None"]]


def plain_sockets() -> float:
    """GB/s of as many sockets as `tcp` has, each with a thread at both ends, in two processes."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        child = subprocess.Popen([*MODULE, "--sockets", str(listening.getsockname()[1])])
        control, _ = listening.accept()
        ends = [listening.accept()[0] for _ in range(STREAMS)]
    memory = [memoryview(bytearray(LARGEST // STREAMS)) for _ in ends]

    def fill(end: socket.socket) -> None:
        left = memory[ends.index(end)]
        while left:
            left = left[end.recv_into(left, min(len(left), _BLOCK)) :]

    def once() -> None:
        control.send(b"x")
        each(ends, fill)

    seconds = timed(once, 7)
    for end in (control, *ends):
        end.close()
    child.wait()
    return LARGEST / seconds / 1e9


def send_by_sockets(port: int) -> None:
    """The sending process of `plain_sockets`."""
    with socket.create_connection(("127.0.0.1", port)) as control:
        ends = [socket.create_connection(("127.0.0.1", port)) for _ in range(STREAMS)]
        parts = [os.urandom(1 << 20) * (LARGEST // STREAMS >> 20) for _ in ends]
        while control.recv(1):
            each(ends, lambda end: end.sendall(parts[ends.index(end)]))


def each(ends: list[socket.socket], work: Callable[[socket.socket], object]) -> None:
    """Do the same with every socket, in a thread each."""
    threads = [threading.Thread(target=work, args=(end,)) for end in ends]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def memcpy() -> float:
    """GB/s of one thread's memcpy."""
    here, there = (ctypes.create_string_buffer(LARGEST) for _ in range(2))
    return LARGEST / timed(lambda: ctypes.memmove(there, here, LARGEST), 7) / 1e9


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


def ours(path: str, gpus: tuple[int | None, int | None]) -> Rows:
    here, there = map(MeasureEnd, gpus)
    points = measure(path, here, there, SIZES, seconds_per_size=_SECONDS_PER_SIZE)
    return {
        str(point.size_bytes): {
            "one_us": point.median_us,
            "one_gb_per_s": point.gb_per_s,
            "streaming_gb_per_s": point.streaming_gb_per_s,
        }
        for point in points
    }


def nccl_rank(rank: int, port: int, device: int) -> None:
    """One of two processes: measures once for each line of standard input; the first prints the rows."""
    import torch  # type: ignore[import-not-found, unused-ignore]
    import torch.distributed as dist  # type: ignore[import-not-found, unused-ignore]

    torch.cuda.set_device(device)
    dist.init_process_group("nccl", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)

    def rows() -> Rows:
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

            once = torch.tensor([timed(ping_pong, 1)], device=tensor.device)
            (dist.send if rank == 0 else dist.recv)(once, 1 - rank)  # so that both repeat as often
            count = max(FEWEST, min(MOST, int(_SECONDS_PER_SIZE / once.item())))
            one = timed(ping_pong, count) / 2
            stream(8)
            begun = time.perf_counter()
            stream(count)
            many = (time.perf_counter() - begun) / count
            found[str(size)] = {
                "one_us": one * 1e6,
                "one_gb_per_s": size / one / 1e9,
                "streaming_gb_per_s": size / many / 1e9,
            }
        return found

    for _ in sys.stdin:
        found = rows()
        if rank == 0:
            print(json.dumps(found), flush=True)
    dist.destroy_process_group()


@contextmanager
def nccl(devices: tuple[int, int], environment: dict[str, str]) -> Iterator[Callable[[], Rows | None]]:
    """Two processes, and a function that measures NCCL's send and receive in them, and returns the rows, or
    None if PyTorch is missing.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    ranks = [
        subprocess.Popen(
            [*MODULE, "--nccl", str(rank), str(port), str(device)],
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank, device in enumerate(devices)
    ]

    def once() -> Rows | None:
        for rank in ranks:
            assert rank.stdin
            with suppress(BrokenPipeError):
                rank.stdin.write("once\n")
                rank.stdin.flush()
        assert ranks[0].stdout
        line = next((line for line in ranks[0].stdout if line.startswith("{")), None)
        return json.loads(line) if line else None

    try:
        yield once
    finally:
        for rank in ranks:
            rank.terminate()
        for rank in ranks:
            rank.communicate()


def plan(
    devices: tuple[int, int] | None, only: tuple[str, ...], stack: ExitStack
) -> tuple[dict[str, Callable[[], float]], dict[str, Measured]]:
    """What to measure: the bounds, and for each row whose name begins like one of `only` its bound and how
    it is measured. `stack` ends the processes that this starts.
    """
    bounds: dict[str, Callable[[], float]] = {"memcpy": memcpy, "sockets": plain_sockets}
    rows: dict[str, Measured] = {}
    if devices:
        bounds["copy engine"] = lambda: slower_peer_copy(*devices)
        bounds["pinned copy"] = lambda: min(map(slower_copy, devices))
        by_path = {"peer": "copy engine", "shared": "pinned copy", "tcp": "sockets"}
        for path, bound in by_path.items():
            rows[path] = bound, partial(ours, path, devices)
        for name, (environment, path) in NCCL.items():
            if name.startswith(only):
                rows[name] = by_path[path], stack.enter_context(nccl(devices, environment))
        for name in rows.keys() & NCCL.keys():  # so that none starts while others are measured
            rows[name][1]()
    rows["shared, host memory"] = "memcpy", partial(ours, "shared", (None, None))
    rows["tcp, host memory"] = "sockets", partial(ours, "tcp", (None, None))
    rows = {name: row for name, row in rows.items() if name.startswith(only)}
    used = {bound for bound, _ in rows.values()}
    return {name: measured for name, measured in bounds.items() if name in used}, rows


def middle(found: list[Rows]) -> Rows:
    """The median of each number."""
    return {
        size: {name: statistics.median(rows[size][name] for rows in found) for name in row}
        for size, row in found[0].items()
    }


def table(bounds: dict[str, float], results: dict[str, tuple[str, Rows | None]]) -> str:
    lines = [f"bound: {bound:.1f} GB/s, {name}" for name, bound in bounds.items()]
    lines += [
        "",
        f"{'path':<22}{'bytes':>12}{'one us':>10}{'GB/s':>8}{'of bound':>10}"
        f"{'streaming':>11}{'of bound':>10}",
    ]
    for name, (bound, rows) in results.items():
        if rows is None:
            lines.append(f"{name:<22}not measured")
            continue
        for size, row in rows.items():
            lines.append(
                f"{name:<22}{int(size):>12}{row['one_us']:>10.1f}{row['one_gb_per_s']:>8.2f}"
                f"{row['one_gb_per_s'] / bounds[bound]:>10.1%}{row['streaming_gb_per_s']:>11.2f}"
                f"{row['streaming_gb_per_s'] / bounds[bound]:>10.1%}"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    parser.add_argument("--rounds", type=int, default=1, help="turns, of which medians are printed (1)")
    parser.add_argument("--only", default="", help="comma-separated beginnings of the names of rows")
    parser.add_argument("--nccl", nargs=3, type=int, help=argparse.SUPPRESS)
    parser.add_argument("--sockets", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.nccl:
        nccl_rank(*options.nccl)
    elif options.sockets:
        send_by_sockets(options.sockets)
    else:
        with ExitStack() as stack:
            bounds, rows = plan(_devices(), tuple(options.only.split(",")), stack)
            print(turns(bounds, rows, options.rounds, options.json))


def turns(
    bounds: dict[str, Callable[[], float]], rows: dict[str, Measured], rounds: int, report: Path | None
) -> str:
    """The table of the medians."""
    limits: dict[str, list[float]] = {name: [] for name in bounds}
    found: dict[str, list[Rows | None]] = {name: [] for name in rows}
    text = ""
    for turn in range(1, rounds + 1):
        for name, bound in bounds.items():
            limits[name].append(bound())
        for name, (_, measured) in rows.items():
            found[name].append(measured())
        medians = {name: statistics.median(samples) for name, samples in limits.items()}
        results = {
            name: (rows[name][0], middle(complete) if (complete := [one for one in each if one]) else None)
            for name, each in found.items()
        }
        text = table(medians, results)
        print(f"turn {turn} of {rounds}\n{text}\n", file=sys.stderr, flush=True)
        if report:
            report.write_text(json.dumps({"bounds": limits, "results": found}, indent=1))
    return text


def _devices() -> tuple[int, int] | None:
    try:
        return (0, 1) if cuda().device_count() > 1 else None
    except (CudaNotAvailable, CudaError):
        return None


if __name__ == "__main__":
    main()
