"""The kernel module's answers about third-party objects."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gdrkit.evidence import EvidenceMissing
from gdrkit.facts.third_party import third_party
from gdrkit.node import Node
from tests.memory_host import MemoryHost

RM = ("gdr", "probe", "rm", "--json")
RECORDED = Path(__file__).parents[1] / "agent" / "probe" / "h200" / "rm.json"
GPU = "0000:1b:00.0"


def node(*answers):
    calls = [
        {"call": "NV_ESC_RM_ALLOC", "argument": argument, "device": GPU, "result": status}
        for argument, status in answers
    ]
    record = {"schema": "gdrkit.probe.rm/1", "calls": calls}
    return Node(MemoryHost({}, commands={RM: json.dumps(record).encode()}))


def test_two_h200s_support_the_object():
    found = Node(MemoryHost({}, commands={RM: RECORDED.read_bytes()}))

    for address in ("0000:00:06.0", "0000:00:07.0"):
        assert (third_party(found, address).kind, third_party(found, address).status) == ("BAR1", 0)


def test_the_last_answer_counts():
    """GH200: BAR1 is refused, NVLINK is not."""
    answer = third_party(node(("NV50_THIRD_PARTY_P2P BAR1", 0x1F), ("NV50_THIRD_PARTY_P2P NVLINK", 0)), GPU)

    assert (answer.kind, answer.word) == ("NVLINK", "OK (0x0)")


def test_an_unknown_status_is_shown_as_a_number():
    assert third_party(node(("NV50_THIRD_PARTY_P2P BAR1", 0x77)), GPU).word == "status (0x77)"


@pytest.mark.parametrize("answers", [(), (("NV01_ROOT_CLIENT", 0), ("NV20_SUBDEVICE_0", 0x1B))])
def test_a_probe_that_did_not_reach_the_object_has_no_answer(answers):
    with pytest.raises(EvidenceMissing):
        third_party(node(*answers), GPU)


def test_a_gpu_that_was_not_probed_is_unknown():
    with pytest.raises(EvidenceMissing):
        third_party(node(("NV50_THIRD_PARTY_P2P BAR1", 0)), "0000:1c:00.0")
