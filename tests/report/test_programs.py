"""The state of a program in words."""

from __future__ import annotations

import pytest

from gdrkit.report.document import ConsumerSection, InitiatedSection
from gdrkit.report.programs import _words
from gdrkit.verdict.path_state import State

BY_CPU = InitiatedSection(name="IBGDA", by="cpu", codes=("ibgda-cpu-assisted",))


@pytest.mark.parametrize(
    ("section", "words"),
    [
        (ConsumerSection(state=State.READY, path="dmabuf"), ", direct over dma-buf"),
        (
            ConsumerSection(state=State.READY, path="dmabuf", initiated=BY_CPU),
            ", direct over dma-buf; IBGDA: the CPU rings the NIC's doorbell for the GPU, data stays direct "
            "[ibgda-cpu-assisted]",
        ),
        (ConsumerSection(state=State.UNKNOWN, path="dmabuf", best_fallback="staged"), ""),
        (ConsumerSection(state=State.BLOCKED, best_fallback="staged"), "; it copies through host memory"),
        (
            ConsumerSection(state=State.BLOCKED, best_fallback="socket"),
            "; falls back to socket: ordinary TCP",
        ),
        (ConsumerSection(state=State.BLOCKED, without="stops"), "; it stops"),
        (ConsumerSection(state=State.BLOCKED), ""),
    ],
)
def test_a_program_says_what_it_does_and_who_starts_its_transfers(section: ConsumerSection, words: str):
    assert _words(section) == words
