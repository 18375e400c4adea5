"""What the checks between GPUs and between NICs show: `p2p` and `net bw`, ib_write_bw between ranks.

Source: NCCL src/diagnostics/p2p.cc and ib_write_bw.cc. Hosts form a ring, and NICs of the same name a pair.
Both ends of a pair record the same value, and a rank's value is the mean of its two pairs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from errno import EFAULT

from msgspec import Struct

from gdrkit.formats.number_ranges import number_ranges
from gdrkit.formats.plural import plural
from gdrkit.formats.regex import regex
from gdrkit.messages.verbs_failures import causes_of
from gdrkit.programs.nccl.diagnostic_statements import Bandwidth, CheckLine, Effect, Statement

NET, PEER = "net bw", "p2p"

_RATE = r"\d{1,7}(?:\.\d{1,3})?"
_SUMMARY = regex(
    rf"(?P<lowest>{_RATE})/(?P<median>{_RATE})/(?P<highest>{_RATE}) Gbit/s min/median/max "
    r"(?P<mode>same-nic|cross-nic) bw \(across (?P<ranks>\d{1,7}) ranks\)"
)
_OUTLIER = regex(
    rf"(?P<mode>same-nic|cross-nic) rank (?P<rank>\d{{1,7}}) \((?P<host>[^\s()]{{1,255}})\): "
    rf"(?P<rate>{_RATE}) Gbit/s, >30% off median (?P<median>{_RATE}) Gbit/s"
)
_FAILED_PAIR = regex(
    r"mode=(?P<mode>same|cross) server_rank=(?P<server>\d{1,7}) server_host=(?P<server_host>\S{1,255}) "
    r"server_device=(?P<server_device>\S{1,64}) client_rank=(?P<client>\d{1,7}) "
    r"client_host=(?P<client_host>\S{1,255}) client_device=(?P<client_device>\S{1,64})"
    r"(?: memory=(?P<memory>host|cuda\+dmabuf|cuda)(?!\S))? (?P<how>.{1,80})"
)

SLOW_CAUSES = ("link-degraded", "acs-redirect", "iommu-translating", "pair-distant", "shared-nic")
"""Why a GPU or NIC is slower than its peers."""
REGISTRATION = ("dmabuf-mr-refused", "topology-refused", "memlock-limit", "bar1-small")
"""Why ib_write_bw cannot register GPU memory as a dma-buf, if CUDA and the NIC's driver offer it."""
BY_ADDRESS = causes_of("ibv_reg_mr", EFAULT)
"""Why GPU memory cannot be registered by its address, as perftest does it without dma-buf."""
WITHOUT_GPU_MEMORY = (
    "the connection may fail: the rank's host name is not resolvable from the peer (often between pods), "
    "TCP ports 10000-29999 are closed, ib_write_bw takes another RoCE GID than NCCL, or port -i 2 and up "
    "does not exist on the second function of a card (DGX Spark, BlueField, SR-IOV)"
)

OUTLIER_SHARE = 0.7
"""Below this share of the median, NCCL calls a rank an outlier: `>30% off median`."""
SHARED_BEGINNING = "net devices are shared across ranks"
SHARED = "several ranks measure over one NIC at the same time, so each value is a share"

SAME = 0.03
"""The share by which two values may differ that are one: NCCL prints one decimal, runs repeat within 1 %."""


class FailedPair(Struct, frozen=True):
    """A pair of ranks whose run of ib_write_bw gave no rate."""

    server: int
    client: int
    server_host: str
    client_host: str
    device: str  # of the client
    memory: str
    how: str
    mode: str
    communicator: str
    line: int


def bandwidths(lines: Iterable[CheckLine]) -> tuple[Bandwidth, ...]:
    """The summaries over all ranks."""
    return tuple(
        Bandwidth(
            mode=found["mode"], lowest_gbit_per_s=float(found["lowest"]),
            median_gbit_per_s=float(found["median"]), highest_gbit_per_s=float(found["highest"]),
            ranks=int(found["ranks"]), line=line.line,
        )
        for line in lines
        if line.record.check == NET and (found := _SUMMARY.match(line.record.text))
    )  # fmt: skip


