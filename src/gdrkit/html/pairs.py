"""Each pair of a GPU and a NIC as a report shows it: what happens between the two, and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from gdrkit.fabric.ceilings.chain import Chain
from gdrkit.fabric.ceilings.document import EstimateDocument
from gdrkit.fabric.topo_document import TopoDocument
from gdrkit.fabric.topo_pairs import TopoPair
from gdrkit.fabric.topology.graph import Net, TopologyGpu
from gdrkit.formats.gpu_slot import gpu_slot
from gdrkit.report.document import JudgementSection, PairSection, Report
from gdrkit.report.pages import code_page
from gdrkit.report.path_words import PATH_NAMES
from gdrkit.rules.capabilities import DIRECT
from gdrkit.verdict.path_state import BEST_FIRST, GOOD, State

Kind = Literal["direct", "detour", "shared", "staged", "dead", "unknown"]
"""direct: as it should be; detour: direct, but slower than the hardware could; shared: the GPU has no memory
of its own, and host memory serves; staged: copied through host memory; dead: nothing passes."""

DISTANCES = {
    "PIX": "one PCIe switch between the two",
    "PXB": "several PCIe switches between the two",
    "PHB": "one host bridge of the processor between the two",
    "NODE": "several host bridges of one processor between the two",
    "SYS": "two processors and the link between them",
}


@dataclass(frozen=True)
class PairView:
    """One pair. `key` is unique on a page, and safe in a link."""

    key: str
    gpu: TopologyGpu
    net: Net
    kind: Kind
    redirected: bool  # up to the root complex, by ACS
    words: str  # what happens, in a sentence
    because: tuple[str, ...]  # codes
    distance: str  # PIX, PXB, ...; empty if unknown
    nccl: str  # what NCCL would do, in words; empty if unknown
    confidence: str
    chains: tuple[Chain, ...]


def gpu_name(gpu: TopologyGpu) -> str:
    """GPU 0 (0000:1b:00.0); another id where neither number nor address is known."""
    return gpu_slot(gpu.index, gpu.address) or gpu.id


def gpu_number(gpu: TopologyGpu) -> str:
    """GPU 0, as the picture names it; its whole name where the number is not known."""
    return gpu_slot(gpu.index, "") or gpu_name(gpu)


def net_name(net: Net) -> str:
    """The name of the port: mlx5_0."""
    return net.id or net.netdev or "NIC"


def pair_views(report: Report, topo: TopoDocument, estimate: EstimateDocument | None) -> Iterator[PairView]:
    """The pairs of a node, GPU by GPU, in the order of the topology."""
    judged = {(pair.gpu, pair.device): pair for pair in report.pairs}
    ceilings = {(pair.gpu, pair.device): pair.paths for pair in estimate.pairs} if estimate else {}
    gpus = {gpu.id: (number, gpu) for number, gpu in enumerate(topo.topology.gpus)}
    nets = {net.id: (number, net) for number, net in enumerate(topo.topology.nets)}
    for pair in topo.pairs:
        (row, gpu), (column, net) = gpus[pair.gpu], nets[pair.net]
        section = judged.get((gpu.address, net.device))
        judgement = _judgement(report, section) if section else None
        kind = _kind(report, judgement, pair, gpu, net)
        distance = section.distance if section else ""
        yield PairView(
            key=f"pair-{row}-{column}",
            gpu=gpu,
            net=net,
            kind=kind,
            redirected=kind == "detour" and any(o.code == "acs-redirect" for o in pair.obstacles),
            words=_words(kind, judgement, pair, gpu.unusable, net, _helper(report, pair)),
            because=tuple(judgement.blocked_by) if judgement else (),
            distance=distance or (pair.nvidia_smi[0].value if len(pair.nvidia_smi) == 1 else ""),
            nccl=_nccl(pair, kind),
            confidence=judgement.confidence.value if judgement else "",
            chains=ceilings.get((gpu.address, net.device), ()),
        )


def _judgement(report: Report, section: PairSection) -> JudgementSection | None:
    """The best direct path of a pair, for the program that the verdict is about; the worst of its
    directions."""
    worst: dict[str, JudgementSection] = {}
    for key in section.judgements:
        found = report.judgements[key]
        if report.verdict.consumer in found.consumers and found.path in DIRECT:
            before = worst.get(found.path)
            if before is None or _rank(found) > _rank(before):
                worst[found.path] = found
    return min(worst.values(), key=_rank, default=None)


def _rank(judgement: JudgementSection) -> int:
    return BEST_FIRST.index(judgement.state)


def _kind(
    report: Report, judgement: JudgementSection | None, pair: TopoPair, gpu: TopologyGpu, net: Net
) -> Kind:
    if net.is_down or net.unusable or gpu.unusable:
        return "dead"
    if judgement is None or judgement.state is State.UNKNOWN:
        return "unknown"
    if judgement.state in GOOD:
        return "detour" if pair.obstacles or _helper(report, pair) else "direct"
    return "shared" if report.verdict.best_fallback == "host-mapped" else "staged"


def _helper(report: Report, pair: TopoPair) -> str:
    """The GPU through which NCCL sends instead, if the report is about NCCL."""
    return pair.send.through if pair.send and report.verdict.consumer == "nccl" else ""


def _words(
    kind: Kind, judgement: JudgementSection | None, pair: TopoPair, unusable_gpu: str, net: Net, helper: str
) -> str:
    over = PATH_NAMES.get(judgement.path, judgement.path) if judgement else ""
    reasons = [code_page(code)[0].rstrip(".") for code in judgement.blocked_by[:1]] if judgement else []
    match kind:
        case "direct":
            return f"Direct, over {over}."
        case "detour" if helper and not pair.obstacles:
            return f"Direct, over {over}; NCCL sends through another GPU, near the NIC (PXN)."
        case "detour":
            seen = "; ".join(dict.fromkeys(f"{o.code} at {o.address}: {o.seen}" for o in pair.obstacles))
            return f"Direct, over {over}, but slower than it could be: {seen}."
        case "shared":
            return "Through host memory that GPU and NIC share: as good as direct on this hardware."
        case "staged":
            return f"Copied through host memory. {'. '.join(reasons)}{'.' if reasons else ''}"
        case "dead" if code := unusable_gpu or net.unusable:
            return f"Nothing passes. {code_page(code)[0]}"
        case "dead":
            return f"Nothing passes: the port is {net.state_words}."
        case "unknown":
            missing = judgement.missing[:1] if judgement else ()
            return f"Not known{f': {missing[0]} is missing' if missing else ''}."


def _nccl(pair: TopoPair, kind: Kind) -> str:
    """What NCCL's rules say of the pair; "" where they do not matter, since nothing passes."""
    if pair.send is None or pair.receive is None or kind == "dead":
        return ""
    open_or_denied = kind == "unknown" or (kind == "staged" and (pair.send.direct or pair.receive.direct))
    only = "by its topology alone, " if open_or_denied else ""
    paths = [
        f"directly{f' through {view.through}' if view.through else ''}"
        if view.direct
        else f"through host memory ({view.because})"
        for view in (pair.send, pair.receive)
    ]
    if paths[0] == paths[1]:
        return f"{only}sends and receives {paths[0]}"
    return f"{only}sends {paths[0]} and receives {paths[1]}"
