"""On hardware that no NIC reaches, an nvidia-peermem that does not load is ignored, as the doctor says."""

from __future__ import annotations

import pytest

from gdrkit.explain.text import text as as_text
from tests.explain.explaining import REJECTED, explained

SPARK = "$ nvidia-smi -L\nGPU 0: NVIDIA GB10 (UUID: GPU-9c0e1d2f-1111-2222-3333-444455556666)\n"
INSMOD = "insmod: ERROR: could not insert module nvidia-peermem.ko: Required key not available\n"
KEY = "[  120.123456] Loading of module with unavailable key is rejected\n"
PROVES = {
    "module-unknown-key": INSMOD + KEY,
    "module-unsigned": f"{REJECTED}\n[    1.1] Loading of unsigned module is rejected\n",
    "module-wrong-kernel": (
        "[  120.1] nvidia_peermem: version magic '6.8.0-90 SMP' should be '6.8.0-94 SMP'\n"
    ),
    "module-not-found": "modprobe: FATAL: Module nvidia-peermem not found in directory /lib/modules/6.14\n",
}
"""By each cause, output that proves it of nvidia-peermem."""


@pytest.mark.parametrize("code", PROVES)
@pytest.mark.parametrize(
    ("shown", "cause", "sureness"),
    [
        (SPARK, "gpu-integrated", "likely"),
        ("I have a DGX Spark and see this:\n\n", "gpu-integrated", "possible"),
        (SPARK.replace("GB10", "GeForce RTX 4090"), "gpu-consumer", "likely"),
    ],
)
def test_no_proof_of_why_nvidia_peermem_does_not_load_outweighs_such_hardware(
    shown: str, cause: str, sureness: str, code: str
):
    found = explained(shown + PROVES[code])
    assert (found.answer.cause, found.answer.sureness) == (cause, sureness)
    assert code in {problem.code for machine in found.machines for problem in machine.established}
    assert found.answer.now[0].startswith("Nothing") and "mokutil" not in as_text(found)


@pytest.mark.parametrize("code", PROVES)
@pytest.mark.parametrize(
    "shown", ["", SPARK.replace("GB10", "H100 80GB HBM3"), "A Spark or an H100 or a GB10:\n"]
)
def test_on_other_hardware_the_proof_is_the_cause(shown: str, code: str):
    assert explained(shown + PROVES[code]).answer.cause == code


def test_another_module_is_needed_there():
    other = PROVES["module-wrong-kernel"].replace("nvidia_peermem", "nvidia")
    for shown in (SPARK, "I have a DGX Spark and see this:\n\n"):
        assert explained(shown + other).answer.cause == "module-wrong-kernel"


def test_where_the_line_names_no_module_the_step_says_of_which_it_holds():
    (step, *_) = explained(f"DGX Spark. I get this:\n\n{KEY}").answer.now
    assert step.startswith("If the module is nvidia-peermem") and "mokutil" in step.partition(" Else: ")[2]
    for text in (KEY, f"GeForce RTX 4090. I get this:\n\n{KEY}"):
        assert not explained(text).answer.now[0].startswith("If the module")


def test_words_alone_about_a_spark_and_the_module_get_the_same_advice():
    asked = "On my {}, loading {} ends with:\n\nRequired key not available\n\nShould I enroll a MOK?\n"
    found = explained(asked.format("DGX Spark", "nvidia-peermem")).answer
    assert found.kind == "no-output" and found.now[0].startswith("If the module is nvidia-peermem")
    for machine, module in (("H100", "nvidia-peermem"), ("DGX Spark", "zfs")):
        assert len(explained(asked.format(machine, module)).answer.now) == 1


def test_a_product_that_people_name_quotes_no_failure():
    found = explained("DGX Spark\n\nnvidia_peermem: Key was rejected by service\n").answer
    assert (found.kind, found.others) == ("several", ())
    assert found.sentence.endswith("no output shows it, or what fails by it.")
    assert found.now[0].startswith("Nothing:")


PORTS = "$ ibdev2netdev\nrocep1s0f0 port 1 ==> enp1s0f0np0 (Up)\n"
FREE = "$ free -g\nMem:             119          20          60           0          39          98\n"


