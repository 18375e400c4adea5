"""What a pasted text establishes about other programs and hardware, and the command to run next."""

from __future__ import annotations

import pytest

from gdrkit.explain.text import text as as_text
from tests.explain.explaining import (
    DISABLED,
    EINVAL,
    LSMOD,
    REJECTED,
    SMI,
    codes,
    explained,
    only,
    open_lines,
    proven,
)

# -- other programs ------------------------------------------------------------------------------------


def test_efault_leaves_its_causes_open():
    (line,) = open_lines("Couldn't allocate MR with error=14\n")

    assert {"peermem-not-loaded", "gpu-consumer", "bar1-exhausted", "memory-not-registrable"} <= set(
        line.codes
    )


def test_efault_is_explained_by_a_geforce():
    text = (
        "$ ./ib_write_bw -d mlx5_0 --use_cuda=0\ninitializing CUDA\nCUDA device 0: PCIe address is 1B:00\n"
        "[pid = 1, dev = 0] device name = [NVIDIA GeForce RTX 4090]\nCUDA device integrated: 0\n"
        "Couldn't allocate MR with error=14\n"
    )

    assert ("gpu-consumer", "0000:1b:00.0") in proven(text)
    assert open_lines(text) == []


def test_the_error_of_talos_has_a_code_of_its_own():
    output = 'error loading module "nvidia_peermem": load nvidia_peermem failed: invalid argument'
    text = f"$ talosctl dmesg\n{output}\n"

    assert codes(text) == {"talos-no-peermem"}


def test_a_line_of_nccl_proves_nothing_about_the_kernel():
    text = "h1:1:2 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'\n"

    assert codes(text) == set()
    (line,) = open_lines(text)
    assert {"nccl-misses-peermem", "peermem-not-loaded", "nccl-lacks-dmabuf"} <= set(line.codes)


def test_lsmod_and_nccl_contradict_each_other_and_the_version_shows_which_is_wrong():
    old = only(f"{LSMOD}h1:1:2 [0] NCCL INFO NCCL version 2.20.5+cuda12.4\n{DISABLED}")
    new = only(f"{LSMOD}h1:1:2 [0] NCCL INFO NCCL version 2.27.3+cuda12.9\n{DISABLED}")
    unnamed = only(LSMOD + DISABLED)

    assert "does not check /sys/module/nvidia_peermem" in old.contradictions[0].text
    assert "2.27.3 does check" in new.contradictions[0].text
    assert "2.23.4" in unnamed.contradictions[0].text
    assert [proof.line for proof in unnamed.contradictions[0].proofs] == [2, 3]
    assert set(unnamed.open[0].codes) == {"peermem-not-loaded", "nccl-misses-peermem"}


def test_an_old_nccl_misses_peermem_if_its_folder_is_absent():
    text = (
        f"{LSMOD}$ ls /sys/kernel/mm/memory_peers\n"
        "ls: cannot access '/sys/kernel/mm/memory_peers': No such file or directory\n"
        f"h1:1:2 [0] NCCL INFO NCCL version 2.20.5+cuda12.4\n{DISABLED}"
    )

    assert "nccl-misses-peermem" in codes(text)


@pytest.mark.parametrize(("clients", "proven"), [(("nv_mem", "nvidia-peermem"), True), (("nv_mem",), False)])
def test_files_that_are_absent_one_by_one_prove_it_if_it_looks_for_no_other(clients, proven):
    shown = "".join(
        f"cat: /sys/kernel/mm/memory_peers/{one}/version: No such file or directory\n" for one in clients
    )
    log = f"h1:1:2 [0] NCCL INFO NCCL version 2.20.5+cuda12.4\n{DISABLED}"

    assert ("nccl-misses-peermem" in codes(f"{LSMOD}$ cat it\n{shown}{log}")) is proven


def test_nccl_over_sockets_does_not_contradict_lsmod():
    assert (
        not explained(
            LSMOD + "h1:1:2 [0] NCCL INFO NET/Socket : GPU Direct RDMA Disabled for HCA 0 'eth0'\n"
        )
        .machines[0]
        .contradictions
    )


