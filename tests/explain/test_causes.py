"""What excludes a cause, and about which proofs the analysis of a log decides."""

from __future__ import annotations

import pytest

from gdrkit.explain.causes import only_of_log
from gdrkit.explain.explanation import QuotedLine

OF_LOG = QuotedLine(1, "n1:1:2 [0] NCCL INFO NET/IB : No device found.")
BESIDE = QuotedLine(2, "No IB devices found")


@pytest.mark.parametrize(
    ("proofs", "only"),
    [((OF_LOG,), True), ((OF_LOG, OF_LOG), True), ((OF_LOG, BESIDE), False), ((BESIDE, OF_LOG), False),
     ((BESIDE,), False)],
)  # fmt: skip
def test_one_line_of_another_program_is_a_proof_beside_the_log(proofs: tuple[QuotedLine, ...], only: bool):
    assert only_of_log(proofs) is only
