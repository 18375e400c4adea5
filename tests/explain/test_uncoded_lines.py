"""Problems without a code: what programs print about something else than the direct path."""

from __future__ import annotations

import pytest

from tests.explain.explaining import explained

RANKS = """\
# nThread 1 nGpus 2 minBytes 8 maxBytes 268435456 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1
#  Rank  0 Group  0 Pid   3591 on   gpu1 device  0 [0x03] NVIDIA A100-PCIE-40GB
#  Rank  1 Group  0 Pid   3591 on   gpu1 device  1 [0x03] NVIDIA A100-PCIE-40GB
#  Rank  {} Group  0 Pid   2451 on   gpu2 device  0 [0x03] NVIDIA A100-PCIE-40GB
"""
RESULT = "     1048576        262144     float     sum      -1    85.1   12.32   23.10      0\n"


def test_two_processes_that_are_both_rank_0_are_two_jobs():
    """NVIDIA/nccl-tests issue 182: mpirun of a build without MPI=1."""
    found = explained(RANKS.format(0)).answer
    assert (found.kind, found.lines[0].line) == ("elsewhere", 4)
    assert "3591 on gpu1 and 2451 on gpu2 are both rank 0" in found.sentence


def test_one_list_of_ranks_and_two_runs_one_after_the_other_are_no_jobs_apart():
    assert "both rank 0" not in explained(RANKS.format(2)).answer.sentence
    first, _, second = RANKS.format(0).rpartition("#  Rank")
    assert "both rank 0" not in explained(f"{first}{RESULT}#  Rank{second}").answer.sentence


def test_a_remark_on_a_command_is_not_the_answer_to_its_output(cli):
    """That a level is written as a number explains nothing that the command prints."""
    command = "$ mpirun -x NCCL_NET_GDR_LEVEL=5 -np 2 ./all_reduce_perf -g 1\n"
    words = cli(command + RANKS.format(2))
    assert "config check finds" not in words.partition("\n")[0] and "there is no level ALL" in words
    assert "NCCL_NET_GDR_LEVEL" in cli(command)


@pytest.fixture
def cli(tmp_path, capsys):
    """The page of a text, as the command prints it."""
    from gdrkit.cli import main

    def run(text: str) -> str:
        (tmp_path / "text").write_text(text)
        main(["explain", str(tmp_path / "text")])
        return capsys.readouterr().out

    return run


WRONG_TYPE = "n1:7:9 [0] misc/socket.cc:441 NCCL WARN socketFinalizeAccept: wrong type {}\n"
MIXED = (
    "n1:7:9 [0] NCCL INFO NET/IB : No device found.\nn1:7:9 [0] NCCL INFO Using network Socket\n"
    "n2:7:9 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.2<0>\n"
    "n2:7:9 [0] NCCL INFO Using network IB\n"
)


@pytest.mark.parametrize("types", ["4 != 3", "3 != 4"])
def test_ranks_that_chose_different_networks_are_named_as_such(types: str):
    """NVIDIA/nccl-tests issue 188."""
    found = explained(MIXED + WRONG_TYPE.format(types)).answer
    assert found.kind == "elsewhere" and "different networks" in found.sentence
    assert "no-rdma-device" in [one.code for one in found.others]


def test_another_kind_of_connection_is_no_choice_of_networks():
    assert "different networks" not in explained(MIXED + WRONG_TYPE.format("1 != 2")).answer.sentence


LOOPBACK = (
    "p1:9:9 [1] NCCL INFO NET/IB : No device found.\n"
    "p1:9:9 [1] NCCL INFO NET/Socket : Using {}\np1:9:9 [1] NCCL INFO Using network Socket\n"
)


def test_a_job_whose_sockets_are_the_loopback_interface_needs_no_network():
    found = explained(LOOPBACK.format("[0]lo:127.0.0.1<0>"))
    assert (found.answer.kind, found.answer.others, found.question is None) == ("harmless", (), True)


@pytest.mark.parametrize("names", ["[0]eth0:10.0.0.1<0>", "[0]lo:127.0.0.1<0> [1]eth0:10.0.0.1<0>"])
def test_a_job_with_another_interface_may_need_one(names: str):
    assert explained(LOOPBACK.format(names)).answer.kind != "harmless"
