"""What a text shows to be in use, where nothing fails."""

from __future__ import annotations

import pytest

from tests.explain.explaining import explained

REGISTERED = "efa: Acquired peer memory using P2P\n"
ACCEPTED = "NIXL INFO Using provider with FI_HMEM support for rail 0\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [(REGISTERED + ACCEPTED, 1), (ACCEPTED + REGISTERED, 2), (ACCEPTED * 2 + REGISTERED, 3)],
)
def test_a_line_that_proves_the_path_is_quoted_before_one_that_only_names_it(text: str, line: int):
    answer = explained(text).answer

    assert (answer.kind, [one.line for one in answer.lines]) == ("working", [line])


def test_a_line_that_only_names_a_part_proves_nothing():
    answer = explained(ACCEPTED).answer

    assert (answer.kind, answer.lines) == ("nothing", ())


def test_a_far_gpu_in_a_matrix_is_no_failure_where_all_channels_are_direct():
    matrix = (
        "\tGPU0\tGPU1\tNIC0\tNIC8\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
        "GPU0\t X \tNV18\tSYS\tPIX\t0-79\t0\t\tN/A\n"
        "GPU1\tNV18\t X \tSYS\tNODE\t0-79\t0\t\tN/A\n"
        "NIC0\tSYS\tSYS\t X \tSYS\n"
    )
    line = "w1:1:2 [0] NCCL INFO Channel 0{}/0 : 0[0] -> 8[0] [send] via NET/IBext_v8/7{}\n"
    direct = line.format(1, "/GDRDMA") + line.format(3, "/GDRDMA")
    assert explained(direct + matrix).answer.kind == "working"
    assert explained(matrix).answer.others[0].code == "pair-distant"


def test_that_dmabuf_is_not_used_is_no_failure_of_an_efa():
    line = "w1:1:2 [0] NCCL INFO NET/OFI Support for DMA-BUF registrations: false\n"
    found = explained(line).answer
    assert (found.kind, found.others[0].code) == ("several", "ofi-dmabuf-off-by-default")
    assert found.sentence.startswith("The text shows no failure")
