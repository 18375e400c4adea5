"""Messages that were wrapped on their way into a text."""

from __future__ import annotations

import textwrap

import pytest

from gdrkit import catalogue
from gdrkit.explain.explain import explain
from gdrkit.explain.lines.rejoined import rejoined
from gdrkit.explain.outputs.pasted_host import PastedHost

UCX = (
    "ib_md.c:282  UCX  ERROR ibv_reg_mr(address=0x320000000, length=1024,",
    "                access=0x10000f) failed: Bad address",
)
SAMPLES = [row.sample for row in catalogue.every_message() if row.sample and "\n" not in row.sample]


def causes(text: str) -> tuple[str, ...]:
    found = catalogue.match(text)
    return found.causes if found else ()


def test_a_message_of_two_lines_is_read_in_the_first():
    whole, moved = rejoined((*UCX, "next"))

    assert whole[0] == f"{UCX[0]} {UCX[1].strip()}"
    assert moved == {1}


@pytest.mark.parametrize("columns", [72, 80])
def test_a_wrapped_message_has_its_causes(columns):
    lines = [f"2026-03-03 12:11:38 worker[4711] ERROR: {sample}" for sample in SAMPLES]
    known = [line for line in lines if causes(line)]
    lost = []
    for line in known:
        parts = textwrap.wrap(line, columns)
        if 1 < len(parts) <= 3 and not any(map(causes, parts)):
            whole, _ = rejoined(parts)
            if causes(whole[0]) != causes(line) and not any(causes(one) for one in whole[1:]):
                lost.append(parts)

    assert len(known) > 100
    assert len(lost) <= len(known) // 30, lost  # a part may begin as another program's line does


def test_a_line_that_a_terminal_cut_within_a_word():
    line = (
        "h1:4711:4712 [0] transport/net_ib.cc:213 NCCL WARN Call to ibv_reg_mr failed with error Bad address"
    )
    whole, moved = rejoined((line[:80], line[80:]))

    assert moved == {1} and causes(whole[0]) == causes(line)


@pytest.mark.parametrize(
    "lines",
    [
        ("Call to ibv_reg_mr", "Bad address"),  # too short to have been wrapped
        (UCX[0], "", UCX[1]),
        (UCX[0], "```", UCX[1]),
        (UCX[0] + " failed: Bad address", "Cannot allocate memory"),  # whole without the second
        ("x" * 60, "[    1.234567] pci 0000:3b:00.0: Bad address"),
    ],
)
def test_lines_of_their_own_stay(lines):
    assert rejoined(lines) == (list(lines), frozenset())


def test_a_text_that_was_cut_in_a_code_block():
    text = "list of transports: cma\n```\n\nThen it failed with:\n\n```\n" + "\n".join(UCX) + "\n"
    lines = PastedHost(text).lines

    assert [(line.number, line.kind) for line in lines if "failed: Bad" in line.text] == [(7, "machine")]
    assert [line.kind for line in lines if line.number == 4] == ["prose"]


def test_an_item_of_a_list_is_no_failure():
    text = (
        "### cluster\n```note\n- should use gold-linker to avoid compiling error\n- mlx5 is fine here\n```\n"
    )
    explanation = explain(PastedHost(text))

    assert not explanation.answer.lines
