"""Of unlike GPUs those count that the failing program names: by name, since CUDA numbers them in its way."""

from __future__ import annotations

import pytest

from gdrkit.explain.lines.transcript import read
from gdrkit.explain.outputs.used_gpus import failing_names
from tests.explain.explaining import explained

LIST = (
    "$ nvidia-smi -L\n"
    "GPU 0: NVIDIA RTX A4000 (UUID: GPU-2f0a8a2c-7df3-0c4f-40e1-60fb31f7c9a5)\n"
    "GPU 1: NVIDIA GeForce RTX 3080 (UUID: GPU-11fa7d0f-e1a4-3c3a-81d3-bd2b0b3a1a3e)\n"
)
TABLE = (
    "$ nvidia-smi\n"
    "|   0  NVIDIA RTX A4000               Off | 00000000:17:00.0 Off |                  Off |\n"
    "|   1  NVIDIA GeForce RTX 3080        Off | 00000000:65:00.0 Off |                  N/A |\n"
)
ADDRESSES = "CUDA device 0: PCIe address is 65:00\nCUDA device 1: PCIe address is 17:00\n"
FAILS = "creating CUDA Ctx\nmaking it the current CUDA Ctx\nCouldn't allocate MR with error=14\n"


def run(device: int, name: str, *, addresses: str = "", result: str = FAILS) -> str:
    """A run of perftest. CUDA's device 0 is nvidia-smi's GPU 1."""
    return (
        f"$ ib_write_bw -d mlx5_0 --use_cuda={device}\ninitializing CUDA\n{addresses}\n"
        f"Picking device No. {device}\n[pid = 821, dev = {device}] device name = [{name}]\n{result}"
    )


GEFORCE, PROFESSIONAL = (0, "NVIDIA GeForce RTX 3080"), (1, "NVIDIA RTX A4000")


@pytest.mark.parametrize("addresses", ["", ADDRESSES])
@pytest.mark.parametrize("listing", ["", LIST, TABLE])
def test_the_gpu_of_the_failing_run_is_judged_whatever_its_number(listing: str, addresses: str):
    for text in (listing + run(*GEFORCE, addresses=addresses), run(*GEFORCE, addresses=addresses) + listing):
        found = explained(text).answer
        assert (found.cause, found.sureness) == ("gpu-consumer", "likely")
        assert "device name = [NVIDIA GeForce RTX 3080" in found.lines[0].text


@pytest.mark.parametrize("addresses", ["", ADDRESSES])
@pytest.mark.parametrize("listing", ["", LIST, TABLE])
def test_a_geforce_beside_the_gpu_of_the_failing_run_is_no_cause(listing: str, addresses: str):
    found = explained(listing + run(*PROFESSIONAL, addresses=addresses))
    causes = [found.answer.cause, *(one.code for one in found.answer.others)]
    assert found.answer.kind == "several" and causes[1] == "peermem-not-loaded"
    assert "gpu-consumer" not in causes


def test_without_a_name_of_the_failing_program_either_gpu_may_be_meant():
    found = explained(f"{LIST}$ ib_write_bw --use_cuda=0\n{FAILS}").answer
    assert found.kind == "several"
    assert "gpu-consumer" in [one.code for one in found.others]


def test_a_run_that_works_says_nothing_of_the_one_that_fails():
    works = run(*PROFESSIONAL, result=" 65536 5000 96.0 95.8 0.18\n")
    assert explained(LIST + works + run(*GEFORCE)).answer.cause == "gpu-consumer"
    failed = run(*PROFESSIONAL) + run(*GEFORCE, result=" 65536 5000 96.0 95.8 0.18\n")
    assert explained(LIST + failed).answer.cause != "gpu-consumer"


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("[pid = 7, dev = 0] device name = [NVIDIA GeForce RTX 3080]", "NVIDIA GeForce RTX 3080"),
        ("Device 0: NVIDIA GeForce RTX 3080", "NVIDIA GeForce RTX 3080"),
        ("Using device 1: NVIDIA RTX A4000", "NVIDIA RTX A4000"),
        ('GPU Device 0: "NVIDIA L40S" with compute capability 8.9', "NVIDIA L40S"),
        ("mype: 0 mype_node: 0 device name: NVIDIA H20 bus id: 8 ", "NVIDIA H20"),
        ("#  Rank  0 Group  0 Pid   4940 on ai3 device  0 [0x61] NVIDIA L40", "NVIDIA L40"),
        ("GPU 0: NVIDIA L40 (UUID: GPU-1)", None),  # a list, which says nothing of use
    ],
)
def test_programs_name_the_gpu_that_they_use(line: str, name: str | None):
    text = f"```\n{line}\nCouldn't allocate MR with error=14\n```\n"
    assert failing_names(read(text)) == ({name} if name else set())


