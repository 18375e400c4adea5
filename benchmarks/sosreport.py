"""Reading an archive, compared with `tar -t` of the same file in the same run.

    uv run python benchmarks/sosreport.py [ARCHIVE ...]

Without an archive: a sosreport that sos makes of this machine (needs root and the package sosreport), as
it is, and repacked with gzip, with zstd and without compression. There are two times of ours: `read` is
the time to open the archive and to read some files and commands, at most 3 times tar; `all` includes the
interpreter's start and imports.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROUNDS = 9
LIMIT = 3.0

READ = """
import sys, time
from gdrkit.evidence import EvidenceMissing
from gdrkit.facts.commands import DMESG, LSPCI
from gdrkit.evidence.target import open_host
start = time.perf_counter()
host = open_host(sys.argv[1])
for command in (DMESG, LSPCI):
    try:
        host.run(command)
    except EvidenceMissing:
        pass
for path in ("proc/modules", "proc/cmdline", "proc/kallsyms", "etc/os-release"):
    try:
        host.read(path)
    except EvidenceMissing:
        pass
print(time.perf_counter() - start)
"""


def seconds(*command: str) -> tuple[float, str]:
    """Wall time of one run in seconds, and its output."""
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return time.perf_counter() - start, done.stdout


def samples(folder: str) -> Iterator[str]:
    """A new sosreport with four compressions."""
    command = ["sos", "report", "--batch", "--tmp-dir", folder]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    packed = str(next(Path(folder).glob("sosreport-*.tar.xz")))
    yield packed
    plain = f"{folder}/sosreport.tar"
    for target, words in (
        (plain, f"xz -dc {packed} > {plain}"),
        (f"{plain}.gz", f"gzip -c {plain} > {plain}.gz"),
        (f"{plain}.zst", f"zstd -qc {plain} > {plain}.zst"),
    ):
        if subprocess.run(["sh", "-c", words], stderr=subprocess.DEVNULL).returncode == 0:
            yield target


def compare(archive: str) -> float:
    """Print one line; returns the ratio of the medians. The commands run in turns, so that noise affects
    all.
    """
    tar, whole, read = [], [], []
    for _ in range(ROUNDS):
        tar.append(seconds("tar", "-tf", archive)[0])
        wall, inside = seconds(sys.executable, "-c", READ, archive)
        whole.append(wall)
        read.append(float(inside))
    base, ours, total = (statistics.median(times) * 1e3 for times in (tar, read, whole))
    name, size = Path(archive).name[-28:], Path(archive).stat().st_size / 1e6
    print(
        f"{name:28} {size:7.1f} MB  tar -t {base:6.0f} ms  read {ours:6.0f} ms {ours / base:5.2f}x", end=""
    )
    print(f"  all {total:6.0f} ms {total / base:5.2f}x")
    return ours / base


def main() -> int:
    """Returns exit code 1 if an archive takes more than 3 times as long as tar."""
    if sys.argv[1:]:
        return int(max(compare(archive) for archive in sys.argv[1:]) > LIMIT)
    with tempfile.TemporaryDirectory() as folder:
        return int(max(compare(archive) for archive in samples(folder)) > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
