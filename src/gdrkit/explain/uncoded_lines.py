"""Problems without a code: messages about something else, a misspelt setting, jobs that are apart."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator

from msgspec import Struct, structs

from gdrkit import catalogue
from gdrkit.explain.explanation import QuotedLine
from gdrkit.explain.lines.transcript import TextLine
from gdrkit.explain.outputs.hot_plug import moves
from gdrkit.explain.outputs.large_pings import ping_meanings
from gdrkit.explain.outputs.measured import RAS_GROUP
from gdrkit.explain.outputs.pci_regions import region_meanings
from gdrkit.explain.outputs.slurm_outputs import slurm_meanings
from gdrkit.explain.ranking import BY_LINE, NO_NETWORK, NOTE, QUOTED
from gdrkit.explain.unexplained import reports_failure
from gdrkit.formats.regex import regex
from gdrkit.messages.jobs import OF_EVERY_HOST
from gdrkit.messages.message import Effect, Match, Meaning
from gdrkit.messages.process_ends import LAUNCHER, first_failures, is_raised, own_end
from gdrkit.messages.torch_watchdog import stalled, watchdog_record
from gdrkit.programs.nccl.bootstrap import unreached, why_unreached
from gdrkit.programs.nccl.log_lines import frame, record
from gdrkit.programs.nccl.log_records import Bootstrap


class OtherLine(Struct, frozen=True):
    """A line about something else: what it means, what to do, and its weight among the causes."""

    line: TextLine
    means: str
    todo: str
    weight: float
    effect: Effect = "failure"
    after: tuple[str, ...] = ()  # codes that bring it about
    brings: tuple[str, ...] = ()  # codes that it brings about

    @property
    def harmless(self) -> bool:
        """Whether it looks like a failure, and is none."""
        return self.effect == "harmless"

    @property
    def fails(self) -> bool:
        """Whether something failed by it."""
        return self.effect not in ("harmless", "aside")


def other_line(lines: tuple[TextLine, ...], *, one_host: bool = False) -> OtherLine | None:
    """The line about something else that weighs most; None if there is none. Of several that weigh the same
    an error precedes a warning; then the first counts: later errors often follow from it. `one_host`: all
    ranks of the jobs are on one host."""
    texts = [(line.number, line.text) for line in lines if _is_printed(line)]
    moved, inside = moves(texts)
    rest = tuple(line for line in lines if line.number not in inside)
    found = (
        *_stalled(lines),
        *_first_failures(lines),
        *_unreached(lines),  # before the message of its line, which rests on less
        *_of_meanings(lines, () if moved is None else (moved,)),
        *_messages(rest, one_host=one_host),
        *_misspelt(lines),
        *_ras_groups(lines),
        *_of_outputs(lines),
        *_jobs_apart(lines),
        *(_needs_no_network(lines) if one_host else ()),
    )
    return max(found, key=lambda other: (other.weight, *_seriousness(other.line.text)), default=None)


def _is_printed(line: TextLine) -> bool:
    return line.kind in ("machine", "shown") or is_raised(line.text)


_WARNING = regex(r"\b(?:WARN(?:ING)?|Warning|warning|INFO|info|DIAG|DEBUG)\b|^(?:[WI]\d{4} )")
_NORMAL = regex(r"\s*Normal {2,}[A-Z]")
"""An event of Kubernetes that is not a warning: core/v1 types.go, Event."""


def _seriousness(text: str) -> tuple[bool, bool]:
    """Whether a program says that a line is more than a warning, and that it is at least one. NCCL calls its
    errors WARN."""
    at_least = _NORMAL.match(text) is None
    return at_least and ("NCCL WARN" in text or _WARNING.search(text) is None), at_least


WEIGHTS = {
    "failure": BY_LINE,
    "state": BY_LINE - NOTE,
    "follows": NOTE,
    "aside": NOTE / 2,
    "harmless": NOTE / 2,
}


def stopped_first(lines: tuple[TextLine, ...], before: tuple[QuotedLine, ...]) -> OtherLine | None:
    """The first line by which a process stopped by itself: one that torchrun's table names as the first, or
    one above all of these lines; None without one."""
    first = min((line.line for line in before), default=0)
    for named in _first_failures(lines):
        if named.weight > NOTE * 2:
            return named
    for line in lines:
        if line.number >= first:
            return None
        if (meaning := own_end(line.text, catalogue.match(line.text))) is not None:
            return OtherLine(line, meaning.words, meaning.todo, BY_LINE)
    return None


def _stalled(lines: tuple[TextLine, ...]) -> Iterator[OtherLine]:
    """What the watchdogs of PyTorch's ranks show together, where several print something."""
    printed = {line.number: line for line in lines if _is_printed(line)}
    found = ((number, watchdog_record(line.text)) for number, line in printed.items())
    stall = stalled((number, record) for number, record in found if record is not None)
    if stall is not None:
        words = stall.words
        if stall.effect == "follows" and not any(_is_of_network(line.text) for line in printed.values()):
            words += "; no line of the text is an error of the network"
        yield OtherLine(printed[stall.position], words, stall.todo, WEIGHTS[stall.effect])


