"""Hand blocks of a KV cache from a prefill process to a decode process, and print how late they arrive.

    python examples/kv_handover.py                                # host memory, any Linux machine
    python examples/kv_handover.py --gpus 0,1 --block-bytes 1048576 --per-second 1000
    python examples/kv_handover.py --gpus 0,1 --nccl              # the same with NCCL, to compare

The prefill process fills a block every 1/1000 s and sends it as soon as it is filled. The decode process
keeps a few receives posted, so that blocks arrive while it works on others. With `--gpus` a block is a
PyTorch tensor on each process's GPU. It is filled and sent on the stream that is current, without a wait in
between. Receives have a stream of their own: what is queued on a stream after a receive waits for its
message, and the decode process does not want to wait for the blocks after the one it works on.

The time of a block is from the send until the decode process has it; both processes use the same clock, so
run them on one machine. On two machines, `listen` on an address that the other one reaches.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from array import array
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from gdrkit.transport import connect, generate_key, listen

AHEAD = 8  # blocks that may be on the way
WAIT_SECONDS = 60.0
Finish = Callable[[], object]


class Blocks:
    """Memory for the blocks that are on the way."""

    def __init__(self, size_bytes: int, gpu: int | None) -> None:
        self.torch: Any = None
        if gpu is None:
            self.all: list[Any] = [bytearray(size_bytes) for _ in range(AHEAD)]
        else:
            import torch

            self.torch = torch
            torch.cuda.set_device(gpu)
            self.all = [torch.zeros(size_bytes, dtype=torch.uint8, device="cuda") for _ in range(AHEAD)]
            self._receives = torch.cuda.Stream()
            torch.cuda.synchronize()  # no receive waits for the zeros

    def receiving(self) -> AbstractContextManager[object]:
        """A context in which the stream of the receives is current."""
        return nullcontext() if self.torch is None else self.torch.cuda.stream(self._receives)

    def fill(self, number: int) -> Any:
        """Block `number`, with its contents. On a GPU this only queues the kernel."""
        block = self.all[number % AHEAD]
        if self.torch is None:
            block[0] = block[-1] = number % 251
        else:
            block.fill_(number % 251)
        return block

    def holds(self, number: int) -> bool:
        block = self.all[number % AHEAD]
        return int(block[0]) == int(block[-1]) == number % 251


class Transport:
    """Messages of gdrkit."""

    def __init__(self, options: argparse.Namespace, gpu: int | None) -> None:
        key, paths = bytes.fromhex(options.key), tuple(options.paths.split(","))
        if options.decode:
            self.connection = connect("127.0.0.1", options.port, key=key, gpu=gpu, paths=paths)
        else:
            with listen("127.0.0.1", options.port, key=key, gpu=gpu, paths=paths) as listener:
                start_decode(listener.address[1], options)
                self.connection = listener.accept(WAIT_SECONDS)
        self.path = self.connection.path

    def send(self, block: Any) -> Finish:
        transfer = self.connection.send(block)
        return lambda: transfer.wait(WAIT_SECONDS)

    def receive(self, block: Any) -> Finish:
        transfer = self.connection.recv(block)
        return lambda: transfer.wait(WAIT_SECONDS)


class Nccl:
    """NCCL's send and receive through PyTorch."""

    path = "NCCL"

    def __init__(self, options: argparse.Namespace, blocks: Blocks) -> None:
        import torch.distributed as dist

        self.dist, self.torch, self.other = dist, blocks.torch, 0 if options.decode else 1
        port = options.port or 29577
        if not options.decode:
            start_decode(port, options)
        dist.init_process_group(
            "nccl", init_method=f"tcp://127.0.0.1:{port}", rank=1 - self.other, world_size=2
        )

    def _after(self, work: Any) -> Finish:
        work.wait()  # only lets the current stream wait
        event = self.torch.cuda.Event()
        event.record()
        synchronize: Finish = event.synchronize
        return synchronize

    def send(self, block: Any) -> Finish:
        return self._after(self.dist.isend(block, self.other))

    def receive(self, block: Any) -> Finish:
        return self._after(self.dist.irecv(block, self.other))


def prefill(link: Transport | Nccl, blocks: Blocks, count: int, per_second: float) -> array[float]:
    """When each block was sent."""
    sent, on_the_way, begun = array("d"), deque[Finish](), time.monotonic()
    for number in range(count):
        if len(on_the_way) == AHEAD:
            on_the_way.popleft()()
        while per_second and time.monotonic() < begun + number / per_second:
            time.sleep(0)
        block = blocks.fill(number)
        sent.append(time.monotonic())
        on_the_way.append(link.send(block))
    for finish in on_the_way:
        finish()
    return sent


def decode(link: Transport | Nccl, blocks: Blocks, count: int) -> array[float]:
    """When each block had arrived."""
    arrived, posted = array("d"), deque[Finish]()
    for number in range(-AHEAD, count):
        if number >= 0:
            posted.popleft()()
            arrived.append(time.monotonic())
            assert blocks.holds(number), f"block {number} is damaged"
        if number + AHEAD < count:
            with blocks.receiving():
                posted.append(link.receive(blocks.all[number % AHEAD]))
    return arrived


def start_decode(port: int, options: argparse.Namespace) -> None:
    command = [sys.executable, *sys.argv, "--decode", "--port", str(port), "--key", options.key]
    options.process = subprocess.Popen(command, stdout=subprocess.PIPE)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--blocks", type=int, default=1000)
    parser.add_argument("--block-bytes", type=int, default=64 << 10)
    parser.add_argument("--per-second", type=float, default=1000, help="0: as many as possible")
    parser.add_argument("--gpus", default="", help="the GPUs of prefill and decode, as 0,1")
    parser.add_argument("--paths", default="verbs,peer,shared,tcp", help="of gdrkit.transport, best first")
    parser.add_argument("--nccl", action="store_true", help="use NCCL instead; needs --gpus")
    parser.add_argument("--decode", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--key", default=generate_key().hex(), help=argparse.SUPPRESS)
    options = parser.parse_args()
    gpu = int(options.gpus.split(",")[options.decode]) if options.gpus else None
    blocks = Blocks(options.block_bytes, gpu)
    link = Nccl(options, blocks) if options.nccl else Transport(options, gpu)
    if options.decode:
        sys.stdout.buffer.write(decode(link, blocks, options.blocks).tobytes())
        return
    sent = prefill(link, blocks, options.blocks, options.per_second)
    arrived = array("d", options.process.communicate()[0])
    assert len(arrived) == len(sent), "the decode process failed"
    late = sorted((end - start) * 1e6 for start, end in zip(sent, arrived, strict=True))
    seconds = arrived[-1] - sent[0]
    print(
        f"{link.path}: {len(late)} blocks of {options.block_bytes} bytes, {len(late) / seconds:.0f} per"
        f" second, median {statistics.median(late):.0f} us,"
        f" 99 of 100 within {late[len(late) * 99 // 100]:.0f} us"
    )


if __name__ == "__main__":
    main()