def test_perftest_on_an_integrated_gpu_proves_nothing():
    text = (
        "$ ib_write_bw -d rocep1s0f1 --use_cuda=0 10.0.0.2\ninitializing CUDA\n"
        "CUDA device 0: PCIe address is 01:00\n"
        "[pid = 1, dev = 0] device name = [NVIDIA GB10]\nCUDA device integrated: 1\n"
        " #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]\n"
        " 65536      5000             12011.2            12010.9              0.192\n"
    )

    assert {"proof-misread", "gpu-integrated"} <= codes(text)


# -- hardware and facts --------------------------------------------------------------------------------


def test_nvidia_smi_proves_an_integrated_gpu_and_no_command_is_needed():
    text = f"```\n{SMI}```\n{EINVAL}\n"
    found = explained(text)

    assert ("gpu-integrated", "000f:01:00.0") in proven(text)
    assert found.machines[0].established[0].proofs[0].line == 3
    assert found.question is None


def test_the_pci_id_makes_an_integrated_gpu_certain():
    gpu = "000f:01:00.0 3D controller [0302]: NVIDIA Corporation Device [10de:2e12] (rev a1)"
    text = f"$ lspci -nn -d 10de:\n{gpu}\n"
    (machine,) = explained(text).machines

    assert [(e.code, e.confidence) for e in machine.established] == [("gpu-integrated", "certain")]


@pytest.mark.parametrize(
    "output",
    [
        "|   0  NVIDIA GeForce RTX 3090        On  |   00000000:01:00.0 Off |                  N/A |",
        "GPU 0: NVIDIA GeForce RTX 3090 (UUID: GPU-fd8fde67-bf94-8d32-8e09-bde3e1d137c3)",
        "01:00.0 VGA compatible controller: NVIDIA Corporation GA102 [GeForce RTX 3090] (rev a1)",
        "$ nvidia-smi --query-gpu=name,pci.bus_id --format=csv\nNVIDIA GeForce RTX 3090, 00000000:05:00.0",
    ],
)
def test_a_geforce_is_recognized_in_every_listing(output):
    assert codes(output + "\n") == {"gpu-consumer"}


RECOVERY = "$ nvidia-smi --query-gpu={} --format=csv,noheader\n{}\n"


@pytest.mark.parametrize(
    ("query", "rows", "needing"),
    [
        ("index,gpu_recovery_action", "0, None\n1, Reset", "GPU 1"),
        ("gpu_recovery_action", "None\nNone\nReboot", "GPU 2"),
        ("gpu_recovery_action,pci.bus_id,name", "Reset, 00000000:9D:00.0, NVIDIA H100", "0000:9d:00.0"),
    ],
)
def test_a_query_shows_the_gpu_that_needs_a_reset(query, rows, needing):
    assert ("gpu-needs-reset", needing) in proven(RECOVERY.format(query, rows))


def test_a_query_in_which_no_gpu_needs_anything_shows_no_cause():
    """The near miss, and a query of other columns."""
    assert proven(RECOVERY.format("index,gpu_recovery_action", "0, None\n1, None")) == set()
    assert proven(RECOVERY.format("index,power.draw", "0, 71.2 W\n1, 69.8 W")) == set()


def test_a_quoted_error_that_is_denied_establishes_nothing():
    found = explained("I never saw `Loading of unsigned module is rejected` there.\n")

    assert [problem for machine in found.machines for problem in machine.established] == []
    assert found.exit_code == 3


def test_an_error_quoted_in_a_sentence_has_possible_causes():
    (line,) = open_lines(
        "After that I got `modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument`, sadly.\n"
    )

    assert line.claimed
    assert "peermem-stub" in line.codes


