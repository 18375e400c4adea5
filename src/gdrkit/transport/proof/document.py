"""Proofs as a document and as text: each path's verdict, its evidence, every reading."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from gdrkit.transport.path_names import PathName
from gdrkit.transport.proof.evidence import Trial
from gdrkit.transport.proof.log import LogProof
from gdrkit.transport.proof.proof import PathProof

_LABEL = 15  # width of the labels in text


class PathRun(Struct, frozen=True):
    """One path: its verdict and the trial behind it, or in `unavailable` the reason why it is not
    available.
    """

    path: PathName
    proof: PathProof | None = None
    trial: Trial | None = None
    unavailable: str = ""
    asked: bool = False  # the path was requested by name


class ProveDocument(Struct, frozen=True, kw_only=True, tag_field="schema", tag="gdrkit.prove/1"):
    """The document of `gdr prove --json`. The bytes of a round are its messages times their size."""

    kind: Literal["pair", "loopback", "host", "log"]
    here: str
    there: str
    size_bytes: int
    repeats: int
    runs: tuple[PathRun, ...] = ()
    control: PathRun | None = None
    logs: tuple[LogProof, ...] = ()


def as_text(document: ProveDocument, *, every: bool = False) -> str:
    """The verdicts as text; with `every`, each signal too."""
    count, size = document.repeats, document.size_bytes / (1 << 20)
    lines = []
    if document.kind != "log":
        lines += [
            f"{document.kind}: {document.here} to {document.there}, "
            f"{count} and {2 * count} messages of {size:g} MiB; N = bytes of a round",
            "",
        ]
    if document.control:
        lines += [_control(document.control), ""]
    for run in document.runs:
        lines += [*_run(run, every), ""]
    for log in document.logs:
        evidence = (f"  {'evidence':<{_LABEL}} {words}" for words in log.decided_by)
        lines += [f"{log.name}: {log.claim}", *evidence, ""]
    return "\n".join(lines)


def _run(run: PathRun, every: bool) -> Iterable[str]:
    if run.proof is None:
        yield f"{run.path}: not run: {run.unavailable}"
        return
    yield f"{run.path}: {run.proof.claim}" + (
        f" (proven, confidence {run.proof.confidence})" if run.proof.proven else ""
    )
    for label, words in (
        ("evidence", run.proof.decided_by),
        ("consistent with", run.proof.supported_by),
        ("note", run.proof.limits),
        ("refused", run.trial.refusals if run.trial else ()),
    ):
        for number, line in enumerate(words):
            yield f"  {label if not number else '':<{_LABEL}} {line}"
    if every or not run.proof.proven:
        for number, signal in enumerate(run.proof.signals):
            yield f"  {'readings' if not number else '':<{_LABEL}} {signal.words}"


def _control(control: PathRun) -> str:
    if control.proof is None:
        return f"control run, host memory: not run: {control.unavailable}"
    return f"control run, host memory: {control.proof.claim}"


def exit_code(document: ProveDocument, required: str) -> int:
    """0: all proven (with `required` "direct": proven direct), 2: proven not direct, 3: inconclusive."""
    runs = [run for run in document.runs if run.proof or run.asked]
    answers: list[bool | None] = [run.proof.direct if run.proof else None for run in runs]
    proven = [bool(run.proof and run.proof.proven) for run in runs]
    answers += [log.direct for log in document.logs]
    proven += [log.direct is not None for log in document.logs]
    if required == "direct":
        if any(shown and answer is False for shown, answer in zip(proven, answers, strict=True)):
            return 2
        return 0 if answers and all(answers) else 3
    return 0 if proven and all(proven) else 3
