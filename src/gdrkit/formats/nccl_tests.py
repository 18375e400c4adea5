"""The output of nccl-tests' programs (all_reduce_perf, sendrecv_perf, ...): text of every version, or `-J`.

Source: NVIDIA/nccl-tests src/common.cu and, since 2025, src/util.cu: writeDeviceReport(),
writeResultHeader(), writeBenchmarkLineBody(), writeResultFooter(). GB/s are of 1e9 bytes: src/all_reduce.cu,
AllReduceGetBw().
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from gdrkit.formats import json_text
from gdrkit.formats.errors import FormatError
from gdrkit.formats.regex import regex

LINE_CHARACTERS = 1024
"""How much of a line is read: a row of results has about 150 characters."""
SHORTEST_LINE = 5
"""A row has a size and the three rates of a group at least. A hostile file has a million shorter lines."""

PREFIX = regex(r"^(?:\[\d+,\d+\]<(?:stdout|stderr)>:?|\d+: ?) ?")
"""The prefix that mpirun --tag-output and srun --label put before a line."""

RANK = regex(
    r"^#\s+Rank\s+(\d+)\s+(?:Group\s+(\d+)\s+)?(?:Pid\s+\d+\s+)?on\s+(\S+)\s+device\s+(\d+)\s+\[([0-9a-fA-Fx:]+)\]\s*(\S.*)?$"
)
TYPES = (
    "int8",
    "uint8",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "half",
    "float",
    "double",
    "bfloat16",
    "f8e4m3",
    "f8e5m2",
)
"""Types of elements, as a row names them: src/common.cu, test_typenames."""
BARE_ROW = regex(rf"\s*\d+\s+\d+\s+(?:{'|'.join(TYPES)})\s+(?P<redop>[a-z]+\s+)?(?P<root>-?\d+\s+)?(?=\d)")
"""The first columns of a row, by which it is recognised where its header was cut off."""
PROGRAM = regex(r"\b(\w+)_perf(?:_mpi)?\b")


class NcclRank(Struct, frozen=True):
    """The GPU of one process."""

    rank: int
    hostname: str
    device: int  # CUDA index on its host
    product: str


class Timing(Struct, frozen=True):
    """One group of columns. None: the run printed no number."""

    time_us: float | None
    algorithm_gb_per_s: float | None
    bus_gb_per_s: float | None


class NcclRow(Struct, frozen=True, kw_only=True):
    """The result for one size."""

    size_bytes: int
    out_of_place: Timing | None = None
    in_place: Timing | None = None

    @property
    def best(self) -> Timing | None:
        """The faster of out-of-place and in-place."""
        found = [t for t in (self.out_of_place, self.in_place) if t and t.bus_gb_per_s is not None]
        return max(found, key=lambda timing: timing.bus_gb_per_s or 0.0, default=None)


class NcclTest(Struct, frozen=True, kw_only=True):
    """One run. Empty, None: the text does not show it."""

    program: str = ""  # all_reduce, sendrecv
    ranks: tuple[NcclRank, ...] = ()
    rows: tuple[NcclRow, ...] = ()
    average_bus_gb_per_s: float | None = None  # over all sizes, so not comparable with a ceiling
    finished: bool = False
    logged: bool = False  # with NCCL_DEBUG=INFO

    @property
    def hosts(self) -> tuple[str, ...]:
        """The host names, each once, in order."""
        return tuple(dict.fromkeys(rank.hostname for rank in self.ranks))

    @property
    def alone(self) -> bool:
        """Whether each process ran alone: several have the same rank, as in programs built without MPI."""
        return len(self.ranks) > 1 and len({rank.rank for rank in self.ranks}) < len(self.ranks)


def parse_nccl_tests(text: str) -> tuple[NcclTest, ...]:
    """The runs in a text, in order; at least one. Raises FormatError."""
    if text.lstrip().startswith("{"):
        return (_parse_json(text),)
    runs = tuple(run for run in map(_run, _blocks(_lines(text))) if run is not None)
    if not runs:
        raise FormatError("no table of nccl-tests")
    return runs


def has_rows(text: str) -> bool:
    """Whether a text has rows of results, though no header."""
    return any(map(BARE_ROW.match, _lines(text)))


def _lines(text: str) -> Iterator[str]:
    """The lines that may say something, without prefixes."""
    return (
        PREFIX.sub("", line[:LINE_CHARACTERS]) for line in text.splitlines() if len(line) >= SHORTEST_LINE
    )


def _blocks(lines: Iterable[str]) -> Iterator[list[str]]:
    """The lines of a text, split where a run begins after the end of another."""
    block: list[str] = []
    ended = False
    for line in lines:
        begins = line.startswith(("# nThread", "# nccl-tests version", "# Collective test starting"))
        if ended and (begins or RANK.match(line) or _columns(line)):
            yield block
            block, ended = [], False
        block.append(line)
        ended = ended or line.startswith("# Avg bus bandwidth")
    yield block


def _run(lines: list[str]) -> NcclTest | None:
    rows = tuple(_rows(lines))
    ranks = tuple(rank for line in lines if (rank := _rank(line)) is not None)
    average = next(
        (_number(line.partition(":")[2].split(" ")[1:2]) for line in lines if "# Avg bus bandwidth" in line),
        None,
    )
    if not rows and not ranks:
        return None
    return NcclTest(
        program=_program(lines) or _program_of_rates(rows),
        ranks=ranks,
        rows=rows,
        average_bus_gb_per_s=average,
        finished=any("# Avg bus bandwidth" in line for line in lines),
        logged=any("NCCL INFO " in line for line in lines),
    )


def _program(lines: list[str]) -> str:
    """The program's name, as the run prints it, else from the command line above it."""
    for line in lines:
        if line.startswith("# Collective test starting:") and (found := PROGRAM.search(line)):
            return found[1]
    for line in lines:
        if not line.startswith("#") and (found := PROGRAM.search(line)):
            return found[1]
    return ""