def _is_of_network(text: str) -> bool:
    match = catalogue.match(text)
    return "NCCL WARN" in text or (match is not None and bool(match.causes))


def _first_failures(lines: tuple[TextLine, ...]) -> Iterator[OtherLine]:
    """The processes that failed first, as torchrun's tables say. One of which they do not show why says more
    than its peers, and less than every message."""
    of = {line.number: line for line in lines}
    for found in first_failures((line.number, _with_host(line)) for line in lines):
        weight = WEIGHTS["state"] if found.by_itself else NOTE * 1.5
        line = structs.replace(of[found.line], kind="machine")  # nobody writes such a table
        yield OtherLine(line, found.words, found.todo, weight)


def _with_host(line: TextLine) -> str:
    """A line of a launcher, with the prefix of pdsh that was taken from it."""
    return f"{line.host}: {line.text}" if line.host and LAUNCHER in line.text else line.text


_PRINTS_LOG = regex(r"\b(?:kubectl|oc)\b.*\blogs\b")


def _messages(lines: tuple[TextLine, ...], *, one_host: bool) -> Iterator[OtherLine]:
    for line in lines:
        match = catalogue.match(line.text)
        meaning = match.message.meaning if match is not None else None
        if meaning is None or match is None or (one_host and match.message.name == OF_EVERY_HOST):
            continue
        if meaning.effect != "state" or not _shows_log(match, lines):
            shown = 1 if _is_printed(line) else QUOTED
            weight = WEIGHTS[meaning.effect] * shown
            means, todo = (match.filled(text) for text in (meaning.words, meaning.todo))
            yield OtherLine(line, means, todo, weight, meaning.effect, meaning.after, meaning.brings)


def _shows_log(row: Match, lines: tuple[TextLine, ...]) -> bool:
    """Whether a text has the log of the pod in a row of `kubectl get pods`, with a failure in it."""
    pod = next(word for word in row.text.split() if word.endswith(row.values["pod"]))
    printed = False
    for line in lines:
        if line.kind == "typed":
            printed = _PRINTS_LOG.search(line.text) is not None and _names(line.text, pod)
        elif printed and reports_failure(line):
            return True
    return False


def _names(command: str, pod: str) -> bool:
    """Whether a command names a pod, or by ds/NAME or app=NAME all pods of its kind."""
    names = (regex(r"[/=]").split(word)[-1] for word in command.split())
    return any(pod == name or pod.startswith(f"{name}-") for name in names)


def _needs_no_network(lines: Iterable[TextLine]) -> Iterator[OtherLine]:
    """That NCCL finds no RDMA device or library, in a job that needs none."""
    for line in lines:
        match = catalogue.match(line.text) if line.kind == "machine" and "NCCL INFO" in line.text else None
        if match is not None and not NO_NETWORK.isdisjoint(match.causes):
            yield OtherLine(
                line,
                "This line is harmless: all ranks of the job are on one host, where NCCL needs no network",
                "Nothing has to be done for this job; one over several hosts needs an RDMA device",
                WEIGHTS["harmless"],
                "harmless",
            )


def _misspelt(lines: Iterable[TextLine]) -> Iterator[OtherLine]:
    for line in lines:
        if (names := misspelt_setting(line.text)) is not None:
            name, meant = names
            yield OtherLine(
                line,
                f"{name} is misspelt: no program reads it, so the setting {meant} is not made",
                f"Write {meant}",
                BY_LINE * QUOTED,
            )


