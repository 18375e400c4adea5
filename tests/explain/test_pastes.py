"""The pastes that everybody makes: one error or one listing, answered first and right."""

from __future__ import annotations

import pytest

from gdrkit.explain.text import text as as_text
from tests.explain.explaining import EINVAL, REJECTED, explained

SPARK = "$ nvidia-smi -L\nGPU 0: NVIDIA GB10 (UUID: GPU-9c0e1d2f-1111-2222-3333-444455556666)\n"


def codes_of(text: str) -> list[str]:
    """The cause of an answer and the other ones, in order."""
    found = explained(text).answer
    return [*([found.cause] if found.cause else []), *(other.code for other in found.others)]


# -- a module that does not load ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line", [EINVAL, "systemd-modules-load[512]: Failed to insert module 'nvidia_peermem': Invalid argument"]
)
def test_an_error_of_a_module_that_many_machines_do_not_need_is_often_harmless(line: str):
    found = explained(f"{line}\n")
    assert found.answer.now[0].startswith("Often nothing: a DGX Spark")
    assert codes_of(f"{line}\n")[:2] == ["peermem-stub", "module-crc-mismatch"]


def test_it_is_not_called_harmless_where_a_job_fails_without_the_module():
    job = "$ ib_write_bw --use_cuda=0\nCouldn't allocate MR with error=14\n"
    failing = f"$ modprobe nvidia_peermem\n{EINVAL}\n{job}"
    assert "Often nothing" not in as_text(explained(failing))


@pytest.mark.parametrize("mark", ["'", '"', "`", "", "\u2019"])
def test_the_error_is_the_same_without_its_quotation_marks(mark: str):
    for error in (EINVAL, REJECTED):
        written = error.replace("'", mark)
        assert codes_of(f"{written}\n") == codes_of(f"{error}\n")
        assert codes_of(f"{written.replace('nvidia_peermem', 'nvidia_uvm')}\n")[:1] != ["peermem-stub"]
    assert codes_of("it could not insert nvidia_peermem: an Invalid argument\n") == []


def test_of_another_module_nothing_is_harmless():
    line = "modprobe: ERROR: could not insert 'nvidia': Invalid argument\n"
    assert "Often nothing" not in as_text(explained(line))


def test_on_a_spark_one_cause_settles_everything():
    found = explained(f"$ modprobe nvidia_peermem\n{EINVAL}\n{SPARK}")
    assert found.answer.cause == "gpu-integrated"
    assert "peermem-stub" not in as_text(found)
    assert "peermem-stub" in as_text(found, verbose=True)


@pytest.mark.parametrize("error", [EINVAL, REJECTED])
@pytest.mark.parametrize(
    "named",
    [
        SPARK,
        "$ cat /sys/class/dmi/id/product_name\nNVIDIA_DGX_Spark\n",
        "$ cat /sys/class/dmi/id/product_name\nNVIDIA DGX Spark\n",
        "$ hostnamectl\n  Hardware Model: NVIDIA DGX Spark\n",
        "[    0.000000] DMI: Dell Inc. Dell Pro Max with GB10 FCM1253/038RY7, BIOS 5.36 08/15/2025\n",
        '$ cat /etc/dgx-release\nDGX_NAME="DGX Spark"\n',
    ],
)
def test_where_an_output_names_the_machine_no_module_is_chased(named: str, error: str):
    for text in (f"{named}$ sudo modprobe nvidia-peermem\n{error}\n", f"{error}\n{named}"):
        found = explained(text)
        assert (found.answer.cause, found.answer.sureness) == ("gpu-integrated", "likely")
        assert not found.answer.besides and found.question is None


@pytest.mark.parametrize(
    "named",
    [
        "$ cat /sys/class/dmi/id/product_name\nNVIDIA DGX H100\n",
        "$ hostnamectl\n  Static hostname: dgx-spark\n",
        "```\nDGX Spark with 128 GB\n```\n",
    ],
)
def test_another_machine_or_the_words_of_a_person_prove_no_gpu(named: str):
    found = explained(f"{named}$ sudo modprobe nvidia-peermem\n{REJECTED}\n")
    assert found.answer.sureness == "possible"
    assert not any(machine.established for machine in found.machines)


