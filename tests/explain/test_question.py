"""The command to run next."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gdrkit.catalogue import rule_of
from gdrkit.evidence import Confidence
from gdrkit.explain.explanation import EstablishedProblem
from gdrkit.explain.lines.transcript import read
from gdrkit.explain.question import PARTLY_SHOWN_WEIGHT, _weight, commands_shown, question
from gdrkit.rules.rule import Layer
from tests.explain.explaining import EINVAL, explained


def test_a_machine_that_never_can_ends_no_question_of_another():
    (machine,) = explained(EINVAL + "\n").machines
    integrated = EstablishedProblem(
        code="gpu-integrated", layer=Layer.HARDWARE, subject="GB10", seen="GB10",
        confidence=Confidence.CERTAIN, blocks=(), proofs=(),
    )  # fmt: skip
    spark = replace(machine, name="spark", established=(integrated,))
    weights = {code: 1.0 for line in machine.open for code in line.codes}

    assert question((spark,), set(), weights) is None
    for machines in ((spark, machine), (machine, spark)):
        found = question(machines, set(), weights)
        assert found is not None and found.machine == machine.name


REFUSED = "Couldn't allocate MR\nfailed to create mr\n"


@pytest.mark.parametrize(
    "command",
    [
        "kubectl exec trainer-0 -- bash -c 'ulimit -l; ib_write_bw -d mlx5_0 --use_cuda=0 10.0.0.2'",
        "kubectl exec trainer-0 -- sh -c 'cd /tmp && ulimit -l && ib_write_bw --use_cuda=0 10.0.0.2'",
        "bash -c 'ulimit -l; ib_write_bw --use_cuda=0 10.0.0.2'",
    ],
)
def test_a_command_among_others_is_not_asked_again(command):
    asked = explained(f"$ {command}\n65536\n{REFUSED}").question
    assert asked is None or asked.command != "ulimit -l"


def test_a_command_that_only_names_another_is_not_its_output():
    asked = commands_shown(read("$ kubectl exec trainer-0 -- echo ulimit -l; uptime\n"))
    assert "ulimit -l" not in asked and "uptime" in asked


@pytest.mark.parametrize(
    ("typed", "weight"),
    [
        (set(), 1),
        ({""}, 1),
        ({"lspci -nn"}, 1),
        ({"sudo dmesg -T"}, PARTLY_SHOWN_WEIGHT),
        ({"lspci", "dmesg"}, PARTLY_SHOWN_WEIGHT),
    ],
)
def test_a_command_of_which_the_text_shows_a_part_counts_half(typed: set[str], weight: float):
    (line,) = explained(EINVAL + "\n").machines[0].open
    code = "peermem-stub"
    deciding = next(row for row in rule_of(code).reported_by if "dmesg" in row.command)
    assert _weight(code, line, deciding, typed) == weight


DISABLED = "gpu03:3101:3188 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'\n"


def test_a_command_that_shows_many_unlikely_causes_does_not_come_before_that_of_the_likeliest():
    """NVIDIA/nccl issue 1537: `lsmod` decides what nine of ten have; `gdr probe verbs` shows four others."""
    found = explained(DISABLED)
    assert found.question is not None
    assert found.question.command.startswith("lsmod")
    assert found.answer.others[0].code in {code for one in found.question.answers for code in one.codes}

    after = explained("$ lsmod | grep -E 'peer_?mem'\nnvidia_peermem  16384  0\n" + DISABLED)
    assert after.question is not None and not after.question.command.startswith("lsmod")
