"""The output of perftest's programs (ib_write_bw, ib_read_lat, ...): text, or the JSON of `--out_json`.

Source: linux-rdma/perftest src/perftest_parameters.h (RESULT_LINE, RESULT_FMT and the lines after them),
perftest_parameters.c (ctx_print_test_info(), print_report_bw(), write_bw_report_to_file()), cuda_memory.c,
perftest_resources.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from gdrkit.formats import json_text
from gdrkit.formats.errors import FormatError
from gdrkit.formats.regex import regex

GB_PER_S = {"MB/sec": 2**20 / 1e9, "MiB/sec": 2**20 / 1e9, "Gb/sec": 1 / 8}
"""A column's unit in GB/s. perftest's MB has always been 2**20 bytes; newer versions print MiB:
perftest_parameters.c, format_factor."""

LINE_CHARACTERS = 1024
"""How much of a line is read: a row of results has about 100 characters, a command some more."""

COLUMN = regex(r"(?:BW |MsgRate ?|99(?:\.9+)?% |tps )?[#\w.%]+(?:\[[^\]]*\])?")
COMMAND = regex(r"^.*?\b((?:ib|raw_ethernet)_(?:write|read|send|atomic)_(?:bw|lat)\b.*)$")
TITLE = regex(r"^\s+((?:RDMA_|Send|Atomic_|Raw|WriteImm)\S*(?: \S+)*) Test\s*$")
NUMBERS = regex(r"^ *\d+(?:[ \t]+-?(?:[\d.]+|nan)){3,}[ \t]*$")
SHORTEST_NUMBERS = 7
"""Characters of such a line. A hostile file has a million shorter ones."""
BETWEEN_SETTINGS = regex(r"\t+|(?<![^\S\t])\s{4,}(?=[A-Z][\w ]*:)")
SETTING = regex(r"\s*([A-Z][\w*.-]*(?: +[\w*.-]+)*)\s*:\s+(\S+)\s*")
OTHER_MAKERS = {
    "AMD": regex(r"--use_rocm\b|^Using ROCm Device\b|\bUse ROCm memory\s*:\s*ON\b", re.MULTILINE),
    "Intel": regex(r"--use_hl\b|\bUse HL memory\s*:\s*ON\b"),
    "Cambricon": regex(r"--use_mlu\b"),
    "AWS": regex(r"--use_neuron\b"),
}
"""What shows that a run used the memory of an accelerator, by its maker. Source: perftest
src/perftest_parameters.c, usage(); rocm_memory.c, hl_memory.c, mlu_memory.c, neuron_memory.c."""
USES_GPU = regex(r"initializing CUDA|CUDA device|creating CUDA Ctx|making it the current CUDA Ctx")


class PerftestRow(Struct, frozen=True, kw_only=True):
    """The result for one message size. None: the run did not measure it."""

    size_bytes: int
    iterations: int | None = None
    average_gb_per_s: float | None = None  # the sum of both directions in a bidirectional test
    typical_us: float | None = None
    average_us: float | None = None


class Perftest(Struct, frozen=True, kw_only=True):
    """One run. Empty, None: the text does not show it."""

    command: str = ""
    test: str = ""  # RDMA_Write Bidirectional BW
    device: str = ""
    mtu_bytes: int | None = None
    link_layer: str = ""  # InfiniBand, Ethernet
    dual_port: bool = False
    uses_gpu: bool = False
    uses_dmabuf: bool | None = None
    gpu_bus: str = ""  # bus and device of the GPU in use, "1b:00"; perftest leaves out the domain
    memory: str = ""  # "managed" or "host": what --cuda_mem_type chose instead of the GPU's own memory
    other_maker: str = ""  # of an accelerator that is not NVIDIA's and whose memory was used
    integrated_gpu: bool = False  # then --use_cuda allocated host memory
    integrated_line: int = 0  # the line that shows it
    refused: bool = False  # Couldn't allocate MR
    refused_line: int = 0
    registration_errno: int | None = None
    result_shown: bool = False  # a line of numbers, with or without the header above it
    rows: tuple[PerftestRow, ...] = ()

    @property
    def bidirectional(self) -> bool:
        return "Bidirectional" in self.test or bool(
            re.search(r" (?:-b|--bidirectional)(?: |$)", self.command)
        )


def parse_perftest(text: str) -> tuple[Perftest, ...]:
    """The runs in a text, in order; at least one. Raises FormatError."""
    if text.lstrip().startswith("{"):
        return (_parse_json(text),)
    runs: list[Perftest] = []
    first = 1
    for block in _blocks([line[:LINE_CHARACTERS] for line in text.splitlines()]):
        if (run := _run(block, first)) is not None:
            runs.append(run)
        first += len(block)
    if not runs:
        raise FormatError("no line of perftest")
    return tuple(runs)


def _blocks(lines: list[str]) -> Iterator[list[str]]:
    """The lines of a text, split where a run begins after the numbers of another."""
    block: list[str] = []
    shown = False  # numbers, in this block
    for line in lines:
        if shown and (_command(line) or _title(line) or "initializing CUDA" in line):
            yield block
            block, shown = [], False
        block.append(line)
        shown = shown or _numbers(line)
    yield block


def _command(line: str) -> str:
    found = COMMAND.match(line) if "_bw" in line or "_lat" in line else None
    return found[1].strip() if found else ""


def _title(line: str) -> str:
    found = TITLE.match(line) if " Test" in line else None
    return found[1] if found else ""


def _numbers(line: str) -> bool:
    return len(line) >= SHORTEST_NUMBERS and NUMBERS.match(line) is not None


def _run(lines: list[str], first: int) -> Perftest | None:
    """One run, by its lines and the number of the first; None if no line is perftest's."""
    text = "\n".join(lines)
    lines = [line for line in lines if line]
    command = next(filter(None, map(_command, lines)), "")
    refused = re.search(r"Couldn't allocate MR(?: with error=(\d{1,9})\b)?", text)
    integrated = re.search(r"CUDA device integrated: 1\b", text)
    gpu = USES_GPU.search(text)
    rows = tuple(_rows(lines))
    shown = bool(rows) or any(map(_numbers, lines))
    settings = _settings(lines)
    test = next(filter(None, map(_title, lines)), "")
    if not (command or refused or gpu or shown or test):
        return None
    by_command = "--use_cuda_dmabuf" in command if command else None
    return Perftest(
        command=command,
        test=test,
        device=settings.get("Device", ""),
        mtu_bytes=_whole(settings.get("Mtu", "").partition("[")[0]),
        link_layer=_link_layer(settings.get("Link type", "")),
        dual_port=settings.get("Dual-port") == "ON",
        uses_gpu=bool(gpu) or "--use_cuda" in command,
        uses_dmabuf=by_command if command else (True if re.search(r"DMA-?BUF", text) else None),
        memory=_memory(command, text),
        other_maker=next((maker for maker, shown in OTHER_MAKERS.items() if shown.search(text)), ""),
        gpu_bus=_gpu_bus(text),
        integrated_gpu=integrated is not None,
        integrated_line=_line_of(integrated, first),
        refused=refused is not None,
        refused_line=_line_of(refused, first),
        registration_errno=int(refused[1]) if refused and refused[1] else None,
        result_shown=shown,
        rows=rows,
    )