def _ras_groups(lines: Iterable[TextLine]) -> Iterator[OtherLine]:
    """Communicators in the report of ncclras that do not run, or have errors."""
    for line in lines:
        found = RAS_GROUP.match(line.text) if line.kind in ("machine", "shown") else None
        if found is not None and found.group("status", "errors") != ("RUNNING", "OK"):
            yield OtherLine(
                line,
                f"NCCL's RAS reports a group of communicators as {found['status']}, {found['errors']}",
                "Look at the ranks that the report names below this table; the others wait for them",
                BY_LINE,
            )


def _of_outputs(lines: Iterable[TextLine]) -> Iterator[OtherLine]:
    """What states that Slurm prints mean, what the kernel says of devices without address space, and large
    pings that are lost."""
    texts = [(line.number, line.text) for line in lines if line.kind in ("machine", "shown")]
    yield from _of_meanings(lines, (*slurm_meanings(texts), *region_meanings(texts), *ping_meanings(texts)))


def _of_meanings(lines: Iterable[TextLine], meanings: Iterable[tuple[int, Meaning]]) -> Iterator[OtherLine]:
    printed = {line.number: line for line in lines}
    for number, of in meanings:
        weight = WEIGHTS[of.effect]
        yield OtherLine(printed[number], of.words, of.todo, weight, of.effect, of.after, of.brings)


_FIRST_RANK = regex(r"#\s+Rank\s+0 (?:Group\s+\d+ )?Pid\s+(?P<pid>\d+) on\s+(?P<host>\S+) device\b")
_RESULT = regex(r"\s+\d+\s+\d+\s+\w+\s|# Avg bus bandwidth")
"""Lines of nccl-tests: the list of ranks, and what follows it, of common.cu."""


def _jobs_apart(lines: Iterable[TextLine]) -> Iterator[OtherLine]:
    """nccl-tests started several times at once, as jobs of their own: before any result, several processes
    list themselves as rank 0."""
    first: re.Match[str] | None = None
    for line in lines:
        if line.kind not in ("machine", "shown"):
            continue
        if _RESULT.match(line.text):
            first = None
        found = _FIRST_RANK.match(line.text)
        if found is None:
            continue
        if first is not None and found.group("pid", "host") != first.group("pid", "host"):
            yield OtherLine(
                line,
                "nccl-tests runs as several jobs that know nothing of each other: process"
                f" {first['pid']} on {first['host']} and {found['pid']} on {found['host']} are both rank 0."
                " Nothing goes from one to the other, so no result says anything about the network",
                "Build nccl-tests with MPI=1, for the MPI that starts it; one list then has all ranks",
                BY_LINE,
            )
            return
        first = first or found


_HOST = regex(r"(?<![\w.-])([A-Za-z][\w.-]{0,80}):\d{1,10}:\d{1,10} \[")


def _unreached(lines: Iterable[TextLine]) -> Iterator[OtherLine]:
    """That a process does not reach another one by the interface that NCCL chose there."""
    interfaces: dict[str, dict[str, str]] = {}
    for line in lines:
        host = _HOST.search(line.text) if line.kind == "machine" and "NCCL" in line.text else None
        if host is None:
            continue
        found = record(frame(line.text).message) if "Bootstrap" in line.text else None
        if isinstance(found, Bootstrap):
            interfaces.setdefault(found.address, {}).setdefault(host[1], found.interface)
        elif (meaning := why_unreached(unreached(line.text), interfaces)) is not None:
            yield OtherLine(line, meaning.words, meaning.todo, BY_LINE)
            return


# -- names of settings ------------------------------------------------------------------------------