def tested_memory(lines: Iterable[CheckLine]) -> tuple[str, ...]:
    """The kinds of memory that lines of failed pairs name; a summary names none."""
    return tuple(sorted({pair.memory for pair in _failed_pairs(lines) if pair.memory}))


def network(
    lines: list[CheckLine], rates: tuple[Bandwidth, ...], *, complete: bool, ports: frozenset[float]
) -> Iterator[Statement]:
    """Statements about transfers between GPUs and between NICs. `ports`: the speeds of ports in Gbit/s that
    the log names."""
    for line in lines:
        if line.record.check == NET:
            yield from _remark(line)
        elif line.record.check == PEER:
            yield from _peer(line)
    for rate in rates:
        yield from _reached(rate, lines, ports)
        yield from _slow(rate, lines)
    yield from _failures(lines, rates, complete=complete)
    yield from _offered(lines)


def _reached(rate: Bandwidth, lines: list[CheckLine], ports: frozenset[float]) -> Iterator[Statement]:
    """The rates and, where the log names the speeds of ports, whether all ranks are slow alike, which NCCL's
    comparison of ranks cannot show."""
    median = rate.median_gbit_per_s
    speeds = " or ".join(f"{speed:g}" for speed in sorted(ports))
    against = f"of {speeds}, the speed of the ports" if ports else "only compared with one another"
    yield Statement(
        effect=Effect.NOTE, check=NET, line=rate.line,
        text=f"RDMA works between {rate.mode.removesuffix('-nic')} NICs of {plural(rate.ranks, 'rank')} at "
        f"{rate.lowest_gbit_per_s:g} to {rate.highest_gbit_per_s:g} Gbit/s, median {median:g}; {against}",
        todo="`gdr nccl LOG --node NODE` compares it with the node's ceiling",
    )  # fmt: skip
    shared = any(line.record.text.startswith(SHARED_BEGINNING) for line in lines)
    if ports and median < OUTLIER_SHARE * min(ports) and not shared:
        slow = f"{median:g} of {speeds} Gbit/s"
        yield Statement(
            effect=Effect.FAULT, check=NET, line=rate.line, codes=SLOW_CAUSES,
            brief=f"all ranks are slow alike: {slow}",
            text=f"all ranks are slow alike: the median is {slow}, the speed of the ports; NCCL's [OK] only "
            "means that they do not differ",
            todo="run gdr estimate on one of the hosts: it shows what limits its NICs",
        )  # fmt: skip


# -- slow ranks ------------------------------------------------------------------------------------------


def _slow(rate: Bandwidth, lines: list[CheckLine]) -> Iterator[Statement]:
    """The ranks that are slow, and their partners, which only share a pair with one."""
    left = [
        (float(found["rate"]), int(found["rank"]), found["host"], line.line)
        for line in lines
        if line.record.check == NET and (found := _OUTLIER.match(line.record.text))
        if found["mode"] == rate.mode and float(found["median"]) == rate.median_gbit_per_s
    ]
    faster = [one for one in left if one[0] > rate.median_gbit_per_s]
    left = sorted(one for one in left if one[0] <= rate.median_gbit_per_s)
    while left:
        lowest = left[0][0]
        slow = [one for one in left if _is_same(one[0], lowest)]
        shared = (lowest + rate.median_gbit_per_s) / 2
        partners = [one for one in left if one not in slow and _is_same(one[0], shared)]
        left = [one for one in left if one not in slow and one not in partners]
        yield _slow_ranks(rate, slow, partners)
    if faster:
        yield Statement(
            effect=Effect.FAULT, check=NET, line=faster[0][3], ranks=tuple(one[1] for one in faster),
            text=f"{_ranks(faster)} faster than the median of {rate.median_gbit_per_s:g} Gbit/s by more "
            "than 30 %: most ranks are slow", codes=SLOW_CAUSES,
        )  # fmt: skip


