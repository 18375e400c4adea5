"""What a log of NCCL establishes, as far as rules ask: settings, versions, networks, legs, refusals, errors.

Logs are handed over with a node, under `sos_commands/nccl/`; a node without one was simply given none. What
a log does not print is not denied by it: most lines need NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH.
Source of the forms: NCCL src/debug.cc, src/param.cc, src/transport/net*.cc, src/graph/*.cc, v2.4.2 to
v2.30.7.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

from msgspec import Struct

from gdrkit.evidence import FormatError
from gdrkit.facts.looked import handed_over
from gdrkit.node import Node, fact

FOLDER = "sos_commands/nccl"


class Said(Struct, frozen=True):
    """Something that one process printed."""

    text: str
    line: int
    process: str = ""  # host:pid, "" where the line has no frame


class LogSetting(Struct, frozen=True):
    """An environment variable that took effect, or was given to a process, in one process."""

    name: str
    value: str
    line: int
    process: str = ""
    resolved: bool = True  # NCCL printed it itself; False: only the text around it says so


class Leg(Struct, frozen=True):
    """One direction of one channel over the network. The only lines that prove anything."""

    direction: str  # send, receive
    network: str  # IB, Socket, IBext_v10, AWS Libfabric, ...
    gdr: bool
    line: int


class DeviceLine(Struct, frozen=True):
    """`GPU Direct RDMA Enabled|Disabled for HCA`: what the network side could do. Necessary, proves
    nothing.
    """

    network: str
    device: str
    enabled: bool
    line: int


class Refusal(Struct, frozen=True):
    """A pair refused for its distance. Numbers mean nothing without the version that printed them."""

    gpu: str
    hca: str
    distance: int
    level: int
    line: int


class Failure(Struct, frozen=True):
    """A call or a work completion that failed. `number` is the errno, or the completion status."""

    call: str  # ibv_reg_mr, ibv_reg_dmabuf_mr, ibv_modify_qp, completion
    number: int | None
    text: str
    line: int
    vendor_error: int | None = None


class NcclLog(Struct, frozen=True, kw_only=True):
    """One log. Each tuple is in the order of the lines."""

    path: str
    versions: tuple[Said, ...] = ()
    settings: tuple[LogSetting, ...] = ()
    networks: tuple[Said, ...] = ()
    plugins: tuple[Said, ...] = ()
    devices: tuple[DeviceLine, ...] = ()
    legs: tuple[Leg, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    failures: tuple[Failure, ...] = ()
    dmabuf_gpus: tuple[Said, ...] = ()  # DMA-BUF is available on GPU device N: the GPU side alone
    rings: tuple[Said, ...] = ()  # Connected all rings ... GDR 0|1
    mixed_versions: tuple[Said, ...] = ()
    no_verbs: tuple[Said, ...] = ()  # Failed to open libibverbs.so


@fact
def logs(node: Node) -> tuple[str, ...]:
    """Logs of NCCL that came with this node; () if none was handed over."""
    return handed_over(node, FOLDER)


@fact
def nccl_log(node: Node, path: str) -> NcclLog:
    """One log, taken apart. Raises Lacks if it is not there, or has no line of NCCL's."""
    return parse(node.text(path), path)


def parse(text: str, path: str = "") -> NcclLog:
    """NCCL's lines in a text, framed by launchers or not. Raises FormatError if nothing in it is NCCL's."""
    found: dict[str, list[object]] = {field: [] for field in NcclLog.__struct_fields__ if field != "path"}
    frame_pattern = _frame()
    for number, line in enumerate(text.splitlines(), 1):
        if "NCCL" not in line and "NET/" not in line:
            continue
        frame = frame_pattern.match(line)
        process = f"{frame['host']}:{frame['pid']}" if frame else ""
        said = frame["message"] if frame else line.strip()
        for field, pattern, make in _patterns():
            match = pattern.search(said)
            if match:
                found[field].append(make(match, number, process))
                break
    if not any(found.values()):
        raise FormatError("no line of NCCL's that is understood")
    # Tuples of the classes that the table makes, field by field.
    return NcclLog(path=path, **{field: tuple(items) for field, items in found.items()})  # type: ignore[arg-type]


@functools.cache
def _frame() -> re.Pattern[str]:
    return re.compile(
        r"^.*?(?P<host>[^\s:\[\]]*):(?P<pid>\d+|X+):(?:\d+|X+)\s+\[-?\d+\]\s+"
        r"(?:\S+\.(?:cc|h|cu):\d+\s+)?(?:\S+\s+)?NCCL (?:INFO|WARN|TRACE)\s(?P<message>.*)$"
    )


def _said(match: re.Match[str], line: int, process: str) -> Said:
    return Said(match["text"] if "text" in match.re.groupindex else match[0], line, process)


def _setting(match: re.Match[str], line: int, process: str) -> LogSetting:
    return LogSetting(match["name"], match["value"].removesuffix(".").strip("\"'"), line, process)


def _given(match: re.Match[str], line: int, process: str) -> LogSetting:
    return LogSetting(match["name"], match["value"].strip("\"'"), line, process, resolved=False)


