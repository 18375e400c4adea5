"""How a proof is told, and which exit code it has."""

import pytest

from gdrkit.report.prove import PathProof, ProveDocument, exit_code, told
from gdrkit.verdict.proof import Proof, Signal
from gdrkit.verdict.proof_log import LogProof

SIGNAL = Signal("nvlink-out", "moved", "nvlink-out: 1.00 N, 1.00 N")


def path(name, direct, proven=True):
    return PathProof(
        name,
        Proof(
            proven=proven,
            way=name if proven else "",
            claim=f"claim of {name}",
            direct=direct,
            confidence="high" if proven else "none",
            decided_by=("what decided",) if proven else (),
            signals=(SIGNAL,),
        ),
        asked=True,
    )


DIRECT, STAGED, OPEN = path("peer", True), path("shared", False), path("tcp", None, proven=False)
NOT_RUN = PathProof("verbs", unavailable="no RDMA device", asked=True)
NOT_ASKED = PathProof("verbs", unavailable="no RDMA device")


def document(*runs, **more):
    return ProveDocument(
        kind="pair", here="GPU 0", there="GPU 1", size_bytes=1 << 20, repeats=4, runs=runs, **more
    )


@pytest.mark.parametrize(
    "runs, proven, direct",
    [
        ((DIRECT,), 0, 0),
        ((DIRECT, STAGED), 0, 2),
        ((DIRECT, OPEN), 3, 3),
        ((STAGED, OPEN), 3, 2),
        ((DIRECT, NOT_RUN), 3, 3),
        ((DIRECT, NOT_ASKED), 0, 0),
        ((NOT_ASKED,), 3, 3),
        ((), 3, 3),
        ((path("host", None),), 0, 3),
    ],
)
def test_exit_codes(runs, proven, direct):
    assert exit_code(document(*runs), "") == proven
    assert exit_code(document(*runs), "direct") == direct


def test_logs_count_as_well():
    staged = LogProof(name="job.log", claim="staged", direct=False)
    shown = LogProof(name="job.log", claim="inconclusive: none", direct=None)
    assert exit_code(document(DIRECT, logs=(staged,)), "direct") == 2
    assert exit_code(document(DIRECT, logs=(shown,)), "") == 3


def test_a_proven_path_tells_what_decided_and_an_open_one_all_that_was_read():
    text = told(document(DIRECT, OPEN, NOT_RUN))
    peer, tcp, verbs = text.split("\n\n")[1:4]
    assert "claim of peer (proven, confidence high)" in peer and "decided by  what decided" in peer
    assert SIGNAL.words not in peer and SIGNAL.words in tcp
    assert verbs.strip() == "verbs: not run: no RDMA device"
    assert told(document(DIRECT), every=True).count(SIGNAL.words) == 1