_Outlier = tuple[float, int, str, int]


def _slow_ranks(rate: Bandwidth, slow: list[_Outlier], partners: list[_Outlier]) -> Statement:
    speed = f"{slow[0][0]:g} of {rate.median_gbit_per_s:g} Gbit/s"
    if len(slow) == 1 or len(partners) > len(slow):
        text = f"the GPU or NIC of {_named(slow)} is slow: {speed}"
        if partners:
            numbers = number_ranges(one[1] for one in partners)
            only = "rank {} is only its partner" if len(partners) == 1 else "ranks {} are only its partners"
            text += f"; {only.format(numbers)}, at the mean of both rates ({partners[0][0]:g})"
        where = slow[0][2] if len({one[2] for one in slow}) == 1 else ""
    else:
        text = f"one of {_named(slow)} is slow: {speed}; both ends of a pair show one value"
        where = ""
    hosts = " and ".join(dict.fromkeys(one[2] for one in slow))
    return Statement(
        effect=Effect.FAULT, check=NET, line=slow[0][3], ranks=tuple(one[1] for one in slow), host=where,
        text=text, codes=SLOW_CAUSES, todo=f"run gdr doctor on {hosts} and look at that GPU and its NIC",
    )  # fmt: skip


def _is_same(one: float, other: float) -> bool:
    return abs(one - other) <= SAME * max(one, other)


def _named(ranks: list[_Outlier]) -> str:
    return ", ".join(f"rank {rank} ({host})" for _, rank, host, _ in ranks)


def _ranks(ranks: list[_Outlier]) -> str:
    numbers = number_ranges(one[1] for one in ranks)
    return f"rank {numbers} is" if len(ranks) == 1 else f"ranks {numbers} are"


# -- pairs without a result ------------------------------------------------------------------------------


def _failed_pairs(lines: Iterable[CheckLine]) -> tuple[FailedPair, ...]:
    """Pairs without a rate; the line of the client counts, which names the memory."""
    found: dict[tuple[str, str, int, int], FailedPair] = {}
    for line in lines:
        record = line.record
        match = _FAILED_PAIR.match(record.text) if record.check == NET else None
        if match is None:
            continue
        pair = FailedPair(
            int(match["server"]), int(match["client"]), match["server_host"], match["client_host"],
            match["client_device"], match["memory"] or "", match["how"].strip(), match["mode"],
            record.communicator, line.line,
        )  # fmt: skip
        key = record.communicator, pair.mode, pair.server, pair.client
        known = found.get(key)
        if known is None or (pair.memory and not known.memory):
            found[key] = pair
    return tuple(found.values())


def _failures(
    lines: list[CheckLine], rates: tuple[Bandwidth, ...], *, complete: bool
) -> Iterator[Statement]:
    """The pairs without a rate, by how they ended. In a report that is not complete, the summary over the
    others may be missing alone."""
    groups: dict[tuple[str, str], list[FailedPair]] = {}
    for pair in _failed_pairs(lines):
        groups.setdefault((pair.how, pair.memory), []).append(pair)
    for (how, memory), pairs in groups.items():
        if rates or not complete:
            yield _failed_alone(how, memory, pairs, measured=bool(rates))
        else:
            yield _failed_everywhere(how, memory, pairs, of_all=len(groups) == 1)


def _failed_alone(how: str, memory: str, pairs: list[FailedPair], *, measured: bool) -> Statement:
    """Pairs without a rate, where others have one, or may have one."""
    first = pairs[0]
    hosts = " and ".join(dict.fromkeys(host for p in pairs[:8] for host in (p.client_host, p.server_host)))
    others = "other pairs worked" if measured else "the log does not show whether other pairs worked"
    return Statement(
        effect=Effect.FAULT, check=NET, line=first.line, ranks=_members(pairs),
        text=f"{_failed(how, memory, pairs)}; {others}",
        todo=f"run gdr doctor on {hosts}; repeat the run by hand: {_by_hand(first)}",
    )  # fmt: skip


