"""The lines of the text that prove a finding or a fact."""

from tests.explain.explaining import only


def test_two_gpus_with_one_name_are_quoted_from_their_own_lines():
    text = "GPU 0: NVIDIA H200 (UUID: GPU-1)\nGPU 1: NVIDIA H200 (UUID: GPU-2)\n"

    assert [(fact.name, fact.line) for fact in only(text).known] == [("GPU 0", 1), ("GPU 1", 2)]


def test_a_finding_quotes_its_own_line_and_not_a_similar_one():
    waits = "waiting for mellanox ofed and nvidia drivers to be installed\n"
    (found,) = only(f"The log:\n\n```\n{waits}{waits}```\n").established

    assert (found.code, found.subject) == ("operator-waits-for-ofed", "kubernetes log, line 5")
    assert [proof.line for proof in found.proofs] == [5]
