"""What a pasted text is about, and whether it reports a problem or explains something."""

from __future__ import annotations

import functools
import re
from collections import Counter

from msgspec import Struct

from gdrkit.catalogue import every_consumer
from gdrkit.explain import cues
from gdrkit.explain.blocks import EVIDENCE
from gdrkit.explain.sentences import Place, Sentence, is_logged
from gdrkit.explain.statement_rows import HARDWARE
from gdrkit.explain.transcript import TextLine

_PATTERNS = {
    "rdma": (
        r"\bUCX\b|\blibibverbs|\bfi_[a-z]{2,}|\bGPU ?Direct\b|\bTCPXO?\b"
        r"|(?<!NET/)\bIB (?:\w+ ){0,2}(?:cards?|NICs?|networks?|devices?|adapters?|ports?)\b"
        r"|libfabric|\bEFA\b|\bIMEX\b|GPUDirect Storage|nvidia-fs|GPU"
        r" ?Direct[ -]?RDMA|\bGDR(?:DMA)?\b|\bRDMA\b|peer_?mem|InfiniBand|\bHCAs?\b|\bmlx\d"
        r"|gdrcopy|gdrdrv"
        r"|\bib_(?:write|read|send)_(?:bw|lat)\b|\bperftest\b|\bRoCE|\bConnectX|NVSHMEM|nvshmem"
        r"|\bibv_|\bnv(?:idia)?[-_]p2p|GPU memory.{0,20}regist"
    ),
    "dmabuf": r"dma[-_ ]?buf",
    "direct": (
        r"GPU ?Direct|\bGDR|peer_?mem|dma[-_ ]?buf|regist|ibv_reg|use_cuda|nv[-_]?p2p|nvidia_p2p|gdr_?copy"
        r"|gdrdrv"
        r"|\bp2p\b|peer[- ]to[- ]peer|Bad address|nvidia-fs|cufile|GPU memory|NVSHMEM|\bIBGDA\b"
    ),
    "datacenter": (
        r"\bTesla\b|\b(?:[AHBV][12]00|H20|H800|A800|GH200|GB[23]00|[KMP]\d0|P100|K20m|T4|L[42]0S?"
        r"|A[1346]0)\b"
    ),
    "desktop": r"GeForce|\bRTX[- ]?\d{4}|\bTITAN\b|\bGB10\b|\bSpark\b",
    "uses": (
        r"\b(?:GPU ?Direct(?: ?RDMA)?|GDR(?:DMA)?)\b.{0,40}"
        r"\b(?:enabled|active|used|works|working|is on|proof|proves?)\b"
        r"|\b(?:uses?|using|enabled?|have|with|has|of) (?:GPU ?Direct|GDR)"
    ),
    "crash": (
        r"\bSIG(?:SEGV|ABRT|BUS)\b|\bseg(?:mentation |mentation-)?fault|\bsegfault|\bcore dumped\b"
        r"|\billegal memory access|undefined symbol|\bibv_reg_\w*mr\w*\b.{0,20}\bfail"
    ),
    "collective": r"nccl\w*",
    "nodes": r"\bnNodes (\d{1,7})\b",
    "rank": r"(?:^|[\s>])(?P<host>[\w.-]{1,80}):\d+:\d+ \[-?\d+\] .{0,40}\brank (?P<rank>\d{1,7})"
    r" nranks (?P<ranks>\d{1,7}) ",
    # NCCL since 2.21, and Mooncake's choice without a NIC
    "over_nvlink": r"\bMNNVL 1\b|Using cross-node NVLink transport|Using MNNVL transport",
    "gpu": r"\bGPUs?\b|cuda|\bVRAM\b|nvidia|nccl|nvshmem|peer_?mem|GeForce|\bGDR|gdr_?copy|nvfs",
    # Other makers keep NCCL's names of variables, and the names of the paths that NVIDIA's module made.
    "nvidia": (
        r"\bnvidia(?![-_ ]?peer)|\bcuda\w*|\bnccl(?!_)|GeForce|\bTesla\b|\bRTX\b|\b(?:[AHBV][12]00"
        r"|H20|H800|A800|GB10|GB[23]00)\b"
    ),
    "foreign": (
        r"(?P<AMD>\bROCm\w*|\bRCCL\b|\bamdkfd\b|\bHIP\b|\bamdgpu\b|\bInstinct\b|\bMI[1-4]\d{2}\w?\b"
        r"|\bhipMalloc)|(?P<Huawei>\bAscend\b|\bHCCL\b)"
        r"|(?P<Intel>\bGaudi\b|\bHabana|\bPonte Vecchio\b|\bLevel Zero\b)"
    ),
    "guide": (
        r"\bhow[- ]to\b|\bguide\b|\btutorial\b|\bfaq\b|frequently asked|\bchapter \d|\bintroduction\b"
        r"|\boverview\b"
        r"|\bwhen to use\b|^\W*(?:configuring|setting up|troubleshooting)\b"
        r"|\bprerequisites?\b|\bstep[- ]by[- ]step\b|\bcommon causes\b|^\W*symptoms\b|\bbest practices\b"
        r"|\bdocumentation\b|\bwhat is (?:a |the )?[A-Z]|\bin this (?:post|article|chapter|section"
        r"|guide)\b"
        r"|\bverify (?:that|the)\b|\u6559\u7a0b|\u6307\u5357|\u4f7f\u7528.{0,20}\u5f00\u53d1"
        r"|\u53ef\u80fd\u7684?\u539f\u56e0|\uad6c\uc131|\uc124\uc815|\u8a2d\u5b9a\u65b9\u6cd5"
        r"|\u624b\u9806|\bAnleitung\b|\bselbst\b.{0,20}\bbaut\b"
    ),
    "report": (
        r"\bdescribe the bug\b|\bsteps to reproduce\b|\b(?:expected|actual) behaviou?r\b"
        r"|^\W*environment\b|\bbefore this (?:change|patch|pr|fix)\b"
        r"|\b(?:customers?|users?) (?:hit|saw|got|report\w*)\b|^\W*(?:problem|issue|motivation)\W*$"
    ),
    "trouble": (
        r"\b(?:I|we|my|our|us|me)\b.{0,120}(?:fail|error|problem|issue|slow|crash|hang|stuck|not work"
        r"|n't work|unable|cannot|can't|get|see|degrad|lost|wrong)"
        r"|(?:fail|crash|hang|stop|broke|does not work|doesn't work)\w* (?:on|with|after|when)"
        r"|\b(?:slow(?:er)?|falls? back|half)\b|\?\s*$|\uff1f|\u65e0\u6cd5|\u62a5\u9519|\u5931\u8d25"
    ),
}


