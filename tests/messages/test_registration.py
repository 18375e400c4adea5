"""Failed registrations in the words of any program."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.catalogue import CODES
from gdrkit.messages.registration import causes
from gdrkit.messages.verbs_failures import NO_DMABUF


@pytest.mark.parametrize(
    ("line", "first"),
    [
        ("E0429 x.cpp:201] Failed to register memory 0x7f46: Bad address [14]", "peermem-not-loaded"),
        ("Unable to register memory (type = 2) for device 4. RC: -22, Error: Invalid argument",
         "memory-not-registrable"),
        ("error 12 while the buffer was registered", "memlock-limit"),
        ("myproxy: reg_mr: ret=-14", "peermem-not-loaded"),
        ("could not create MR, errno 12", "memlock-limit"),
        ("dma-buf: registering the region failed: Operation not supported", NO_DMABUF[0]),
        ("buffer registration returned Unknown error 524", "topology-refused"),
    ],
)  # fmt: skip
def test_a_failure_is_read_by_its_error(line: str, first: str):
    assert causes(line)[0] == first


@pytest.mark.parametrize(
    "line",
    [
        "registered 14 buffers",
        "memory registration took 22 ms",
        "the module was registered: Invalid argument",
        "Failed to register memory",
        "Bad address [14]",
        "nvidia_peermem: Invalid argument",
    ],
)
def test_a_line_without_both_is_none(line: str):
    assert causes(line) == ()


@given(st.text(alphabet="regist memory MR[]=14 error-2", max_size=200))
def test_any_line_has_known_causes(line: str):
    assert set(causes(line)) <= set(CODES)
