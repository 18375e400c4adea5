"""Questions at the prompt get a command."""

from __future__ import annotations

import pytest

from gdrkit.cli import main
from gdrkit.cli.questions import MOST_WORDS, WORDS, next_step


@pytest.mark.parametrize(
    ("question", "command"),
    [
        ("which NIC should each GPU use?", "topo"),
        ("what bandwidth should I expect", "estimate"),
        ("why only 25 GB/s with two cables between two DGX Sparks", "estimate"),
        ("how to check that my NCCL job uses GDRDMA", "nccl"),
        ("how do I enable GPUDirect RDMA on Ubuntu", "fix"),
        ("How can I prove that RDMA is really used?", "prove"),
    ],
)
def test_a_question_gets_the_command_that_answers_it(question: str, command: str, capsys):
    main(["explain", question])
    page = " ".join(capsys.readouterr().out.split())
    assert f"`gdr {command}` may answer that" in page and "Run `gdr doctor` on the machine" in page


@pytest.mark.parametrize("text", ["how do I know whether GPUDirect works", "nic " * (MOST_WORDS + 1), "?"])
def test_other_questions_and_long_texts_get_doctor_alone(text: str):
    assert next_step(text) == ""


def test_no_word_means_two_commands():
    words = [word for known in WORDS.values() for word in known.split()]
    assert len(set(words)) == len(words)


def test_an_output_gets_no_command_for_its_words(capsys):
    main(["explain", "nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client"])
    assert "may answer that" not in capsys.readouterr().out