# -- a module that is not listed ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "$ lsmod | grep peermem\n$\n",
        "root@gpu01:~# lsmod | grep peermem\nroot@gpu01:~# \n",
        "$ lsmod | grep -E 'peer_?mem'\n$\n",
    ],
)
def test_an_empty_list_leaves_open_whether_the_module_is_installed_or_matters(text: str):
    found = explained(text)
    assert (found.answer.kind, found.answer.cause, found.exit_code) == ("several", None, 3)
    page = as_text(found)
    assert "neither whether it is installed nor whether that matters" in " ".join(page.split())
    assert "sudo modprobe" not in page


def test_it_is_the_cause_where_a_job_fails_for_lack_of_it():
    failing = "$ lsmod | grep peermem\n$ ib_write_bw --use_cuda=0\nCouldn't allocate MR with error=14\n$\n"
    assert explained(failing).answer.cause == "peermem-not-loaded"


@pytest.mark.parametrize("command", ["sudo modprobe nvidia-peermem", "modprobe -v nvidia_peermem"])
def test_a_module_that_modprobe_loaded_and_lsmod_does_not_list_is_a_contradiction(command: str):
    found = explained(f"$ {command}\n$ lsmod | grep peermem\n$\n")
    assert "`install` line" in found.answer.sentence
    assert [len(one.contradictions) for one in found.machines] == [1]


@pytest.mark.parametrize(
    "text",
    [
        "$ lsmod | grep peermem\n$ sudo modprobe nvidia-peermem\n$\n",
        "$ sudo modprobe -r nvidia-peermem\n$ lsmod | grep peermem\n$\n",
        "$ sudo modprobe mlx5_ib\n$ lsmod | grep peermem\n$\n",
    ],
)
def test_an_order_or_a_command_that_loads_nothing_contradicts_nothing(text: str):
    assert not any(one.contradictions for one in explained(text).machines)


# -- memory that cannot be registered ----------------------------------------------------------------------


NINE = [
    "peermem-not-loaded", "gpu-integrated", "gpu-consumer", "gpu-unsupported", "gpu-vgpu",
    "gpu-confidential", "gpu-mig", "bar1-exhausted", "memory-not-registrable",
]  # fmt: skip


@pytest.mark.parametrize(
    "line",
    [
        "ibv_reg_mr failed: Bad address",
        "ibv_reg_mr() failed: EFAULT",
        "Couldn't allocate MR with error=14",
        "[1700000000.123456] [node1:1234 :0]          ib_md.c:309  UCX  ERROR"
        " ibv_reg_mr(address=0x7f2a00000000, length=4194304, access=0xf) failed: Bad address",
    ],
)
def test_a_bad_address_alone_has_nine_causes_if_the_memory_is_a_gpus(line: str):
    found = explained(f"{line}\n")
    assert "if it is a GPU's" in found.answer.sentence
    assert codes_of(f"{line}\n") == NINE
    assert found.question is not None


def test_with_a_gpu_in_the_text_there_is_no_condition():
    found = explained("$ ib_write_bw --use_cuda=0\nCouldn't allocate MR with error=14\n")
    assert found.answer.cause or "if it is a GPU's" not in found.answer.sentence


@pytest.mark.parametrize("call", ["ibv_create_qp", "ibv_create_cq", "ibv_create_srq"])
@pytest.mark.parametrize("before", ["", "n1:2:3 [0] misc/ibvwrap.cc:268 ", "n1:2:3 [0] "])
def test_a_call_without_its_error_asks_for_the_limit_of_locked_memory(call: str, before: str):
    found = explained(f"{before}NCCL WARN Call to {call} failed\n")
    assert (found.answer.cause, found.answer.sureness) == ("memlock-limit", "possible")
    assert found.question is not None and found.question.command == "ulimit -l"


def test_a_registration_without_its_error_has_the_causes_of_both_errors():
    assert codes_of("n1:2:3 [0] NCCL WARN Call to ibv_reg_mr failed\n") == ["memlock-limit", *NINE][:9]


def test_an_error_that_is_shown_is_no_hidden_one():
    assert codes_of("NCCL WARN Call to ibv_create_qp failed with error Invalid argument\n") == []


