"""Which lines of a text are the words of a person."""

from __future__ import annotations

import pytest

from gdrkit.explain.pasted_host import PastedHost
from gdrkit.explain.sentences import Place, Sentence, sentences


def said(text: str) -> tuple[Sentence, ...]:
    return sentences(PastedHost(f"A title\n\n{text}\n").lines)[1:]


@pytest.mark.parametrize(
    "line",
    [
        "> max@jetson-lab:~/samples$ sudo ./copy-memory now please",
        "> (base) [max@n1 src]$ make and then run it",
        "11\u6708 03 10:00:01 n1 systemd[1]: Starting the fabric manager, which does not run.",
        "Nov 03 10:00:01 n1 systemd[1]: Starting the fabric manager, which does not run.",
        "3. M\u00e4r. 03 10:00:01 n1 systemd[1]: Starting the fabric manager."[3:],
    ],
)
def test_a_prompt_and_a_line_of_a_log_are_nobodys_words(line):
    assert said(line) == ()


@pytest.mark.parametrize(
    "line",
    [
        "> max@example.com wrote that the module is missing.",
        "On 3 March at 10:00:01 the fabric manager stopped: it does not run.",
    ],
)
def test_an_address_or_a_time_in_a_sentence_does_not_make_it_a_log(line):
    assert len(said(line)) == 1


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("@alice @bob-2 Booting without it solved that.", "Booting without it solved that."),
        ("Hi @alice, booting without it solved that.", "booting without it solved that."),
        ("Thanks @alice, it works.", "Thanks @alice, it works."),
        ("We asked @alice and she knew.", "We asked @alice and she knew."),
    ],
)
def test_for_whom_a_reply_is_does_not_belong_to_what_it_says(line, text):
    assert [one.text for one in said(line)] == [text]


def test_a_heading_right_below_a_paragraph_is_one():
    text = "This is a long line that somebody wrote before the heading came.\n### Reason:\nIt was off."
    assert [one.place for one in said(text)] == [Place.BODY, Place.HEADING, Place.BODY]