LAST_DIGITS = 0.02
"""GB/s: two rates with two decimals each differ by less if they are equal."""


def _program_of_rates(rows: tuple[NcclRow, ...]) -> str:
    """all_reduce if busbw exceeds algbw by more than rounding, as in no other operation; else "":
    NVIDIA/nccl-tests doc/PERFORMANCE.md."""
    timings = [row.best for row in rows if row.best is not None]
    rates = [(one.algorithm_gb_per_s or 0.0, one.bus_gb_per_s or 0.0) for one in timings]
    above = [bus - alg for alg, bus in rates if alg and bus]
    return "all_reduce" if above and min(above) >= 0 and max(above) > LAST_DIGITS else ""


def _rank(line: str) -> NcclRank | None:
    found = RANK.match(line)
    if found is None or len(found[1]) > 9 or len(found[4]) > 9:
        return None
    return NcclRank(int(found[1]), found[3], int(found[4]), (found[6] or "").rstrip())


def _columns(line: str) -> list[str]:
    """The names of a table's columns; [] if the line is not a header."""
    words = line.lstrip("# ").split() if line.startswith("#") else []
    return words if "busbw" in words and words[:1] in (["size"], ["bytes"]) else []


def _rows(lines: list[str]) -> Iterator[NcclRow]:
    columns: list[str] = []
    for line in lines:
        if found := _columns(line):
            columns = found
        elif (row := _row(columns or _columns_of_bare_row(line), line.split())) is not None:
            yield row


def _columns_of_bare_row(line: str) -> list[str]:
    """The columns of a row whose header is missing; [] for any other line. Times have a point, and a root
    is -1 or a rank: a whole number before three others is the root."""
    found = BARE_ROW.match(line)
    if found is None:
        return []
    rest = len(line[found.start("root") if found["root"] else found.end() :].split())
    lead = ["size", "count", "type", *(["redop"] if found["redop"] else [])]
    group = ["time", "algbw", "busbw", "#wrong"]
    for root in (["root"], []) if found["root"] else ([],):
        for groups in range(2, 0, -1):
            if rest == len(root) + groups * len(group):
                return [*lead, *root, *group * groups]
    return []


