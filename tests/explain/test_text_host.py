"""The lines of the text that a finding or a fact is shown to stand on."""

from tests.explain.explaining import only


def test_of_two_gpus_of_one_name_each_is_known_by_its_own_line():
    text = "GPU 0: NVIDIA H200 (UUID: GPU-1)\nGPU 1: NVIDIA H200 (UUID: GPU-2)\n"

    assert [(fact.name, fact.line) for fact in only(text).known] == [("GPU 0", 1), ("GPU 1", 2)]


def test_a_finding_quotes_the_line_that_it_is_about_and_not_one_of_like_words():
    waits = "waiting for mellanox ofed and nvidia drivers to be installed\n"
    (found,) = only(f"The log:\n\n```\n{waits}{waits}```\n").established

    assert (found.code, found.subject) == ("operator-waits-for-ofed", "kubernetes log, line 5")
    assert [proof.line for proof in found.proofs] == [5]
