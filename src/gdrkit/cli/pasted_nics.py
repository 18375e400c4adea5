"""A text whose log shows that a setting keeps a job to some of the NICs that the text lists."""

from __future__ import annotations

from msgspec import structs

from gdrkit.explain.explanation import (
    NO_FAILURE_SHOWN,
    NO_PROBLEM,
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
    """The explanation of a text without a failure, of whose log the GPUs share NICs that a setting names,
    with that in its answer; if the text lists more, as its answer. Which are for the job, is open."""
    answer = explanation.answer
    kept = [one for one in job.document.shared_nics if one.keeps]
    if not kept or answer.kind not in (AnswerKind.NO_PROBLEM, AnswerKind.WORKING):
        return explanation
    code, first = "hca-not-selected", kept[0]
    more = sorted(listed_nics(text.lines) - set(first.nics))
    title, todo = code_page(code)
    step = " ".join(todo.split())
    if not more:
        ask = f"`ibv_devices` on {first.hosts[0]} shows whether it has more NICs. If so: {step}"
        shown = answer.sentence.replace(NO_PROBLEM, "The text shows no failure")
        sentence = f"{shown} But {shared_nics_words(first)}."
        answer = structs.replace(answer, sentence=sentence, now=(ask, *answer.now))
        return structs.replace(explanation, answer=answer)
    line = first.line.line
    found = plain(
        AnswerKind.SEVERAL,
        f"{NO_FAILURE_SHOWN}: {shared_nics_words(first)}, and the text lists {len(more)} more:"
        f" {names(more)}.",
        lines=tuple(QuotedLine(one.number, one.text.strip()) for one in text.lines if one.number == line),
        now=(step, *answer.now),
        others=(RankedCause(code, title, line),),
    )
    return structs.replace(explanation, answer=found)
