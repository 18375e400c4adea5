"""The table of errors: their texts in each program, and their causes."""

from __future__ import annotations

import errno
import os
import sys

import pytest

from gdrkit.catalogue import every_rule
from gdrkit.messages.errors import (
    ANY_INIT,
    ERRORS,
    ErrnoMeaning,
    causes,
    line_starts,
    name_of,
    number_in,
    strerror,
    tool_wording,
    words_of,
)  # fmt: skip


def test_invalid_argument_alone_has_many_causes():
    assert {"peermem-stub", "module-crc-mismatch", "module-bad-parameter", "init-failed"} <= set(
        causes("Invalid argument")
    )


def test_texts_of_other_tools_have_the_same_causes():
    assert causes("Invalid parameters") == causes("Invalid argument") == causes("invalid argument")
    assert causes("Unknown symbol in module") == causes(words_of(2))
    assert causes("No such device") == ANY_INIT


def test_an_error_without_a_name_is_its_number():
    assert (name_of(95), name_of(517)) == ("EOPNOTSUPP", "517")


def test_an_error_without_known_cause_comes_from_an_init():
    assert causes("Unknown error 517") == causes("File exists") == ANY_INIT


def test_modprobe_has_its_own_text_for_a_missing_symbol():
    assert words_of(2) == "Unknown symbol in module, or unknown parameter (see dmesg)"
    assert strerror(2) == "No such file or directory"
    assert words_of(22) == strerror(22) == "Invalid argument"
    assert words_of(517) == strerror(517) == "Unknown error 517"


@pytest.mark.skipif(sys.platform != "linux", reason="numbers and words are those of Linux")
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.name)
def test_numbers_names_and_texts_are_those_of_the_c_library(error: ErrnoMeaning):
    assert getattr(errno, error.name) == error.number
    assert os.strerror(error.number) == error.words


def test_causes_are_declared_and_each_error_is_listed_once():
    assert not {code for error in ERRORS for code in error.causes} - {rule.code for rule in every_rule()}
    assert len({error.number for error in ERRORS}) == len({error.words for error in ERRORS}) == len(ERRORS)
    assert len(set(tool_wording())) == len(tool_wording())


def test_the_longest_matching_text_is_used():
    assert number_in("ibv_open_device: No such device or address (6)") == 6
    assert number_in("ibv_open_device: No such device") == 19
    assert number_in("it went well") is None


def test_a_cut_text_can_belong_to_several_errors():
    assert set(line_starts("no such")) == {
        "No such device", "No such device or address", "No such file or directory",
    }  # fmt: skip
