"""The GPUs that a text lists line by line: `nvidia-smi`, `nvidia-smi -L`, its CSV, nccl-tests, lspci, and
programs of CUDA.

    |   0  NVIDIA GeForce RTX 4090        Off |   00000000:01:00.0 Off |                  Off |
    GPU 0: NVIDIA GeForce RTX 4090 (UUID: GPU-6b1a...)
    GPU 0: NVIDIA GeForce RTX 4090                  as PyTorch's collect_env prints it, and people shorten it
    0, NVIDIA GeForce RTX 4090, 24564 MiB
    #  Rank  0 Group  0 Pid   4711 on node7 device  0 [0000:01:00] NVIDIA GeForce RTX 4090
    GPU id:0; name: NVIDIA GeForce RTX 4090; Bus id: 0000:01:00
    01:00.0 VGA compatible controller [0300]: NVIDIA Corporation AD102 [10de:2684] (rev a1)

nvidia-smi numbers GPUs by their PCI address, as the matrix of `nvidia-smi topo -m` does.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from gdrkit.formats.regex import regex

LINE_CHARACTERS = 1000
"""How much of a line is read."""
_PRODUCT = r"(?:NVIDIA|Tesla|Quadro|GeForce|GRID|TITAN)\b"
_ROW = regex(
    rf"\s*\| +(?P<number>\d{{1,4}}) +(?P<name>{_PRODUCT}.*?)(?<! ) ++"
    r"(?:On|Off|N/A|Enabled|Disabled|ERR!) *\| *(?P<address>[0-9A-F]{8}:[0-9A-F]{2}:[0-9A-F]{2}\.\d) "
)
_LISTED = regex(r"\s*GPU (?P<number>\d{1,4}): (?P<name>.+?) \(UUID: ")
_NAMED = regex(
    r"[\s>*|-]{0,8}(?:GPU ?(?P<number>\d{1,4}):|(?P<csv>\d{1,4}),"
    r"|#?\s{1,4}Rank .{1,200} device +(?P<device>\d{1,4}) \[[0-9a-fx:]{4,10}\])"
    rf" (?P<name>{_PRODUCT}[^,;|(]*+)(?:[,;|(].*)?$"
)
_RANK = regex(
    r"#?\s{1,4}Rank .{1,200} device +(?P<number>\d{1,4}) \[(?:0x(?P<bus>[0-9a-f]{2})"
    rf"|(?P<address>[0-9a-f]{{4}}:[0-9a-f]{{2}}:[0-9a-f]{{2}}))\] (?P<name>{_PRODUCT}[^,;|(]{{0,60}}?)\s*$"
)
_BY_CUDA = regex(
    rf"\s*(?:GPU id:\d{{1,4}}; name: (?P<name>{_PRODUCT}[^;]{{0,60}}?); Bus id:"
    r" (?P<address>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2})"
    rf"|Device: \d{{1,4}}, (?P<tested>{_PRODUCT}[^,]{{0,60}}?), pciBusID: (?P<bus>[0-9a-f]{{1,2}}),"
    r" pciDeviceID: (?P<device>[0-9a-f]{1,2}), pciDomainID: ?(?P<domain>[0-9a-f]{1,4}))\s*$"
)
_PCI = regex(
    r"\s*(?P<address>(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[01][0-9a-f]\.[0-7])"
    r" (?:VGA compatible|3D) controller(?: \[03\d\d\])?: NVIDIA Corporation (?P<name>.+?)(?<!\s)"
    r"(?: ++\[10de:(?P<device>[0-9a-f]{4})\])?(?: ++\(rev \w\w\))?\s*+$"
)


MENTIONS = regex(rf"GPU \d|{_PRODUCT}")
"""What every line has that lists a GPU."""


class ListedGpu(Struct, frozen=True, kw_only=True):
    """One GPU; "" and None: not shown."""

    name: str
    number: int | None = None
    address: str = ""  # as the program prints it
    device: str = ""  # four digits


def smi_gpu_in(line: str) -> ListedGpu | None:
    """The GPU in a row of nvidia-smi's table or of `nvidia-smi -L`; None for any other line."""
    line = line[:LINE_CHARACTERS]
    if row := _ROW.match(line):
        name = row["name"].rstrip(". ")
        return ListedGpu(name=name, number=int(row["number"]), address=row["address"])
    if listed := _LISTED.match(line):
        return ListedGpu(name=listed["name"], number=int(listed["number"]))
    return None


def numbered_gpu_in(line: str) -> ListedGpu | None:
    """The GPU in a line of nvidia-smi, or of a program or person that numbers GPUs alike; None for any other
    line."""
    if named := _NAMED.match(line[:LINE_CHARACTERS]):
        number = int(named["number"] or named["csv"] or named["device"])
        return ListedGpu(name=named["name"].rstrip(), number=number)
    return smi_gpu_in(line)


def rank_gpu_in(line: str) -> ListedGpu | None:
    """The GPU of a rank of nccl-tests, by its address; None for any other line. Older releases print the bus
    alone: src/common.cu, since 2025 src/util.cu, writeDeviceReport()."""
    found = _RANK.match(line[:LINE_CHARACTERS])
    if found is None:
        return None
    address = f"{found['address'] or '0000:' + found['bus'] + ':00'}.0"
    return ListedGpu(name=found["name"], number=int(found["number"]), address=address)


def cuda_gpu_in(line: str) -> ListedGpu | None:
    """The GPU in a list of gdrcopy_copybw, or of p2pBandwidthLatencyTest, by its address: their numbers are
    CUDA's. None for any other line. Sources: NVIDIA/gdrcopy tests/gdrcopy_copybw.cpp; NVIDIA/cuda-samples
    p2pBandwidthLatencyTest.cu."""
    found = _BY_CUDA.match(line[:LINE_CHARACTERS])
    if found is None:
        return None
    if found["address"]:
        return ListedGpu(name=found["name"], address=f"{found['address']}.0")
    numbers = (found["domain"].zfill(4), found["bus"].zfill(2), found["device"].zfill(2))
    return ListedGpu(name=found["tested"], address=f"{':'.join(numbers)}.0")


def pci_gpu_in(line: str) -> ListedGpu | None:
    """The GPU in a line of lspci; None for any other line."""
    found = _PCI.match(line[:LINE_CHARACTERS])
    if found is None:
        return None
    return ListedGpu(name=found["name"], address=found["address"], device=found["device"] or "")


def by_number(lines: Iterable[str], count: int) -> dict[int, ListedGpu]:
    """The GPUs of a machine with so many, by nvidia-smi's number. Those of lspci have none: they count, in
    the order of their addresses, if they are as many. A number with two names is left out."""
    shown = list(filter(MENTIONS.search, lines))
    found: dict[int, ListedGpu] = {}
    unclear = set()
    for gpu in filter(None, map(numbered_gpu_in, shown)):
        assert gpu.number is not None
        if found.setdefault(gpu.number, gpu).name != gpu.name:
            unclear.add(gpu.number)
    if found:
        return {number: gpu for number, gpu in found.items() if number < count and number not in unclear}
    listed = {gpu.address.zfill(16): gpu for gpu in filter(None, map(pci_gpu_in, shown))}
    if len(listed) != count:
        return {}
    return dict(enumerate(listed[address] for address in sorted(listed)))
