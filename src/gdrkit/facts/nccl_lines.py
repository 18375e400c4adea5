"""The one parser of NCCL's lines, from 2.4.2 to 2.30.7: who printed a line, and what it says. PURE.

A line of a form that is not listed says nothing; a line in the middle of which another begins is cut, and
says nothing either. Sources: see nccl_records.py, where each form is named.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator

from gdrkit.facts import nccl_records as said
from gdrkit.facts.nccl_records import Frame, Hca, Leg, Record, Variable, Via

MARKS = (" NCCL INFO ", " NCCL WARN ", " NCCL TRACE ")
HEAD_CHARACTERS = 400
"""How far before the mark a frame may begin: host names end at 255, hostname(7)."""
LINE_CHARACTERS = 4096
"""How much of a line is looked at. NCCL cuts its own at 1024 or 4096: src/debug.cc."""

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


def frame(line: str) -> Frame:
    """Who printed a line, and its words. A line without a frame has no process, and is all words."""
    line = line[:LINE_CHARACTERS]
    at, mark = _first_mark(line)
    if at < 0:
        return Frame("", None, line.strip())
    message = line[at + len(mark) :]
    cut = _first_mark(message)[0] >= 0
    head = line[max(0, at - HEAD_CHARACTERS) : at]
    found = _frame().search(head)
    if found is None:
        device = re.search(r"\[(-?\d{1,4})\](?:\s+\S+){0,3}$", head)
        return Frame(_tag(head), int(device[1]) if device else None, message.rstrip(), cut)
    before = head[: found.start()]
    cut = cut or re.search(r"[\w.-]:(?:\d+|X+):$", before) is not None
    host = found["host"] or _tag(before)
    process = f"{host}:{found['pid']}"
    return Frame(process, int(found["device"]), message.rstrip(), cut)


def _first_mark(line: str) -> tuple[int, str]:
    if "NCCL" not in line:
        return -1, ""
    places = [(at, mark) for mark in MARKS if (at := line.find(mark)) >= 0]
    return min(places, default=(-1, ""))


@functools.cache
def _frame() -> re.Pattern[str]:
    # The words between device and mark: file and line of a warning, and from 2.30 on a function.
    return re.compile(
        r"(?P<host>[^\s:\[\]]*):(?P<pid>\d{1,10}|X+):(?:\d{1,10}|X+)\s+\[(?P<device>-?\d{1,4})\]"
        r"(?:\s+\S+){0,3}$"
    )


@functools.cache
def _tags() -> re.Pattern[str]:
    # mpirun --tag-output, torchrun, srun -l, Ray.
    return re.compile(
        r"\[\d+,(?P<mpi>\d+)\]<|\[(?:default|rank)(?P<torch>\d+)\]|^\s*(?P<srun>\d+): "
        r"|pid=(?P<ray>\d+(?:, ip=[\d.]+)?)"
    )


def _tag(lead: str) -> str:
    """What a launcher calls the process; "" if it names none."""
    found = _tags().search(lead)
    if found is None:
        return ""
    name = found.lastgroup or ""
    return f"{name} {found[name]}"


def record(message: str) -> Record | None:
    """What the words of a line establish; None if their form is not known."""
    for token, pattern, make in _rows():
        if token in message:
            found = pattern.search(message)
            if found is not None:
                return make(found)
    return None


def given(line: str) -> Iterator[Variable]:
    """Variables in a line that NCCL did not print: `export`, `mpirun -x`, `docker -e`, a listing of env."""
    if "NCCL_" not in line:
        return
    whole = _listed().match(line)
    if whole is not None:
        yield Variable(whole["name"], whole["value"].strip("\"'"), resolved=False)
        return
    for found in _passed().finditer(line):
        yield Variable(found["name"], found["value"].strip("\"'"), resolved=False)


@functools.cache
def _listed() -> re.Pattern[str]:
    return re.compile(
        rf"^\s*(?:\+ )?(?:export |declare -x |setenv )?(?P<name>{_NAME})[= ](?P<value>{_VALUE})\s*$"
    )


@functools.cache
def _passed() -> re.Pattern[str]:
    # mpirun -x, docker -e and --env, mpiexec -genv (with a blank), srun --export=ALL,NAME=VALUE, export of
    # several, and assignments before a command.
    return re.compile(
        rf"(?:\s(?:-x|-e|--env|-genv|export)[ =]|--export=\S*?|^(?:[$#+] )?(?:export |env )?"
        rf"(?=(?:\w+=\S* +)+{_COMMAND})|(?<=\S) (?=(?:\w+=\S* +)*{_COMMAND}))"
        rf"(?P<name>{_NAME})[= ](?P<value>{_VALUE})(?=[\s;,&]|$)"
    )


_NAME = r"(?:OFI_)?NCCL_[A-Z0-9_]+"
_VALUE = r"\"[^\"]*\"|'[^']*'|[^\s;&\"']*"
_COMMAND = (
    r"(?:(?:timeout|numactl|nohup|sudo|time) (?:-?\S+ )?)?(?:\S*/)?"
    r"(?:mpirun|mpiexec|srun|torchrun|python\d?|deepspeed|accelerate|ray|vllm|\w+_perf)\b"
)
"""Programs that start a job of NCCL's, as its own tests and the frameworks do."""


