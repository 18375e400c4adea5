"""Reading one large module: plain, and compressed, compared with its decompressor, in turns in one process.

    uv run --no-sync python -m benchmarks.module

Reads from a module of 10 MB what the loader needs: modinfo, imports with their checksums, exports, signer.
Exit code 1 if a plain module takes more than 10 ms, or a compressed one more than twice as long as its
decompressor.
"""

from __future__ import annotations

import lzma
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from backports import zstd
from tests.module_builder import build_module, make_key, sign

from benchmarks.machines import code, packed
from gdrkit.evidence.live import LiveHost
from gdrkit.facts import module_files, trust
from gdrkit.node import Node

ROUNDS = 15
SIZE_BYTES = 10_000_000
PLAIN_LIMIT_MS = 10
PACKED_LIMIT = 2.0

UNPACK: dict[str, Callable[[bytes], object]] = {".xz": lzma.decompress, ".zst": zstd.decompress}


def large_module() -> bytes:
    """A signed module of 10 MB with some hundred symbols."""
    symbols = {f"symbol_{number}": number + 1 for number in range(300)}
    module = build_module("large", imports=symbols, exports={f"own_{n}": n for n in range(300)})
    return sign(module + code(SIZE_BYTES - len(module)), make_key("A signer"), digest="sha512")


def ask(path: str) -> None:
    """Read what the loader needs from a file, with a new node."""
    node = Node(LiveHost())
    module_files.information(node, path)
    module_files.imports(node, path)
    module_files.exports(node, path)
    trust.signature(node, path)


def milliseconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1000


def main() -> int:
    content = large_module()
    kept = True
    print(f"{'module of 10 MB':<16} {'read ms':>8} {'unpack ms':>10} {'ratio':>7} {'limit':>7}")
    with tempfile.TemporaryDirectory() as folder:
        for suffix in ("", ".zst", ".xz"):
            file = Path(folder) / f"large.ko{suffix}"
            file.write_bytes(packed(content, suffix))
            path, data = str(file).lstrip("/"), file.read_bytes()
            ask(path)
            ours, base = [], []
            for _ in range(ROUNDS):
                ours.append(milliseconds(lambda path=path: ask(path)))
                if suffix:
                    base.append(milliseconds(lambda data=data, suffix=suffix: UNPACK[suffix](data)))
            read, unpack = statistics.median(ours), statistics.median(base or [0.0])
            kept = kept and (read <= PACKED_LIMIT * unpack if suffix else read <= PLAIN_LIMIT_MS)
            ratio, limit = (f"{read / unpack:.2f}x", "2x") if suffix else ("", "10 ms")
            print(f"large.ko{suffix:<8} {read:8.1f} {unpack:10.1f} {ratio:>7} {limit:>7}")
    return int(not kept)


if __name__ == "__main__":
    sys.exit(main())
