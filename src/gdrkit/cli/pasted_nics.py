"""A text whose log shows that a setting keeps a job to some of the NICs that the text lists."""

from __future__ import annotations

from msgspec import structs

from gdrkit.explain.explanation import (
    NO_FAILURE_SHOWN,
    AnswerKind,
    Explanation,
    QuotedLine,
    RankedCause,
    plain,
)
from gdrkit.explain.log_events import listed_nics
from gdrkit.explain.outputs.pasted_host import PastedHost
from gdrkit.jobs.hosts import names
from gdrkit.jobs.nic_lists import shared_nics_words
from gdrkit.jobs.pasted import PastedJob
from gdrkit.report.pages import code_page


def with_left_out(explanation: Explanation, text: PastedHost, job: PastedJob) -> Explanation:
    """The explanation of a text without a failure, of whose log the GPUs share NICs that a setting names; if
    the text lists more, with that as its answer. Whether these are for the job, it does not show."""
    answer = explanation.answer
    kept = [one for one in job.document.shared_nics if one.keeps]
    if not kept or answer.kind not in (AnswerKind.NO_PROBLEM, AnswerKind.WORKING):
        return explanation
    code, first = "hca-not-selected", kept[0]
    more = sorted(listed_nics(text.lines) - set(first.nics))
    if not more:
        return explanation
    title, todo = code_page(code)
    line = first.line.line
    found = plain(
        AnswerKind.SEVERAL,
        f"{NO_FAILURE_SHOWN}: {shared_nics_words(first)}, and the text lists {len(more)} more:"
        f" {names(more)}.",
        lines=tuple(QuotedLine(one.number, one.text.strip()) for one in text.lines if one.number == line),
        now=(" ".join(todo.split()), *answer.now),
        others=(RankedCause(code, title, line),),
    )
    return structs.replace(explanation, answer=found)