# -- channel lines -------------------------------------------------------------------------------------

CHANNEL = (
    r"^(?:Channel|Ring|CollNet|Coll) (?P<channel>\d{1,4})(?:/\d{1,4})? : (?P<source>\d{1,7})"
    r"(?:\[(?P<source_gpu>-?[0-9a-f]{1,12})\])?"
    r"(?: -> (?P<target>\d{1,7})(?:\[(?P<target_gpu>-?[0-9a-f]{1,12})\])?)?"
    r"(?: \[(?P<direction>send|receive)\])? via (?P<via>.+)$"
)
# RCCL ends channel lines with `comm 0x... nRanks 16`.
_END = r"(?: comm 0x[0-9a-f]+ nRanks \d+)?\s*$"
_NET = (
    r"(?P<kind>NET|COLLNET)/(?P<network>[A-Za-z][\w .+-]{0,40})/(?P<index>\d{1,4})"
    rf"(?:\((?P<proxy>\d{{1,7}})\))?(?P<gdr>/GDRDMA)?(?P<pci>\(PCI\))?(?P<shared>/Shared)?{_END}"
)
_INSIDE = (
    r"(?:P2P/(?P<p2p>(?:direct pointer|IPC|CUMEM|common device|indirect/\d+\[[0-9a-f]+\])(?:/read|/CE)*)"
    rf"|(?P<shm>direct shared memory|SHM/[A-Za-z]+(?:/[A-Za-z]+)?)){_END}"
)


@functools.cache
def _via_patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    return re.compile(_NET), re.compile(_INSIDE)


def via(text: str) -> Via | None:
    """What stands behind `via` in a channel line; None if it is cut or of no known form."""
    net, inside = _via_patterns()
    if found := net.match(text):
        return Via(
            found["kind"].lower(), found["network"], int(found["index"]),
            gdr=found["gdr"] is not None, pci=found["pci"] is not None,
            proxy=int(found["proxy"]) if found["proxy"] else None, shared=found["shared"] is not None,
        )  # fmt: skip
    if found := inside.match(text):
        return Via("p2p", how=found["p2p"]) if found["p2p"] else Via("shm", how=found["shm"])
    return None


def _leg(found: re.Match[str]) -> Leg | None:
    carried = via(found["via"])
    if carried is None:
        return None
    own = "target_gpu" if found["direction"] == "receive" else "source_gpu"
    return Leg(
        int(found["channel"]), int(found["source"]), int(found["target"]) if found["target"] else None,
        found["direction"] or "", carried, found[own] or "",
    )  # fmt: skip


# -- the other lines -----------------------------------------------------------------------------------


def _hcas(found: re.Match[str]) -> said.Hcas:
    text = found["devices"]
    fused = re.findall(r"\[(\d+)\] ?= ?\{([^{}]*)\}", text)  # 2.20 to 2.23
    one = re.compile(r"\[(\d+)\] ?([\w.-]+):\d+/(\w+)")
    if fused:
        parts = [(int(index), one.findall(inner)) for index, inner in fused]
        return said.Hcas(
            tuple(Hca(i, "+".join(p[1] for p in inner), inner[0][2]) for i, inner in parts if inner)
        )
    return said.Hcas(tuple(Hca(int(i), name, link) for i, name, link in one.findall(text)))


def _failure(found: re.Match[str]) -> said.Failure:
    groups = found.groupdict()
    number, vendor = groups.get("number"), groups.get("vendor")
    text = (groups.get("text") or found[0]).strip()
    if number is None:
        number = next((str(n) for words, n in ERRNO_WORDS.items() if words in text), None)
    states = f"{groups['now']} to {groups['next']}" if groups.get("now") else ""
    return said.Failure(
        groups.get("call") or "completion", int(number) if number else None, text,
        int(vendor) if vendor else None, groups.get("device") or "", states,
    )  # fmt: skip


