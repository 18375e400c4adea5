"""Which causes the words of a person name, and which similar words name none."""

from __future__ import annotations

import pytest

from gdrkit.explain.statements import readings
from gdrkit.messages.message import MessageTemplate
from tests.explain.explaining import explained


def named(sentence: str) -> set[str]:
    """The codes of the causes that a sentence names by their state."""
    return {found.code for found in readings(sentence) if not found.cured}


@pytest.mark.parametrize(
    ("sentence", "code"),
    [
        ("After an hour the sender stops with IBV_WC_RETRY_EXC_ERR.", "retry-exceeded"),
        ("The completion is RETRY_EXC.", "retry-exceeded"),
        ("RLIMIT_MEMLOCK is only 128K bytes in the job.", "memlock-limit"),
        ("CAP_IPC_LOCK is not enough here.", "memlock-limit"),
        ("CONFIG_PCI_P2PDMA is missing in this kernel.", "gds-p2pdma-off"),
        ("UCX warns that cuda_ipc,cuda_copy are not available.", "ucx-lacks-cuda"),
    ],
)
def test_a_name_counts_inside_a_longer_identifier(sentence, code):
    assert code in named(sentence)


@pytest.mark.parametrize(
    "sentence", ["The status is IBV_WC_RNR_RETRY_EXC_ERR.", "It fails with RNR retry counter exceeded."]
)
def test_a_peer_without_a_buffer_is_not_a_peer_that_does_not_answer(sentence):
    assert "retry-exceeded" not in named(sentence)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("UCX  WARN  transports 'cuda_ipc','cuda_copy','rc' are not available, please", "ucx-lacks-cuda"),
        ("UCX  WARN  transports `rc`, `cuda_copy` are not available, please", "ucx-lacks-cuda"),
        ("UCX  WARN  transport 'gdr_copy' is not available, please use one", None),
        ("UCX  WARN  transports 'ud','dc' are not available, please use one", None),
        ("UCX  WARN  network devices 'mlx5_7:1','mlx5_8:1' are not available,", "ucx-transport-excluded"),
        ("worker.c:7: ibv_create_qp() -> ENOMEM", "memlock-limit"),
        ("worker.c:7: ibv_create_qp() -> 0", None),
        ("x.cc:9] Check failed: ok Ctrl CQ state error: 12, 0", "retry-exceeded"),
        ("x.cc:9] Check failed: ok Ctrl CQ state error: 5, 0", None),
    ],
)
def test_a_message_is_recognised_in_each_form_that_its_program_prints(line, code):
    assert explained(f"```\n{line}\n```\n").answer.cause == code


def test_alternatives_without_a_name_end_where_the_placeholder_ends():
    row = MessageTemplate("x", "cannot {:open|close} the queue", ("memlock-limit",))

    assert row.match("cannot close the queue")
    assert not row.match("cannot open the door behind the queue")
