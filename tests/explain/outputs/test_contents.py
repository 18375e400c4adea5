"""Files and command outputs that a pasted text contains, and those that it does not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.explain.lines.transcript import read
from gdrkit.explain.outputs.contents import MachineOutputs, outputs
from gdrkit.explain.outputs.gpus import gpu_label
from gdrkit.facts import nvidia_smi, pci_text
from gdrkit.facts.kernel_log import parse as parse_kernel_log

BANNER = "[    0.000000] Linux version 6.8.0-90-generic (build@x) #1 SMP\n"
TAINT = "[   50.100000] nvidia_peermem: loading out-of-tree module taints kernel.\n"


TEXTS = (
    "$ dmesg",
    "$ cat /proc/driver/nvidia/version",
    "$ lspci",
    BANNER.strip(),
    TAINT.strip(),
    "GPU 0: NVIDIA H200 (UUID: GPU-1)",
    "GPU 00000000:1B:00.0",
    "    Product Name                          : NVIDIA GB10",
    "| NVIDIA-SMI 580.95.05    Driver Version: 580.95.05    CUDA Version: 13.0 |",
    "1b:00.0 3D controller [0302]: NVIDIA Corporation Device [10de:2335] (rev a1)",
    "h1:1:2 [0] NCCL INFO NCCL version 2.27.5+cuda12.9",
    "$ ib_write_bw --use_cuda=0",
    "Couldn't allocate MR with error=14",
    "filename:       /lib/modules/6.14.0/nvidia-peermem.ko",
    "depends:",
    "hca_id:\tmlx5_0",
    "\tport:\t1",
    "$ uname -r",
    "6.8.0-90-generic",
    "```",
    "apiVersion: nvidia.com/v1",
    "kind: ClusterPolicy",
)


def of(text: str) -> MachineOutputs:
    return outputs(read(text))


# -- files ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "path", "content"),
    [
        ("$ cat /sys/module/nvidia/version\n580.95.05\n", "sys/module/nvidia/version", "580.95.05\n"),
        ("$ uname -r\n6.8.0-90-generic\n", "proc/sys/kernel/osrelease", "6.8.0-90-generic\n"),
        ("# hostname\ngpu01\n", "proc/sys/kernel/hostname", "gpu01\n"),
        (BANNER, "proc/version", "Linux version 6.8.0-90-generic (build@x) #1 SMP\n"),
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023\n",
            "proc/driver/nvidia/version",
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023\n",
        ),
    ],
)  # fmt: skip
def test_commands_that_print_a_file_provide_it(text, path, content):
    assert of(text).files[path].text == content


def test_each_command_of_a_line_has_its_line_of_output():
    text = "$ modinfo -F license nvidia; modinfo -F version nvidia && uname -r\nNVIDIA\n580.95.05\n{}\n"

    found = of(text.format("6.8.0"))
    assert found.modinfo["nvidia"].text == "license: NVIDIA\nversion: 580.95.05\n"
    assert not found.modinfo["nvidia"].contradicted
    assert found.files["proc/sys/kernel/osrelease"].text == "6.8.0\n"
    assert of(text.format("6.8.0\nmore")).modinfo == {}  # which line is whose is not known


def test_two_values_of_one_field_contradict_each_other():
    text = "$ modinfo -F version nvidia\n580.1\n$ modinfo -F version nvidia\n{}\n"

    assert of(text.format("595.2")).modinfo["nvidia"].contradicted
    assert not of(text.format("580.1")).modinfo["nvidia"].contradicted


def test_no_such_file_makes_a_file_absent():
    found = of("cat: /sys/kernel/mm/memory_peers/nv_mem/version: No such file or directory\n").files

    assert found["sys/kernel/mm/memory_peers/nv_mem/version"].missing == "absent"


def test_permission_denied_makes_a_file_denied():
    assert (
        of("cat: /sys/kernel/security/lockdown: Permission denied\n")
        .files["sys/kernel/security/lockdown"]
        .missing
        == "denied"
    )


@pytest.mark.parametrize(
    "path", ["/proc/keys", "/proc/modules", "/etc/modprobe.d/nvidia.conf", "/proc/cpuinfo"]
)
def test_a_file_that_may_be_an_excerpt_is_not_served(path):
    assert path.strip("/") not in of(f"$ cat {path}\nfirst line\n$ uname -r\n6.8.0\n").files


def test_a_filtered_file_is_not_served():
    assert not of("$ cat /proc/cmdline | grep iommu\niommu=pt\n").files


def test_two_different_outputs_contradict_each_other():
    found = of("SecureBoot enabled\n$ mokutil --sb-state\nSecureBoot disabled\n").commands[
        "mokutil", "--sb-state"
    ]

    assert found.contradicted
    assert found.lines == (1, 3)


def test_an_output_and_an_excerpt_of_it_agree():
    found = of(
        "$ mokutil --sb-state\nSecureBoot disabled\nPlatform is in Setup Mode\n"
        "$ mokutil --sb-state\nSecureBoot disabled\n"
    )

    assert not found.commands["mokutil", "--sb-state"].contradicted


# -- modules -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "row",
    [
        "nvidia_peermem         16384  0",
        "ib_core               491520  9 rdma_cm,nvidia_peermem",
        "nvidia 56000000 -2 - Live 0xffffffffc0000000 (POE)",
    ],
)
def test_rows_of_lsmod_are_loaded_modules(row):
    assert row.split()[0] in of(f"$ lsmod | grep x\n{row}\n").modules or "Live" in row


def test_rows_of_other_programs_are_not_modules():
    assert not of("$ ps aux\nroot 1234 0\n").modules
    assert not of(" 65536 5000 2920.66 2920.60 0.046730\n").modules


def test_modinfo_is_recognized_by_file_name_or_command():
    by_file = "filename: /lib/modules/6.8.0/nvidia-peermem.ko\ndepends:\n\n"
    by_command = "$ modinfo nvidia-peermem | grep depends\ndepends:        nvidia,ib_core\n"

    assert "depends: \n" in of(by_file).modinfo["nvidia_peermem"].text
    assert of(by_command).modinfo["nvidia_peermem"].text == "depends: nvidia,ib_core\n"


# -- logs ----------------------------------------------------------------------------------------------


def test_a_log_keeps_the_line_numbers_of_the_text():
    found = of(f"prose first\n\n{TAINT}\nmore prose.\n\n{TAINT}").commands["dmesg",]

    assert (found.text, found.lines) == (TAINT * 2, (3, 7))


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        (f"$ dmesg\n{BANNER}{TAINT}$ uname -r\n", True),
        (f"{BANNER}{TAINT}", True),  # nothing else in the text
        (f"$ dmesg\n{BANNER}{TAINT}", False),  # who knows what followed
        (f"$ dmesg | head\n{BANNER}{TAINT}$ uname -r\n", False),
        (f"$ dmesg\n{BANNER}...\n{TAINT}$ uname -r\n", False),
        (f"My log:\n{BANNER}{TAINT}\nThat is it.\n", False),
        (f"$ dmesg\n{TAINT}$ uname -r\n", False),
        (f"{BANNER}{TAINT}".rstrip("\n"), False),
    ],
)
def test_a_log_is_whole_only_from_its_banner_to_the_next_prompt(text, whole):
    assert parse_kernel_log(of(text).commands["dmesg",].text, "").complete is whole


def test_an_operator_log_needs_more_than_an_error_of_modprobe():
    error = "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument\n"

    assert "sos_commands/kubernetes/pasted.log" not in of(error).files
    assert "sos_commands/kubernetes/pasted.log" in of(error + "failed to load nvidia-peermem module\n").files


def test_each_run_of_perftest_is_a_separate_log():
    run = "$ ib_write_bw --use_cuda=0\nCouldn't allocate MR with error=14\n"

    assert {name for name in of(run + run).files if "perftest" in name} == {
        "sos_commands/perftest/line-1.log",
        "sos_commands/perftest/line-3.log",
    }
    assert not of("$ ib_write_bw --use_cuda=0\n").files


def test_a_manifest_in_a_code_block_is_a_file():
    manifest = "apiVersion: nvidia.com/v1\nkind: ClusterPolicy\n\nspec:\n  driver:\n"
    found = of(f"The policy:\n```yaml\n{manifest}```\n").files["sos_commands/kubernetes/line-3.yaml"]

    assert (found.text, found.lines) == (manifest, (3, 4, 5, 6, 7))


@given(st.lists(st.sampled_from((*TEXTS, "", "prose.")), max_size=12).map("\n".join))
def test_every_line_of_an_answer_has_a_line_number(text):
    found = of(text)
    for answer in (*found.files.values(), *found.commands.values(), *found.modinfo.values()):
        if not answer.missing and not answer.contradicted:
            assert len(answer.lines) == answer.text.count("\n") + (not answer.text.endswith("\n"))
            assert set(answer.lines) <= set(range(1, text.count("\n") + 2))


def test_a_manifest_in_advice_is_ignored():
    assert not of("You should try:\n```yaml\napiVersion: nvidia.com/v1\nkind: ClusterPolicy\n```\n").files


# -- GPUs ----------------------------------------------------------------------------------------------

HOST = "00:00.0 Host bridge [0600]: Intel Corporation Device [8086:3456]\n"
PORT = (
    "00:01.0 PCI bridge [0604]: Intel Corporation Device [8086:352a]\n"
    "\tBus: primary=00, secondary=01, subordinate=01\n"
)
GPU = (
    "01:00.0 3D controller [0302]: NVIDIA Corporation GH100 [10de:2330]\n"
    "\tRegion 1: Memory at 1 (64-bit) [size=128G]\n"
)
NIC = "02:00.0 Ethernet controller [0200]: Mellanox Technologies MT2910 [15b3:1021]\n\tNUMA node: 1\n"


def devices(text: str) -> tuple[pci_text.TextDevice, ...]:
    return pci_text.parse(of(text).commands["lspci",].text)


def test_an_excerpt_of_lspci_keeps_details_of_gpus_only():
    gpu, nic = devices(f"$ lspci -nnvvv -s 01:00.0\n{GPU}$ lspci -nnvvv -s 02:00.0\n{NIC}")

    assert ([size for _, size in gpu.regions], gpu.verbose) == ([128 << 30], True)
    assert (nic.address, nic.verbose) == ("0000:02:00.0", False)


def test_a_whole_lspci_keeps_details_of_every_device():
    assert all(
        d.verbose for d in devices(f"$ lspci -nnvvv\n{HOST}\tControl: I/O+\n{PORT}{GPU}{NIC}$ uname -r\n")
    )


def test_lspci_without_a_gpu_does_not_prove_that_there_is_none():
    assert ("lspci",) not in of(f"$ lspci | grep -i mellanox\n{NIC}").commands


def test_spaces_in_place_of_tabs_are_accepted():
    (gpu,) = devices(GPU.replace("\t", "        "))

    assert [size for _, size in gpu.regions] == [128 << 30]


@pytest.mark.parametrize(
    ("text", "address", "name"),
    [
        ("GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\n", "ffff:00:00.0", "NVIDIA H100 80GB HBM3"),
        ("|   1  NVIDIA A40    On  | 00000000:0F:00.0 Off |  0 |\n", "0000:0f:00.0", "NVIDIA A40"),
        (
            "$ nvidia-smi --query-gpu=index,name --format=csv\nindex, name\n0, NVIDIA L40S\n",
            "ffff:00:00.0",
            "NVIDIA L40S",
        ),
        (
            "CUDA device 1: PCIe address is 29:00\n[pid = 7, dev = 1] device name = [NVIDIA L4]\n",
            "0000:29:00.0",
            "NVIDIA L4",
        ),
    ],
)  # fmt: skip
def test_listings_of_gpus_are_converted_to_one_form(text, address, name):
    (gpu,) = nvidia_smi.parse(of(text).commands["nvidia-smi", "-q"].text)

    assert (gpu.address, gpu.product_name) == (address, name)


def test_a_gpu_without_an_address_is_called_by_its_number():
    assert gpu_label("ffff:03:00.0") == "GPU 3"
    assert gpu_label("0000:03:00.0") == "0000:03:00.0"


def test_an_excerpt_of_nvidia_smi_is_read():
    full = (
        "Attached GPUs : 8\nGPU 00000000:1B:00.0\n    Product Name   : NVIDIA H100 80GB HBM3\n"
        "    MIG Mode\n        Current  : Disabled\n"
    )
    (gpu,) = nvidia_smi.parse(of(full).commands["nvidia-smi", "-q"].text)

    assert (gpu.product_name, gpu.mig_mode) == ("NVIDIA H100 80GB HBM3", "Disabled")


def test_two_gpus_at_one_address_are_two_machines():
    one = "GPU 00000000:1B:00.0\n    Product Name   : NVIDIA {}\n\n"

    assert ("nvidia-smi", "-q") not in of(one.format("H100") + one.format("A100")).commands


@given(
    st.lists(
        st.sampled_from([HOST, PORT, GPU, NIC, BANNER, TAINT, "$ lspci -nnvvv", "x", "\n"])
        | st.text(max_size=30)
    )
)
def test_any_lines_have_outputs(parts):
    assert outputs(read("\n".join(parts))) is not None