# -- the limit of locked memory ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [
        "Couldn't allocate MR with error=12",
        "n1:2:3 [0] NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory",
    ],
)
def test_the_printed_limit_decides_what_an_enomem_left_open(error: str):
    found = explained(f"$ ulimit -l\n8192\n$ ./job\n{error}\n")
    assert (found.answer.cause, found.answer.sureness) == ("memlock-limit", "likely")
    assert found.question is None or found.question.command != "ulimit -l"


@pytest.mark.parametrize("limit", ["unlimited", "134217728"])
def test_a_high_limit_points_to_nothing(limit: str):
    found = explained(f"$ ulimit -l\n{limit}\n$ ./job\nCouldn't allocate MR with error=12\n")
    assert found.answer.cause is None


def test_a_number_of_another_command_is_no_limit():
    assert explained("$ ulimit -n\n8192\n$ ./job\n").answer.cause is None


# -- messages in short -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("modprobe: FATAL: Module nvidia_peermem not found", "module-not-found"),
        ("Module nvidia_peermem not found", "module-not-found"),
        ("[ 10.2] nvidia_peermem: Unknown symbol ib_register_peer_memory_client", "module-symbol-missing"),
        (
            "[ 14.1] mlx5_core 0000:41:00.0: Port module event[error]: module 0, Cable error, Bus stuck",
            "port-down",
        ),
        ("mlx5_core 0000:41:00.0: Port module event: module 0, Cable unplugged", "port-down"),
    ],
)
def test_a_message_without_its_end_or_its_program_keeps_its_cause(text: str, cause: str):
    assert explained(f"{text}\n").answer.cause == cause


@pytest.mark.parametrize(
    "text",
    [
        "mlx5_core 0000:41:00.0: 252.048 Gb/s available PCIe bandwidth (16.0 GT/s PCIe x16 link)",
        "mlx5_core 0000:41:00.0: Port module event: module 0, Cable plugged",
        'finit_module(3, "", 0) = 0',
    ],
)
def test_the_same_programs_on_a_good_day_report_nothing(text: str):
    found = explained(f"{text}\n").answer
    assert (found.cause, found.others) == (None, ())


def test_a_system_call_that_strace_shows_has_the_causes_of_its_error():
    invalid = codes_of('finit_module(3, "", 0) = -1 EINVAL (Invalid argument)\n')
    assert invalid[:2] == ["peermem-stub", "module-crc-mismatch"]
    rejected = codes_of('init_module(0x1, 2, "") = -1 EKEYREJECTED (Key was rejected by service)\n')
    assert "module-crc-mismatch" not in rejected
    assert rejected


def test_a_listing_of_devices_excludes_that_there_is_none():
    text = (
        "$ ibv_devices\n    device          \t   node GUID\n    ------          \t----------------\n"
        "    roceP3p1s0      \ta088c20300aabbcc\n"
        "g2:12:30 [0] NCCL INFO NCCL_IB_HCA set to {name}\n"
        "g2:12:30 [0] NCCL INFO NET/IB : No device found.\n"
    )
    assert codes_of(text.format(name="mlx5_0")) == ["hca-not-selected"]
    assert "hca-not-selected" not in codes_of(text.format(name="roceP3p1s0"))[:1]


@pytest.mark.parametrize(("name", "code"), [("NVIDIA GB10", ["gpu-integrated"]), ("NVIDIA H200", None)])
def test_the_gpu_that_nccl_tests_names_settles_what_else_fails(name: str, code: list[str] | None):
    rank = f"#  Rank  0 Group  0 Pid 1935208 on      spark device  0 [000f:01:00] {name}\n"
    found = codes_of(f"$ sudo modprobe nvidia-peermem\n{EINVAL}\n$ ./all_reduce_perf\n{rank}")

    assert found[:1] == (code or ["peermem-stub"])
    assert as_text(explained(rank)).startswith("The cause\n  The GPU is integrated") is bool(code)


LISTINGS = {
    "ibdev2netdev": "rocep1s0f0 port 1 ==> enp1s0f0np0 (Up)\n",
    "rdma link": "link rocep1s0f0/1 state ACTIVE physical_state LINK_UP netdev enp1s0f0np0\n",
    "ibstat": "CA 'rocep1s0f0'\n\tCA type: MT4129\n\tPort 1:\n\t\tState: Active\n",
    "show_gids": "rocep1s0f0\t1\t3\t0000:0000:0000:0000:0000:ffff:0a0a:0a15\t10.10.10.21\tv2\tenp1s0f0np0\n",
}


