"""What a pasted text establishes about modules that do not load, and for which machine."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gdrkit.explain.outputs.pasted_host import PastedHost
from tests.explain.explaining import (
    DISABLED,
    EINVAL,
    LSMOD,
    REJECTED,
    SMI,
    STUB,
    UNKNOWN,
    codes,
    explained,
    noted,
    only,
    open_lines,
    proven,
)
from tests.work import steps

# -- a module that does not load -----------------------------------------------------------------------


def test_invalid_argument_alone_never_proves_the_stub():
    assert codes(EINVAL + "\n") == set()
    (line,) = open_lines(EINVAL + "\n")
    assert {"peermem-stub", "module-crc-mismatch", "module-bad-parameter"} <= set(line.codes)
    assert line.line == 1


def test_an_unambiguous_kernel_message_proves_its_cause_and_explains_the_error_of_modprobe():
    text = (
        f"{EINVAL}\n"
        "[  99.1] nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client\n"
        "[  99.1] nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -22)\n"
    )

    assert proven(text) == {("module-crc-mismatch", "nvidia_peermem")}
    assert open_lines(text) == []
    assert only(text).established[0].proofs[0].line == 2


def test_a_kernel_message_about_another_module_does_not_explain_the_error():
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
def test_the_error_number_of_an_unknown_symbol_selects_its_causes(number, codes_left):
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
    assert explained(text).exit_code == 2


def test_depends_at_the_end_of_a_truncated_text_proves_nothing():
    assert codes("$ modinfo nvidia-peermem\n" + STUB.partition("name:")[0].rstrip("\n")) == set()


def test_an_empty_output_of_modinfo_counts_if_something_follows():
    asked = "$ modinfo -F depends nvidia-peermem\n\n"

    assert codes(asked) == set()
    assert noted(asked) == set()
    assert noted(asked + "$ uname -r\n6.8.0\n") == {"peermem-stub"}


def test_a_dependency_on_the_rdma_core_rules_the_stub_out():
    full = STUB.replace("depends:", "depends:        nvidia,ib_core")
    (line,) = open_lines(f"{EINVAL}\n\n$ modinfo nvidia-peermem\n{full}\nThat is all.\n")

    assert "peermem-stub" not in line.codes
    assert [cause.code for cause in line.ruled_out] == ["peermem-stub"]
    assert "module-crc-mismatch" in line.codes


def test_the_stub_is_a_note_beside_a_rejected_key_which_it_does_not_explain():
    text = f"{REJECTED}\nSecureBoot enabled\n\n{STUB}\nend.\n"

    assert codes(text) == set()
    assert noted(text) == {"peermem-stub"}
    (line,) = open_lines(text)
    assert "module-unknown-key" in line.codes


def test_a_signer_rules_out_that_the_module_is_unsigned():
    signed = STUB + "sig_id:         PKCS#7\nsigner:         NVIDIA Support\n"
    (line,) = open_lines(f"{REJECTED}\n\n{signed}\nend.\n")

    assert "module-unsigned" not in line.codes
    assert "module-unknown-key" in line.codes


def test_required_key_not_available_has_the_same_causes():
    (line,) = open_lines("modprobe: ERROR: could not insert 'nvidia_peermem': Required key not available\n")

    assert {"module-unsigned", "module-unknown-key"} <= set(line.codes)


def test_without_enforcement_a_rejected_key_means_a_wrong_signature():
    (line,) = open_lines(f"{REJECTED}\n$ cat /sys/module/module/parameters/sig_enforce\nN\n$ exit\n")

    assert {cause.code for cause in line.ruled_out} == {"module-unsigned", "module-unknown-key"}
    assert {"module-signature-broken", "module-key-revoked"} <= set(line.codes)


def test_the_licence_shows_why_a_symbol_is_missing():
    output = "[ 1.1] nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -2)\n"
    full = STUB.replace("depends:", "depends:        nvidia,ib_core")

    assert codes(output) == set()
    assert codes(f"{output}\n{full}\nend.\n") == {"module-symbol-missing"}


@pytest.mark.parametrize(("version", "decided"), [("580.95.05", True), ("575.57.08", False), ("", False)])
def test_error_524_means_the_topology_only_in_drivers_that_check_it(version, decided):
    output = "[ 9.9] nvidia-peermem nv_dma_map:213 ERROR nv_dma_map -- error -524 while calling "
    output += "nvidia_p2p_dma_map_pages()\n"
    driver = (
        f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {version}  Release Build\n"
        if version
        else ""
    )

    assert ("topology-refused" in codes(driver + output)) is decided
    assert bool(open_lines(driver + output)) is not decided


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
def test_a_line_with_one_possible_cause_proves_it(line, code):
    assert codes(f"[  12.3] {line}\n") == {code}


def test_modprobe_that_finds_no_module_proves_it():
    output = "modprobe: FATAL: Module nvidia_peermem not found in directory /lib/modules/6.8.0-90-generic\n"

    assert proven(output) == {("module-not-found", "nvidia_peermem")}


# -- lines without a module name -----------------------------------------------------------------------


def test_a_line_without_a_module_establishes_nothing_alone():
    text = "[ 12.3] Loading of unsigned module is rejected\n"

    assert codes(text) == set()
    (line,) = open_lines(text)
    assert line.codes == ("module-unsigned",)
    assert line.note


def test_a_nearby_line_that_names_the_module_makes_it_proof():
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
def test_an_ambiguous_module_makes_it_no_proof(between):
    text = f"{REJECTED}\n{between}[ 12.3] Loading of unsigned module is rejected\n"

    assert codes(text) == set()


def test_a_nearby_error_with_other_causes_makes_it_no_proof():
    assert codes(f"{EINVAL}\n[ 12.3] Loading of unsigned module is rejected\n") == set()


def test_a_nearby_error_names_the_module_that_lockdown_refuses():
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
    a, b = explained(text).machines

    assert (a.name, b.name) == ("spark-a", "spark-b")
    assert codes(text, "spark-a") == set()
    assert codes(text, "spark-b") == {"peermem-stub"}
    assert ("Secure Boot", "on") in {(k.name, k.value) for k in a.known}
    assert ("Secure Boot", "off") in {(k.name, k.value) for k in b.known}
    assert not a.contradictions


def test_contradictory_outputs_are_not_used():
    machine = only(f"SecureBoot enabled\nSecureBoot disabled\n{REJECTED}\n")

    assert "Secure Boot" not in {known.name for known in machine.known}
    assert [proof.line for proof in machine.contradictions[0].proofs] == [1, 2]


def test_two_modules_with_one_name_prove_nothing():
    other = STUB.replace("depends:", "depends:        nvidia,ib_uverbs").replace(
        "6.14.0-1013-nvidia", "5.15.0-9"
    )

    assert codes(f"{STUB}\nand here\n\n{other}\nend.\n") == set()


def test_a_module_loaded_on_one_machine_does_not_contradict_the_log_of_another():
    text = (
        "root@a1:~# lsmod\nnvidia_peermem 16384 0\n"
        "root@b1:~# cat nccl.log\nNET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'\n"
    )

    assert all(not machine.contradictions for machine in explained(text).machines)


# -- excerpts ------------------------------------------------------------------------------------------


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
def test_what_an_excerpt_leaves_out_is_not_absent(text):
    assert codes(text) == set()


def test_a_missing_message_counts_only_in_a_whole_log():
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


def test_a_truncated_error_leaves_every_continuation_open():
    (line,) = open_lines("modprobe: ERROR: could not insert 'nvidia_peermem': Inv")

    assert {"peermem-stub", "module-wrong-kernel"} <= set(line.codes)
    assert "truncated" in line.note


@pytest.mark.parametrize("end", [" never appeared here", " was not what I saw"])
def test_a_sentence_that_starts_like_an_error_is_not_one(end):
    assert open_lines(EINVAL + end + "\n") == []
    assert open_lines("Loading of unsigned module is rejected" + end + "\n") == []


# -- any text ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "\n\n\n", b"\x00\x00", b"\xff\xfe\x00", "\ufeff"])
def test_an_empty_text_has_an_explanation(text):
    assert explained(text).machines == ()
    assert explained(text).exit_code == 3


def test_nul_bytes_are_ignored():
    assert len(open_lines(EINVAL.replace("Invalid", "Inv\x00alid") + "\n")) == 1


def noise(lines):
    return "".join(
        f"[{i:5d}.000000] usb 1-{i % 7}: new high-speed USB device number {i} using xhci\n"
        for i in range(lines)
    )


def test_the_one_line_in_ten_megabytes_of_noise_is_found():
    """Takes seconds; an algorithm of quadratic cost would take hours."""
    assert len(explained(noise(140_000) + EINVAL + "\n").machines[0].open) == 1


def test_twice_the_text_is_twice_the_work():
    half, whole = (steps(explained, noise(lines) + EINVAL) for lines in (1000, 2000))
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
def test_any_text_has_an_explanation(text):
    found = explained(text)
    numbers = {line.number for line in PastedHost(text).lines}

    for machine in found.machines:
        for established in machine.established:
            assert established.proofs
            assert {proof.line for proof in established.proofs} <= numbers
    assert found.exit_code in (0, 1, 2, 3)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_have_an_explanation(data):
    assert explained(data).lines >= 0