def _pair(found: re.Match[str]) -> said.PairLine:
    groups = found.groupdict()
    distance, level, read = (groups.get(name) for name in ("distance", "limit", "read"))
    return said.PairLine(
        found["gpu"], found["hca"], found["state"] == "Enabled", int(distance) if distance else None,
        int(level) if level else None, None if read is None else read == "1", groups.get("mode") or "",
    )  # fmt: skip


def _communicator(found: re.Match[str]) -> said.Communicator:
    nvml = found["nvml"]
    return said.Communicator(
        int(found["rank"]), int(found["ranks"]), int(found["cuda"]), int(nvml) if nvml else None,
        found["bus"] or "", found["identifier"] or "",
    )  # fmt: skip


def _variable(found: re.Match[str]) -> Variable:
    return Variable(found["name"], found["value"].removesuffix(".").strip("\"'"))


Maker = Callable[[re.Match[str]], "Record | None"]

_PAIR = (
    r"GPU Direct RDMA (?P<state>Enabled|Disabled) for GPU (?P<gpu>[0-9a-f]+)(?:\[\d+\])? / HCA "
    r"(?P<hca>[0-9a-f]+) \(distance (?P<distance>\d{1,4}) [<>]=? (?P<limit>\d{1,4})\)"
    r"(?:, read (?P<read>[01]))?(?: mode (?P<mode>\w+))?"
)
_PAIR_229 = (
    r"GPU Direct RDMA (?P<state>Enabled|Disabled) for GPU/(?P<host>\d+)-(?P<local>\d+) \(rank (?P<gpu>\d+)\)"
    r" - NET/(?P<hca>\d+-\d+)"
)

