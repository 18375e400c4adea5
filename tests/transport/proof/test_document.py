"""A proof as text and as a document, and its exit code."""

import functools
import operator

import jsonschema
import msgspec
import pytest

from gdrkit.transport.proof.document import PathRun, ProveDocument, as_text, exit_code
from gdrkit.transport.proof.evidence import CounterReading, MemorySearch, TrafficWindow, Trial
from gdrkit.transport.proof.log import LogProof
from gdrkit.transport.proof.proof import PathProof, Signal

SIGNAL = Signal("nvlink-out", "moved", "nvlink-out: 1.00 N, 1.00 N")


def path(name, direct, proven=True):
    return PathRun(
        name,
        PathProof(
            proven=proven,
            path=name if proven else "",
            claim=f"claim of {name}",
            direct=direct,
            confidence="high" if proven else "none",
            decided_by=("what decided",) if proven else (),
            signals=(SIGNAL,),
        ),
        asked=True,
    )


DIRECT, STAGED, OPEN = path("peer", True), path("shared", False), path("tcp", None, proven=False)
NOT_RUN = PathRun("verbs", unavailable="no RDMA device", asked=True)
NOT_ASKED = PathRun("verbs", unavailable="no RDMA device")


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


def test_logs_count_for_the_exit_code():
    staged = LogProof(name="job.log", claim="staged", direct=False)
    shown = LogProof(name="job.log", claim="inconclusive: none", direct=None)
    assert exit_code(document(DIRECT, logs=(staged,)), "direct") == 2
    assert exit_code(document(DIRECT, logs=(shown,)), "") == 3


def test_a_proven_path_shows_its_evidence_and_an_inconclusive_one_every_reading():
    text = as_text(document(DIRECT, OPEN, NOT_RUN))
    peer, tcp, verbs = text.split("\n\n")[1:4]
    assert "claim of peer (proven, confidence high)" in peer and "evidence        what decided" in peer
    assert SIGNAL.words not in peer and SIGNAL.words in tcp
    assert verbs.strip() == "verbs: not run: no RDMA device"
    assert as_text(document(DIRECT), every=True).count(SIGNAL.words) == 1


TRIAL = Trial(
    path="peer",
    source="gpu",
    destination="gpu",
    windows=(TrafficWindow(1 << 20, 0.5, (CounterReading("nvlink-out", 0, 1 << 20),)),),
    search=MemorySearch(0, 1 << 30),
)
WHOLE = document(
    PathRun("peer", msgspec.structs.replace(DIRECT.proof, path="nvlink"), TRIAL),
    OPEN,
    NOT_RUN,
    logs=(LogProof(name="job.log", claim="staged", direct=False),),
)


def test_the_document_matches_its_schema_and_survives_json():
    written = msgspec.json.encode(WHOLE)
    jsonschema.validate(msgspec.json.decode(written), msgspec.json.schema(ProveDocument))
    assert msgspec.json.decode(written)["schema"] == "gdrkit.prove/1"
    assert msgspec.json.decode(written, type=ProveDocument) == WHOLE


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("schema",), "gdrkit.prove/2"),
        (("kind",), "triple"),
        (("runs", 0, "path"), "magic"),
        (("runs", 0, "proof", "path"), "tunnel"),
        (("runs", 0, "proof", "confidence"), "certain"),
        (("runs", 0, "proof", "signals", 0, "did"), "jumped"),
        (("runs", 0, "trial", "windows", 0, "readings", 0, "counter"), "odometer"),
    ],
)
def test_the_schema_rejects_values_outside_the_contract(where, value):
    broken = msgspec.to_builtins(WHOLE)
    *way, last = where
    functools.reduce(operator.getitem, way, broken)[last] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(
            msgspec.json.decode(msgspec.json.encode(broken)), msgspec.json.schema(ProveDocument)
        )