def _leg(match: re.Match[str], line: int, _: str) -> Leg:
    return Leg(match["direction"], match["network"], match["gdr"] is not None, line)


def _device(match: re.Match[str], line: int, _: str) -> DeviceLine:
    return DeviceLine(match["network"], match["device"], match["state"] == "Enabled", line)


def _plugin_device(match: re.Match[str], line: int, _: str) -> DeviceLine:
    return DeviceLine(f"IBext ({match['how']})", match["device"], True, line)


def _refusal(match: re.Match[str], line: int, _: str) -> Refusal:
    return Refusal(match["gpu"], match["hca"], int(match["distance"]), int(match["level"]), line)


def _failure(match: re.Match[str], line: int, _: str) -> Failure:
    groups = match.groupdict()
    number, vendor = groups.get("number"), groups.get("vendor")
    text = groups.get("text") or match[0]
    if number is None:
        number = next((str(n) for words, n in ERRNO_WORDS.items() if words in text), None)
    return Failure(
        groups.get("call") or "completion",
        int(number) if number else None,
        text,
        line,
        int(vendor) if vendor else None,
    )


Maker = Callable[[re.Match[str], int, str], object]

ERRNO_WORDS = {
    "Bad address": 14,
    "Cannot allocate memory": 12,
    "Operation not supported": 95,
    "Protocol not supported": 93,
    "Invalid argument": 22,
    "Connection timed out": 110,
    "Network is unreachable": 101,
    "No such device": 19,
}
"""strerror(3) of the GNU C library in English, for lines that print no number."""


_ROWS: tuple[tuple[str, str, Maker], ...] = (
    ("settings", r"(?P<name>NCCL_\w+) set (?:(?:by|from) environment )?to (?P<value>\S+)", _setting),
    (
        "legs",
        r"(?:Channel|Ring) \d+(?:/\d+)? : .*\[(?P<direction>send|receive)\] via (?:NET|COLLNET)/"
        r"(?P<network>.+?)/\d+(?:\(\d+\))?(?P<gdr>/GDRDMA)?(?:\(PCI\))?(?:/Shared)?\s*$",
        _leg,
    ),
    (
        "devices",
        r"NET/(?P<network>[^:]+?) : GPU Direct RDMA (?P<state>Enabled|Disabled) "
        r"for HCA \d+ '(?P<device>[^']+)",
        _device,
    ),
    (
        "devices",
        r"NET/IB : GPU Direct RDMA \((?P<how>nvidia-peermem|DMABUF)\) enabled "
        r"for HCA \d+ '(?P<device>[^']+)",
        _plugin_device,
    ),
    (
        "refusals",
        r"GPU Direct RDMA Disabled for GPU (?P<gpu>[0-9a-f]+)(?:\[\d+\])? / HCA (?P<hca>[0-9a-f]+) "
        r"\(distance (?P<distance>\d+) >=? (?P<level>\d+)\)",
        _refusal,
    ),
    ("mixed_versions", r"Mismatched NCCL version detected.*", _said),
    ("versions", r"NCCL version (?P<text>\d+\.\d+\.\d+)", _said),
    ("networks", r"Using network (?P<text>.+?)\s*$", _said),
    ("plugins", r"NET/OFI .*|P2P plugin (?:v\d+ )?(?:IBext|UCX)\S*", _said),
    ("plugins", r"NET/Plugin: Loaded net plugin (?P<text>.+?) \(v\d+\)", _said),
    ("plugins", r"Successfully loaded external (?:network )?plugin (?P<text>\S+)", _said),
    ("dmabuf_gpus", r"DMA-BUF is available on GPU device \d+", _said),
    ("rings", r"Connected all rings, use ring PXN \d GDR \d", _said),
    ("no_verbs", r"Failed to open libibverbs\.so.*", _said),
    (
        "failures",
        r"Call to (?P<call>ibv_reg_mr|ibv_reg_dmabuf_mr)(?:_iova2)? failed with error "
        r"(?P<text>.+?)(?: errno (?P<number>\d+))?\s*$",
        _failure,
    ),
    ("failures", r"Call to (?P<call>ibv_modify_qp) failed with (?P<number>\d+) (?P<text>.*)", _failure),
    (
        "failures",
        r"Call to (?P<call>ibv_modify_qp) failed with error "
        r"(?P<text>.+?)(?: errno (?P<number>\d+))?\s*$",
        _failure,
    ),
    (
        "failures",
        r"Got completion .*(?:with error |status=(?:\w+\()?)(?P<number>\d+)\)?"
        r".*vendor[ _]err[ =](?P<vendor>\d+)",
        _failure,
    ),
    (
        "settings",
        r"^(?:export |declare -x |.*\s-x )?(?P<name>(?:OFI_)?NCCL_\w+)="
        r"(?P<value>\"[^\"]*\"|'[^']*'|\S*)\s*$",
        _given,
    ),
)


@functools.cache
def _patterns() -> tuple[tuple[str, re.Pattern[str], Maker], ...]:
    """Field, pattern, maker; the first that fits a line takes it. Compiled when the first log is read."""
    return tuple((field, re.compile(pattern), make) for field, pattern, make in _ROWS)
