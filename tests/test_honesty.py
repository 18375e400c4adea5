"""Evidence that was not collected adds no claim: it can change an answer only to unknown."""

from __future__ import annotations

import random

import pytest

from gdrkit.diagnosis import diagnose
from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.evidence.target import open_host
from gdrkit.verdict.path_state import State
from tests.claims import Claims, ConsumerClaim, claims, offences
from tests.evidence_nodes import laid_down, names
from tests.hiding_host import HidingHost
from tests.seed import SEED

SAMPLE = 6
"""Sources hidden on each node, one at a time and all together. tools/hidings.py hides every one."""


FOUND = (
    ("gb200-force-pcie", "sys/bus/pci/devices/0010:03:00.0/numa_node"),
    ("gpu-off-the-bus", "nvidia-smi -q"),
    ("gpu-off-the-bus", "sys/bus/pci/devices/0000:e1:00.0"),
    ("gpu-off-the-bus", "sys/bus/pci/devices/0000:e1:00.0/config"),
    ("gpu-operator-already-loaded", "sos_commands/kubernetes"),
    ("gpu-operator-stub", "run/nvidia/driver/lib/modules/6.8.0-45-generic"),
    ("gpu-operator-waits", "run/nvidia/driver"),
    ("gpus-gone", "sys/bus/pci/devices"),
    ("nic-gone", "sys/class/infiniband/mlx5_4/ports/1/state"),  # of three that are as near
    ("talos", "sos_commands/kubernetes"),
    ("zgx-3852", "sys/class/infiniband/roceP2p1s0f0/ports/1/state"),
)
"""Hidings that once changed an answer to another one; tools/hidings.py found them among all."""


@pytest.fixture(scope="module", params=names())
def host(request):
    return request.param, open_host(str(laid_down(request.param)))


def test_less_evidence_adds_no_claim(host):
    name, real = host
    first = HidingHost(real)
    whole = claims(first)
    chosen = random.Random(f"{SEED} {name}").sample(sorted(first.asked), k=min(SAMPLE, len(first.asked)))
    for hidden in [{source} for source in chosen] + [set(chosen)]:
        added = list(offences(whole, claims(HidingHost(real, hidden))))
        assert not added, (f"GDRKIT_SEED={SEED}", hidden)


@pytest.mark.parametrize(("name", "hidden"), FOUND)
def test_a_source_that_was_once_missed_adds_no_claim(name, hidden):
    real = open_host(str(laid_down(name)))
    whole = claims(first := HidingHost(real))
    assert hidden in first.asked
    assert not list(offences(whole, claims(HidingHost(real, {hidden}))))


def claim(*failed: str, cause: str = "", state: State = State.BLOCKED, **given: object) -> Claims:
    """The claims of a verdict with these failed codes, each of subject `x`."""
    one = ConsumerClaim(state, cause, frozenset(failed), may_be_permanent=bool(given.get("permanent")))
    unknown = frozenset((str(code), "x") for code in given.get("open", ()))
    return Claims(frozenset((code, "x") for code in failed), unknown, {"nccl": one})


def test_a_code_a_cause_a_state_or_a_lone_blocker_that_appears_is_an_offence():
    whole = claim("peermem-stub", cause="peermem-stub")
    assert list(offences(whole, whole)) == []
    assert list(offences(whole, claim(state=State.UNKNOWN))) == []
    added = list(offences(whole, claim("peermem-stub", "port-down", cause="port-down")))
    assert added == ["port-down of x appears", "nccl: port-down is named as the cause"]
    assert list(offences(whole, claim(state=State.READY))) == ["nccl: blocked becomes ready"]
    never = claim("gpu-unsupported", state=State.IMPOSSIBLE, cause="gpu-unsupported")
    left = list(offences(never, claim("port-down", cause="", permanent=True)))
    assert left == ["port-down of x appears", "nccl: blocked by port-down alone"]


def test_a_code_that_the_whole_evidence_leaves_open_may_be_decided():
    whole = claim("peermem-stub", cause="peermem-stub", open=["port-down"])
    assert list(offences(whole, claim("peermem-stub", "port-down", cause="peermem-stub"))) == []


def test_a_node_without_evidence_is_unknown(host):
    report = diagnose(BlindHost(host[1]))
    assert report.verdict.state == "unknown"
    assert report.modprobe is None or report.modprobe.confidence != "certain"


class BlindHost(HidingHost):
    """A host of which nothing was collected."""

    def _ask(self, name: str) -> None:
        raise EvidenceMissing(Missing(name, MissingReason.NOT_COLLECTED, f"look at {name}"))