@pytest.mark.parametrize(
    ("besides", "sentence"),
    [
        (PORTS, "The text shows no problem: active ports of rocep1s0f0"),
        (PORTS.replace("Up", "Down"), None),  # which fails a job
        (FREE, "The text shows no failure. The GPU is integrated"),
        ("How do I install docker here?\n", "The text shows no failure. The GPU is integrated"),
    ],
)
def test_such_a_gpu_is_no_headline_where_nothing_fails_and_the_text_asks_of_something_else(
    besides: str, sentence: str | None
):
    for text in (SPARK + besides, besides + SPARK):
        found = explained(text).answer
        assert found.cause == (None if sentence else "port-down")
        assert sentence is None or found.sentence.startswith(sentence)


def test_a_failure_of_something_else_is_quoted_and_not_explained_by_it():
    found = explained(f"{SPARK}$ mytool run\nmytool: error: cannot open the file\n").answer
    assert (found.kind, found.cause) == ("nothing", None)
    assert found.lines[0].text.startswith("mytool: error")


@pytest.mark.parametrize(
    "asked", ["", "Can it do GPUDirect RDMA?\n", "$ lsmod | grep peermem\n$ uname -r\n6.14\n"]
)
def test_it_is_the_answer_where_the_text_is_about_the_path_or_shows_nothing_else(asked: str):
    for name, code in (("GB10", "gpu-integrated"), ("GeForce RTX 4090", "gpu-consumer")):
        assert explained(SPARK.replace("GB10", name) + asked).answer.cause == code


@pytest.mark.parametrize("besides", [PORTS, FREE])
def test_a_geforce_bars_the_path_whatever_is_shown_beside_it(besides: str):
    assert explained(SPARK.replace("GB10", "GeForce RTX 4090") + besides).answer.cause == "gpu-consumer"


UNREACHED = (
    "w0:100:500 [0] misc/ibvwrap.cc:205 NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed"
    " out, on dev {}:1, curr state INIT, next state RTR, local GID index 3, local GID ::ffff:10.5.0.10,"
    " remote GID ::ffff:10.5.1.11\n"
)


@pytest.mark.parametrize(("device", "of_sparks"), [("mlx5_0", False), ("rocep1s0f0", True)])
def test_steps_for_two_sparks_are_for_two_sparks(device: str, of_sparks: bool):
    found = explained(UNREACHED.format(device)).answer
    assert found.cause == "rail-unreachable"
    assert any("Two DGX Sparks" in step for step in found.now) is of_sparks
    assert any("NCCL_CROSS_NIC" in step for step in found.now)
    if of_sparks:  # the first item, with the ping that tests it
        assert "static address" in found.now[1] and "ping -I INTERFACE" in found.now[1]


KILLED = "Out of memory: Killed process 52310 (all_gather_perf) total-vm:201326592kB, anon-rss:2211840kB\n"
NO_MEMORY = (  # open-gpu-kernel-modules issue 1358, which shows no other line
    "NVRM: nvCheckOkFailedNoLog: Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x00000051) returned from"
    " _memdescAllocInternal(pMemDesc) @ mem_desc.c:1359\n"
)


@pytest.mark.parametrize(
    "text",
    [
        f"[ 8118.9] {KILLED}",
        f"[ 8112.4] {NO_MEMORY}",
        f"Dec 01 10:00:00 spark-1 kernel: {NO_MEMORY}",
        f"[ 8112.4] {NO_MEMORY}[ 8118.9] {KILLED}",
    ],
)
def test_memory_that_the_whole_machine_lacks_is_not_a_limit_of_the_job(text: str):
    (step,) = explained(text).answer.now
    assert "smaller -e of nccl-tests" in step and "Give the job more" not in step


def test_a_limit_of_a_memory_cgroup_is_one_of_the_job():
    (step,) = explained(f"[ 8118.9] {KILLED.replace('Out of', 'Memory cgroup out of')}").answer.now
    assert step.startswith("Give the job more memory")


def test_llama_cpp_is_told_to_send_from_host_memory_over_rdma():
    answer = explained(
        "  Device 0: NVIDIA GB10, compute capability 12.1, VMM: yes\n"
        "RDMA probed: dev=rocep1s0f1 gid=3 qpn=322 inline=316\n"
        "RDMA activated: qpn=322->463 mtu=1024 rx_depth=24\n"
    ).answer
    assert "llama.cpp's RPC uses RDMA here" in answer.sentence and "MTU is 1500" in answer.now[0]
