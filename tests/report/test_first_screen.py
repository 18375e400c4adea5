"""The first screen: does it work, why not, what now; readable at 60 to 200 columns."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from gdrkit.diagnosis import diagnose, node_of, report_on
from gdrkit.evidence.target import open_host
from gdrkit.facts.expectation import Supplied
from gdrkit.formats.expectation import parse
from gdrkit.report.answers import answers, first_screen, works
from gdrkit.report.causes import deciding, first_cause
from gdrkit.report.document import GpuSection, Report
from gdrkit.report.terminal import COMMAND, render, wrapped
from gdrkit.report.text import explained, text
from gdrkit.verdict.path_state import State
from tests.evidence_nodes import diagnosed, laid_down, names
from tests.rules.altered_host import AlteredHost


def answer(whole: Report, label: str) -> str:
    return next((words for _, _, words, *rest in answers(whole, "node.tar.gz") if rest == [label]), "")


@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize("name", names())
def test_no_line_is_longer_than_the_terminal_but_a_command_and_no_word_is_lost(name, width):
    narrow, wide = text(diagnosed(name), width=width), text(diagnosed(name), width=10_000)
    commands = [f"  {finding.expected}" for finding in diagnosed(name).findings]
    assert all(len(line) <= width for line in narrow.splitlines() if line not in commands)
    assert "".join(narrow.split()) == "".join(wide.split())


@pytest.mark.parametrize("name", ["ubuntu-6.8-h100", "rail-down", "zgx-3285"])
def test_a_wide_terminal_is_used(name):
    assert max(map(len, text(diagnosed(name), width=200).splitlines())) > 150


def test_a_word_longer_than_the_line_is_broken_after_a_separator():
    path = "/lib/modules/5.14.0-427.13.1.el9_4.x86_64/extra/nvidia-peermem.ko.xz"
    pieces = list(wrapped(f"see {path} for more", 40))
    assert "".join(pieces[1:]).startswith(path.rpartition("/")[0])
    assert all(len(piece) <= 40 for piece in pieces)
    assert all(piece[-1] in "/.-_" for piece in pieces[1:-1])


def test_a_rate_stays_with_its_unit():
    assert list(wrapped("a link of 32 GT/s x16, 2 cards", 14)) == ["a link of", "32 GT/s x16, 2", "cards"]


def test_a_short_command_stays_on_one_line():
    assert list(wrapped("Look at it with `lspci -d 15b3:` now", 27)) == [
        "Look at it with",
        "`lspci -d 15b3:` now",
    ]


COUNTS = {
    "ubuntu-6.8-h100": "8 of 8 GPUs reach their NIC directly over dma-buf.",
    "gpu-gone": "7 of 7 GPUs reach their NIC directly over dma-buf.",
    "rail-down": "7 of 8 GPUs reach their NIC directly over dma-buf; GPU 7 (0000:df:00.0) does not.",
    "ofed-rebuilt": "0 of 1 GPU reaches its NIC directly.",
    "h200-vm": "0 of 2 GPUs reach a NIC directly.",
    "dgx-os-5-nv-peer-mem": "Not known for 8 of 8 GPUs whether they reach their NIC directly.",
    "no-gpu": "No GPU reaches a NIC directly.",
    "display-card": "8 of 8 GPUs reach their NIC directly over dma-buf; GPU 1 (0000:27:00.0) can never do "
    "it, and is not counted [gpu-consumer].",
}


@pytest.mark.parametrize("name", COUNTS)
def test_the_first_sentence_counts_the_gpus(name):
    assert works(diagnosed(name)) == COUNTS[name]


def test_without_a_known_gpu_an_unknown_node_claims_nothing():
    whole = diagnosed("no-gpu")
    unknown = replace(whole, verdict=replace(whole.verdict, state=State.UNKNOWN))
    assert works(unknown) == "Not known whether a GPU reaches a NIC directly."


def test_gpus_of_three_states_are_counted_apart():
    def gpus(state: State, numbers: range) -> tuple[GpuSection, ...]:
        return tuple(
            GpuSection(gpu=f"g{n}", device="mlx5_0", path="dmabuf", state=state, blocked_by=(), counts=True)
            for n in numbers
        )

    mixed = (
        *gpus(State.READY, range(4)),
        *gpus(State.BLOCKED, range(4, 7)),
        *gpus(State.UNKNOWN, range(7, 8)),
    )
    assert works(replace(diagnosed("rail-down"), gpus=mixed)) == (
        "4 of 8 GPUs reach their NIC directly over dma-buf; 3 GPUs do not; not known for GPU 7 (g7)."
    )
    two = (*gpus(State.READY, range(2)), *gpus(State.BLOCKED, range(2, 4)))
    assert works(replace(diagnosed("rail-down"), gpus=two)).endswith("; GPU 2 (g2) and GPU 3 (g3) do not.")


def test_each_gpu_is_in_the_document_with_its_own_nic():
    gpus = diagnosed("rail-down").gpus
    assert [gpu.device for gpu in gpus if gpu.state is State.BLOCKED] == ["mlx5_7"]
    assert len(gpus) == 8 and all(gpu.counts for gpu in gpus)
    assert [gpu.gpu for gpu in diagnosed("display-card").gpus if not gpu.counts] == ["0000:27:00.0"]


CAUSES = {
    "gpu-gone": "gpu-missing",
    "nic-x4": "link-degraded",
    "rail-down": "port-down",
    "nic-gone": "nic-missing",
    "mixed-signers": "module-unknown-key",  # what the plan cures, not driver-proprietary
    "kernel-upgraded": "driver-not-loaded",
    "wsl2": "wsl",  # not the NIC that it lacks too
}


@pytest.mark.parametrize("name", CAUSES)
def test_the_first_cause(name):
    assert first_cause(diagnosed(name)).code == CAUSES[name]


def test_where_it_works_what_can_be_cured_comes_before_what_is_permanent():
    """A Volta that lost a GPU: that dma-buf is not for it is true of every Volta."""
    whole = diagnosed("gpu-gone")
    (lost,) = [f for f in whole.findings if f.code == "gpu-missing"]
    old = replace(lost, code="gpu-before-turing", permanent=True)
    assert first_cause(replace(whole, findings=(old, lost))) == lost
    assert first_cause(replace(whole, findings=(old,))) == old


def test_a_stub_beside_dmabuf_is_to_be_ignored():
    assert answer(diagnosed("ubuntu-6.8-h100"), "Now") == (
        "Nothing: ignore the error of `modprobe nvidia-peermem` (Invalid argument), because dma-buf already "
        "does the same."
    )


def test_a_stub_where_dmabuf_is_blocked_is_not_to_be_ignored():
    """The same stub at a dead port, and where dma-buf is unknown."""
    for name in ("rail-down", "ubuntu-6.8-h100-no-verbs"):
        assert any(finding.code == "peermem-stub" for finding in diagnosed(name).findings)
        assert "ignore" not in text(diagnosed(name))


def test_a_stub_that_one_program_needs_is_not_to_be_ignored():
    whole = diagnosed("ubuntu-6.8-h100")
    blocked = replace(whole.consumers["ucx"], state=State.BLOCKED, installed=True)
    now = answer(replace(whole, consumers={**whole.consumers, "ucx": blocked}), "Now")
    assert now == "Nothing for nccl; `gdr doctor --consumer ucx node.tar.gz` is about ucx, which is blocked."
    absent = replace(blocked, installed=False)
    assert answer(replace(whole, consumers={**whole.consumers, "ucx": absent}), "Now").startswith("Nothing:")
    peermem = replace(whole.consumers["ucx"], path="peermem", installed=True)
    assert answer(replace(whole, consumers={**whole.consumers, "ucx": peermem}), "Now") == "Nothing."


def test_nothing_is_said_only_of_the_programs_that_work():
    whole = diagnosed("gpu-operator-already-loaded")
    ucx = replace(whole.consumers["ucx"], installed=True)
    assert answer(replace(whole, consumers={**whole.consumers, "ucx": ucx}), "Now") == (
        "Nothing for nccl; `gdr doctor --consumer ucx node.tar.gz` is about ucx, which is unknown."
    )
    assert answer(whole, "Now") == "Nothing."


def test_where_modprobe_would_succeed_there_is_no_error_to_ignore():
    assert answer(diagnosed("rhel-9-mofed"), "Now") == "Nothing."


def test_an_error_that_is_not_certain_to_come_is_not_named():
    whole = diagnosed("ubuntu-6.8-h100")
    unknown = replace(whole, modprobe=replace(whole.modprobe, exit_code=None, loaded=None))
    assert answer(unknown, "Now") == "Nothing."


def test_the_plan_is_named_with_the_target_and_the_program():
    assert "`gdr fix node.tar.gz`" in answer(diagnosed("ofed-rebuilt"), "Now")
    whole = diagnosed("ofed-rebuilt")
    other = replace(whole, verdict=replace(whole.verdict, consumer="ucx"))
    assert "`gdr fix --consumer ucx node.tar.gz`" in answer(other, "Now")


def test_one_command_answers_what_is_unknown():
    assert answer(diagnosed("h100-confidential"), "Now") == "Run `gdr doctor --probe` to find out."
    assert "`sudo gdr collect`" in answer(diagnosed("dgx-os-5-nv-peer-mem"), "Now")


def test_a_system_without_a_shell_is_asked_by_a_pod_unless_the_command_needs_no_shell():
    whole = diagnosed("h100-confidential")
    (asked,) = deciding(whole)
    image = replace(whole, ask="", node=replace(whole.node, scope="host", platform="bottlerocket"))

    def now(command: str, of: Report = image) -> str:
        every = tuple(replace(one, expected=command) if one == asked else one for one in of.findings)
        return answer(replace(of, findings=every), "Now")

    assert "by a Pod on the node" in now("ls /lib/modules")
    assert now("talosctl read /proc/modules") == "Run `talosctl read /proc/modules` to find out."
    ordinary = replace(image, node=replace(image.node, platform="debian"))
    assert now("ls /lib/modules", ordinary) == "Run `ls /lib/modules` to find out."


def test_on_talos_the_commands_below_are_the_only_way():
    """Elsewhere one collection answers them all."""
    whole = diagnosed("dgx-os-5-nv-peer-mem")
    first, *others = deciding(whole)
    asked = tuple(
        replace(one, expected="talosctl read /proc/modules") if one == first else one
        for one in whole.findings
    )
    talos = replace(whole, findings=asked)

    assert others
    assert "\nOr find out one by one\n" in text(whole)
    assert "\nTo find out, run\n" in text(talos)
    assert answer(talos, "Now").startswith("Run the commands below from where talosctl works")


def test_on_this_machine_root_finds_out_what_was_denied():
    whole = diagnosed("dgx-os-5-nv-peer-mem")
    assert "`sudo gdr doctor`" in answer(replace(whole, node=replace(whole.node, source="live")), "Now")


@pytest.mark.parametrize(
    ("name", "layer", "word"),
    [
        ("zgx-3285", "hardware", "permanent"),
        ("rail-down", "hardware", "failed"),
        ("acs-redirect", "pcie", "warning"),
    ],
)
def test_a_layer_has_the_word_of_its_worst_finding(name: str, layer: str, word: str):
    rows = [line.split() for line in text(diagnosed(name)).splitlines()]
    assert [layer, word] in [row[-2:] for row in rows if len(row) <= 3]


def test_layers_without_a_problem_are_one_line():
    assert "  ok: firmware, kernel, driver, rdma, pcie, library, application" in text(diagnosed("rail-down"))
    assert not re.search(r"^  firmware +ok", text(diagnosed("rail-down")), re.MULTILINE)


def test_a_layer_with_a_question_is_not_called_ok():
    shown = text(diagnosed("h200-vm"))
    assert "  ok: firmware, pcie, library, application\n" in shown
    assert "15 checks lacked evidence; -v lists them" in shown
    assert "? module-signature-broken" not in shown
    assert "? module-signature-broken" in text(diagnosed("h200-vm"), verbose=True)


def test_a_module_without_a_file_raises_no_questions():
    """Whether its NCCL has GIN is not known: no NCCL was looked for. The first screen does not ask."""
    found = diagnosed("kernel-upgraded")
    assert {one.code for one in found.findings if one.status == "unknown"} <= {"gin-unavailable"}
    assert "?" not in {line.strip()[:1] for line in text(found).splitlines()}


@pytest.mark.parametrize("name", names())
def test_notes_come_last(name):
    shown = text(diagnosed(name))
    if "\nNotes" in shown:
        assert shown.rindex("\nNotes") > shown.rindex("\n\n", 0, shown.rindex("\nNotes"))
        assert not re.search(r"\n(What to do|Where each|No commands)", shown.partition("\nNotes")[2])


def test_a_term_is_explained_where_it_comes_first_and_only_there():
    shown = " ".join(text(diagnosed("spark-two-cables")).split())
    assert shown.count("PXB (near: several PCIe switches, not the CPU)") == 1
    shown = " ".join(text(diagnosed("ofed-rebuilt")).split())
    assert shown.count("dma-buf (the kernel's way to share GPU memory with a NIC)") == 1
    assert shown.index("dma-buf (the") < shown.index("dma-buf is not affected")


@pytest.mark.parametrize(
    "words",
    [
        "peermem-stub x",
        "see docs/stub.md",
        "staged: copied",
        "`staged`",
        "NCCL_ACS=1",
        "ACS (bits)",
        "(ACS on)",
    ],
)
def test_codes_paths_commands_and_what_is_explained_already_stay_as_they_are(words):
    assert list(explained([(0, "", words)])) == [(0, "", words)]


def test_commands_to_copy_have_no_marks_and_no_explanations():
    shown = text(diagnosed("ubuntu-6.8-h100-no-verbs"), width=200)
    assert "\n  nm -D $(ldconfig -p | grep -o '/.*libibverbs.so.1$') | grep ibv_reg_dmabuf_mr\n" in shown
    assert list(explained([(2, COMMAND, "echo staged")])) == [(2, COMMAND, "echo staged")]


def test_a_label_stands_before_the_first_line_only():
    assert render([(6, "", "one two three", "Now")], {}, width=14) == "Now   one two\n      three\n"


def test_a_label_longer_than_its_indent_makes_no_line_longer():
    rows = [(4, "", "word " * 12, "  gpu[001-064]: "), (4, "", "short", "  a ")]
    lines = render(rows, {}, width=40).splitlines()

    assert lines[0].startswith("  gpu[001-064]: word") and lines[1].startswith("    word")
    assert max(map(len, lines)) <= 40 and lines[-1] == "  a short"


@pytest.mark.parametrize("name", names())
def test_where_nothing_can_be_fixed_no_fix_is_followed(name):
    shown = text(diagnosed(name))

    assert not ("\nNo commands" in shown and "\nWhere each fix would lead" in shown)


def test_below_advice_that_changes_the_machine_nothing_says_that_no_change_helps():
    shown = text(diagnosed("hypervisor"))

    assert "remove it from the virtual machine" in " ".join(shown.split())
    assert "\nNo commands: no step of gdr fix opens a direct path here\n" in shown
    assert "no change" not in shown and "Nothing to fix" not in shown


@pytest.mark.parametrize(("name", "line"), [("no-rdma-device", "nics = 0"), ("h200-vm", "nics = 0")])
def test_what_to_do_about_an_absent_device_has_both_ways_out(name, line):
    """The remedy, or an expectation that makes its absence fine."""
    answer = " ".join(text(diagnosed(name)).partition("Now")[2].partition("\n\n")[0].split())

    assert "Install a NIC" in answer
    assert f"`gdr doctor --expect FILE`, where the file has the line `{line}`" in answer


def expecting(name: str, wanted: str) -> Report:
    return diagnose(open_host(str(laid_down(name))), expected=Supplied("node.toml", parse(wanted)))


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("gpus-gone", "gpus = 0\n"), ("no-rdma-device", "nics = 0\n"), ("no-gpu", "gpus = 0\n")],
)
def test_where_an_absence_is_expected_nothing_is_to_be_done(name, wanted):
    now = answer(expecting(name, wanted), "Now")

    assert now.startswith("Nothing: this machine is as expected.") and "lspci" not in now


def test_where_nothing_expects_a_gpu_the_command_is_for_those_who_do():
    assert answer(diagnosed("no-gpu"), "Now").startswith("Nothing, unless the machine should have a GPU: ")


def test_gpus_that_are_expected_and_missing_are_in_the_first_sentence():
    """That 7 of 7 GPUs reach their NIC hides the eighth."""
    sentence = works(expecting("gpu-gone", "gpus = 8\n"))

    assert sentence.startswith("7 of 7 GPUs reach") and sentence.endswith("; only 7 of 8 GPUs are there.")
    assert "are there" not in works(expecting("gpu-gone", "gpus = 7\n"))


def test_what_no_owner_of_a_spark_can_change_is_a_note_and_elsewhere_a_warning():
    spark = {f.code: f.status for f in diagnosed("spark-two-cables").findings}
    assert spark["link-narrower-than-port"] == spark["pair-distant"] == "note"
    assert "narrow" in " ".join(f.code for f in diagnosed("nic-x4").findings if f.status == "warning")


def test_a_link_with_fewer_lanes_than_built_is_what_to_do_though_no_direct_path_is_possible():
    host = open_host(str(laid_down("spark-two-cables")))
    lanes = {f"0002:01:00.{n}/current_link_width": lambda text: "2\n" for n in (0, 1)}
    port = {"0002:00:00.0/max_link_width": lambda text: "2\n"}
    slow = report_on(node_of(AlteredHost(host, files=lanes | port)))
    lost = report_on(node_of(AlteredHost(host, files=lanes)))

    assert "what is slow can be fixed." in answer(slow, "IMPOSSIBLE")
    assert answer(slow, "Slow").endswith("32 GT/s x2 = 63 Gbit/s. [link-narrower-than-port]")
    assert answer(slow, "Now").startswith("Update the firmware of the machine, by `sudo fwupdmgr refresh`")
    assert answer(lost, "Slow").endswith("[link-degraded]"), "the port above could have four, too"
    assert answer(lost, "Now").startswith("Update the firmware of the machine"), "it has no slot to reseat"
    whole = diagnosed("spark-two-cables")
    assert not answer(whole, "Slow") and answer(whole, "Now").startswith("Nothing: GPU memory is host")


def test_commands_name_what_was_judged_and_none_is_offered_that_knows_nothing():
    """A bug report of a GeForce has no RDMA devices, which the ceilings need."""
    assert "`gdr estimate node.tar.gz` shows the ceilings" in answer(diagnosed("zgx-3285"), "Now")
    assert "gdr estimate" not in answer(diagnosed("geforce-desktop"), "Now")


@pytest.mark.parametrize("node", ["gpu-operator-waits", "talos"])
def test_what_fails_for_certain_comes_before_what_is_not_known(node: str):
    screen = first_screen(diagnosed(node))
    assert screen.state is State.UNKNOWN
    assert not screen.title.startswith("Not known") and screen.title.endswith(".")
    assert [label for label, _ in screen.reasons][:2] == ["Found", "Direct"]
    assert dict(screen.reasons)["Direct"].startswith("Not known for")
