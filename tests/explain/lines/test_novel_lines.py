"""What is left out of a long log takes nothing from its answer."""

from __future__ import annotations

import pytest

from gdrkit import catalogue
from gdrkit.explain.lines.novel_lines import MOST_ALIKE, MOST_TELLING, SHORT_LINES, novel
from gdrkit.explain.lines.shapes import kind, may_be_message, shape
from gdrkit.programs import proofs
from tests.explain.explaining import EINVAL, explained
from tests.explain.posts import POSTS
from tests.messages.samples import sample

XID = "[ 12.{:06}] NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus."


def dull(count: int) -> str:
    """Lines of a container host that do not mention GPUs or NICs."""
    return "".join(
        f"[{number:5}.{number * 7919 % 10**6:06}] docker0: port {number % 97}(veth{number:07}) "
        "entered blocking state\n"
        for number in range(count)
    )


def shown(text: str) -> tuple[object, ...]:
    answer = explained(text).answer
    return answer.kind, answer.cause, answer.sureness, answer.sentence, [one.code for one in answer.others]


def test_a_text_of_usual_length_is_read_whole():
    lines = ["the same"] * SHORT_LINES
    assert list(novel(lines)) == list(range(SHORT_LINES))
    assert len(list(novel([*lines, "the same"]))) < 50


@pytest.mark.parametrize("post", [text for text, *_ in POSTS])
def test_a_long_log_below_a_post_changes_nothing_in_its_answer(post):
    assert shown(f"{post}\n\n{dull(SHORT_LINES * 5)}") == shown(f"{post}\n\n{dull(40)}")


@pytest.mark.parametrize("before", [0, 3, SHORT_LINES, SHORT_LINES * 2])
def test_a_failure_is_found_wherever_it_stands_in_a_long_log(before):
    text = f"{dull(before)}[ 9.1] {EINVAL}\n{dull(SHORT_LINES * 2)}"
    answer = explained(text).answer
    assert answer.cause == "peermem-stub"
    assert [line.line for line in answer.lines] == [before + 1]


def test_the_neighbours_of_a_failure_are_kept():
    lines = [*dull(SHORT_LINES).splitlines(), XID.format(1), *dull(SHORT_LINES).splitlines()]
    assert set(range(SHORT_LINES - 5, SHORT_LINES + 6)) <= set(novel(lines))


def test_a_message_among_others_that_differ_in_a_number_only_is_kept():
    alike = [f"Failed status {number}: wr_id 0 syndrom 0x0" for number in [5] * 300 + [12]]
    lines = [*dull(SHORT_LINES).splitlines(), *alike, *dull(SHORT_LINES).splitlines()]
    assert set(range(SHORT_LINES, SHORT_LINES + 301)) <= set(novel(lines))


def test_of_each_kind_of_line_a_bounded_number_is_kept():
    lines = [XID.format(number) for number in range(SHORT_LINES * 10)]
    assert MOST_TELLING <= len(list(novel(lines))) <= MOST_TELLING + 30
    few = list(novel(dull(SHORT_LINES * 10).splitlines()))
    assert MOST_ALIKE <= len(few) <= 200


def test_the_lines_below_a_command_are_kept_whole():
    listing = [f"module{number:04} {number * 16} 0" for number in range(200)]
    lines = [*dull(SHORT_LINES).splitlines(), "root@n1:~# lsmod", *listing, "root@n1:~# "]
    assert set(range(SHORT_LINES, SHORT_LINES + 201)) <= set(novel(lines))


def test_no_string_of_a_message_has_a_number_that_makes_lines_alike_wrongly():
    for matcher in (catalogue.matcher(), proofs.matcher()):
        for word, constant in matcher.constants():
            assert kind(shape(word)) == shape(word)
            assert kind(shape(constant)) == shape(constant)


@pytest.mark.parametrize("row", catalogue.every_message(), ids=lambda row: row.template[:40])
def test_every_message_is_known_by_the_shape_of_its_line(row):
    line = sample(row)
    assert may_be_message(shape(line.replace("\n", " ")))


def test_a_line_without_a_message_is_not_taken_for_one():
    assert not may_be_message(shape(dull(1)))


def test_the_legs_of_a_log_are_counted_once_however_often_its_lines_are_repeated():
    leg = "n1:1:2 [0] NCCL INFO Channel {:02}/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA\n"
    short = explained(leg.format(1) * 20).answer.sentence
    long = explained("".join(leg.format(number % 32) for number in range(SHORT_LINES * 2))).answer.sentence
    assert "1 of 1 network legs access" in short
    assert "32 of 32 network legs access" in long
