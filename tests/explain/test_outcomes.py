"""Which sentences say that something was good after a change, whatever was changed."""

from __future__ import annotations

import pytest

from gdrkit.explain.outcomes import is_good, is_in_comparison, refers_back


@pytest.mark.parametrize(
    "sentence",
    [
        "Adding iommu=pt gives 12 GB/s.",
        "After enabling it, the bandwidth reaches 93GB/s.",
        "Upgrading the driver from 1.18 to 1.30 fixed it.",
        "Pinning the ranks doubled the rate.",
        "With ACS off the script finishes.",
        "Once we set it, everything is back to normal.",
        "By mounting the folder the job runs with no error.",
    ],
)
def test_a_change_with_a_good_end_is_one(sentence):
    assert is_good(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "Adding iommu=pt gives an error.",
        "After enabling it, the bandwidth reaches only 3 GB/s.",
        "Upgrading the driver did not fix it.",
        "With ACS off the script still hangs, and never finishes.",
        "Running the test gives 12 GB/s.",
        "The bandwidth reaches 93 GB/s.",
        "During training the rate doubled.",
    ],
)
def test_a_measurement_or_a_bad_end_is_none(sentence):
    assert not is_good(sentence)


def test_what_it_is_good_with_is_told_from_the_rest():
    sentence = "With NCCL_IB_DISABLE=1 it passes, and GDR stays off."

    assert is_in_comparison(sentence, sentence.index("NCCL_IB_DISABLE"))
    assert not is_in_comparison(sentence, sentence.index("GDR"))
    assert not is_in_comparison("With NCCL_IB_DISABLE=1 it fails.", 5)


def test_a_change_refers_back_by_its_object():
    asked = "Is the nvidia-peermem module loaded?"

    assert refers_back("After loading the module it works.", asked)
    assert refers_back("Setting this helps.", asked)
    assert not refers_back("After changing the cable it works.", asked)
    assert not refers_back("After loading gdrdrv it works.", asked)
