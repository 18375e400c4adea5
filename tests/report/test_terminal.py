"""Lines of text with and without colours."""

from __future__ import annotations

import re

import pytest

from gdrkit.report.terminal import COMMAND, Row, excerpt, render

ROWS: tuple[Row, ...] = (
    (9, "bold", "Why not: the driver is proprietary, so no dma-buf", "BLOCKED"),
    (4, "dim", "word " * 40),
    (4, "", "/lib/modules/6.8.0-45-generic/updates/dkms/nvidia-peermem.ko.zst " * 3),
    (2, COMMAND, "sudo modprobe nvidia-peermem " * 8),
    (2, "none", "漢字\tafter a tab, \tand another"),
    (0, "red", "\x1b[31mnot a colour of its own\x07"),
    (2, "", "two\nlines"),
    (2, "", ""),
)
ESCAPES = re.compile(r"\x1b\[[\d;]*m")


@pytest.mark.parametrize("width", [20, 40, 100, None])
@pytest.mark.parametrize("row", ROWS)
def test_text_without_colours_is_the_coloured_text_without_its_escapes(row, width):
    """Rich prints the coloured one, and knows the columns of every character."""
    plain = render([row], {}, width=width)
    assert plain == ESCAPES.sub("", render([row], {}, colour=True, width=width))
    assert "\x1b" not in plain and "\t" not in plain


def test_a_colour_is_an_escape():
    assert render([(0, "quiet", "words")], {"quiet": "red"}, colour=True) == "\x1b[31mwords\x1b[0m\n"


SANDBOX = (
    'Failed to create pod sandbox: rpc error: code = Unknown desc = plugin type="multus" failed (add):   '
    "RDMA subsystem namespace awareness mode is set to shared, expected it to be exclusive"
)
"""What kubelet passes on: the cause is last."""


def test_an_excerpt_of_a_long_line_keeps_the_cause_at_its_end():
    cut = excerpt(SANDBOX, 150)
    assert cut == (
        "Failed to create pod sandbox: rpc error: code = ... failed (add): RDMA subsystem namespace"
        " awareness mode is set to shared, expected it to be exclusive"
    )


@pytest.mark.parametrize("text", ["x" * 500, "a " * 250, SANDBOX])
@pytest.mark.parametrize("characters", [20, 150])
def test_an_excerpt_is_not_longer_than_the_words_it_may_have(text: str, characters: int):
    assert len(excerpt(text, characters).replace(" ... ", "")) <= characters


def test_a_line_that_fits_is_whole():
    words = " ".join(SANDBOX.split())
    assert excerpt(SANDBOX, len(words)) == words
