"""The output of `nvidia-smi dmon -s t`: PCIe traffic of each GPU, once a second.

Source: nvidia-smi(1), "nvidia-smi dmon": rxpci and txpci in MB/s; `-o DT` puts date and time before them,
`--format csv` commas between them, and the header is repeated. The manual does not define what is counted.
On an H200 whose link has MaxPayload 256, copies of 55.27 GB/s to the GPU showed as 59.1 to 59.5 GB/s of
rxpci and 5.1 to 5.2 of txpci, copies of 55.29 from it as 60.1 to 60.3 of txpci. So it counts packets with
header and framing, and read requests too; an MB is 1e6 bytes (driver 580).
"""

from __future__ import annotations

from msgspec import Struct

from gdrkit.formats.errors import FormatError


class DmonTraffic(Struct, frozen=True):
    """One line. None: printed as `-`, the GPU does not count it."""

    gpu: int  # NVML index
    rx_mb_per_s: float | None  # into the GPU, packet headers included
    tx_mb_per_s: float | None


def parse_dmon(text: str) -> tuple[DmonTraffic, ...]:
    """The lines of a table with rxpci and txpci, in order; at least one. Raises FormatError."""
    names: list[str] = []
    found = []
    for line in text.splitlines():
        words = line.replace(",", " ").split()  # --format csv
        if line.startswith("#"):
            head = [word.lower() for word in line.lstrip("#").replace(",", " ").split()]
            names = head if "gpu" in head else names
        elif "rxpci" in names and len(words) == len(names):
            cells = dict(zip(names, words, strict=True))
            if cells["gpu"].isascii() and cells["gpu"].isdigit() and len(cells["gpu"]) < 5:
                rates = (_rate(cells["rxpci"]), _rate(cells.get("txpci", "-")))
                found.append(DmonTraffic(int(cells["gpu"]), *rates))
    if not found:
        raise FormatError("no table of nvidia-smi dmon with rxpci and txpci")
    return tuple(found)


def _rate(word: str) -> float | None:
    return float(word) if word.isascii() and word.isdigit() and len(word) < 12 else None
