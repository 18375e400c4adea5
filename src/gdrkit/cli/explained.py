"""The answer of `gdr explain` together with that of `gdr nccl`, for a text that has an NCCL log."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs

from gdrkit.explain.explanation import Answer, AnswerKind, Explanation, QuotedLine, RankedCause, Sureness
from gdrkit.formats.plural import plural
from gdrkit.jobs.document import NcclDocument, exit_code
from gdrkit.jobs.pasted import Example, PastedJob
from gdrkit.repair.config.fault import SEVERITIES, CheckedFile
from gdrkit.report.pages import code_page

WORSE = (0, 1, 3, 2)
"""Exit codes, each worse than the one before."""


class ExplainedText(Explanation, frozen=True, kw_only=True, tag_field="schema", tag="gdrkit.explanation/1"):
    """An explanation, and the job of the text's NCCL log."""

    job: NcclDocument | None  # as `gdr nccl --json` writes it; null without a log


def agreeing(
    explanation: Explanation, job: PastedJob | Example | None, file: CheckedFile | None = None
) -> Explanation:
    """The explanation, headed by what the log proves, or by what `gdr config check` finds in a file of
    manifests, if its own answer finds no problem or nothing."""
    answer = explanation.answer
    if file is not None and answer.kind in FINDS_NOTHING and file.worst not in ("", "note"):
        return structs.replace(explanation, answer=_of_file(file))
    if isinstance(job, Example):
        return (
            structs.replace(explanation, answer=_undecided(answer))
            if answer.kind in UNPROVEN
            else explanation
        )
    if job is None or answer.kind not in (AnswerKind.HARMLESS, AnswerKind.NOTHING, AnswerKind.NO_OUTPUT):
        return explanation
    verdict = job.document.verdict
    if verdict.state == "active" and not job.document.errors:
        kind, sentence, sureness = AnswerKind.WORKING, "NCCL accesses GPU memory directly", Sureness.CERTAIN
    elif verdict.state == "blocked":
        kind, sentence = AnswerKind.SEVERAL, "NCCL does not access GPU memory directly, at least in part"
        sureness = Sureness.CERTAIN
    elif job.document.errors:
        kind, sentence, sureness = AnswerKind.SEVERAL, "The job fails", Sureness.CERTAIN
    else:
        return explanation
    codes = tuple(dict.fromkeys(_codes(job.document)))[:MOST_CAUSES]
    headed = Answer(
        kind=kind, sentence=f"{sentence}: {verdict.summary}.", cause=None, subject="", machine="",
        sureness=sureness, claimed=False, lines=() if kind is AnswerKind.SEVERAL else answer.lines, now=(),
        others=tuple(RankedCause(code, code_page(code)[0], None) for code in codes), besides=(),
    )  # fmt: skip
    return structs.replace(explanation, answer=headed)


FINDS_NOTHING = (AnswerKind.HARMLESS, AnswerKind.NOTHING, AnswerKind.NO_OUTPUT)


UNPROVEN = (*FINDS_NOTHING, AnswerKind.WORKING)
"""Answers that rest on lines which may be examples, or on the lack of others."""


def _undecided(answer: Answer) -> Answer:
    """That lines of NCCL name no process, in a text that people wrote."""
    return structs.replace(
        answer, kind=AnswerKind.NOTHING, sureness=Sureness.POSSIBLE, lines=(), others=(),
        sentence="The text has lines of NCCL without the process that printed them: they may be examples, so"
        " they prove nothing.",
        now=("Give gdr nccl the log itself, with host and process in front of each line.",),
    )  # fmt: skip


def _of_file(file: CheckedFile) -> Answer:
    """The faults that `gdr config check` finds, the worst first."""
    faults = [fault for fault in file.faults if fault.severity != "note"]
    faults.sort(key=lambda fault: SEVERITIES.index(fault.severity))
    kinds = ", ".join(dict.fromkeys(found.kind for found in file.documents))
    return Answer(
        kind=AnswerKind.ELSEWHERE,
        sentence=f"gdr config check finds {plural(len(faults), 'fault')} in this text ({kinds}).",
        cause=None, subject="", machine="", sureness=Sureness.CERTAIN, claimed=False,
        lines=(QuotedLine(faults[0].line, faults[0].seen),), others=(), besides=(),
        now=(
            "Correct these lines; `gdr config check FILE` shows all of them.",
            *(f"- line {fault.line}: {fault.severity}: {fault.message}" for fault in faults[:MOST_FAULTS]),
        ),
    )  # fmt: skip


def checked_file(content: bytes, name: str) -> CheckedFile | None:
    """What `gdr config check` finds in the manifests and settings of a text; None where it finds none."""
    from gdrkit.repair.config.check import check

    if len(content) > MANIFESTS_LIMIT_BYTES:
        return None
    found = check(content, name)
    return found if found.documents else None


MANIFESTS_LIMIT_BYTES = 1 << 20
"""The longest text that is searched for manifests; a longer one is a log. The API server of Kubernetes takes
no object above 1.5 MiB: kubernetes.io, ConfigMap and etcd limits."""
MOST_CAUSES, MOST_FAULTS = 5, 8


def _codes(document: NcclDocument) -> Iterator[str]:
    """The causes that a job's log shows or leaves open, those that are certain first."""
    yield from (finding.code for finding in document.findings if finding.status != "note")
    for why in (*document.why_not_direct, *document.refused):
        yield from why.codes
    for error in document.errors:
        yield from error.codes


def explained_text(explanation: Explanation, job: PastedJob | None) -> ExplainedText:
    """Both answers as one document."""
    return ExplainedText(**structs.asdict(explanation), job=job.document if job else None)


EXIT_CODES = {"error": 2, "unreadable": 3, "warning": 1}
"""Those of `gdr config check`, by the worst fault."""


def combined_exit_code(
    explanation: Explanation, job: PastedJob | Example | None, file: CheckedFile | None = None
) -> int:
    """That of `gdr nccl` for a log, and of `gdr config check` for manifests; for a text with other parts the
    worse of the two, if the log decides."""
    if explanation.answer.kind is AnswerKind.ELSEWHERE and file is not None and file.worst in EXIT_CODES:
        return EXIT_CODES[file.worst]
    if job is None:
        return explanation.exit_code
    if isinstance(job, Example):
        return max(3, explanation.exit_code, key=WORSE.index)
    of_job = exit_code(job.document)
    if job.is_whole_text:
        return of_job
    return explanation.exit_code if of_job == 3 else max(of_job, explanation.exit_code, key=WORSE.index)
