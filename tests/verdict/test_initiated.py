"""Who starts the transfers of a GPU kernel: the GPU before the CPU; what is open stays unknown."""

from __future__ import annotations

import pytest

from gdrkit.evidence import Confidence
from gdrkit.rules.capabilities import Path
from gdrkit.verdict.initiated import initiated
from gdrkit.verdict.path_state import PathState, State


def at_pair(by_gpu: str, by_cpu: str, consumer: str = "nccl-gin") -> tuple[PathState, ...]:
    def path(name: Path, state: str) -> PathState:
        return PathState(
            path=name, consumer=consumer, direction="both", state=State(state), blocked_by=(),
            causes=(), open=(), missing=(), confidence=Confidence.CERTAIN,
        )  # fmt: skip

    return path(Path.GPU_INITIATED, by_gpu), path(Path.CPU_ASSISTED, by_cpu)


@pytest.mark.parametrize(
    ("pairs", "by"),
    [
        ([("ready", "ready")], "gpu"),
        ([("active", "blocked")], "gpu"),
        ([("blocked", "ready")], "cpu"),
        ([("impossible", "active")], "cpu"),
        ([("unknown", "ready")], "unknown"),
        ([("blocked", "unknown")], "unknown"),
        ([("blocked", "blocked")], "none"),
        ([("ready", "ready"), ("blocked", "ready")], "cpu"),  # of two GPUs the worse one counts
        ([("blocked", "ready"), ("unknown", "ready")], "unknown"),
        ([("unknown", "ready"), ("blocked", "impossible")], "none"),
    ],
)
def test_the_worst_pair_tells_who_starts_a_transfer(pairs: list[tuple[str, str]], by: str):
    found = initiated([at_pair(*pair) for pair in pairs], "nccl-gin")
    assert found is not None and found.by == by


def test_a_program_that_starts_none_has_no_answer():
    assert initiated([at_pair("ready", "ready", "nvshmem")], "nccl-gin") is None