HOW = {"tool run failed": "ended with an error", "tool run timed out": "timed out (5 s)"}
"""How a run ends that was started at both ends."""


def _failed_everywhere(how: str, memory: str, pairs: list[FailedPair], *, of_all: bool) -> Statement:
    """Pairs without a rate, where none has one."""
    ran = how in HOW
    codes = {"cuda+dmabuf": REGISTRATION, "cuda": BY_ADDRESS}.get(memory, ()) if ran else ()
    reasons = f"; {'or ' * bool(codes)}{WITHOUT_GPU_MEMORY}" if ran else ""
    return Statement(
        effect=Effect.POSSIBLE if codes else Effect.FAULT, check=NET, line=pairs[0].line,
        ranks=_members(pairs), codes=codes, todo=f"repeat it by hand: {_by_hand(pairs[0])}",
        brief=f"ib_write_bw gave no rate on {'all ' * of_all}{plural(len(pairs), 'pair')} ({memory or how})",
        text=f"{_failed(how, memory, pairs)}, and nothing was measured{reasons}; NCCL drops the tool's own "
        "message",
    )  # fmt: skip


def _failed(how: str, memory: str, pairs: list[FailedPair]) -> str:
    first = pairs[0]
    where = f"between rank {first.client} ({first.client_host}) and {first.server} ({first.server_host})"
    if len(pairs) > 1:
        where = f"on {plural(len(pairs), 'pair')} of ranks {number_ranges(_members(pairs))}"
    with_memory = f" with {memory} memory" if memory else ""
    return f"ib_write_bw{with_memory} {HOW.get(how, f'gave no rate ({how})')} {where}"


def _members(pairs: list[FailedPair]) -> tuple[int, ...]:
    return tuple(sorted({rank for pair in pairs for rank in (pair.client, pair.server)}))


def _by_hand(pair: FailedPair) -> str:
    """The same run without NCCL, then without GPU memory."""
    gpu = {"cuda": " --use_cuda=0", "cuda+dmabuf": " --use_cuda=0 --use_cuda_dmabuf"}.get(pair.memory, "")
    command = f"ib_write_bw -d {pair.device} -s 65536 --report_gbits -n 1000{gpu}"
    words = f"`{command}` on {pair.server_host}, then `{command} {pair.server_host}` on {pair.client_host}"
    if not gpu:
        return words
    return f"{words}; then both without{gpu}: if that works, GPU memory is the problem, else the connection"


NOT_OFFERED = ("driver-proprietary", "kernel-lacks-dmabuf", "nccl-lacks-dmabuf")
"""What keeps NCCL from letting ib_write_bw use dma-buf: it asks CUDA and the NIC's driver at both ends."""


def _offered(lines: list[CheckLine]) -> Iterator[Statement]:
    """That both ends offer dma-buf, which is why NCCL let ib_write_bw use it."""
    pairs = [pair for pair in _failed_pairs(lines) if pair.memory == "cuda+dmabuf"]
    if pairs:
        hosts = dict.fromkeys(host for pair in pairs for host in (pair.client_host, pair.server_host))
        yield Statement(
            effect=Effect.EXCLUDED, check=NET, line=pairs[0].line, codes=NOT_OFFERED,
            ranks=_members(pairs), host=next(iter(hosts)) if len(hosts) == 1 else "",
            text=f"CUDA and the NIC's driver offer dma-buf on {_some(tuple(hosts))}, and perftest has it; "
            "whether registering GPU memory works is another question",
        )  # fmt: skip


def _some(hosts: tuple[str, ...]) -> str:
    return " and ".join(hosts) if len(hosts) < 4 else f"{hosts[0]} and {len(hosts) - 1} more hosts"


# -- other lines -----------------------------------------------------------------------------------------