_PROGRAMS = {
    "nccl-gin": r"\bGIN\b|\bgin[_/]|ncclGin|\bdevice API\b|deep_?ep",
    # Each NCCL prints `MNNVL 0`, and the fabric of a single HGX host has no number.
    "mnnvl": (
        r"\bMNNVL (?:busId \S+ fabric UUID (?!0\.0\b)|[1-9(]|is )|\bMNNVL\b(?! \d| busId)|\bGB[23]00\b"
        r"|\bNVL\d|\bIMEX\b|ComputeDomain|multi-?node NVLink"
    ),
    "deepep": r"deep_?ep",
}
"""How a text names a program, where not by the name that gdr gives it."""


@functools.cache
def _program(name: str) -> re.Pattern[str]:
    return re.compile(_PROGRAMS.get(name, re.escape(name)), re.IGNORECASE)


@functools.cache
def _compiled(name: str) -> re.Pattern[str]:
    return re.compile(_PATTERNS[name], re.IGNORECASE | re.MULTILINE * (name == "rank"))


class Topics(Struct, frozen=True):
    """What a text is about."""

    gpu: bool  # it mentions a GPU, its memory, or a program that is for GPUs
    rdma: bool  # GPU memory on the network; messages of NCCL's sockets do not count
    dmabuf: bool
    direct: bool  # the direct path to GPU memory, or what registers it
    collective: bool  # NCCL, with or without a network
    foreign: str  # the maker of other accelerators that the text is about; empty for NVIDIA's
    one_host: bool  # all ranks of its jobs are on one host, so nothing needs the network
    over_nvlink: bool  # its jobs go from host to host over NVLink
    datacenter: bool  # it names a GPU for data centres
    hardware: frozenset[str]  # the codes of hardware that it names
    crash: bool  # a program stops in a way that no setting of the network explains
    claims_direct: bool  # a person says that the direct path is used
    programs: tuple[str, ...]  # those of programs/ that it names, or that any job may use


