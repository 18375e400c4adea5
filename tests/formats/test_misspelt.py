"""A misspelt word is answered with the word that was meant."""

from __future__ import annotations

import pytest

from gdrkit.formats.misspelt import LONGEST, did_you_mean, is_slip

WORDS = ("doctor", "modprobe", "nccl-env")


@pytest.mark.parametrize(
    "word, answer",
    [
        ("docter", ", did you mean 'doctor'?"),
        ("mod-probe", ", did you mean 'modprobe'?"),
        ("nccl_env", ", did you mean 'nccl-env'?"),
        ("banana", ""),
        ("", ""),
        ("doctor" * 1_000_000, ""),
    ],
    ids=lambda text: text[:12],
)
def test_only_a_word_that_resembles_another_one_is_answered(word, answer):
    assert did_you_mean(word, WORDS) == answer


def test_of_a_long_word_no_more_is_compared_than_its_beginning():
    near = "a" * (LONGEST - 10)
    assert did_you_mean(near + "b" * 10, [near]) == did_you_mean(near + "b" * 10_000, [near]) != ""


@pytest.mark.parametrize("word", ["NCCL_IB_GTD", "NCCL_IB_GI", "NCCL_IB_GIDS", "NCCL_IB_IGD", "NCL_IB_GID"])
def test_one_wrong_letter_is_a_slip(word: str):
    assert is_slip(word, "NCCL_IB_GID") and is_slip("NCCL_IB_GID", word)


@pytest.mark.parametrize(
    "word", ["NCCL_IB_GID", "NCCL_IB_HCA", "NCCL_IB_DIG", "NCCL_IB_", "", "NCCL_BI_GDI"]
)
def test_none_and_two_are_not(word: str):
    assert not is_slip(word, "NCCL_IB_GID")