def test_advice_establishes_nothing():
    assert explained("if you see `Key was rejected by service` then sign the module\n").machines == ()
    quoted = f"> {REJECTED}\n> [ 1.1] Loading of unsigned module is rejected\n"
    assert codes(f"You may see:\n\n{quoted}\nI do not see that here.\n") == set()
    assert codes(f"Bob wrote:\n\n{quoted}\nI do not see that here.\n") == {"module-unsigned"}


# -- the command to run next ---------------------------------------------------------------------------


def test_the_question_explains_what_each_output_means():
    asked = explained(EINVAL + "\n").question

    assert asked is not None
    assert asked.command.startswith("sudo dmesg")
    meant = {code for answer in asked.answers for code in answer.codes}
    assert {"peermem-stub", "module-crc-mismatch"} <= meant
    assert not meant & set(asked.otherwise)


def test_without_open_causes_there_is_no_question():
    assert (
        explained("[ 1.1] nvidia_peermem: disagrees about version of symbol nvidia_p2p_get_pages\n").question
        is None
    )


def test_a_socket_is_not_direct_even_if_its_line_has_gdrdma():
    frame = "n1:1:2 [0] NCCL INFO Channel 0{}/0 : 0[0] -> 8[0] [send] via NET/{}/0/GDRDMA"
    lines = frame.format(0, "Socket"), frame.format(1, "IB")
    found = {fact.name: fact for fact in only("\n".join((*lines, ""))).known}

    assert found["NCCL channels"].value == "1 of 2 network legs access GPU memory directly"
    assert (found["NCCL channels"].line, found["NCCL channels"].text) == (2, lines[1])


def test_the_registration_that_efa_refuses_has_causes_without_a_word_about_gpus():
    """A GPU in the text adds the kind of its memory."""
    line = "libfabric:81:1700::efa:mr:efa_mr_regattr():1003<warn> Unable to register MR: Bad address\n"

    assert {cause for one in open_lines(line) for cause in one.codes} >= {"efa-p2p-unavailable"}
    assert explained(line).answer.kind == "several"
    alone = {other.code for other in explained(line).answer.others}
    with_gpu = {other.code for other in explained(f"The buffer is GPU memory.\n\n{line}").answer.others}
    assert (alone, with_gpu - alone) == (
        {"efa-driver-too-old", "efa-p2p-unavailable"}, {"memory-not-registrable"},
    )  # fmt: skip


@pytest.mark.parametrize(
    "line",
    [
        "DeepEP timeout check failed: rank = 3, thread = 0, value = 1024)",
        "Failed: CUDA error /src/csrc/kernels/internode.cu:88 'unspecified launch failure'",
    ],
)
def test_what_follows_from_a_wait_of_deepep_says_to_look_before_it(line):
    found = explained(f"{line}\n").answer
    assert (found.kind, found.cause) == ("elsewhere", None)
    timeout = explained(f"{line}\nDeepEP error: CPU recv timeout\n").answer
    assert timeout.kind == "several"  # the wait on the network says more


@pytest.mark.parametrize(
    ("subject", "named"),
    [("The all-reduce of two nodes is slow.", False), ("DeepEP needs GIN, and finds none.", True)],
)
def test_an_nccl_without_gin_matters_where_a_text_is_about_gin(subject, named):
    text = (
        f"{subject}\n\nNCCL version 2.27.5+cuda12.4\n"
        "h:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0\n"
    )
    found = explained(text)
    assert (found.answer.cause == "gin-unavailable") is named
    assert ("gin-unavailable" in {one.code for m in found.machines for one in m.notes}) is not named


def test_the_only_cause_that_no_output_excludes_is_named_as_possible():
    alone = explained(f"{LSMOD}{DISABLED}").answer
    assert (alone.cause, alone.sureness) == ("nccl-misses-peermem", "possible")
    assert explained(DISABLED).answer.cause is None


@pytest.mark.parametrize("said", ["It is slow.", "GDR is enabled, as the log proves."])
def test_a_log_that_is_no_proof_is_a_note_whatever_people_say_of_it(said):
    log = "n1:7:7 [0] NCCL INFO Connected all rings, use ring PXN 0 GDR 1\n"
    found = explained(f"{said}\n\n{log}").machines
    assert "proof-misread" in {one.code for m in found for one in m.notes}
    assert "proof-misread" not in {one.code for m in found for one in m.established}


