"""A matrix of `nvidia-smi topo -m` opens a cause where GPUs are far from their NIC, or have none."""

import pytest

from gdrkit.explain.lines.transcript import read
from gdrkit.explain.outputs.topologies import topology_readings
from gdrkit.explain.text import text as as_text
from gdrkit.programs.nccl.messages import OF_ONE_NIC
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


FAR = MATRIX.format(a="SYS", b="SYS")
GPUS = "".join(f"GPU {number}: NVIDIA {{0}} (UUID: GPU-9c0e1d2f-{number})\n" for number in (0, 1))
FAILS = "$ ib_write_bw -d mlx5_0 --use_cuda=0\nCouldn't allocate MR with error=14\n"


@pytest.mark.parametrize("failing", ["", FAILS])
@pytest.mark.parametrize(("name", "cause"), [("GeForce RTX 4090", "gpu-consumer"), ("H100 80GB HBM3", None)])
def test_a_distance_fails_at_nothing_whatever_the_gpu_is(name: str, cause: str | None, failing: str):
    text = f"$ nvidia-smi topo -m\n{FAR}$ nvidia-smi -L\n{GPUS.format(name)}{failing}"
    found = explained(text).answer
    codes = [one.code for one in found.others]
    assert (found.cause, found.besides) == (cause, ())
    assert ("pair-cross-socket" in codes) == (cause is None and not failing)
    if failing and cause is None:
        assert found.lines[0].text.startswith("Couldn't allocate MR")


def test_a_distance_may_be_why_nccl_does_without_gpu_direct():
    log = "h1:1:2 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'\n"
    assert not explained(FAR + log).answer.besides


def test_the_row_of_a_far_gpu_shows_a_distance_and_no_failure():
    assert "shows that." in as_text(explained(FAR))


def dump(nics: dict[str, str], gpu: str = "1") -> str:
    """A topology that NCCL wrote, as NCCL_TOPO_DUMP_FILE has it: the attributes of each NIC's line."""
    rows = "".join(f'<nic>\n<net name="{name}" {fields}/>\n</nic>\n' for name, fields in nics.items())
    return f'<system version="1">\n<gpu dev="0" sm="90" rank="0" gdr="{gpu}"/>\n{rows}</system>\n'


WITH = 'speed="400000" port="1" guid="0x1" maxconn="131072" gdr="1"'
WITHOUT = WITH.replace('gdr="1"', 'gdr="0"')
OF_TCP = 'speed="100000" port="0" latency="0.000000" guid="0x0" maxconn="65536" gdr="0"'


def test_a_nic_without_gpu_direct_beside_one_that_has_it_has_a_cause_of_its_own():
    found = explained(dump({"mlx5_0": WITH, "mlx5_1": WITHOUT}))

    assert 'shows the failure: mlx5_1 has gdr="0", and mlx5_0 has gdr="1".' in as_text(found)
    assert {one.code for one in found.answer.others} == set(OF_ONE_NIC)


def test_nics_that_all_lack_gpu_direct_may_lack_the_module_and_a_gpu_that_has_it_is_no_cause():
    found = explained(dump({"mlx5_0": WITHOUT, "mlx5_1": WITHOUT})).answer
    codes = [one.code for one in found.others]

    assert codes[0] == "peermem-not-loaded" and "gpu-consumer" not in codes


def test_a_gpu_that_lacks_gpu_direct_too_comes_first():
    found = explained(dump({"mlx5_0": WITHOUT}, gpu="0")).answer
    assert [one.code for one in found.others][:2] == ["gpu-integrated", "gpu-consumer"]


def test_an_interface_in_a_topology_of_nccl_is_no_nic_whose_module_is_missing():
    found = explained(dump({"eth0": OF_TCP}))
    codes = [one.code for one in found.answer.others]

    assert "eth0 is an interface" in as_text(found)
    assert codes[0] == "no-rdma-device" and "peermem-not-loaded" not in codes


def test_a_topology_in_which_every_nic_has_gpu_direct_opens_nothing():
    assert opened(dump({"mlx5_0": WITH, "mlx5_1": WITH})) == []


# -- of a DGX Spark: `nvidia-smi topo -m` of driver 580.142, from a public inventory of one -----------------

SPARK = """\
\tGPU0\tNIC0\tNIC1\tNIC2\tNIC3\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tNODE\tNODE\tNODE\tNODE\t0-19\t0\t\tN/A
NIC0\tNODE\t X \tPIX\tNODE\tNODE
NIC1\tNODE\tPIX\t X \tNODE\tNODE
NIC2\tNODE\tNODE\tNODE\t X \tPIX
NIC3\tNODE\tNODE\tNODE\tPIX\t X

NIC Legend:

  NIC0: rocep1s0f0
  NIC1: rocep1s0f1
  NIC2: roceP2p1s0f0
  NIC3: roceP2p1s0f1
"""
WITH_ITS_GPU = "$ nvidia-smi -L\nGPU 0: NVIDIA GB10 (UUID: GPU-9c0e1d2f-1111-2222-3333-444455556666)\n"
OTHER_CARD = """\
\tGPU0\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tNODE\tNODE\t0-15\t0\t\tN/A
NIC0\tNODE\t X \tPIX
NIC1\tNODE\tPIX\t X

NIC Legend:

  NIC0: rocep1s0f0
  NIC1: rocep1s0f1
"""
"""Two ports of one card, in a slot that any machine may have."""


@pytest.mark.parametrize(
    "text",
    [
        SPARK,
        f"topo -m says NODE: is my NIC too far for GPUDirect RDMA?\n\n{SPARK}",
        f"{WITH_ITS_GPU}$ nvidia-smi topo -m\n{SPARK}",
        SPARK.replace("\tGPU NUMA ID", "").replace("\t\tN/A", ""),
    ],
)
def test_the_distance_is_as_a_spark_is_built_and_nothing_is_to_be_set(text: str):
    answer = explained(text).answer

    assert answer.kind == "no-problem" and "NODE is what every machine like a DGX Spark" in answer.sentence
    assert answer.now[0].startswith("Nothing is to be set") and not answer.others


@pytest.mark.parametrize(
    "text",
    [
        OTHER_CARD,
        SPARK.replace("0-19\t0\t\tN/A", "0-71\t0\t\t1"),  # a Grace, whose GPU can do it
        SPARK.replace("roceP2p1s0f1", "roceP6p1s0f1"),
    ],
)
def test_of_another_machine_with_such_names_it_stays_open(text: str):
    assert [other.code for other in explained(text).answer.others][:1] == ["pair-distant"]
