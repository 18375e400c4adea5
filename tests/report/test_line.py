"""One line, and the performance data behind it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gdrkit.diagnosis import node_of, report_on
from gdrkit.evidence.target import open_host
from gdrkit.report.line import line
from gdrkit.verdict.path_state import State
from tests.evidence_nodes import laid_down


def direct_pairs(report, states):
    """The number in the line, where every path has these states in the two directions."""
    judgements = {
        f"{key}-{number}": replace(one, direction=direction, state=state)
        for key, one in report.judgements.items()
        for number, (direction, state) in enumerate(zip(("send", "receive"), states, strict=True))
    }
    pairs = tuple(
        replace(pair, judgements=tuple(f"{key}-{number}" for key in pair.judgements for number in (0, 1)))
        for pair in report.pairs
    )
    data = line(replace(report, judgements=judgements, pairs=pairs), nagios=True)
    return int(data.partition("direct_pairs=")[2].partition(";")[0])


@pytest.mark.parametrize(
    ("states", "direct"),
    [
        ((State.READY, State.READY), True),
        ((State.ACTIVE, State.READY), True),
        ((State.READY, State.BLOCKED), False),
        ((State.BLOCKED, State.READY), False),
        ((State.BLOCKED, State.BLOCKED), False),
    ],
)
def test_a_pair_is_direct_if_one_path_is_usable_in_both_directions(states, direct):
    report = report_on(node_of(open_host(str(laid_down("ubuntu-6.8-h100")))))
    assert report.pairs
    assert direct_pairs(report, states) == (len(report.pairs) if direct else 0)
