"""The wording of everything that a user or a reader sees is plain English, and replaced names stay gone."""

import pytest
from tools.plain_english import OLD_NAMES, everything, in_code, in_page


def test_the_whole_project_is_worded_plainly():
    assert not [str(found) for found in everything([])]


@pytest.mark.parametrize(
    "sentence",
    [
        "x is no ssh target",
        "nobody could see it",
        "this tells of a failure",
        "dma-buf is not to be had here",
        "a line that stands\nbehind another",
        "what NCCL is told",
        "a witness of it",
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
        "`nobody` runs it",
    ],
)
def test_plain_sentences_are_left_alone(sentence):
    assert not list(in_page("docs/page.md", sentence))


def test_code_blocks_and_quoted_output_are_not_ours():
    page = 'A\n\n```console\n$ x\nnobody\n```\n\nThe line "is no module" means this.\n'
    assert not list(in_page("docs/page.md", page))


def test_strings_count_in_the_product_and_docstrings_everywhere():
    code = '"""Nobody."""\nx = "somebody"\n# whoever\n'
    assert [found.line for found in in_code("src/x.py", code.lower())] == [1, 2, 3]
    assert [found.line for found in in_code("tests/x.py", code.lower())] == [1, 3]


@pytest.mark.parametrize("name", sorted(OLD_NAMES))
def test_no_replaced_name_comes_back(name):
    found = list(in_code("src/x.py", f"def f({name.lower()}_: int, _{name}: int) -> None: ...\n"))
    assert [one.text for one in found] == [f"_{name}"]
