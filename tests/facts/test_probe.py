"""Records of probes."""

import contextlib
import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.evidence import EvidenceMissing
from gdrkit.facts import probe
from gdrkit.formats.errors import FormatError
from gdrkit.node import Node
from tests.hardware import PROBE
from tests.hardware import probe as recorded
from tests.memory_host import MemoryHost


def record(*calls, schema="gdrkit.probe.cuda/1"):
    return json.dumps({"schema": schema, "calls": calls})


def attribute(number, value, device=0, result=0):
    return {
        "call": "cuDeviceGetAttribute",
        "argument": number,
        "device": device,
        "result": result,
        "value": value,
    }


def test_calls_name_the_gpu_by_its_pci_address():
    (call,) = probe.parse(record(attribute("116", 1, "00000000:1B:00.0")))

    assert (call.subject, call.argument, call.result, call.value) == ("0000:1b:00.0", "116", 0, 1)
    assert call.returned == "1"


def test_a_device_number_is_replaced_by_its_address():
    """33, 34 and 50 are bus, device and domain: an H200 of a virtual machine has 0, 6 and 0."""
    calls = probe.parse(record(attribute(33, 0), attribute(34, 6), attribute(50, 0), attribute(116, 1)))

    assert {call.subject for call in calls} == {"0000:00:06.0"}


def test_a_call_that_failed_keeps_its_error():
    (call,) = probe.parse(record({"call": "cuInit", "argument": "0", "result": 100}))

    assert (call.subject, call.result, call.returned) == ("", 100, "")


def test_the_document_has_a_call_with_its_result_as_errno():
    (call,) = probe.parse(record(attribute("116", 1, "0000:1b:00.0")))

    assert msgspec.to_builtins(call) == {
        "call": "cuDeviceGetAttribute",
        "argument": "116",
        "subject": "0000:1b:00.0",
        "returned": "1",
        "errno": 0,
    }


def test_a_text_of_many_digits_is_not_a_number():
    """Python refuses to convert more than 4300 digits."""
    (call,) = probe.parse(record(attribute("116", "9" * 5000)))

    assert call.value is None


def test_a_text_answer_is_kept_as_text():
    name = {"call": "cuDeviceGetName", "device": "0000:1b:00.0", "result": 0, "value": "NVIDIA H200"}
    (call,) = probe.parse(record(name))

    assert (call.value, call.returned) == (None, "NVIDIA H200")


@pytest.mark.parametrize(
    "text", ["", "null", "[]", "{}", '{"schema": "other/1", "calls": []}', record({"call": 1})]
)
def test_other_text_than_a_record_is_garbled(text):
    with pytest.raises(FormatError):
        probe.parse(text)


@given(st.text(max_size=60) | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_any_text_gives_calls_or_a_format_error(text):
    with contextlib.suppress(FormatError):
        probe.parse(text)


def test_no_probe_is_not_an_empty_probe():
    with pytest.raises(EvidenceMissing):
        probe.probe_calls(Node(MemoryHost()))
    node = Node(MemoryHost(commands=recorded("0000:1b:00.0", {116: 1})))
    assert [call.value for call in probe.probe_calls(node)] == [1]
    assert node.trail(probe.probe_calls).sources[0].name == " ".join(PROBE)
