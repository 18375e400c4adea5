"""The GPUs that failing programs name as those that they use: of unlike GPUs, these are judged.

A name is the evidence, and not a number: CUDA numbers GPUs in an order of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from gdrkit import catalogue
from gdrkit.catalogue import rule_of
from gdrkit.explain.explanation import EstablishedProblem
from gdrkit.explain.lines.transcript import TextLine
from gdrkit.explain.outputs.gpus import OF_PERFTEST, gpu_label, is_name_of
from gdrkit.explain.products import CARDS
from gdrkit.facts.gpu import product_name
from gdrkit.facts.pci import PciGpu, gpus
from gdrkit.formats.gpu_listing import rank_gpu_in
from gdrkit.formats.regex import regex
from gdrkit.messages import registration
from gdrkit.messages.strerror import in_english
from gdrkit.node import Node, if_missing

_PRODUCT = r"(?P<name>(?:NVIDIA|Tesla|Quadro|GeForce|GRID|TITAN)\b[^,;|(\"\]]{1,60}?)"
_NAMED = (
    OF_PERFTEST,
    regex(rf"\s{{0,8}}mype: \d{{1,6}} .{{0,40}}device name: {_PRODUCT} bus id: "),  # NVSHMEM's tests
    regex(rf"[\s>*#]{{0,8}}(?:[Uu]s(?:ing|es?) )?(?:(?:CUDA|GPU) )?[Dd]evice \[?\d{{1,4}}\]?:? \"?{_PRODUCT}"
          r"(?:\s*$|[,;|(\"\]])"),
)  # fmt: skip
"""How programs name the GPU that they use: perftest, NVSHMEM's tests, and many of CUDA's."""

MOST_LINES = 500
"""Lines between the name of a GPU and the failure at most."""


def failing_names(lines: Iterable[TextLine]) -> frozenset[str]:
    """The GPUs that programs name before they fail at what the kind of a GPU decides."""
    return frozenset(name for names in _runs(lines) for name in names)


def _runs(lines: Iterable[TextLine]) -> Iterator[frozenset[str]]:
    """Of each program that fails, the GPUs that it names. A command ends the one before it."""
    names: set[str] = set()
    typed_at = since = 0
    failed = False
    for line in lines:
        if line.kind not in ("machine", "shown"):
            continue
        name = _name_in(line.text)
        if line.typed_at != typed_at or (name and failed):
            names, typed_at, failed = set(), line.typed_at, False
        if name:
            names.add(name)
            since = line.number
        elif names and line.number - since <= MOST_LINES and _is_of_kind(line.text):
            failed = True
            yield frozenset(names)


def _name_in(text: str) -> str:
    """The GPU that a program says that it uses; "" if a line names none."""
    if "evice" not in text:
        return ""
    ranked = rank_gpu_in(text)
    if ranked is not None:
        return ranked.name
    found = next((match for pattern in _NAMED if (match := pattern.search(text))), None)
    return found["name"].strip() if found else ""


def _is_of_kind(text: str) -> bool:
    """Whether a line reports a failure that the kind of a GPU may cause."""
    match = catalogue.match(in_english(text))
    causes = match.causes if match is not None else registration.causes(text)
    return not set(CARDS).isdisjoint(causes)


def is_judged(node: Node, lines: Iterable[TextLine]) -> Callable[[object], bool]:
    """Whether a subject counts for what fails: of the GPUs of a machine those that failing programs name,
    else all."""
    names = failing_names(lines)
    used = {gpu for gpu in if_missing((), gpus, node) if _is_one_of(node, gpu, names)}
    return lambda subject: not used or not isinstance(subject, PciGpu) or subject in used


def _is_one_of(node: Node, gpu: PciGpu, names: Iterable[str]) -> bool:
    listed = if_missing("", product_name, node, gpu)
    return any(is_name_of(listed, name) for name in names)


def gpus_beside(
    node: Node, lines: Iterable[TextLine], proven: Iterable[EstablishedProblem]
) -> frozenset[str]:
    """The GPUs that can never have a direct path, on a machine with others that may: those count, unless a
    failing program names the GPU that it uses."""
    judged = is_judged(node, lines)
    shown = {gpu_label(gpu.address): judged(gpu) for gpu in if_missing((), gpus, node)}
    never = {found.subject for found in proven if found.subject in shown and rule_of(found.code).permanent}
    beside = {subject for subject in never if not shown[subject]}
    return frozenset(beside | (never if shown.keys() - never and all(shown.values()) else set()))