@pytest.mark.parametrize("command", LISTINGS)
def test_any_listing_decides_whether_the_setting_names_a_device(command: str):
    text = (
        f"$ {command}\n{LISTINGS[command]}$ ./all_reduce_perf\n"
        "g2:12:30 [0] NCCL INFO NCCL_IB_HCA set to {}\ng2:12:30 [0] NCCL INFO NET/IB : No device found.\n"
    )
    assert codes_of(text.format("mlx5")) == ["hca-not-selected"]
    assert not {"hca-not-selected", "no-rdma-device"} & set(codes_of(text.format("rocep1s0f0")))


def test_a_ucx_that_takes_gpu_memory_for_the_host_s_lacks_cuda_unless_a_setting_is_shown():
    line = "ucx_utils.cpp:640] VRAM memory is detected as host by UCX. UCX is likely not configured\n"

    assert codes_of(line) == ["ucx-lacks-cuda", "ucx-transport-excluded"]
    assert codes_of(f"$ export UCX_TLS=rc,sm\n{line}")[0] == "ucx-transport-excluded"


ATTRIBUTES = (
    "$ python3 -c 'from cuda.bindings import driver as d; print([(a, d.cuDeviceGetAttribute(a, 0)[1])])'\n"
)


@pytest.mark.parametrize(("value", "open_"), [(1, False), (0, True)])
def test_an_attribute_of_cuda_excludes_gpus_without_it(value: int, open_: bool):
    line = "DMA BUF supported required for GPU RDMA without nvidia-peermem\n"
    found = codes_of(f"{ATTRIBUTES}[(116, {value}), (124, 0)]\n$ ./serve\nE1 a.cpp:1] {line}")

    assert ("gpu-consumer" in found) is open_
    assert found[0] == "driver-proprietary"


def test_the_container_of_the_operator_needs_its_own_remedy():
    crc = "[ 100.1] nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client\n"
    container = "nvidia-peermem-ctr: + chroot /run/nvidia/driver modprobe nvidia-peermem\n"
    failed = "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument\n"
    found = explained(container + failed + crc).answer
    assert found.cause == "operator-ofed-changed"
    assert "delete the driver pod" in " ".join(found.now)
    assert explained(failed + crc).answer.cause == "module-crc-mismatch"


def test_another_makers_accelerator_has_no_cause_of_nvidias_stack():
    text = (
        "$ rocm-smi\nGPU[0]\t\t: Card Series: AMD Instinct MI300X\n$ ./all_reduce_perf\n"
        "n1:1:2 [0] RCCL version 2.20.5\n"
        "n1:1:2 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'bnxt_re0'\n"
        "ibv_reg_mr failed: Bad address\n"
    )
    assert codes_of(text) == []
    assert "AMD" in explained(text).answer.sentence


CRC = "[ 100.1] nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client\n"
POD = "nvidia-driver-daemonset-x7k2p"


@pytest.mark.parametrize(
    "command",
    [
        f"kubectl logs -n gpu-operator {POD} -c nvidia-peermem-ctr",
        f"kubectl -n gpu-operator logs {POD} -c nvidia-peermem-ctr --tail=-1",
        "sudo chroot /run/nvidia/driver modprobe nvidia-peermem",
    ],
)
def test_a_command_about_the_operators_container_needs_the_operators_remedy(command: str):
    found = explained(f"$ {command}\n{EINVAL}\n$ dmesg | tail -1\n{CRC}").answer
    assert (found.cause, found.others) == ("operator-ofed-changed", ())
    assert "delete the driver pod" in " ".join(found.now)


def test_the_log_of_another_pod_does_not_make_the_machine_one_of_the_operator():
    text = f"$ kubectl logs -n default trainer-0\n{EINVAL}\n$ dmesg | tail -1\n{CRC}"
    assert "operator-ofed-changed" not in codes_of(text)


