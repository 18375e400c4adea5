"""What the MACs of `tcp` cost on this machine, over loopback, between two processes.

    python -m benchmarks.seals [--sizes N,N] [--rounds N]

For each size: the time of one message of host memory (half of a ping-pong) without and with
`authenticate_data`, in turns. Control MACs are always on; their cost is measured alone: one to make and
one to check for each message.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import time

from gdrkit.transport import Connection, connect, generate_key, listen
from gdrkit.transport.sealed_socket import _FRAME, _SealedDirection

SIZES = (8, 64 << 10, 1 << 20, 64 << 20)


def mac_us(count: int = 20_000) -> float:
    """Microseconds to make or check the tag of a message's header."""
    direction, header = _SealedDirection(bytes(32), "listen"), bytes(16)
    begun = time.perf_counter()
    for _ in range(count):
        mac = direction.next(_FRAME)
        mac.update(header)
        mac.digest()
    return (time.perf_counter() - begun) / count * 1e6


def ping_pong(connection: Connection, size: int, rounds: int, leads: bool) -> float:
    """Median seconds of one message."""
    memory, samples = bytearray(size), []
    for _ in range(rounds + 2):
        begun = time.perf_counter()
        for move in (connection.send, connection.recv) if leads else (connection.recv, connection.send):
            move(memory).wait(60)
        samples.append((time.perf_counter() - begun) / 2)
    return statistics.median(samples[2:])


def follow(port: int, key: bytes, sizes: list[int], rounds: int) -> None:
    with connect("127.0.0.1", port, key=key, paths=("tcp",)) as connection:
        for size in sizes:
            ping_pong(connection, size, rounds, False)


def measure(sizes: list[int], rounds: int, authenticate_data: bool) -> list[float]:
    key = generate_key()
    with listen("127.0.0.1", key=key, paths=("tcp",), authenticate_data=authenticate_data) as listener:
        other = multiprocessing.Process(target=follow, args=(listener.address[1], key, sizes, rounds))
        other.start()
        with listener.accept(30) as connection:
            times = [ping_pong(connection, size, rounds, True) for size in sizes]
        other.join()
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    sizes = [int(size) for size in options.sizes.split(",")]
    print(f"one MAC of a message's header: {mac_us():.1f} us, two for each message")
    runs = [measure(sizes, options.rounds, sealed) for sealed in (False, True) * 3]
    for index, size in enumerate(sizes):
        plain, sealed = (statistics.median(run[index] for run in runs[first::2]) for first in (0, 1))
        print(
            f"{size:>10} bytes: {plain * 1e6:10.0f} us, {size / plain / 1e9:6.2f} GB/s;"
            f" authenticated {sealed * 1e6:10.0f} us, {size / sealed / 1e9:6.2f} GB/s"
        )


if __name__ == "__main__":
    main()
