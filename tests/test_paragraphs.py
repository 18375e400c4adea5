"""Snapshots are read as they were written, whatever a test says and however its cases are called."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.paragraphs import content_of, paragraphs

NAMES = st.from_regex(r"(Test[A-Z]\.)?test_[a-z]{1,3}(\[[a-z ;/=]{0,60}\])?", fullmatch=True)


def is_of_pytest(texts: dict[str, str]) -> bool:
    """A function has cases, or has none and a bare name."""
    cases = {name.partition("[")[0] for name in texts if "[" in name}
    return cases.isdisjoint(texts)


@given(st.dictionaries(NAMES, st.text()).filter(is_of_pytest))
def test_what_is_written_is_read(texts):
    assert paragraphs(content_of(texts)) == texts


def test_cases_that_say_the_same_share_a_paragraph():
    texts = {"test_a[1]": "same", "test_a[2]": "other", "test_a[3]": "same", "test_b": "same"}

    assert content_of(texts) == "test_a[1]  [3]\n  same\ntest_a[2]\n  other\ntest_b\n  same\n"


@pytest.mark.parametrize("text", ["", "\n", "  indented\n\n  and more", "test_b", "[3]", "a\rb\x0bc"])
def test_a_text_that_looks_like_a_part_of_the_file_is_a_text(text):
    texts = {"test_a[1]": text, "test_c": "end"}

    assert paragraphs(content_of(texts)) == texts


def test_many_cases_stand_in_several_rows():
    texts = {f"test_a[{'x' * 40}{number}]": "same" for number in range(8)}
    rows = content_of(texts).splitlines()

    assert len(rows) == 4 and rows[1].startswith("[") and max(map(len, rows)) <= 150
    assert paragraphs(content_of(texts)) == texts
