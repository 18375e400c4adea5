"""The plan of `gdr fix` in colours has the same words, and its commands stand out."""

import re

import pytest

from gdrkit.diagnosis import node_of
from gdrkit.evidence.target import open_host
from gdrkit.repair.remedies import remedy_of
from gdrkit.report.answers import first_cause, now
from gdrkit.report.fix import FixOptions, _as_step_below, fix_report
from gdrkit.report.fix_text import fix_text
from gdrkit.report.programs import about_shown
from gdrkit.rules.rule import Passed
from gdrkit.rules.talos_no_peermem import talos_no_peermem
from tests.evidence_nodes import diagnosed, laid_down


def test_colours_change_no_word_and_commands_have_their_own():
    report = fix_report(node_of(open_host(str(laid_down("acs-redirect")))), FixOptions())
    plain, coloured = fix_text(report), fix_text(report, colour=True)

    assert "\x1b" not in plain and re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain
    lines = list(zip(plain.splitlines(), coloured.splitlines(), strict=True))
    commands = [painted for line, painted in lines if re.search(r"do +\$ ", line)]
    others = [painted for line, painted in lines if re.search(r"^ +\| ", line)]
    assert commands and all("\x1b[36m$ " in line for line in commands)
    assert others and not any("\x1b" in line for line in others)


@pytest.mark.parametrize("width", [60, 80, 200])
def test_words_are_wrapped_and_a_command_or_a_line_of_a_file_never_is(width):
    report = fix_report(node_of(open_host(str(laid_down("acs-redirect")))), FixOptions())
    lines = fix_text(report, width=width).splitlines()

    commands = {action.line for step in report.further for action in step.actions if action.kind == "run"}
    assert commands and commands <= {line.partition("$ ")[2].partition("   #")[0] for line in lines}
    written = "".join(action.content for step in report.further for action in step.actions)
    assert written.splitlines() == [line.partition("| ")[2] for line in lines if re.match(" +[|] ?", line)]
    others = [line for line in lines if not re.match(r" +(do +)?[$|]( |$)", line)]
    assert 40 < max(map(len, others)) <= width
    assert max(map(len, lines)) > 60


def test_what_keeps_a_node_ready_over_the_next_boot_is_recommended():
    upgraded = fix_report(node_of(open_host(str(laid_down("ofed-upgraded")))), FixOptions())

    assert upgraded.verdict.state == "ready" and not upgraded.plans
    assert {"rebuild-driver", "persist-peermem"} <= {step.remedy for step in upgraded.further}
    shown = fix_text(upgraded)
    assert "nothing to fix for a direct path now" in shown and "\nrecommended (carry out with" in shown


@pytest.mark.parametrize(
    ("name", "code"), [("nic-x4", "link-degraded"), ("gpu-gone", "gpu-missing"), ("acs-redirect", "")]
)
def test_a_warning_of_a_node_that_works_has_what_the_doctor_says_unless_a_step_ends_it(name, code):
    node = node_of(open_host(str(laid_down(name))))
    report = fix_report(node, FixOptions())
    shown, said = fix_text(report), now(about_shown(diagnosed(name)), first_cause(diagnosed(name)))

    assert report.verdict.state == "ready" and [action.kind for action in report.by_hand] == (
        ["ask-person"] * len(report.by_hand)
    )
    if code:
        assert "nothing to fix for a direct path now; do this by hand:" in shown
        assert report.by_hand[0].line == f"{code}: {said.partition(' More:')[0]}"
    else:
        assert not report.by_hand and [step.remedy for step in report.further] == ["clear-acs-redirect"]


def test_a_step_that_is_shown_is_not_named_as_a_command_that_would_show_it():
    node = node_of(open_host(str(laid_down("talos"))))
    report, said = (
        fix_report(node, FixOptions(target="t")),
        "Run `gdr fix --steps use-dmabuf t`, which says how.",
    )

    assert [step.remedy for step in report.further] == ["use-dmabuf"]
    assert _as_step_below(said, report.further) == "Do use-dmabuf, as below."
    assert _as_step_below(said.replace("use-dmabuf", "reboot"), report.further) != "Do use-dmabuf, as below."
    assert _as_step_below(said, ()) == said


def test_talos_is_told_to_take_the_entry_out_although_the_node_is_unknown():
    """The step clears the finding, whose log line and machine configuration are of the time before it."""
    node = node_of(open_host(str(laid_down("talos"))))
    report = fix_report(node, FixOptions())

    assert report.verdict.state == "unknown" and not report.plans
    (step,) = report.further
    assert step.remedy == "use-dmabuf" and step.by_hand
    assert step.actions[0].commands == ("talosctl -n talos-gpu-1 edit machineconfig",)
    after = node.after(step.remedy, tuple(remedy_of(step.remedy).effect(node)))
    assert isinstance(talos_no_peermem.check(after, "node"), Passed)
    assert "\nrecommended (by hand):\n" in fix_text(report)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gpu-operator-module-missing", "$ kubectl exec POD -- sh -c"),  # the advice points to a line below
        ("ubuntu-6.8-h100-no-verbs", "Run `nm -D $(ldconfig"),
        ("iommu-translating", "Run `sudo gdr collect` on that machine"),
    ],
)
def test_a_node_that_is_unknown_is_told_how_to_find_out(name, words):
    shown = fix_text(fix_report(node_of(open_host(str(laid_down(name)))), FixOptions()))

    assert "\nnot enough evidence for a plan; do this first:\n\nby hand  " in shown
    assert words in shown


@pytest.mark.parametrize("name", ["zgx-3285", "spark-two-cables", "geforce-desktop", "wsl2"])
@pytest.mark.parametrize("goal", ["module", "steps"])
def test_steps_that_were_asked_for_on_hardware_without_a_direct_path_gain_nothing(name, goal):
    """The same sentence as the doctor's Now, before the steps."""
    options = FixOptions(goal=goal, steps=("open-kernel-modules",), target="node")
    report = fix_report(node_of(open_host(str(laid_down(name)))), options)
    said = now(about_shown(diagnosed(name)), first_cause(diagnosed(name)), "node")

    assert report.gains_nothing == said
    shown = " ".join(fix_text(report).split())
    assert "no step brings a direct path" in shown and " ".join(said.split()) in shown
    assert shown.index(said[:30]) < (shown.index("plan: ") if report.plans else len(shown))


@pytest.mark.parametrize("name", ["rail-down", "ubuntu-6.8-h100", "talos", "no-rdma-device"])
def test_steps_that_may_help_are_printed_without_such_a_sentence(name):
    report = fix_report(
        node_of(open_host(str(laid_down(name)))), FixOptions(goal="steps", steps=("reboot",))
    )

    assert report.verdict.state != "impossible"
    assert not report.gains_nothing and "no step brings" not in fix_text(report)