def _row(columns: list[str], words: list[str]) -> NcclRow | None:
    """A line of numbers below its header. A run that measures only one of two groups leaves the first blank,
    the out-of-place one (util.cu, writeBenchMarkLineNullBody()). Programs that reduce nothing leave redop
    blank (src/alltoall.cu up to 2.11)."""
    if "redop" in columns and columns.index("redop") < len(words) - 1:
        at = columns.index("redop")
        if len(words) < len(columns) and _number([words[at]]) is not None:
            columns = columns[:at] + columns[at + 1 :]
    first = next((i for i, name in enumerate(columns) if name == "busbw"), 0) - 2
    if first < 0 or not words or not words[0].isascii() or not words[0].isdigit() or len(words[0]) > 18:
        return None
    lead, rest = columns[:first], words[first:]
    if len(words) < first + 3 or (lead and "type" in lead and _number([words[lead.index("type")]])):
        return None
    names = columns[first:]
    second = next((i for i, name in enumerate(names) if i > 2 and name == "busbw"), None)
    group = second - 2 if second is not None else len(names)
    timings = [_timing(rest[:3])]
    if second is not None and len(rest) >= group + 3:
        timings.append(_timing(rest[group : group + 3]))
    one_of_two = second is not None and len(timings) == 1
    if all(timing is None for timing in timings):
        return None
    return NcclRow(
        size_bytes=int(words[0]),
        out_of_place=None if one_of_two else timings[0],
        in_place=timings[0] if one_of_two else timings[1] if len(timings) > 1 else None,
    )


def _timing(words: list[str]) -> Timing | None:
    numbers = [_number([word]) for word in words]
    return Timing(numbers[0], numbers[1], numbers[2]) if numbers.count(None) < 3 else None


def _parse_json(text: str) -> NcclTest:
    """One file of -J. Raises FormatError."""
    try:
        document: Any = json_text.decode(text.encode("utf-8", "replace"), object)
    except FormatError as error:
        raise FormatError(f"not the JSON of nccl-tests: {error}") from None
    results = document.get("results") if isinstance(document, dict) else None
    if not isinstance(results, list):
        raise FormatError("no list of results: not the JSON of nccl-tests")
    arguments = document.get("args")
    words = " ".join(map(str, arguments)) if isinstance(arguments, list) else ""
    program = PROGRAM.search(words)
    average = document.get("average_bus_bandwidth")
    average = average.get("bandwidth") if isinstance(average, dict) else None
    return NcclTest(
        program=program[1] if program else "",
        ranks=tuple(_json_ranks(document.get("config"))),
        rows=tuple(row for result in results if (row := _json_row(result)) is not None),
        average_bus_gb_per_s=_number([average]),
        finished="end_time" in document,
    )


def _json_ranks(config: object) -> Iterator[NcclRank]:
    devices = config.get("devices") if isinstance(config, dict) else None
    for device in devices if isinstance(devices, list) else ():
        if not isinstance(device, dict):
            continue
        rank, index = device.get("rank"), device.get("device")
        if isinstance(rank, int) and isinstance(index, int):
            product = str(device.get("device_info", ""))
            yield NcclRank(rank, str(device.get("hostname", "")), index, product)


def _json_row(result: object) -> NcclRow | None:
    size = result.get("size") if isinstance(result, dict) else None
    if not isinstance(result, dict) or not isinstance(size, int) or size < 0:
        return None
    timings = (_json_timing(result.get("out_of_place")), _json_timing(result.get("in_place")))
    return NcclRow(size_bytes=size, out_of_place=timings[0], in_place=timings[1]) if any(timings) else None


def _json_timing(cells: object) -> Timing | None:
    if not isinstance(cells, Mapping):
        return None
    time = cells.get("time", cells.get("cpu_time"))
    return Timing(_number([time]), _number([cells.get("alg_bw")]), _number([cells.get("bus_bw")]))


def _number(words: list[object] | list[str]) -> float | None:
    """The first word as a number; None without a word, for N/A, and for a value that cannot be a rate."""
    word = words[0] if words else None
    try:
        number = float(word) if isinstance(word, (str, int, float)) else None
    except (ValueError, OverflowError):
        return None
    return number if number is not None and 0 <= number < 1e18 else None