def test_a_list_of_devices_names_no_single_one():
    both = "Device 0: NVIDIA GeForce RTX 3080\nDevice 1: NVIDIA RTX A4000\n"
    assert len(failing_names(read(f"```\n{both}Couldn't allocate MR with error=14\n```\n"))) == 2


def test_a_failure_of_something_else_names_no_gpu():
    text = "Device 0: NVIDIA GeForce RTX 3080\nmodprobe: ERROR: could not insert 'nvidia': No such device\n"
    assert not failing_names(read(f"```\n{text}```\n"))


def test_the_number_of_cuda_is_called_so():
    (machine,) = explained(run(*GEFORCE)).machines
    assert "CUDA device 0" in [fact.name for fact in machine.known]


HEADER = "# Using devices\n" + "".join(
    f"#  Rank  {rank} Group  0 Pid  71{rank} on gpu0{rank} device  0 [{{address}}] {{name}}\n"
    for rank in (3, 4)
)
DISABLED = "gpu03:713:719 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'\n"
RATE = " 134217728  33554432  float  sum  -1  12345  10.87  19.03  0  12350  10.87  19.02  0\n"


@pytest.mark.parametrize("address", ["0x61", "0000:61:00"])
def test_the_header_of_a_job_names_its_gpus_as_surely_as_any_list(address: str):
    header = HEADER.format(address=address, name="NVIDIA GeForce RTX 4090")
    found = explained(header + DISABLED).answer
    assert (found.cause, found.sureness, found.subject) == ("gpu-consumer", "likely", "0000:61:00.0")
    other = explained(HEADER.format(address=address, name="NVIDIA L40S") + DISABLED).answer
    assert "gpu-consumer" not in (other.cause, *(one.code for one in other.others))


@pytest.mark.parametrize("result", ["", RATE])
def test_the_header_of_a_job_that_works_is_no_failure(result: str):
    header = HEADER.format(address="0000:61:00", name="NVIDIA GeForce RTX 4090")
    version = "gpu03:713:713 [0] NCCL INFO NCCL version 2.27.6+cuda13.0\n"
    found = explained(header + version + result).answer
    assert (found.cause, found.kind) == (None, "no-problem")


def test_of_unlike_gpus_of_two_hosts_at_one_address_none_is_taken():
    one, other = HEADER.format(address="0x61", name="NVIDIA L40S").splitlines()[1:]
    text = f"{one}\n{other.replace('L40S', 'GeForce RTX 4090')}\n{DISABLED}"
    assert not any("0000:61" in fact.name for machine in explained(text).machines for fact in machine.known)


@pytest.mark.parametrize("line", ["CUDA device integrated: 0\n", ""])
def test_what_cuda_says_of_the_used_gpu_excludes_an_integrated_one(line: str):
    found = explained(f"$ ib_write_bw --use_cuda=0\n{line}Couldn't allocate MR with error=14\n").answer
    codes = [one.code for one in found.others]
    assert codes[0] == "peermem-not-loaded" and ("gpu-integrated" in codes) == (not line)


PINNING = (
    "[  322.11] gdrdrv:nvidia_p2p_get_pages(va=7f2d40000000 len=131072 p2p_token=0 va_space=0) failed"
    " [ret = -22]\n"
)


@pytest.mark.parametrize(
    "listed",
    [
        "GPU id:0; name: {}; Bus id: 0000:21:00\nselecting device 0\n",
        "Device: 0, {}, pciBusID: 21, pciDeviceID: 0, pciDomainID:0\n",
    ],
)
def test_the_gpus_that_a_program_of_cuda_lists_are_outputs(listed: str):
    found = explained(listed.format("NVIDIA GeForce RTX 3090") + PINNING).answer
    assert (found.cause, found.sureness, found.claimed) == ("gpu-consumer", "likely", False)
    assert found.subject == "0000:21:00.0"
    other = explained(listed.format("NVIDIA RTX A6000") + PINNING).answer
    assert not {"gpu-consumer", "gpu-integrated"} & {other.cause, *(one.code for one in other.others)}