ROWS: tuple[tuple[str, str, Maker], ...] = (
    (" via ", CHANNEL, _leg),
    ("NCCL_", r"(?P<name>NCCL_\w+) set (?:(?:by|from) environment )?to (?P<value>\S+)", _variable),
    (" for HCA ", r"NET/(?P<network>[^:]{1,40}?) : GPU Direct RDMA (?P<state>Enabled|Disabled) for HCA "
     r"(?P<index>\d{1,4}) '(?P<device>[^']+)",
     lambda m: said.NetDevice(m["network"], int(m["index"]), m["device"], m["state"] == "Enabled")),
    (" for HCA ", r"NET/IB : GPU Direct RDMA \((?P<how>nvidia-peermem|DMABUF)\) enabled for HCA "
     r"(?P<index>\d{1,4}) '(?P<device>[^']+)",
     lambda m: said.NetDevice("IBext", int(m["index"]), m["device"].strip(), True, m["how"])),
    (" / HCA ", r"GPU Direct RDMA Disabled for GPU \d+\[\d+\] / HCA (?P<index>\d{1,4}) '(?P<device>[^']+)' "
     r"\(no module",
     lambda m: said.NetDevice("IB", int(m["index"]), m["device"], False)),
    ("(distance ", _PAIR, _pair),
    ("GPU Direct RDMA ", _PAIR_229, _pair),
    ("Mismatched NCCL", r"Mismatched NCCL version detected.*", lambda m: said.MixedVersions(m[0])),
    ("CCL version ", r"(?P<library>R?N?CCL) version (?P<text>\d+\.\d+\.\d+)",
     lambda m: said.Version(m["text"], m["library"])),
    ("Using network", r"Using network (?P<text>.+?)\s*$", lambda m: said.Network(m["text"])),
    ("NET/OFI NIC group", r"NIC group (?P<group>\d{1,4}) device #\d+ (?P<address>[0-9a-f:.]+)",
     lambda m: said.OfiNic(int(m["group"]), m["address"])),
    ("disabling GDR", r"NET/OFI .*disabling GDR.*", lambda m: said.Remark("ofi-without-gdr", m[0])),
    ("NET/OFI", r"NET/OFI .*", lambda m: said.Plugin(m[0])),
    ("P2P plugin", r"P2P plugin (?:v\d+ )?(?:IBext|UCX)\S*", lambda m: said.Plugin(m[0])),
    ("Loaded net plugin", r"NET/Plugin: Loaded net plugin (?P<text>.+?) \(v\d+\)",
     lambda m: said.Plugin(m["text"])),
    ("Successfully loaded", r"Successfully loaded external (?:network )?plugin (?P<text>\S+)",
     lambda m: said.Plugin(m["text"])),
    ("plugin", r"NET/Plugin ?: ?.*(?:No plugin found|Could not find|Using internal|Failed to find).*",
     lambda m: said.Remark("no-plugin", m[0])),
    ("NET/IB : Using", r"NET/IB : Using ?(?P<devices>.*?)(?:; OOB|$)", _hcas),
    ("No device found", r"NET/IB : No device found", lambda m: said.NoDevice()),
    ("libibverbs", r"Failed to open libibverbs\.so.*", lambda m: said.NoVerbs(m[0])),
    ("Made virtual device", r"Made virtual device \[(?P<index>\d{1,4})\] name=(?P<name>\S+) "
     r"speed=(?P<speed>\d{1,9}) ndevs=(?P<parts>\d{1,3})",
     lambda m: said.FusedDevice(int(m["index"]), m["name"], int(m["speed"]), int(m["parts"]))),
    ("DMA-BUF is avail", r"DMA-BUF is available on GPU device \d+", lambda m: said.DmabufGpu(m[0])),
    ("Connected all rings", r"Connected all rings, use ring PXN (?P<pxn>\d) GDR (?P<gdr>\d)",
     lambda m: said.Rings(m["pxn"] != "0", m["gdr"] != "0")),
    (" nranks ", r"comm (?:0x)?[0-9a-fx]+ rank (?P<rank>\d{1,7}) nranks (?P<ranks>\d{1,7}) "
     r"cudaDev (?P<cuda>-?\d{1,4})(?: nvmlDev (?P<nvml>-?\d{1,4}))?(?: busId (?P<bus>[0-9a-f]{1,12}))?"
     r"(?:.* commId (?P<identifier>0x[0-9a-f]+))?", _communicator),
    ("Call to ibv_reg", r"Call to (?P<call>ibv_reg_mr|ibv_reg_dmabuf_mr)(?:_iova2)? failed with error "
     r"(?P<text>.+?)(?: errno (?P<number>\d{1,4}))?\s*$", _failure),
    ("Call to ibv_modify_qp", r"Call to (?P<call>ibv_modify_qp) failed with (?P<number>\d{1,4}) "
     r"(?P<text>[^,]*)(?:, on dev (?P<device>[^\s:,]+))?"
     r"(?:.*curr state (?P<now>\w+), next state (?P<next>\w+))?",
     _failure),
    ("Call to ibv_modify_qp", r"Call to (?P<call>ibv_modify_qp) failed with error "
     r"(?P<text>.+?)(?: errno (?P<number>\d{1,4}))?\s*$", _failure),
    ("Got completion", r"Got completion .*?(?:with error |status=(?:\w+\()?)(?P<number>\d{1,4})\)?"
     r".*?vendor[ _]err[ =](?P<vendor>\d{1,6})(?:.* hca (?P<device>[\w.-]+))?", _failure),
    ("event", r"NET/IB : (?:\S+:\d+ )?(?:Got async(?: error)? event|Got non-fatal async event"
     r"|async fatal event)[^(]*", lambda m: said.AsyncEvent(m[0].strip())),
    ("GID table changed", r"NET/IB : \S+ GID table changed", lambda m: said.AsyncEvent(m[0])),
    ("Data Direct DMA", r"Data Direct DMA Interface is detected for device:? ?\S+",
     lambda m: said.DataDirect(True, m[0])),
    ("mlx5", r"dlvsym failed on mlx5dv_\w+|Failed to open mlx5dv symbols|Failed to open libmlx5\.so",
     lambda m: said.DataDirect(False, m[0])),
    ("HINT: ", r"HINT: .*", lambda m: said.Remark("hint", m[0])),
    ("message truncated", r"message truncated : receiving \d+ bytes instead of \d+",
     lambda m: said.Remark("truncated", m[0])),
    ("has a different number of devices", r"Local mergedDev.*has a different number of devices.*",
     lambda m: said.Remark("merged-differently", m[0])),
    ("via C2C link", r"GPU \d+ / HCA [0-9a-f]+ connected .*via C2C link",
     lambda m: said.Remark("c2c", m[0])),
)  # fmt: skip
"""A token that such a line has at least, the form, and the value. The first that fits takes the line."""


@functools.cache
def _rows() -> tuple[tuple[str, re.Pattern[str], Maker], ...]:
    """Compiled when the first log is read."""
    return tuple((token, re.compile(pattern), make) for token, pattern, make in ROWS)
