"""The exit code of `gdr explain` for a text that is more than one thing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gdrkit.cli.exit import WORSE
from gdrkit.explain.explanation import AnswerKind, Explanation

if TYPE_CHECKING:
    from gdrkit.jobs.pasted import PastedJob
    from gdrkit.repair.config.fault import CheckedFile

EXIT_CODES = {"error": 2, "unreadable": 3, "warning": 1}
"""Those of `gdr config check`, by the worst fault."""


def combined_exit_code(
    explanation: Explanation, job: PastedJob | None, file: CheckedFile | None = None
) -> int:
    """That of `gdr nccl` for a log, and of `gdr config check` for manifests; for a text with other parts the
    worse of the two, if the log decides."""
    if explanation.answer.kind is AnswerKind.ELSEWHERE and file is not None and file.worst in EXIT_CODES:
        return EXIT_CODES[file.worst]
    if job is None:
        return explanation.exit_code
    from gdrkit.jobs.document import exit_code

    of_job = exit_code(job.document)
    if job.text.is_log:
        return of_job
    return explanation.exit_code if of_job == 3 else max(of_job, explanation.exit_code, key=WORSE.index)
