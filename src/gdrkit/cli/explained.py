"""The answer of `gdr explain` together with that of `gdr nccl`, for a text that has an NCCL log."""

from __future__ import annotations

from msgspec import structs

from gdrkit.explain.explanation import Explanation
from gdrkit.jobs.document import NcclDocument, exit_code
from gdrkit.jobs.pasted import PastedJob

WORSE = (0, 1, 3, 2)
"""Exit codes, each worse than the one before."""


class ExplainedText(Explanation, frozen=True, kw_only=True, tag_field="schema", tag="gdrkit.explanation/1"):
    """An explanation, and the job of the text's NCCL log."""

    job: NcclDocument | None  # as `gdr nccl --json` writes it; null without a log


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
