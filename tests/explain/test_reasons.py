"""The reason that a text gives in its own words."""

from __future__ import annotations

import pytest

from gdrkit.explain.explain import explain
from gdrkit.explain.explanation import Answer
from gdrkit.explain.pasted_host import PastedHost


def answered(text: str) -> Answer:
    return explain(PastedHost(text.encode())).answer


def test_a_reason_that_points_back_is_quoted_with_what_it_points_to():
    text = (
        "The job stalls on the second host\n\n"
        "The udev rules wait for an Ethernet device. Hence the RDMA driver is not loaded for these NICs.\n"
    )
    said = answered(text).sentence
    assert said.endswith(
        "The udev rules wait for an Ethernet device. Hence the RDMA driver is not loaded for these NICs."
    )


def test_a_reason_is_quoted_with_no_sentence_of_another_post():
    text = (
        "The job stalls\n\nalice commented on 2024-01-02\n\nThe plugin takes every device.\n\n"
        "bob commented on 2024-01-03\n\nThis happens because the driver maps the NIC twice.\n"
    )
    assert "takes every device" not in answered(text).sentence


def test_a_conclusion_is_a_reason_although_its_writer_only_believes_it():
    text = "Low bandwidth\n\nconclusion: I believe the library is incompatible with the NIC mapping\n"
    assert answered(text).kind == "stated"
    assert answered(text.replace("conclusion: ", "")).kind != "stated"


@pytest.mark.parametrize(
    "defect",
    [
        "the device plugin before 0.5 incorrectly lists the bridge ports as NICs",
        "the device plugin does not check whether the ports can do RDMA",
        "the device plugin picks ports which cannot do RDMA",
    ],
)
def test_a_defect_of_what_the_title_names_is_quoted_without_being_called_a_reason(defect: str):
    said = answered(f"Device plugin offers 10 ports\n\nOn these nodes {defect}.\n")
    assert said.kind == "stated"
    assert said.sentence.startswith("The text describes a defect in its own words:")
    assert defect in said.sentence


@pytest.mark.parametrize(
    "other",
    [
        "This PR lets the device plugin choose ports which cannot do RDMA.",  # what a change does
        "Does the device plugin not check whether the ports can do RDMA?",
        "Please use a device plugin which cannot choose such ports.",
        "The kernel always loads its drivers.",  # about nothing that the title names
    ],
)
def test_what_is_no_defect_of_what_the_title_names_is_not_quoted(other: str):
    assert answered(f"Device plugin offers 10 ports\n\n{other}\n").kind != "stated"


def test_that_something_else_works_is_no_reason():
    said = answered(
        "NCCL on two hosts\n\nThe new nodes fail but the old nodes are working with the same image.\n"
    )
    assert said.kind != "stated"


def test_a_heading_is_quoted_without_its_markup():
    text = "images, issue 33\n# CUDA fails with 802 owing to the lack of fabricmanager\n\nAny idea?\n"
    assert answered(text).sentence.endswith("words: CUDA fails with 802 owing to the lack of fabricmanager")


@pytest.mark.parametrize(
    "said",
    [
        "I want to adapt the kernel module, allowing my NIC to read its memory because I need it.",
        "There is no need to disable the IOMMU because the driver maps the NIC.",
        "This should have been fixed by https://example.com/plugin/commit/0a1 in the driver.",
        "Job for nvidia-x.service failed because the control process exited with error code.",
    ],
)
def test_a_wish_what_is_unneeded_or_only_seen_is_no_reason(said: str):
    assert answered(f"The NIC is not used\n\n{said}\n").kind != "stated"


@pytest.mark.parametrize(
    "said",
    [
        "I found that this fails because the driver maps the NIC twice.",
        "The setting was required because the driver maps the NIC twice.",
        "This was fixed by #12 in the driver.",
        "The service failed because the control process needs the driver.",
        "The errors are caused by reverting that patch.",
        "The errors are due to the network of docker, which nccl does not reach.",
    ],
)
def test_what_was_found_is_a_reason(said: str):
    assert answered(f"The NIC is not used\n\n{said}\n").kind == "stated"
