"""What a pasted text is about, by the words in it."""

from __future__ import annotations

import functools
import re
from collections import Counter

from msgspec import Struct

from gdrkit.catalogue import every_consumer
from gdrkit.explain.lines.transcript import TextLine
from gdrkit.explain.outputs.used_gpus import failing_names
from gdrkit.explain.products import products
from gdrkit.formats.regex import regex

_PATTERNS = {
    "rdma": regex(
        r"\bUCX\b|\blibibverbs|\bfi_[a-z]{2,}|\bGPU ?Direct\b|\bTCPXO?\b"
        r"|(?<!NET/)\bIB (?:\w+ ){0,2}(?:cards?|NICs?|networks?|devices?|adapters?|ports?)\b"
        r"|libfabric|\bEFA\b|\bIMEX\b|GPUDirect Storage|nvidia-fs|GPU"
        r" ?Direct[ -]?RDMA|\bGDR(?:DMA)?\b|\bRDMA\b|peer_?mem|InfiniBand|\bHCAs?\b|\bmlx\d"
        r"|gdrcopy|gdrdrv"
        r"|\bib_(?:write|read|send)_(?:bw|lat)\b|\bperftest\b|\bRoCE|\bConnectX|NVSHMEM|nvshmem"
        r"|\bibv_|\bmlnx|\bOFED\b|\bnv(?:idia)?[-_]p2p|GPU memory.{0,20}regist",
        re.IGNORECASE,
    ),
    "dmabuf": regex(r"dma[-_ ]?buf", re.IGNORECASE),
    "direct": regex(
        r"GPU ?Direct|\bGDR|peer_?mem|dma[-_ ]?buf|regist|ibv_reg|use_cuda|nv[-_]?p2p|nvidia_p2p|gdr_?copy"
        r"|gdrdrv"
        r"|\bp2p\b|peer[- ]to[- ]peer|Bad address|nvidia-fs|cufile|GPU memory|NVSHMEM|\bIBGDA\b",
        re.IGNORECASE,
    ),
    "desktop": regex(r"GeForce|\bRTX[- ]?\d{4}|\bTITAN\b|\bGB10\b|\bSpark\b", re.IGNORECASE),
    "crash": regex(
        r"\bSIG(?:SEGV|ABRT|BUS)\b|\bseg(?:mentation |mentation-)?fault|\bsegfault|\bcore dumped\b"
        r"|\billegal memory access|undefined symbol|\bibv_reg_\w*mr\w*\b.{0,20}\bfail",
        re.IGNORECASE,
    ),
    "collective": regex(r"nccl\w*", re.IGNORECASE),
    "nodes": regex(r"\bnNodes (\d{1,7})\b", re.IGNORECASE),
    "sockets": regex(r"NET/Socket : Using (?P<names>\[0\].{1,400})"),
    "rank": regex(
        r"(?:^|[\s>])(?P<host>[\w.-]{1,80}):\d+:\d+ \[-?\d+\] .{0,80}\brank (?P<rank>\d{1,7})"
        r" nranks (?P<ranks>\d{1,7}) ",
        re.IGNORECASE | re.MULTILINE,
    ),
    # NCCL since 2.21, and Mooncake's choice without a NIC
    "over_nvlink": regex(
        r"\bMNNVL 1\b|Using cross-node NVLink transport|Using MNNVL transport", re.IGNORECASE
    ),
    "gpu": regex(
        r"\bGPUs?\b|cuda|\bVRAM\b|nvidia|nccl|nvshmem|peer_?mem|GeForce|\bGDR|gdr_?copy|nvfs"
        r"|\bmem_type bit 0x[24]\b",  # UCX: memory of CUDA
        re.IGNORECASE,
    ),
    "rccl": regex(r"\b(?:RCCL version|HIP version|ROCm version) ?:? ?\d", re.IGNORECASE),
    # Other makers keep NCCL's names of variables, and the names of the paths that NVIDIA's module made.
    "nvidia": regex(
        r"\bnvidia(?![-_ ]?peer)|\bcuda\w*|\bnccl(?!_)|GeForce|\bTesla\b|\bRTX\b|\b(?:[AHBV][12]00"
        r"|H20|H800|A800|GB10|GB[23]00)\b",
        re.IGNORECASE,
    ),
    "foreign": regex(
        r"(?P<AMD>\bROCm\w*|\bRCCL\b|\bamdkfd\b|\bHIP\b|\bamdgpu\b|\bInstinct\b|\bMI[1-4]\d{2}\w?\b"
        r"|\bhipMalloc)|(?P<Huawei>\bAscend\b|\bHCCL\b)"
        r"|(?P<Intel>\bGaudi\b|\bHabana|\bPonte Vecchio\b|\bLevel Zero\b)",
        re.IGNORECASE,
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
    "gds": r"\bgds|\bnvidia[-_]fs\b|\bcufile",
}
"""How a text names a program, where not by the name that gdr gives it."""


@functools.cache
def _program(name: str) -> re.Pattern[str]:
    return re.compile(_PROGRAMS.get(name, re.escape(name)), re.IGNORECASE)


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
    products: frozenset[str]  # those that its outputs show, or failing programs name: codes, and DATACENTER
    named: frozenset[str]  # those that any line names
    crash: bool  # a program stops in a way that no setting of the network explains
    programs: tuple[str, ...]  # those of consumers/ that it names, or that any job may use
    over_ipoib: bool  # NCCL's first connections go over an interface of InfiniBand: the host has a device
    in_pod: bool  # a job runs in a pod: by a command of kubectl, a manifest, or the name that NCCL prints


MAX_LINES, MAX_CHARACTERS = 2000, 400
"""How much of a text is read to find its subject."""


def topics(lines: tuple[TextLine, ...]) -> Topics:
    """The topics of a text, by the words in its first lines; a longer text is a log of one subject."""
    first = [line for line in lines[:MAX_LINES] if "NET/Socket" not in line.text]
    words = "\n".join(line.text[:MAX_CHARACTERS] for line in first)
    printed = "\n".join(line.text[:MAX_CHARACTERS] for line in first if line.kind in ("machine", "shown"))
    names = ("gpu", "rdma", "dmabuf", "direct", "collective", "desktop", "crash")
    found = {name: _PATTERNS[name].search(words) is not None for name in names}
    named = products(words)
    gpu = found["gpu"] or found["desktop"] or bool(named)
    counts = set(_PATTERNS["nodes"].findall(words))
    return Topics(
        gpu,
        found["rdma"],
        found["dmabuf"],
        found["direct"],
        found["collective"],
        _maker(words, printed),
        counts == {"1"} or (not counts and (_has_one_host(words) or _over_loopback(lines[:MAX_LINES]))),
        _PATTERNS["over_nvlink"].search(words) is not None,
        products("\n".join(failing_names(first)) or printed),
        named,
        found["crash"],
        tuple(one.name for one in every_consumer() if one.common or _program(one.name).search(words)),
        any(_IPOIB.search(line.text) for line in first),
        any(_POD.match(line.text) or _POD_NAME.fullmatch(line.host) for line in first),
    )


_IPOIB = regex(r"NCCL INFO Bootstrap ?: Using (?:\[0\])?ib\w{1,14}:")
"""Linux names such interfaces ib0, or ibp12s0 by udev: systemd.net-naming-scheme(7)."""
_POD = regex(
    r"(?:[$#>] |\S{1,80}[$#] )?(?:kubectl|oc) [^|]{0,200}\bexec\b|kind: Pod$"
    r"|[a-z0-9-]{1,200}-(?:worker|master|launcher)-\d{1,5}:\d{1,8}:\d{1,8} \["
)
"""Of the names, those that the operators of training jobs give: kubeflow/trainer pkg/common/util,
GenGeneralName()."""


_POD_NAME = regex(r"(?:[a-z0-9-]{1,200}-)?pod(?:-[a-z0-9-]{1,200})?")
"""The name of a host by which it is a pod."""


def _over_loopback(lines: tuple[TextLine, ...]) -> bool:
    """Whether the sockets of every process of NCCL are of the loopback interface alone, which reaches no
    other host."""
    found = [match["names"] for line in lines if (match := _PATTERNS["sockets"].search(line.text))]
    return bool(found) and all(names.count("[") == 1 and names.startswith("[0]lo:") for names in found)


def _has_one_host(words: str) -> bool:
    """Whether NCCL logs every rank of its largest job, and all of them on one host."""
    found = [match.groupdict() for match in _PATTERNS["rank"].finditer(words)]
    hosts = {one["host"] for one in found}
    ranks = max((int(one["ranks"]) for one in found), default=0)
    return len(hosts) == 1 and ranks > 1 and len({one["rank"] for one in found}) == ranks


def _maker(words: str, printed: str) -> str:
    """The maker of other accelerators that a program of its own names in its first lines, or that a text
    names more often than NVIDIA; "" if there is none.

    AMD's library prints `NCCL INFO` before each line: ROCm/rccl src/debug.cc, src/init.cc.
    """
    if _PATTERNS["rccl"].search(printed):
        return "AMD"
    found = Counter(match.lastgroup for match in _PATTERNS["foreign"].finditer(words) if match.lastgroup)
    name, times = found.most_common(1)[0] if found else ("", 0)
    return name if times > sum(1 for _ in _PATTERNS["nvidia"].finditer(words)) else ""
