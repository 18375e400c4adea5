"""The run time of the probe behind `gdr ps` beside 100 processes that look like a job on 8 GPUs.

    sudo python -m benchmarks.ps

Each process has a mount namespace with device nodes of 8 GPUs and 4 RDMA devices, which it opens 60 times,
200 sockets, 1,000 mappings, and a library of 218 MB, with NCCL's version at its end. The devices do nothing:
what drivers take is not in it, nor queue pairs of a real NIC. Exit code 1 if the limit is exceeded.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gdrkit.agent.probe.program import program

PROCESSES, ROUNDS = 100, 10
LIMIT_S = 1.0
LIBRARY_BYTES = 217_995_896
"""Of libnccl.so.2 in the wheel of 2.28.9."""
HOLDER = """
import ctypes, mmap, os, socket, stat, sys
libc = ctypes.CDLL(None, use_errno=True)
if libc.unshare(0x20000) or libc.mount(b"none", b"/", None, 0x44000, None):
    sys.exit("needs root")
library = open(sys.argv[1], "rb")
libc.mount(b"tmpfs", b"/dev", b"tmpfs", 0, None)
os.mkdir("/dev/infiniband")
names = ["/dev/nvidia%d" % n for n in range(8)] + ["/dev/infiniband/uverbs%d" % n for n in range(4)]
for name in names:
    os.mknod(name, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
held = [os.open(names[n % len(names)], os.O_RDWR) for n in range(60)]
pairs = [socket.socketpair() for _ in range(100)]
number = ctypes.c_int
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, number, number, number, ctypes.c_long]
libc.mmap.restype = ctypes.c_void_p
other = open(sys.argv[2], "rb")
size = os.fstat(library.fileno()).st_size
libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_PRIVATE, library.fileno(), 0)
for n in range(1000):  # other rights for each second one, so that the kernel does not join them
    libc.mmap(None, 4096, mmap.PROT_READ | 4 * (n % 2), mmap.MAP_PRIVATE, other.fileno(), 8192 * n)
print("ready", flush=True)
sys.stdin.read()
"""


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder, "libnccl.so.2")
        with library.open("wb") as file:
            file.truncate(LIBRARY_BYTES)
            file.seek(LIBRARY_BYTES - 4096)
            file.write(b"NCCL version 2.28.9+cuda13.0\0")
        other = Path(folder, "weights.bin")
        other.write_bytes(bytes(8192 * 1000))
        words = [sys.executable, "-I", "-c", HOLDER, str(library), str(other)]
        pipe = subprocess.PIPE
        children = [subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True) for _ in range(PROCESSES)]
        try:
            for child in children:
                assert child.stdout and child.stdout.readline() == "ready\n"
            return measured()
        finally:
            for child in children:
                assert child.stdin
                child.stdin.close()
                child.wait(60)


def measured() -> int:
    words = [sys.executable, "-I", "-c", program("running_probe")]
    runs: list[tuple[float, dict[str, float]]] = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        done = subprocess.run(words, capture_output=True, check=True)
        record = json.loads(done.stdout)
        seconds = {name: state["seconds"] for name, state in record["sources"].items()}
        runs.append((time.perf_counter() - begun, seconds))
    assert len(record["processes"]) == PROCESSES
    assert {one["libraries"][0]["version"] for one in record["processes"]} == {"2.28.9+cuda13.0"}
    whole = statistics.median(time_s for time_s, _ in runs)
    print(f"{PROCESSES} processes, median of {ROUNDS} runs: {whole:.2f} s, of which 0.4 s is for rates")
    for name in sorted(runs[0][1], key=lambda name: -statistics.median(one[name] for _, one in runs)):
        print(f"  {name:<10} {statistics.median(one[name] for _, one in runs):.2f} s, side by side")
    return int(whole > LIMIT_S)


if __name__ == "__main__":
    sys.exit(main())
