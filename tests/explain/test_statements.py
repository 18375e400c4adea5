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


@pytest.mark.parametrize(
    ("sentence", "near_miss", "code"),
    [
        ("The container lacks libibverbs.", "libibverbs is there, without which it is slow.", None),
        ("The image does not contain libibverbs.so.1.", "There is no libibverbs plugin for it.", None),
        ("libibverbs is not installed.", "The vendor ships no provider for libibverbs.", None),
        ("ACS is on.", "We have ACS disabled on every switch.", "acs-redirect"),
        ("Resizable BAR off, ACS on, IOMMU off.", "ACS is off on both hosts.", "acs-redirect"),
        ("BAR1 is full.", "Writes to BAR1 reach full line rate.", "bar1-exhausted"),
        ("The BAR1 window is full after a while.", "BAR1 works at full speed.", "bar1-exhausted"),
        ("It is between two CPUs.", "The path is between two CPU root ports.", "pair-cross-socket"),
        (
            "A version mismatch of the nvidia module stops it.",
            "There is a version mismatch of nvidia-nccl-cu12 and torch.",
            "driver-mismatch",
        ),
        (
            "The NCCL versions differ between the nodes.",
            "The versions differ between PyTorch and the wheel.",
            "versions-differ-between-ranks",
        ),
        ("I did not set up nvidia_peermem.", "I have set up nvidia_peermem.", "peermem-not-loaded"),
    ],
)
def test_a_word_with_another_meaning_names_no_cause(sentence, near_miss, code):
    code = code or "verbs-library-missing"
    assert code in named(sentence)
    assert code not in named(near_miss)


def test_settings_of_another_makers_library_prove_nothing_about_nvidias():
    log = (
        "```\nn1:1:2 [0] NCCL INFO NCCL_NET_GDR_LEVEL set by environment to LOC\n"
        "n1:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.0.0.1<0>\n```\n"
    )
    assert explained(f"It is slow.\n\n{log}").answer.cause == "gdr-level-too-low"

    foreign = explained(f"It is slow with RCCL on MI300X: ROCm 6.2, amdgpu, HIP, Instinct.\n\n{log}")
    assert foreign.answer.cause is None
    assert not any(machine.established for machine in foreign.machines)


def test_one_cause_that_is_left_of_several_is_not_the_answer():
    error = "ibv_reg_mr() failed: Cannot allocate memory"
    found = explained(f"A server for files\n\n```\n{error}\n```\n").answer

    assert (found.kind, found.cause) == ("several", None)
    assert "memlock-limit" in [cause.code for cause in found.others]


def test_hardware_in_a_guide_is_not_a_fault():
    guide = "Two DGX Sparks with RDMA\n\n## When to use\n\n* Two units are joined by a cable.\n"
    assert explained(guide).answer.kind == "documentation"
    report = "Two DGX Sparks with RDMA\n\n## What happens\n\n* It fails to register GPU memory.\n"
    assert explained(report).answer.cause == "gpu-integrated"


@pytest.mark.parametrize(
    ("transports", "cause"),
    [("tcp,sm", "ucx-transport-excluded"), ("rc,cuda_copy", None), ("all", None), ("^cuda", None)],
)
def test_a_list_of_transports_without_cuda_is_why_ucx_does_not_see_gpus(transports, cause):
    log = f"agent init: UCX_TLS={transports}\nVRAM memory is detected as host by UCX\n"
    found = explained(f"```\n{log}```\n").answer

    assert (found.cause == "ucx-transport-excluded") == (cause is not None)


def test_wsl_is_deeper_than_the_library_that_it_lacks():
    error = "pc:1:2 [0] misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]"

    assert explained(f"```\n{error}\n```\n").answer.cause == "verbs-library-missing"
    assert explained(f"NCCL fails under WSL2.\n\n```\n{error}\n```\n").answer.cause == "wsl"


@pytest.mark.parametrize(
    ("sentence", "code", "named_by_it"),
    [
        ("nvidia_peermem is disabled, ACS is off.", "peermem-not-loaded", True),
        ("nvidia_peermem is loaded, ACS is disabled.", "peermem-not-loaded", False),
        ("ACS is disabled, nvidia_peermem is loaded.", "peermem-not-loaded", False),
        ("The peermem module, which NCCL needs, was missing.", "peermem-not-loaded", True),
        ("We forgot it: missing was nvidia_peermem.", "peermem-not-loaded", True),
    ],
)
def test_a_state_of_another_clause_is_not_one_of_the_topic(sentence, code, named_by_it):
    assert (code in named(sentence)) is named_by_it


def test_a_missing_device_is_no_missing_module():
    assert "module-not-found" in named("modprobe says no such module after a rescan.")
    assert "module-not-found" not in named("modprobe says no such device after a rescan.")
