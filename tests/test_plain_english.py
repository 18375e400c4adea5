"""The wording of everything that a user or a reader sees is plain English."""

import pytest
from tools.plain_english import everything, in_code, in_page


def test_the_whole_project_is_worded_plainly():
    assert not [str(found) for found in everything([])]


@pytest.mark.parametrize(
    "sentence",
    [
        "x is no ssh target",
        "this tells of a failure",
        "dma-buf is not to be had here",
        "a line that stands\nbehind another",
        "what NCCL is told",
    ],
)
def test_the_dialect_is_found_across_line_ends(sentence):
    assert [found.line for found in in_page("docs/page.md", f"One.\n\n{sentence}\n")]


@pytest.mark.parametrize(
    "sentence",
    [
        "there is no GPU",
        "it is no longer loaded",
        "PIX stands for one switch",
        "a standalone program",
        "`x is no y` is what it prints",
    ],
)
def test_plain_sentences_are_left_alone(sentence):
    assert not list(in_page("docs/page.md", sentence))


def test_code_blocks_and_quoted_output_are_not_ours():
    page = 'A\n\n```console\n$ x\nx is no y\n```\n\nThe line "is no module" means this.\n'
    assert not list(in_page("docs/page.md", page))


def test_strings_count_in_the_product_and_docstrings_everywhere():
    code = '"""It is no x."""\nx = "it is no x"\n# it is no x\n'
    assert [found.line for found in in_code("src/x.py", code)] == [1, 2, 3]
    assert [found.line for found in in_code("tests/x.py", code)] == [1, 3]