def _line_of(found: re.Match[str] | None, first: int) -> int:
    """The line number of a match; 0 if there is none."""
    return first + found.string.count("\n", 0, found.start()) if found else 0


def _memory(command: str, text: str) -> str:
    """Which memory --cuda_mem_type chose, by the command or the line about the buffer; "" for the GPU's own.

    Source: perftest 26.04 src/perftest_parameters.c, 1 is managed and 4 is malloc; cuda_memory.c,
    cuda_memory_allocate_buffer(): only the GPU's own memory is exported as a dma-buf."""
    chosen = re.search(r"--cuda_mem_type[= ]([0-9])\b", command) or re.search(
        r"for type CUDA_MEM_(MANAGED|MALLOC)\b", text
    )
    kinds = {"1": "managed", "MANAGED": "managed", "4": "host", "MALLOC": "host"}
    return kinds.get(chosen[1], "") if chosen else ""


def _gpu_bus(text: str) -> str:
    """The bus of the GPU that was used. Source: cuda_memory.c, init_gpu(): a list of GPUs, then the
    choice."""
    picked = re.search(r"Picking device No\. (\d+)$", text, re.MULTILINE)
    if picked is None:
        return ""
    at = rf"CUDA device {picked[1]}: PCIe address is ([0-9A-Fa-f]{{2}}:[0-9A-Fa-f]{{2}})$"
    found = re.search(at, text, re.MULTILINE)
    return found[1].lower() if found else ""


def _settings(lines: list[str]) -> dict[str, str]:
    """The settings above the table: ` Number of qps   : 1		Transport type : IB`, two in a line."""
    found: dict[str, str] = {}
    for line in lines:
        for half in BETWEEN_SETTINGS.split(line) if ":" in line else ():
            if match := SETTING.fullmatch(half):
                found.setdefault(match[1], match[2])
    return found


def _rows(lines: list[str]) -> Iterator[PerftestRow]:
    columns: list[str] = []
    for line in lines:
        if line.lstrip().startswith("#bytes"):
            columns = COLUMN.findall(line)
        elif not columns and (bare := bare_row(line)):
            yield bare
        elif columns and _numbers(line):
            values = line.split()
            if len(values) >= len(columns) - 1:  # one version prints the header CPU_Util[%] without a number
                row = _row(dict(zip(columns, values, strict=False)))
                if row is not None:
                    yield row


