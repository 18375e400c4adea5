"""The answer of `gdr explain` together with that of `gdr nccl`, for a text that has an NCCL log."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs

from gdrkit.explain.explanation import Answer, AnswerKind, Explanation, RankedCause, Sureness
from gdrkit.jobs.document import NcclDocument, exit_code
from gdrkit.jobs.pasted import PastedJob
from gdrkit.report.pages import code_page

WORSE = (0, 1, 3, 2)
"""Exit codes, each worse than the one before."""


class ExplainedText(Explanation, frozen=True, kw_only=True, tag_field="schema", tag="gdrkit.explanation/1"):
    """An explanation, and the job of the text's NCCL log."""

    job: NcclDocument | None  # as `gdr nccl --json` writes it; null without a log


def agreeing(explanation: Explanation, job: PastedJob | None) -> Explanation:
    """The explanation, headed by what the log proves if its own answer finds no problem or nothing."""
    answer = explanation.answer
    if job is None or answer.kind not in (AnswerKind.HARMLESS, AnswerKind.NOTHING):
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


MOST_CAUSES = 5


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


def combined_exit_code(explanation: Explanation, job: PastedJob | None) -> int:
    """That of `gdr nccl` for a log; for a text with other parts the worse of the two, if the log decides."""
    if job is None:
        return explanation.exit_code
    of_job = exit_code(job.document)
    if job.is_whole_text:
        return of_job
    return explanation.exit_code if of_job == 3 else max(of_job, explanation.exit_code, key=WORSE.index)
