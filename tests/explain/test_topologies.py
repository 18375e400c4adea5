"""A matrix of `nvidia-smi topo -m` opens a cause where GPUs are far from their NIC, or have none."""

import pytest

from gdrkit.explain.topologies import topology_readings
from gdrkit.explain.transcript import read
from tests.explain.explaining import explained


def opened(text: str) -> list[str]:
    """The likeliest cause of each open line."""
    (machine,) = explained(text).machines
    return [line.codes[0] for line in machine.open]


MATRIX = """\tGPU0\tGPU1\tmlx5_0\tmlx5_1\tCPU Affinity
GPU0\t X \tNV8\t{a}\t{b}\t0-31
GPU1\tNV8\t X \tSYS\tPIX\t32-63
mlx5_0\t{a}\tSYS\t X \tSYS
mlx5_1\t{b}\tPIX\tSYS\t X
"""


@pytest.mark.parametrize(
    ("near", "other", "code"),
    [
        ("SYS", "SYS", "pair-cross-socket"),
        ("NODE", "SYS", "pair-distant"),
        ("SYS", "PHB", "pair-distant"),
    ],
)
def test_a_gpu_whose_nearest_nic_is_far_opens_a_cause(near, other, code):
    (found,) = topology_readings(read(MATRIX.format(a=near, b=other)))

    assert found.codes[0] == code
    assert found.line.text.startswith("GPU0")
    assert "GPU0 (" in found.note and "GPU1" not in found.note


@pytest.mark.parametrize("cells", [("PIX", "SYS"), ("SYS", "PXB")])
def test_a_gpu_with_a_near_nic_opens_nothing(cells):
    assert opened(MATRIX.format(a=cells[0], b=cells[1])) == []


NO_NIC = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tSYS\t0-31\t0\nGPU1\tSYS\t X \t0-31\t0\n"


def test_a_whole_matrix_without_a_nic_may_show_that_there_is_none():
    found = explained(NO_NIC).answer

    assert found.sentence.startswith("The text shows no failure, but what may be one")
    assert [other.code for other in found.others] == ["no-rdma-device"]


def test_a_matrix_that_is_cut_behind_the_gpus_shows_nothing_of_nics():
    assert opened(NO_NIC.replace("\tCPU Affinity\tNUMA Affinity", "")) == []


def test_what_is_asked_next_is_not_the_matrix_that_is_shown():
    asked = explained(MATRIX.format(a="NODE", b="SYS")).question

    assert asked is not None and "topo -m" not in asked.command


def test_the_topology_that_nccl_wrote_goes_to_the_command_that_reads_it():
    xml = '<system version="1">\n  <cpu numaid="0">\n    <gpu dev="0" sm="89" rank="0" gdr="0"/>\n'
    (machine,) = explained(f"{xml}  </cpu>\n</system>\n").machines

    assert [fact.line for fact in machine.known if "gdr topo FILE" in fact.value] == [1]
