"""What a pasted text establishes of modules that do not load, and of whose machine."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gdrkit.explain.pasted_host import PastedHost
from tests.explain.explaining import (
    DISABLED,
    EINVAL,
    LSMOD,
    REJECTED,
    SMI,
    STUB,
    UNKNOWN,
    codes,
    only,
    open_lines,
    proven,
    told,
)
from tests.work import steps

# -- a module that does not load -----------------------------------------------------------------------


def test_invalid_argument_alone_never_proves_the_stub():
    assert codes(EINVAL + "\n") == set()
    (line,) = open_lines(EINVAL + "\n")
    assert {"peermem-stub", "module-crc-mismatch", "module-bad-parameter"} <= set(line.codes)
    assert line.line == 1


def test_an_unambiguous_line_of_the_kernel_decides_and_explains_what_modprobe_said():
    text = (
        f"{EINVAL}\n"
        "[  99.1] nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client\n"
        "[  99.1] nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -22)\n"
    )

    assert proven(text) == {("module-crc-mismatch", "nvidia_peermem")}
    assert open_lines(text) == []
    assert only(text).established[0].proofs[0].line == 2


def test_the_line_of_another_module_does_not_explain_it():
    text = f"{EINVAL}\n[ 1.1] mlx5_ib: disagrees about version of symbol mlx5_core_foo\n"

    assert proven(text) == {("module-crc-mismatch", "mlx5_ib")}
    assert len(open_lines(text)) == 1


@pytest.mark.parametrize(
    ("number", "codes_left"),
    [
        (-2, {"module-symbol-missing", "module-symbol-gpl-only"}),
        (-22, {"module-crc-mismatch", "module-symbol-namespace"}),
        (0, {"module-symbol-missing", "module-symbol-gpl-only"}),
    ],
)
def test_an_unknown_symbol_is_read_by_its_number(number, codes_left):
    (line,) = open_lines(
        f"[ 1.1] nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err {number})\n"
    )

    assert set(line.codes) == codes_left


def test_an_init_that_returns_enoent_looks_like_a_missing_symbol():
    (line,) = open_lines(UNKNOWN + "\n")

    assert {"init-failed", "module-symbol-missing", "dependency-failed"} <= set(line.codes)


def test_depends_with_nothing_proves_the_stub():
    text = f"$ sudo modprobe nvidia-peermem\n{EINVAL}\n\n$ modinfo nvidia-peermem\n{STUB}\nThat is all.\n"

    assert proven(text) == {("peermem-stub", "nvidia-peermem.ko")}
    assert only(text).established[0].proofs[0].text == "depends:"
    assert open_lines(text) == []
    assert told(text).exit_code == 2


def test_depends_as_the_last_word_of_a_cut_text_proves_nothing():
    assert codes("$ modinfo nvidia-peermem\n" + STUB.partition("name:")[0].rstrip("\n")) == set()


def test_an_empty_answer_to_modinfo_counts_if_something_follows():
    asked = "$ modinfo -F depends nvidia-peermem\n\n"

    assert codes(asked) == set()
    assert codes(asked + "$ uname -r\n6.8.0\n") == {"peermem-stub"}


def test_depends_with_the_rdma_core_rules_the_stub_out():
    full = STUB.replace("depends:", "depends:        nvidia,ib_core")
    (line,) = open_lines(f"{EINVAL}\n\n$ modinfo nvidia-peermem\n{full}\nThat is all.\n")

    assert "peermem-stub" not in line.codes
    assert [cause.code for cause in line.ruled_out] == ["peermem-stub"]
    assert "module-crc-mismatch" in line.codes


def test_the_stub_is_established_beside_a_rejected_key():
    text = f"{REJECTED}\nSecureBoot enabled\n\n{STUB}\nend.\n"

    assert codes(text) == {"peermem-stub"}
    (line,) = open_lines(text)
    assert "module-unknown-key" in line.codes


def test_a_signer_rules_out_that_the_module_is_unsigned():
    signed = STUB + "sig_id:         PKCS#7\nsigner:         NVIDIA Support\n"
    (line,) = open_lines(f"{REJECTED}\n\n{signed}\nend.\n")

    assert "module-unsigned" not in line.codes
    assert "module-unknown-key" in line.codes


def test_required_key_not_available_is_the_older_wording():
    (line,) = open_lines("modprobe: ERROR: could not insert 'nvidia_peermem': Required key not available\n")

    assert {"module-unsigned", "module-unknown-key"} <= set(line.codes)


def test_without_enforcement_a_rejected_key_is_a_signature_that_is_wrong():
    (line,) = open_lines(f"{REJECTED}\n$ cat /sys/module/module/parameters/sig_enforce\nN\n$ exit\n")

    assert {cause.code for cause in line.ruled_out} == {"module-unsigned", "module-unknown-key"}
    assert {"module-signature-broken", "module-key-revoked"} <= set(line.codes)


def test_a_licence_decides_why_a_symbol_is_missing():
    said = "[ 1.1] nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -2)\n"
    full = STUB.replace("depends:", "depends:        nvidia,ib_core")

    assert codes(said) == set()
    assert codes(f"{said}\n{full}\nend.\n") == {"module-symbol-missing"}


@pytest.mark.parametrize(("version", "decided"), [("580.95.05", True), ("575.57.08", False), ("", False)])
def test_error_524_means_the_topology_since_the_driver_checks_it(version, decided):
    said = "[ 9.9] nvidia-peermem nv_dma_map:213 ERROR nv_dma_map -- error -524 while calling "
    said += "nvidia_p2p_dma_map_pages()\n"
    driver = (
        f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {version}  Release Build\n"
        if version
        else ""
    )

    assert ("topology-refused" in codes(driver + said)) is decided
    assert bool(open_lines(driver + said)) is not decided


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (
            "nvidia-peermem nv_mem_client_init:640 ERROR error while registering nc client",
            "peermem-registration-refused",
        ),
        ("nvidia-peermem x:1 ERROR invalid peerdirect_support param value 7", "module-bad-parameter"),
        ("nvidia_peermem: version magic '6.8.0-89 SMP ' should be '6.8.0-90 SMP '", "module-wrong-kernel"),
        ("nvidia_peermem: disagrees about version of symbol module_layout", "module-wrong-kernel"),
        ("nvidia_peermem: disagrees about version of symbol nvidia_p2p_get_pages", "module-crc-mismatch"),
        ("NVRM: dma-buf attach failed: PCI topology not supported for dma-buf", "topology-refused"),
        ("NVRM: topology not supported for mapping type FORCE_PCIE", "iommu-groups-differ"),
        (
            "NVRM: dma-buf attach failed: importer unable to handle MMIO without struct page",
            "dmabuf-no-p2p-importer",
        ),
        ("gdrdrv:x:incompatible page table version 0x00020000", "p2p-page-table-version"),
        (
            "nv_mem_get_pages -- error -22 while calling nvidia_p2p_get_pages() with NULL callback",
            "legacy-nv-peer-mem",
        ),
    ],
)  # fmt: skip
def test_lines_of_one_meaning_decide(line, code):
    assert codes(f"[  12.3] {line}\n") == {code}


def test_modprobe_that_finds_no_module_decides():
    said = "modprobe: FATAL: Module nvidia_peermem not found in directory /lib/modules/6.8.0-90-generic\n"

    assert proven(said) == {("module-not-found", "nvidia_peermem")}


# -- lines that name no module -------------------------------------------------------------------------


def test_a_line_without_a_module_establishes_nothing_alone():
    text = "[ 12.3] Loading of unsigned module is rejected\n"

    assert codes(text) == set()
    (line,) = open_lines(text)
    assert line.codes == ("module-unsigned",)
    assert line.note


def test_it_decides_together_with_the_line_beside_it_that_names_the_module():
    text = (
        f"$ sudo modprobe nvidia_peermem\n{REJECTED}\n"
        "$ dmesg | tail -1\n[ 12.3] Loading of unsigned module is rejected\n"
    )

    assert proven(text) == {("module-unsigned", "nvidia_peermem")}
    assert open_lines(text) == []


@pytest.mark.parametrize(
    "between",
    [
        "[ 1.1] usb 1-1: new device\n" * 8,  # too far away
        "modprobe: ERROR: could not insert 'nvidia': Key was rejected by service\n",  # which of the two?
    ],
)
def test_it_does_not_where_the_module_is_not_plain(between):
    text = f"{REJECTED}\n{between}[ 12.3] Loading of unsigned module is rejected\n"

    assert codes(text) == set()


def test_it_does_not_with_an_error_that_it_cannot_have_caused():
    assert codes(f"{EINVAL}\n[ 12.3] Loading of unsigned module is rejected\n") == set()


def test_lockdown_and_the_error_beside_it():
    text = (
        "modprobe: ERROR: could not insert 'nvidia': Operation not permitted\n"
        "[ 3.3] Lockdown: modprobe: unsigned module loading is restricted; see man kernel_lockdown.7\n"
    )

    assert proven(text) == {("lockdown-blocks-module", "nvidia")}


# -- several machines ----------------------------------------------------------------------------------


def test_conclusions_are_drawn_for_each_machine():
    text = (
        f"root@spark-a:~# modprobe nvidia_peermem\n{REJECTED}\n"
        "root@spark-a:~# mokutil --sb-state\nSecureBoot enabled\n"
        f"root@spark-b:~# modprobe nvidia_peermem\n{EINVAL}\n"
        f"root@spark-b:~# modinfo nvidia-peermem\n{STUB}"
        "root@spark-b:~# mokutil --sb-state\nSecureBoot disabled\n"
    )
    a, b = told(text).machines

    assert (a.name, b.name) == ("spark-a", "spark-b")
    assert codes(text, "spark-a") == set()
    assert codes(text, "spark-b") == {"peermem-stub"}
    assert ("Secure Boot", "on") in {(k.name, k.value) for k in a.known}
    assert ("Secure Boot", "off") in {(k.name, k.value) for k in b.known}
    assert not a.contradictions


def test_contradictory_answers_of_nobody_are_used_for_neither():
    machine = only(f"SecureBoot enabled\nSecureBoot disabled\n{REJECTED}\n")

    assert "Secure Boot" not in {known.name for known in machine.known}
    assert [proof.line for proof in machine.contradictions[0].proofs] == [1, 2]


def test_two_modules_of_one_name_prove_nothing():
    other = STUB.replace("depends:", "depends:        nvidia,ib_uverbs").replace(
        "6.14.0-1013-nvidia", "5.15.0-9"
    )

    assert codes(f"{STUB}\nand here\n\n{other}\nend.\n") == set()


def test_a_loaded_module_of_one_machine_contradicts_no_log_of_another():
    text = (
        "root@a1:~# lsmod\nnvidia_peermem 16384 0\n"
        "root@b1:~# cat nccl.log\nNET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'\n"
    )

    assert all(not machine.contradictions for machine in told(text).machines)


# -- parts are parts -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "$ lspci | grep -i mellanox\n01:00.0 Ethernet controller: Mellanox Technologies MT2910 Family\n",
        "$ lsmod | grep nvidia\nnvidia 56000000 3 nvidia_uvm\n",
        "$ dmesg | grep -i peermem\n[ 1.1] nvidia_peermem: loading out-of-tree module taints kernel.\n",
        "[ 0.000000] Linux version 6.8.0 (x@y)\n[ 1.1] NVRM: loading NVIDIA UNIX Open Kernel Module\n...\n",
        "$ modinfo nvidia | grep version\nversion:        580.95.05\n",
    ],
)
def test_what_a_part_leaves_out_is_not_missing(text):
    assert codes(text) == set()


def test_silence_counts_only_of_a_whole_log():
    banner = "[    0.000000] Linux version 6.8.0-90-generic (build@x)\n"
    taint = "[   50.100000] nvidia_peermem: loading out-of-tree module taints kernel.\n"
    part = f"# modprobe nvidia_peermem\n{EINVAL}\n# dmesg | tail\n{banner}{taint}# uname -r\n6.8.0\n"
    whole = part.replace("dmesg | tail", "dmesg")
    before = f"# dmesg\n{banner}{taint}# modprobe nvidia_peermem\n{EINVAL}\n"

    for text, silent in ((part, False), (whole, True), (before, False)):
        (line,) = open_lines(text)
        assert ("module-crc-mismatch" not in line.codes) is silent
        assert {"peermem-stub", "init-failed", "install-override"} <= set(line.codes)
        assert codes(text) == set()


def test_a_log_cut_within_a_line_leaves_the_ways_open_in_which_it_may_go_on():
    (line,) = open_lines("modprobe: ERROR: could not insert 'nvidia_peermem': Inv")

    assert {"peermem-stub", "module-wrong-kernel"} <= set(line.codes)
    assert "cut" in line.note


@pytest.mark.parametrize("end", [" never appeared here", " was not what I saw"])
def test_a_sentence_that_begins_like_an_error_is_none(end):
    assert open_lines(EINVAL + end + "\n") == []
    assert open_lines("Loading of unsigned module is rejected" + end + "\n") == []


# -- any text ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "\n\n\n", b"\x00\x00", b"\xff\xfe\x00", "\ufeff"])
def test_nothing_is_an_explanation_too(text):
    assert told(text).machines == ()
    assert told(text).exit_code == 0


def test_nul_bytes_hide_nothing():
    assert len(open_lines(EINVAL.replace("Invalid", "Inv\x00alid") + "\n")) == 1


def test_powershell_saves_text_in_its_own_way():
    assert told((EINVAL + "\n").encode("utf-16")).machines[0].open[0].subject == "nvidia_peermem"


def noise(lines):
    return "".join(
        f"[{i:5d}.000000] usb 1-{i % 7}: new high-speed USB device number {i} using xhci\n"
        for i in range(lines)
    )


def test_the_one_line_in_ten_megabytes_of_noise_is_found():
    """A few seconds; a reader that looks at the rest of the text for each line would not end in hours."""
    assert len(told(noise(140_000) + EINVAL + "\n").machines[0].open) == 1


def test_twice_the_text_is_twice_the_work():
    half, whole = (steps(told, noise(lines) + EINVAL) for lines in (1000, 2000))
    assert whole < 2.1 * half


FRAGMENTS = st.sampled_from(
    [
        *(
            EINVAL,
            REJECTED,
            UNKNOWN,
            STUB,
            SMI,
            LSMOD,
            DISABLED,
            "$ dmesg",
            "$ modinfo nvidia-peermem",
            "```",
        ),
        *(
            "> ",
            "## node 2",
            "SecureBoot enabled",
            "SecureBoot disabled",
            "root@n1:~# lspci -nnvvv",
            "uname -a",
        ),
        *("Couldn't allocate MR with error=14", "[ 1.1] Loading of unsigned module is rejected", "depends:"),
        *(
            "$ cat /sys/module/module/parameters/sig_enforce",
            "Y",
            "hca_id: mlx5_0",
            "apiVersion: nvidia.com/v1",
        ),
        "01:00.0 3D controller [0302]: NVIDIA Corporation GH100 [10de:2330]",
        *("\tLnkSta:\tSpeed 8GT/s, Width x8", "kind: ClusterPolicy", "NCCL version 2.20.5+cuda12.4"),
    ]
)


@settings(max_examples=60, deadline=None)
@given(st.text() | st.lists(FRAGMENTS | st.text(max_size=20), max_size=12).map("\n".join))
def test_any_text_gives_an_explanation(text):
    found = told(text)
    numbers = {line.number for line in PastedHost(text).lines}

    for machine in found.machines:
        for established in machine.established:
            assert established.proofs
            assert {proof.line for proof in established.proofs} <= numbers
    assert found.exit_code in (0, 1, 2, 3)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_give_an_explanation(data):
    assert told(data).lines >= 0