RCCL = (
    "g1:42:43 [0] NCCL INFO RCCL version : 2.22.3-HEAD:9f7c2a\n"
    "g1:42:43 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'bnxt_re0'\n"
    "g1:42:43 [0] NCCL INFO Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IB/0\n"
    "g1:42:43 [0] NCCL WARN Call to ibv_reg_mr failed with error Bad address\n"
)


def test_amds_library_has_no_cause_of_nvidias_stack_although_each_line_says_nccl():
    assert codes_of(RCCL) == []
    assert "AMD" in explained(RCCL).answer.sentence
    assert codes_of(RCCL.replace("RCCL version :", "NCCL version"))


# -- what outputs decide that are not listings of a whole machine ------------------------------------------


def test_values_that_nccl_tests_finds_wrong_come_before_the_rate():
    table = "  1048576  262144  float  sum  -1  40.12  26.13  45.73  12  39.99  26.22  45.88  9\n"
    wrong = f"{table}# Out of bounds values : 2 FAILED\n# Avg bus bandwidth    : 45.8\n"

    assert explained(wrong).answer.sentence.startswith("nccl-tests found wrong values")
    assert explained(wrong.replace("2 FAILED", "0 OK")).answer.kind == "no-problem"


def test_a_shell_without_a_limit_excludes_that_limit_for_what_it_runs():
    failing = "$ ib_write_bw -d mlx5_2\nCouldn't allocate MR with error=12\n"
    assert codes_of(f"$ ulimit -l\nunlimited\n{failing}")[0] != "memlock-limit"
    assert codes_of(f"$ ulimit -l\n8192\n{failing}")[0] == "memlock-limit"


def test_a_limit_that_slurm_prints_behind_its_rank_is_the_job_s():
    limit = "$ srun -l -n2 bash -c 'ulimit -l'\n1: unlimited\n0: 8192\n"
    line = "n1:3:4 [0] NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory"
    failing = f"$ srun -l ./job\n0: {line}\n"
    found = explained(limit + failing).answer
    assert (found.cause, str(found.sureness)) == ("memlock-limit", "likely")


def test_a_table_of_limits_without_that_one_excludes_it():
    limits = "max locked memory       (kbytes, -l) unlimited\nstack size  (kbytes, -s) 8192\n"
    failing = "a6k:8112:8190 [4] misc/ibvwrap.cc:284 NCCL WARN Call to ibv_create_qp failed\n"
    assert "memlock-limit" not in codes_of(limits + failing)
    assert "memlock-limit" in codes_of(failing)


def test_a_driver_that_is_not_installed_is_why_it_is_not_loaded():
    text = (
        "$ nvidia-smi\nNVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n"
        "$ modprobe nvidia\nmodprobe: FATAL: Module nvidia not found in directory /lib/modules/6.8.0-90\n"
    )
    assert codes_of(text)[0] == "module-not-found"


def test_a_shell_says_nothing_of_the_limit_of_a_job_that_a_launcher_starts():
    failing = (
        "$ srun ./job\nn:1:2 [0] NCCL WARN Call to ibv_create_qp failed with error Cannot allocate memory\n"
    )
    assert "memlock-limit" in codes_of(f"$ ulimit -l\nunlimited\n{failing}")


@pytest.mark.parametrize("value", ["rocep1s0f0,rocep1s0f1", "=rocep1s0f0:1", "roceP2p1s0f1"])
def test_half_of_a_port_of_a_spark_is_named_before_its_gpu(value: str):
    found = explained(f"export NCCL_IB_HCA={value}\n{SPARK}")
    assert found.answer.cause == "hca-not-selected"
    assert "half of a port" in as_text(found)


@pytest.mark.parametrize("value", ["rocep1s0f1,roceP2p1s0f1", "roce", "^rocep1s0f0"])
def test_both_devices_of_a_port_of_a_spark_are_right(value: str):
    assert explained(f"export NCCL_IB_HCA={value}\n{SPARK}").answer.cause == "gpu-integrated"


def test_a_port_that_is_cut_out_of_ibstat_is_down():
    cut = "\t\tState: Down\n\t\tPhysical state: Polling\n\t\tRate: 10\n"
    assert codes_of(cut) == ["port-down"]
    assert codes_of(cut.replace("Down", "Active")) == []
    assert codes_of("\t\tState: Down\n\t\tMode: idle\n") == []  # of something else