def test_a_note_about_a_program_that_the_text_does_not_name_is_shown_only_with_v():
    page = explained("NCCL version 2.21.5+cuda12.4\nthe job is slow")
    assert "gin-unavailable" in as_text(page, verbose=True)
    assert "gin-unavailable" not in as_text(page)


@pytest.mark.parametrize(
    ("line", "kind", "shown"),
    [
        ("n1:7:7 [0] NCCL INFO Registered dmabuf region 0x7f00 of 4096 Bytes", "working", "as a dma-buf"),
        ("/b/common.cpp:108: ibv_reg_dmabuf_mr handle 0x7f54c8 mr 0x55d0c0", "working", "as a dma-buf"),
        ("[   12.345678] efa: Acquired peer memory using P2P", "working", "by its address"),
        ("using DMA-BUF for GPU buffer address at 0x7f00 aligned at 0x7f00", "nothing", "as a dma-buf"),
        ("libfabric:4:1::efa:mr:efa_mr():506<info> Registering dmabuf MR: fd=70", "nothing", "a dma-buf"),
        ("n1:7:7 [0] NCCL INFO GIN/Plugin: Assigned plugin GIN_IB_PROXY type 2 to comm", "nothing", "proxy"),
    ],
)
def test_a_text_that_shows_what_is_in_use_is_told_so(line: str, kind: str, shown: str):
    answer = explained(f"{line}\n").answer

    assert answer.kind == kind
    assert "line 1 shows" in answer.sentence and shown in answer.sentence


def test_what_fails_beside_a_proof_is_quoted_as_failing():
    text = "ibv_reg_dmabuf_mr handle 0x7f54c8 mr 0x55d0c0\nRuntimeError: frobnication failed\n"
    answer = explained(text).answer

    assert "gdr knows no cause" in answer.sentence
    assert [line.line for line in answer.lines] == [1, 2]


MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB\n"
REFUSED = "n1:1:2 [0] NCCL WARN socketStartConnect: Connect to 10.0.0.2<4> failed : Connection refused\n"
UNUSED = (
    "[1.2] [n1:5:0]  ucp_context.c:1323 UCX  WARN  transport 'efa' is not available, please use one or more"
    " of: ib, srd, tcp\n"
)
SHM = "n1:1:2 [0] NCCL WARN Error: failed to extend /dev/shm/nccl-abc to 9637892 bytes\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"{MEMORY}{SHM}", 1),  # the first error
        (f"{SHM}{MEMORY}", 1),
        (f"{UNUSED}{MEMORY}", 2),  # an error before a warning
        (f"{UNUSED}{SHM}", 2),  # NCCL's WARN is an error
        (f"{UNUSED}step 1\n", 1),  # a warning alone
        (f"{REFUSED}{MEMORY}", 2),  # what follows from an error elsewhere
    ],
)
def test_of_several_lines_about_something_else_the_one_that_explains_the_others_leads(text: str, line: int):
    answer = explained(text).answer

    assert answer.kind == "elsewhere"
    assert [one.line for one in answer.lines] == [line]


@pytest.mark.parametrize("words", ["wc status 5 (Work Request Flushed Error)", "poll: IBV_WC_WR_FLUSH_ERR"])
def test_a_flushed_request_follows_from_another_error(words: str):
    found = explained(f"```\n{words}\n```\n").answer
    assert found.kind == "elsewhere" and "follows from another one" in found.sentence


def test_what_a_c_plus_plus_program_ends_with_is_its_output():
    """microsoft/mscclpp issue 315."""
    text = (
        "terminate called after throwing an instance of 'mscclpp::IbError'\n"
        "  what():  a work item failed: status 12 (Ib failure: Cannot allocate memory)\n"
    )
    found = explained(text).answer
    assert (found.cause, found.claimed) == ("retry-exceeded", False)
