"""A topology for a terminal: the tree, tables of GPUs and ports, NCCL's view."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from gdrkit.fabric.picture import picture
from gdrkit.fabric.picture_text import picture_text
from gdrkit.fabric.topo_document import NcclSection, TopoDocument
from gdrkit.fabric.topo_pairs import TopoPair
from gdrkit.fabric.topo_tree import tree
from gdrkit.fabric.topology.graph import OF_JOB, TopologySource
from gdrkit.formats.gpu_slot import gpu_slot
from gdrkit.report.terminal import QUOTE, Row, render

WIDTH = 100
PORTS_SHOWN = 4
"""How many ports of a GPU are named if all are equally near."""


STYLES = {"mark": "red"}
EMPTY: Row = 0, "", ""


def text(
    document: TopoDocument, *, ports: bool = False, colour: bool = False, width: int = WIDTH,
    encoding: str | None = "utf-8",
) -> str:  # fmt: skip
    """The document as lines; `encoding` says whether the picture may have box characters."""

    def lines(rows: Iterable[Row]) -> str:
        return render(rows, STYLES, colour=colour, width=width)

    head: list[Row] = [(0, "none", f"{document.source}: {_count(document)}")]
    if document.topology.origin is TopologySource.NCCL_LOG:
        head.append(_prose(OF_JOB))
    shown = lines([*head, EMPTY, *_rails(document)])
    drawn = picture(document.topology, document.rail_numbers) if document.topology.devices else None
    if drawn is not None and drawn.cpus:
        shown += picture_text(drawn, width=width, encoding=encoding, colour=colour) + "\n"
    below = (_tree(document, ports), _tables(document, width), _nccl(document, width), _findings(document))
    return shown + lines(chain.from_iterable(below))


def _prose(words: str) -> Row:
    """Words that are wrapped, lines after the first a little to the right."""
    return 2, "none", "", words


def _tree(document: TopoDocument, ports: bool) -> Iterator[Row]:
    """A row for each device, and one below it for each of its faults."""
    if document.topology.devices:
        for words, marks in tree(document.topology, ports=ports):
            margin = len(words) - len(words.lstrip())
            name, _, about = words.lstrip().partition("  ")
            indent = margin + len(name) + 2
            yield indent, "none", about, f"{'':{margin}}{name}"
            yield from ((indent, "mark", f"! {mark}") for mark in marks)
        yield EMPTY


def _count(document: TopoDocument) -> str:
    topology = document.topology
    cards = len({net.address or net.id for net in topology.nets})
    found = f"{_several(len(topology.gpus), 'GPU')}, "
    found += _several(cards, "NIC") if cards or topology.nets_known else "NICs not known"
    return f"{found}, {_several(len(topology.nets), 'port')}" if cards != len(topology.nets) else found


def _several(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _rails(document: TopoDocument) -> Iterator[Row]:
    """The nearest ports of each GPU, the first thing that one wants to know of a node."""
    if not document.rails:
        return
    names = _gpu_names(document)
    first = max(len(names[rail.gpu]) for rail in document.rails)
    down = {net.id: net.state for net in document.topology.nets if net.is_down}
    words = {True: "", False: "  (NCCL: not direct)", None: "  (NCCL: not known)"}
    served = {pair.gpu for pair in document.pairs if pair.receive is not None and pair.receive.direct}
    unusable = {
        one.id: f"  ({kind} unusable: {one.unusable})"
        for kind, some in (("GPU", document.topology.gpus), ("NIC", document.topology.nets))
        for one in some
        if one.unusable
    }
    yield _prose("nearest ports of each GPU")
    for rail in document.rails:
        ports = [f"{name} ({down[name]})" if name in down else name for name in rail.nearest[:PORTS_SHOWN]]
        if len(rail.nearest) > PORTS_SHOWN:
            ports.append(f"{len(rail.nearest) - PORTS_SHOWN} more")
        label = f"{names[rail.gpu].ljust(first)}  {rail.path.ljust(4)}  "
        gone = [unusable[one] for one in (rail.gpu, *rail.nearest[:1]) if one in unusable]
        why = gone[0] if gone and not rail.direct else words[rail.direct]
        if rail.direct is False and not gone and rail.gpu in served:
            why = "  (NCCL: direct at other ports)"
        yield len(label), "none", f"{', '.join(ports)}{why}", label
    yield EMPTY


# -- tables ----------------------------------------------------------------------------------------


def _tables(document: TopoDocument, width: int) -> Iterator[Row]:
    gpus = {gpu.id: gpu.id for gpu in document.topology.gpus}
    cells = {
        (cell.one, cell.other): cell.word
        for cell in document.topology.stated
        if cell.one in gpus and cell.other in gpus
    }
    if cells:
        yield _prose("GPU to GPU, path types of nvidia-smi")
        yield from _table(_gpu_names(document), list(gpus), cells, width)
        yield EMPTY
    if not document.pairs:
        known = document.topology.nets_known
        yield _prose("no GPU-NIC pairs" if known else "no GPU-NIC pairs: the NICs are not known")
        yield EMPTY
        return
    cells = {(pair.gpu, pair.net): _cell(pair) for pair in document.pairs}
    yield _prose("path types: nvidia-smi/NCCL, one word if both agree; * with an obstacle, see below")
    yield from _table(_gpu_names(document), _nets(document), cells, width)
    yield EMPTY


def _gpu_names(document: TopoDocument) -> dict[str, str]:
    """The slot of each GPU by its id; the id of one without number and address."""
    return {gpu.id: gpu_slot(gpu.index, gpu.address) or gpu.id for gpu in document.topology.gpus}


def _nets(document: TopoDocument) -> list[str]:
    return [net.id for net in document.topology.nets]


def _cell(pair: TopoPair) -> str:
    one, other = "|".join(pair.nvidia_smi) or "?", "|".join(pair.nccl) or "?"
    return (one if one == other else f"{one}/{other}") + ("*" if pair.obstacles else "")


def _table(
    names: dict[str, str], nets: list[str], cells: dict[tuple[str, str], str], width: int
) -> Iterator[Row]:
    """GPUs in rows, others in columns; columns that do not fit follow in another table."""
    first = max(map(len, names.values()))
    widths = {net: max(len(net), *(len(cells.get((gpu, net), "")) for gpu in names)) for net in nets}
    while nets:
        here = [nets.pop(0)]
        used = first + 2 + widths[here[0]]
        while nets and used + 2 + widths[nets[0]] <= width:
            used += 2 + widths[nets[0]]
            here.append(nets.pop(0))
        yield 0, QUOTE, "  ".join((" " * first, *(net.ljust(widths[net]) for net in here))).rstrip()
        for gpu, name in names.items():
            row = (cells.get((gpu, net), "").ljust(widths[net]) for net in here)
            yield 0, QUOTE, "  ".join((name.ljust(first), *row)).rstrip()
        if nets:
            yield EMPTY


# -- NCCL ------------------------------------------------------------------------------------------


WHOSE = {"option": "", "node": " (the node's)", "log": " (the job's)", "newest": " (the newest known)"}


def _nccl(document: TopoDocument, width: int) -> Iterator[Row]:
    nccl = document.nccl
    if nccl is None:
        return
    whose = WHOSE[nccl.version_of]
    given = "".join(f", {name}={value}" for name, value in nccl.environment.items())
    which = f"{nccl.version}{whose}{given}"
    yield _prose(f"GPUDirect RDMA with NCCL {which}: send/receive, one word if both agree")
    cells = {(pair.gpu, pair.net): _direct(pair) for pair in document.pairs}
    yield from _table(_gpu_names(document), _nets(document), cells, width)
    yield from _reasons(document)
    yield _prose(f"NCCL {nccl.version}'s rules: {nccl.model_basis}")
    yield EMPTY
    for name in nccl.fused:
        yield _prose(f"used by NCCL as one NIC: {name}")
    for setting in nccl.ignored:
        yield _prose(f"no effect: {setting}")
    for setting in nccl.not_modelled:
        yield _prose(f"not modelled, its effect is not shown: {setting}")
    if len(nccl.environment) > len(nccl.not_modelled):
        yield from _changed(nccl, _gpu_names(document))
        yield EMPTY
    if nccl.assumed:
        yield _prose("assumed, since the source does not show it:")
        yield from (_prose(f"  {words}") for words in nccl.assumed)
        yield EMPTY


def _direct(pair: TopoPair) -> str:
    words = dict.fromkeys(str(view) if view else "?" for view in (pair.send, pair.receive))
    return "/".join(words)


_OPEN = "?: direct if NVLink connects the GPU to one that is near the NIC (PXN), which is not known"


def _reasons(document: TopoDocument) -> Iterator[Row]:
    """Each reason for a "no" once, with the number of directions."""
    count: dict[str, int] = {}
    for pair in document.pairs:
        for view in (pair.send, pair.receive):
            if view is not None and view.because:
                count[view.because] = count.get(view.because, 0) + 1
    yield from (
        _prose(f"no: {reason} ({_several(number, 'direction')})") for reason, number in count.items()
    )
    unknown = [pair for pair in document.pairs if pair.nccl and None in (pair.send, pair.receive)]
    if any(not pair.undecided for pair in unknown):
        yield _prose(_OPEN)
    if undecided := dict.fromkeys(code for pair in unknown for code in pair.undecided):
        yield _prose(f"?: not known to gdr doctor either: {', '.join(undecided)}")
    if any(pair.send is not None and pair.send.through for pair in document.pairs):
        yield _prose("PXN: sends through another GPU of the node that is nearer to the NIC")


def _changed(nccl: NcclSection, names: dict[str, str]) -> Iterator[Row]:
    """The effects of the environment, equal ones together."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    for change in nccl.changes:
        key = change.what, change.before, change.after
        alike.setdefault(key, []).append(f"{names[change.gpu]} {change.net}")
    if not alike:
        yield _prose("the environment has no effect")
    for (what, before, after), pairs in alike.items():
        more = f" and {len(pairs) - 1} more" if len(pairs) > 1 else ""
        yield _prose(f"changed, {what}: {before} -> {after}: {pairs[0]}{more}")


# -- findings --------------------------------------------------------------------------------------


def _findings(document: TopoDocument) -> Iterator[Row]:
    """Each obstacle once, with the pairs that it affects; then what is not known."""
    found: dict[tuple[str, str, str], list[str]] = {}
    names = _gpu_names(document)
    for pair in document.pairs:
        for obstacle in pair.obstacles:
            key = obstacle.code, obstacle.address, obstacle.seen
            found.setdefault(key, []).append(f"{names[pair.gpu]} {pair.net}")
    for (code, address, seen), between in found.items():
        more = f" and {len(between) - 1} more" if len(between) > 1 else ""
        yield _prose(f"* {code} at {address}: {seen}, between {between[0]}{more}")
    for code in dict.fromkeys(code for code, _, _ in found):
        yield _prose(f"  cost and remedy: gdr codes {code}")
    unknown = {port for pair in document.pairs for port in pair.unknown_ports}
    if unknown:
        yield _prose(f"ACS is not known of {_several(len(unknown), 'port')} between GPUs and NICs")
    yield from map(_prose, (*document.contradictions, *document.topology.notes))
    if document.advice:
        yield EMPTY
        yield _prose("what to do:")
        yield from (_prose(f"  {words}") for words in document.advice)