_REMARKS: tuple[tuple[str, Effect, str, tuple[str, ...], str], ...] = (
    (
        "skipped", Effect.OPEN,
        "not run: a single host, or no peer over the network; its [OK] is not a result", (),
        "start the job on two hosts or more, with its network",
    ),
    (
        "required external tool missing", Effect.OPEN,
        "not run: ib_write_bw, timeout, stdbuf or the shell is missing in the container of this rank", (),
        "install perftest in the container of every rank",
    ),
    ("capability probe timed out", Effect.OPEN, "not run: `ib_write_bw --help` takes more than 5 s", (), ""),
    (
        "failed: selected network plugin does not support IB", Effect.OPEN,
        "not run: the network of the job is not NCCL's own for InfiniBand and RoCE",
        ("net-plugin-replaced", "rdma-transport-not-chosen"), "",
    ),
    (
        "failed: no usable IB device", Effect.POSSIBLE, "not run: the network has no device for this rank",
        ("no-rdma-device", "hca-not-selected"), "",
    ),
    (
        "failed: cannot resolve the selected IB device", Effect.POSSIBLE,
        "not run: the NIC is not in /sys/class/infiniband of this rank's container",
        ("rdma-device-not-in-container",), "",
    ),
    (
        "multiple net devices per rank", Effect.NOTE,
        "of merged NICs only the first is measured", (), "",
    ),
    (
        SHARED_BEGINNING, Effect.NOTE,
        SHARED, (), "",
    ),
)  # fmt: skip
"""By the beginning of a line: its effect, what it shows, its codes, and what to do."""
QUOTED_CHARACTERS = 240


def _remark(line: CheckLine) -> Iterator[Statement]:
    text = line.record.text
    if _SUMMARY.match(text) or _OUTLIER.match(text) or _FAILED_PAIR.match(text):
        return
    for beginning, effect, words, codes, todo in _REMARKS:
        if text.startswith(beginning):
            yield Statement(effect=effect, check=NET, text=words, line=line.line, codes=codes, todo=todo)
            return
    effect = Effect.NOTE if "more ranks" in text else Effect.OPEN
    yield Statement(effect=effect, check=NET, text=text[:QUOTED_CHARACTERS], line=line.line)


PCIE_PATHS = ("PIX", "PXB", "PHB", "SYS")


def _peer(line: CheckLine) -> Iterator[Statement]:
    """Transfers between GPUs of a host: which do not show NICs, but share IOMMU and ACS with them."""
    text = line.record.text[:QUOTED_CHARACTERS]
    found = re.search(r"path=(?P<path>\w{1,8})", text)
    fields = re.search(r"srcRank=(?P<one>\d{1,7}) .*?dstRank=(?P<other>\d{1,7})", text)
    ranks = (int(fields["one"]), int(fields["other"])) if fields else ()
    over_pcie = found is not None and found["path"] in PCIE_PATHS
    if line.record.ok or text.startswith(("temporarily enabled", "resource cleanup")):
        return
    if " mismatch " in text and over_pcie:
        yield Statement(
            effect=Effect.POSSIBLE, check=PEER, line=line.line, ranks=ranks,
            codes=("iommu-translating", "acs-redirect"),
            text=f"data between the GPUs of ranks {number_ranges(ranks)} does not arrive over PCIe "
            f"({found['path'] if found else ''}): IOMMU or ACS, which GPU and NIC share",
        )  # fmt: skip
    elif "import failed" in text and "CUMEM_FABRIC" in text:
        yield Statement(
            effect=Effect.POSSIBLE, check=PEER, line=line.line, ranks=ranks,
            codes=("mnnvl-imex-channel-missing",),
            text=f"memory of the NVLink domain cannot be opened by ranks {number_ranges(ranks)}",
        )  # fmt: skip
    elif "verif" in text or fields:  # "verified" in 2.31.2, "passed verification" from 2.32.3 on
        yield Statement(
            effect=Effect.FAULT,
            check=PEER,
            line=line.line,
            ranks=ranks,
            text=f"GPU to GPU, not to NICs: {text}",
        )
    else:
        yield Statement(effect=Effect.OPEN, check=PEER, line=line.line, text=text)