BARE_ROW = regex(
    r" *(?P<size>\d{1,12})[ \t]+(?P<iterations>\d{1,12})[ \t]+\d{1,7}\.\d\d[ \t]+(?P<average>\d{1,7}\.\d\d)"
    r"[ \t]+(?P<messages>\d{1,5}\.\d{6})[ \t]*$"
)
"""A row of a bandwidth. Source: src/perftest_parameters.h, REPORT_FMT."""


def bare_row(line: str) -> PerftestRow | None:
    """A row of a bandwidth whose header is not shown, as grep leaves it; None for any other line. Its rate
    of messages tells its unit, and that it is such a row."""
    found = BARE_ROW.match(line)
    if found is None:
        return None
    size, average = int(found["size"]), float(found["average"])
    factor = _unit(average, float(found["messages"]), size)
    if factor is None:
        return None
    return PerftestRow(
        size_bytes=size, iterations=int(found["iterations"]), average_gb_per_s=average * factor
    )


def _row(cells: Mapping[str, str]) -> PerftestRow | None:
    size = _whole(cells.get("#bytes", ""))
    if size is None:
        return None
    units = {name.partition("[")[0]: name.partition("[")[2].rstrip("]") for name in cells}
    values = {name.partition("[")[0]: _number(value) for name, value in cells.items()}

    def rate(name: str) -> float | None:
        value, factor = values.get(name), GB_PER_S.get(units.get(name, ""))
        return value * factor if value is not None and factor is not None else None

    return PerftestRow(
        size_bytes=size,
        iterations=_whole(cells.get("#iterations", "")),
        average_gb_per_s=rate("BW average"),
        typical_us=values.get("t_typical"),
        average_us=values.get("t_avg"),
    )


# -- --out_json ------------------------------------------------------------------------------------


def _parse_json(text: str) -> Perftest:
    """One file of --out_json. Raises FormatError, also for versions before 2024, whose strings have no
    quotes."""
    try:
        document: Any = json_text.decode(text.encode("utf-8", "replace"), object)
    except FormatError as error:
        raise FormatError(f"not the JSON of perftest: {error}") from None
    about = document.get("test_info") if isinstance(document, dict) else None
    if not isinstance(about, dict):
        raise FormatError("no test_info: not the JSON of perftest")
    settings = {key: str(value) for key, value in about.items()}
    rows = tuple(_json_rows(document))
    return Perftest(
        test=settings.get("test", "").replace("_", " ").removesuffix(" Test").replace("RDMA ", "RDMA_"),
        device=settings.get("Device", ""),
        mtu_bytes=_whole(settings.get("Mtu", "").partition("[")[0]),
        link_layer=_link_layer(settings.get("Link_type", "")),
        dual_port=settings.get("Dual_port") == "ON",
        result_shown=bool(rows),
        rows=rows,
    )


def _json_rows(document: Mapping[str, object]) -> Iterator[PerftestRow]:
    results = document.get("results")
    for cells in results if isinstance(results, list) else [results]:
        if not isinstance(cells, dict):
            continue
        size = _whole(str(cells.get("MsgSize", "")))
        if size is None:
            continue
        average, messages = _number(cells.get("BW_average")), _number(cells.get("MsgRate"))
        factor = _unit(average, messages, size)
        yield PerftestRow(
            size_bytes=size,
            iterations=_whole(str(cells.get("n_iterations", ""))),
            average_gb_per_s=average * factor if average is not None and factor else None,
            typical_us=_number(cells.get("t_typical")),
            average_us=_number(cells.get("t_avg")),
        )


def _unit(average: float | None, messages: float | None, size: int) -> float | None:
    """The unit of the rates, MiB/s or Gb/s, in GB/s. Where no header shows it, it follows from the rate
    of messages. None where neither unit matches within 5 %, as for a rate too small to be printed."""
    if not average or not messages:
        return None
    gb_per_s = messages * 1e6 * size / 1e9
    near = (factor for factor in GB_PER_S.values() if abs(average * factor / gb_per_s - 1) < 0.05)
    return next(near, None) if gb_per_s else None


def _link_layer(word: str) -> str:
    return "InfiniBand" if word == "IB" else word


def _whole(word: str) -> int | None:
    return int(word) if word.isascii() and word.isdigit() and len(word) < 19 else None


def _number(value: object) -> float | None:
    try:
        number = float(value) if isinstance(value, (str, int, float)) else None
    except (ValueError, OverflowError):
        return None
    return number if number is not None and 0 <= number < 1e18 else None