def test_a_module_that_modinfo_does_not_find_need_not_matter():
    found = explained("$ modinfo nvidia_peermem\nmodinfo: ERROR: Module nvidia_peermem not found.\n").answer
    assert found.sentence.endswith("The text does not show whether that matters.")
    assert [other.code for other in found.others] == ["module-not-found"]


def test_a_failed_registration_of_a_program_for_gpus_has_the_causes_of_gpus():
    line = "E0612 rdma_context.cpp:201] Failed to register memory 0x7f3400000000: Bad address [14]\n"
    assert codes_of(line)[:2] == ["peermem-not-loaded", "mooncake-forces-peermem"]


EFA = "0008:06:00.0 Ethernet controller: Amazon.com, Inc. Elastic Fabric Adapter (EFA)\n"
COHERENT = "0008:01:00.0 3D controller: NVIDIA Corporation GB300 (rev a1)\n"
BRANCH = "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  {}.45.04  Release Build\n"


def test_a_driver_that_does_not_serve_an_efa_with_a_coherent_gpu_is_named():
    text = f"$ lspci\n{COHERENT}{EFA}$ cat /proc/driver/nvidia/version\n{BRANCH}"
    assert "R580" in explained(text.format(595)).answer.now[0]
    assert "R580" not in as_text(explained(text.format(580)))
    assert "R580" not in as_text(explained(text.format(595).replace("GB300", "GH100")))


FORCE_PCIE = "[  1.2] NVRM: dma-buf attach failed: topology not supported for mapping type FORCE_PCIE\n"


@pytest.mark.parametrize(
    "efa",
    [
        "n1:87:87 [0] NCCL INFO NET/OFI Could not disable CUDA API usage for HMEM, disabling GDR\n",
        "$ ls /sys/class/infiniband\nrdmap16s0 rdmap32s0\n",
        f"$ lspci\n{EFA}",
    ],
)
def test_no_acs_bit_is_advised_for_an_efa(efa: str):
    found = explained(f"{efa}$ dmesg | tail -1\n{FORCE_PCIE}")
    assert (found.answer.cause, found.answer.sureness) == ("efa-mapping-refused", "certain")
    assert "acs-bits-differ" not in as_text(found)


def test_a_refused_mapping_that_a_person_quotes_of_an_efa_has_its_cause_too():
    words = "On p6e-gb300r NCCL aborted, and the kernel logged `NVRM: dma-buf attach failed: {}`.\n"
    words = words.format("topology not supported for mapping type FORCE_PCIE")
    assert codes_of(words) == ["efa-mapping-refused"]
    assert codes_of(words.replace("p6e-gb300r", "our GB300")) == ["iommu-groups-differ"]


def test_an_annotation_after_a_short_arrow_is_not_the_program_s():
    text = "CmaTotal:        0 kB\nCmaFree:    940604 kB     <- 919 MiB free against a total of 0\n"
    assert explained(text).answer.cause == "memory-held-for-kexec"
    post = f"On DGX Spark GB10 we get `ibv_reg_mr_iova2: Cannot allocate memory`:\n```\n{text}```\n"
    assert explained(post).answer.cause == "memory-held-for-kexec"


def test_a_refused_mapping_for_another_nic_keeps_its_cause():
    assert codes_of(f"$ ls /sys/class/infiniband\nmlx5_0 mlx5_1\n{FORCE_PCIE}") == ["iommu-groups-differ"]


def test_a_diagnosis_that_passed_is_not_about_the_network():
    passed = "| Diagnostic                | Result |\n| PCIe                      | Pass - All |\n"
    found = explained(passed).answer
    assert (found.kind, "none is about the way to the network" in found.sentence) == ("no-problem", True)
    failed = explained(passed.replace("Pass", "Fail")).answer
    assert (failed.kind, failed.cause) == ("nothing", None)
    assert failed.lines[0].text.startswith("| PCIe")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("NCCL WARN NCCL cannot use more than 8 rails.", "more rails or planes than NCCL has room for"),
        (
            "NCCL WARN NET/IB: NCCL_IB_PKEY_VALUE=0x8001 not found in PKey table (pkey_tbl_len=128, port=1)",
            "not in the partition of NCCL_IB_PKEY_VALUE",
        ),
        (
            "NCCL INFO GDRCOPY enabled using NCCL internal DMA-BUF mmap backend",
            "exported as a dma-buf",
        ),
        (
            "NCCL INFO GIN/GDAKI: device mlx5_0 preHopper=0 dataDirectNic=1 mcst=1",
            "GIN uses the NIC over Data Direct",
        ),
    ],
)
def test_lines_of_the_newest_nccl_are_read(line: str, words: str):
    found = explained(f"n1:7:9 [0] {line}\n").answer
    assert found.cause is None
    assert words in found.sentence