def topics(lines: tuple[TextLine, ...]) -> Topics:
    """The topics of a text, by the words in its first lines; a longer text is a log of one subject."""
    first = (line.text[:MAX_CHARACTERS] for line, _ in zip(lines, range(MAX_LINES), strict=False))
    words = "\n".join(text for text in first if "NET/Socket" not in text)
    names = ("gpu", "rdma", "dmabuf", "direct", "collective", "desktop", "crash")
    found = {name: _compiled(name).search(words) is not None for name in names}
    cards = _compiled("datacenter").search(words) is not None
    gpu = found["gpu"] or found["desktop"] or cards
    counts = set(_compiled("nodes").findall(words))
    return Topics(
        gpu,
        found["rdma"],
        found["dmabuf"],
        found["direct"],
        found["collective"],
        _maker(words),
        counts == {"1"} or (not counts and _has_one_host(words)),
        _compiled("over_nvlink").search(words) is not None,
        cards,
        frozenset(row.code for row in HARDWARE if re.search(row.topic, words, re.IGNORECASE)),
        found["crash"],
        any(_compiled("uses").search(line.text) for line in lines if line.kind in ("prose", "quoted")),
        tuple(one.name for one in every_consumer() if one.common or _program(one.name).search(words)),
    )


def _has_one_host(words: str) -> bool:
    """Whether NCCL logs every rank of its largest job, and all of them on one host."""
    found = [match.groupdict() for match in _compiled("rank").finditer(words)]
    hosts = {one["host"] for one in found}
    ranks = max((int(one["ranks"]) for one in found), default=0)
    return len(hosts) == 1 and ranks > 1 and len({one["rank"] for one in found}) == ranks


def _maker(words: str) -> str:
    """The maker of other accelerators that a text names more often than NVIDIA's; "" if there is none."""
    found = Counter(match.lastgroup for match in _compiled("foreign").finditer(words) if match.lastgroup)
    name, times = found.most_common(1)[0] if found else ("", 0)
    return name if times > sum(1 for _ in _compiled("nvidia").finditer(words)) else ""


MAX_LINES, MAX_CHARACTERS = 2000, 400
"""How much of a text tells what it is about."""


def explains(lines: tuple[TextLine, ...], found: tuple[Sentence, ...]) -> bool:
    """Whether a text is documentation or a tutorial: it guides a reader, and no one reports a problem."""
    outputs = any(line.kind in EVIDENCE and line.typed_at for line in lines)
    outputs = outputs or sum(is_logged(line.text) for line in lines) >= LOGGED
    if not found or any(_compiled("report").search(sentence.text) for sentence in found):
        return False
    if _reports(found[0]):
        return False
    if any(sentence.post and cues.is_definite(sentence.text) for sentence in found):
        return False  # a reply says how it was solved
    guides = sum(_compiled("guide").search(sentence.text) is not None for sentence in found)
    advice = sum(cues.is_instruction(sentence.text) for sentence in found)
    trouble = sum(_compiled("trouble").search(sentence.text) is not None for sentence in found)
    titled = any(
        sentence.place is not Place.BODY and _compiled("guide").search(sentence.text) for sentence in found
    )
    if guides >= GUIDES and guides >= trouble:
        return True
    return not (trouble or outputs) and (titled or (advice * 3 >= len(found) and len(found) > GUIDES))


def _reports(title: Sentence) -> bool:
    """Whether the title of a text says that something fails, and announces neither a guide nor a change."""
    if title.place is not Place.TITLE or not cues.is_symptom(title.text):
        return False
    return not (
        _compiled("guide").search(title.text) or cues.is_change(title.text) or cues.is_request(title.text)
    )


LOGGED = 3
"""Lines of a log that make a text a report: a guide shows one or two."""

GUIDES = 2
"""Sentences of a guide that make a text documentation."""
