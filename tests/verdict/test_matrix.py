"""Which pairs a finding counts for."""

from __future__ import annotations

import pytest

from gdrkit.facts.pci import PciGpu
from gdrkit.facts.rdma import Pair, RdmaDevice, RdmaPort
from gdrkit.facts.unused_nics import UnusedNic
from gdrkit.verdict.matrix import concerns

PAIRS = [Pair("gpu0", "mlx5_0"), Pair("gpu0", "mlx5_1"), Pair("gpu1", "mlx5_0"), Pair("gpu1", "mlx5_1")]


@pytest.mark.parametrize(
    ("subject", "counts"),
    [
        (PciGpu("gpu0"), [0, 1]),
        (UnusedNic("nic9", "gpu1"), [2, 3]),
        (RdmaDevice("mlx5_1"), [1, 3]),
        (RdmaPort("mlx5_0", 1, "DOWN", "Polling", 400.0, "InfiniBand"), [0, 2]),
        (PAIRS[2], [2]),
        ("nvidia_peermem", [0, 1, 2, 3]),
        (None, [0, 1, 2, 3]),
    ],
)
def test_a_subject_counts_for_the_pairs_that_it_is_a_part_of(subject: object, counts: list[int]):
    assert [number for number, pair in enumerate(PAIRS) if concerns(subject, pair)] == counts