def test_a_nic_without_data_direct_is_not_said_to_use_it():
    line = "n1:7:9 [0] NCCL INFO GIN/GDAKI: device mlx5_0 preHopper=0 dataDirectNic=0 mcst=0\n"
    assert "Data Direct" not in explained(line).answer.sentence


# -- an operator that waits --------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["stat", "statx"])
def test_a_container_that_waits_for_the_file_of_an_ofed_is_likely_to_wait_for_one(call: str):
    asked = "running command bash with args [-c stat /run/mellanox/drivers/.driver-ready]"
    failed = f"stat: cannot {call} '/run/mellanox/drivers/.driver-ready': No such file or directory"
    assert codes_of(f"{asked}\n{failed}\ncommand failed, retrying after 5 seconds\n") == [
        "operator-waits-for-ofed"
    ]


def test_one_that_waits_for_another_file_does_not():
    path = "/run/nvidia/validations/.driver-ctr-ready"
    text = (
        f"stat: cannot statx '{path}': No such file or directory\ncommand failed, retrying after 5 seconds\n"
    )
    assert codes_of(text) == []


def test_a_failed_call_is_quoted_without_the_words_around_it():
    quoted = 'Getting "NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory" on node7'
    sentence = explained(f"{quoted}\n").answer.sentence
    assert "memory cannot be pinned" in sentence and "Getting" not in sentence


@pytest.mark.parametrize("state", ["Up", "Down"])
def test_half_of_a_port_is_named_beside_ports_without_a_cable(state: str):
    """A list with the chosen device in it shows that a device was found, and not that both were chosen."""
    ports = "".join(
        f"{name} port 1 ==> {netdev} ({shown})\n"
        for name, netdev, shown in (
            ("rocep1s0f0", "enp1s0f0np0", state), ("rocep1s0f1", "enp1s0f1np1", "Up"),
            ("roceP2p1s0f0", "enP2p1s0f0np0", state), ("roceP2p1s0f1", "enP2p1s0f1np1", "Up"),
        )
    )  # fmt: skip
    text = f"$ ibdev2netdev\n{ports}$ env | grep NCCL\nNCCL_IB_HCA={{}}\n"
    found = explained(text.format("rocep1s0f1"))
    assert found.answer.cause == "hca-not-selected" and "roceP2p1s0f1" in as_text(found)
    assert explained(text.format("rocep1s0f1,roceP2p1s0f1")).answer.cause is None


EINVAL_OF_PEERMEM = "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument\n"
A6000 = "$ nvidia-smi -L\nGPU 0: NVIDIA RTX A6000 (UUID: GPU-5c9e6a8e-2c7e-4f3b-9d0e-5b6f5c1d2e3f)\n"
DRIVER = "$ cat /proc/driver/nvidia/version\nNVRM version: NVIDIA UNIX {}  570.133.07  Fri Mar 14 2025\n"


def test_what_a_refused_peermem_means_follows_from_the_driver_and_the_gpu_that_are_shown():
    closed = explained(EINVAL_OF_PEERMEM + A6000 + DRIVER.format("x86_64 Kernel Module")).answer.now[0]
    assert closed.startswith("The NVIDIA driver is the proprietary one") and "(line 5)" in closed
    free = explained(EINVAL_OF_PEERMEM + A6000 + DRIVER.format("Open Kernel Module for x86_64")).answer.now[
        0
    ]
    assert free.startswith("Often nothing") and "Spark" not in free
    assert "Spark" in explained(EINVAL_OF_PEERMEM).answer.now[0], "it may be one"