VARIABLES = frozenset((
    "NCCL_ALGO", "NCCL_BUFFSIZE", "NCCL_COLLNET_ENABLE", "NCCL_COMM_BLOCKING", "NCCL_CROSS_NIC",
    "NCCL_CUMEM_ENABLE", "NCCL_CUMEM_HOST_ENABLE", "NCCL_DEBUG_FILE", "NCCL_DEBUG_SUBSYS",
    "NCCL_DMABUF_ENABLE", "NCCL_GRAPH_DUMP_FILE", "NCCL_GRAPH_FILE", "NCCL_IB_ADAPTIVE_ROUTING",
    "NCCL_IB_AR_THRESHOLD", "NCCL_IB_CUDA_SUPPORT", "NCCL_IB_DATA_DIRECT", "NCCL_IB_DISABLE",
    "NCCL_IB_GID_INDEX", "NCCL_IB_HCA", "NCCL_IB_MERGE_NICS", "NCCL_IB_MERGE_VFS",
    "NCCL_IB_PCI_RELAXED_ORDERING", "NCCL_IB_PKEY", "NCCL_IB_QPS_PER_CONNECTION", "NCCL_IB_RETRY_CNT",
    "NCCL_IB_ROCE_VERSION_NUM", "NCCL_IB_SL", "NCCL_IB_SPLIT_DATA_ON_QPS", "NCCL_IB_TC",
    "NCCL_IB_TIMEOUT", "NCCL_IB_USE_INLINE", "NCCL_IGNORE_CPU_AFFINITY", "NCCL_LAUNCH_MODE",
    "NCCL_MAX_CTAS", "NCCL_MAX_NCHANNELS", "NCCL_MAX_NRINGS", "NCCL_MIN_CTAS", "NCCL_MIN_NCHANNELS",
    "NCCL_MIN_NRINGS", "NCCL_MNNVL_ENABLE", "NCCL_MNNVL_UUID", "NCCL_NET_DISABLE_INTRA",
    "NCCL_NET_FORCE_MERGE", "NCCL_NET_GDR_C2C", "NCCL_NET_GDR_LEVEL", "NCCL_NET_GDR_READ",
    "NCCL_NET_MERGE_LEVEL", "NCCL_NET_OVERHEAD", "NCCL_NET_PLUGIN", "NCCL_NET_SHARED_BUFFERS",
    "NCCL_NET_SHARED_COMMS", "NCCL_NSOCKS_PERTHREAD", "NCCL_NTHREADS", "NCCL_NVB_DISABLE",
    "NCCL_NVLS_ENABLE", "NCCL_P2P_DIRECT_DISABLE", "NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_PROTO",
    "NCCL_PXN_C2C", "NCCL_PXN_DISABLE", "NCCL_RAS_ENABLE", "NCCL_SHM_DISABLE",
    "NCCL_SHM_USE_CUDA_MEMCPY", "NCCL_SOCKET_FAMILY", "NCCL_SOCKET_IFNAME", "NCCL_SOCKET_NTHREADS",
    "NCCL_TOPO_DUMP_FILE", "NCCL_TOPO_FILE", "NCCL_TUNER_PLUGIN", "UCX_IB_GID_INDEX",
    "UCX_IB_GPU_DIRECT_RDMA", "UCX_NET_DEVICES",
))  # fmt: skip
"""Variables that posts set. Source: NCCL User Guide, Environment Variables; UCX `ucx_info -c`."""

_NAME = regex(r"(?<![\w/.-])[A-Z][A-Z0-9]{1,30}(?:_[A-Z0-9]{1,30}){2,8}(?![\w(])")
MAX_NAMES = 20
"""Names of a line that are compared."""


def misspelt_setting(text: str) -> tuple[str, str] | None:
    """A name in a line that is one letter away from a variable, and that variable; None if there is none.

    Names with another first letter belong to other libraries, such as RCCL and HCCL."""
    if "_" not in text:
        return None
    for name in _NAME.findall(text)[:MAX_NAMES]:
        meant = _meant(name)
        if meant:
            return name, meant
    return None


MIN_LETTERS = 11
"""Shorter names resemble too many others."""


@functools.lru_cache(maxsize=512)
def _meant(name: str) -> str:
    if name in VARIABLES or len(name) < MIN_LETTERS:
        return ""
    shorter = _without_a_letter()
    swapped = (name[:at] + name[at + 1] + name[at] + name[at + 2 :] for at in range(1, len(name) - 1))
    close = {known for known in swapped if known in VARIABLES} | set(shorter.get(name, ()))
    for at in range(len(name)):
        without = name[:at] + name[at + 1 :]
        if without in VARIABLES and len(without) >= MIN_LETTERS:
            close.add(without)
        close.update(known for known in shorter.get(without, ()) if known[:1] == name[:1])
    return close.pop() if len(close) == 1 else ""


@functools.cache
def _without_a_letter() -> dict[str, tuple[str, ...]]:
    """The variables by what is left of them without one letter."""
    found: dict[str, tuple[str, ...]] = {}
    for known in VARIABLES:
        for at in range(len(known) if len(known) >= MIN_LETTERS else 0):
            left = known[:at] + known[at + 1 :]
            found[left] = (*found.get(left, ()), known)
    return {left: tuple(dict.fromkeys(known)) for left, known in found.items()}
