"""A misspelt word is answered with the word that was meant."""

from __future__ import annotations

import pytest

from gdrkit.formats.misspelt import LONGEST, did_you_mean

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
