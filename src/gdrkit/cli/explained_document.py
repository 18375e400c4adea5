"""The document of `gdr explain --json`: its answer, and that of `gdr nccl` for a log of NCCL."""

from __future__ import annotations

from msgspec import structs

from gdrkit.explain.explanation import Explanation
from gdrkit.jobs.document import NcclDocument
from gdrkit.jobs.pasted import PastedJob


class ExplainedText(Explanation, frozen=True, kw_only=True, tag_field="schema", tag="gdrkit.explanation/1"):
    """An explanation, and the job of the text's NCCL log."""

    job: NcclDocument | None  # as `gdr nccl --json` writes it; null without a log


def explained_text(explanation: Explanation, job: PastedJob | None) -> ExplainedText:
    """Both answers as one document."""
    return ExplainedText(**structs.asdict(explanation), job=job.document if job else None)
