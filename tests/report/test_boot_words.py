"""What the next boot takes away, in each form of the report."""

from __future__ import annotations

import functools

import pytest
from msgspec.structs import replace

from gdrkit.cli.exit import STYLES
from gdrkit.diagnosis import node_of
from gdrkit.evidence.target import open_host
from gdrkit.fleet.build import build
from gdrkit.fleet.document import Standing
from gdrkit.fleet.exit_code import exit_code as fleet_exit_code
from gdrkit.fleet.judge import row_of
from gdrkit.fleet.text import text as fleet_text
from gdrkit.html.node_page import NodeReport, node_page
from gdrkit.report.answers import answers
from gdrkit.report.boot_words import boot_sentence, lost_at_boot, repair_before_boot
from gdrkit.report.document import NextBootSection
from gdrkit.report.exit_code import exit_code
from gdrkit.report.line import line
from gdrkit.report.metrics import node_metrics
from gdrkit.report.text import text
from gdrkit.verdict.path_state import State
from tests.evidence_nodes import diagnosed, laid_down

WORKS, BY_HAND, OFED = "dgx-a100-proprietary", "volta-proprietary", "ofed-upgraded"


@functools.cache
def node(name: str):
    return node_of(open_host(str(laid_down(name))))


def lost(name: str) -> NextBootSection:
    after = lost_at_boot(diagnosed(name))
    assert after is not None
    return after


def rows(name: str) -> dict[str, str]:
    return {row[3]: row[2] for row in answers(diagnosed(name), "dgx.tar.gz")}


def test_the_first_screen_says_it_and_what_to_do_before_the_reboot():
    shown = rows(BY_HAND)
    assert shown["But"] == (
        "READY now, BLOCKED after the next boot: nothing loads nvidia-peermem at boot. "
        "[peermem-not-persistent]"
    )
    assert shown["Now"] == "Before the reboot: `gdr fix --steps persist-peermem dgx.tar.gz` says how."


def test_a_warning_of_today_comes_after_it():
    shown = rows(OFED)
    assert list(shown) == ["READY", "But", "Also", "Now"]
    assert "(likely)" in shown["But"] and "[module-crc-mismatch]" in shown["But"]
    assert "[driver-proprietary]" in shown["Also"]


def test_a_node_that_stays_ready_says_nothing_of_a_boot():
    assert lost_at_boot(diagnosed(WORKS)) is None
    assert "boot" not in "".join(rows(WORKS).values())
    assert "boot" not in line(diagnosed(WORKS))
    assert "on the answer now" not in text(diagnosed(WORKS))


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("nv-peer-mem-conflict", "service that loads nv_peer_mem"),
        ("gpu-operator-already-loaded", "host whose boot loads the modules"),
    ],
)
def test_a_boot_of_which_nothing_is_known_is_said_to_be_so(name: str, missing: str):
    shown = rows(name)["Boot"]
    assert shown.startswith("Not known whether this holds after the next boot.")
    assert shown.endswith(f": {missing}.")
    assert not any("Boot" in rows(other) for other in (WORKS, BY_HAND, OFED))


def test_notes_have_no_effect_now():
    assert "\nNotes, without effect on the answer now\n" in text(diagnosed(BY_HAND))


@pytest.mark.parametrize("name", [BY_HAND, OFED])
def test_the_line_says_it_in_80_characters(name):
    words = line(diagnosed(name))
    assert len(words) <= 80
    assert f"ready now, blocked after the next boot: {lost(name).cause}" in words


def test_the_exit_code_is_a_warning_and_the_node_stays_in_service():
    assert exit_code(diagnosed(BY_HAND)) == 1
    assert exit_code(replace(diagnosed(BY_HAND), next_boot=None)) == 0
    assert {style: codes[1] for style, codes in STYLES.items()} == {
        "gdr": 1,
        "nagios": 1,
        "npd": 0,
        "slurm": 0,
    }


def test_a_state_that_is_not_known_counts_for_nothing():
    section = replace(lost(BY_HAND), state=State.UNKNOWN)
    assert exit_code(replace(diagnosed(BY_HAND), next_boot=section)) == 0


def test_a_node_that_is_blocked_now_is_blocked_not_later():
    blocked = replace(diagnosed(BY_HAND).verdict, state=State.BLOCKED)
    assert lost_at_boot(replace(diagnosed(BY_HAND), verdict=blocked)) is None


def test_commands_for_another_kernel_are_named_as_they_are():
    section = replace(lost(BY_HAND), remedies=(), commands=("sudo dkms autoinstall -k 6.8.0-1-generic",))
    assert repair_before_boot(section) == "Before the reboot: `sudo dkms autoinstall -k 6.8.0-1-generic`."
    nothing = replace(section, commands=())
    assert "`gdr codes peermem-not-persistent`" in repair_before_boot(nothing)


def test_the_metric_has_one_series_for_each_state():
    found = {metric.name: metric for metric in node_metrics(diagnosed(BY_HAND), None)}
    series = dict(found["gdr_next_boot_state"].series)
    assert series["dgx1-07", "nccl", "blocked"] == 1 and sum(series.values()) == 1
    absent = node_metrics(replace(diagnosed(BY_HAND), next_boot=None), None)
    assert "gdr_next_boot_state" not in {metric.name for metric in absent}


def test_the_page_says_it():
    shown = diagnosed(BY_HAND)
    page = node_page(
        NodeReport(shown, None, None, why_no_picture="", source="dgx.tar.gz", target="dgx.tar.gz", made="")
    )
    assert "READY now, BLOCKED after the next boot" in page
    assert "gdr fix --steps persist-peermem dgx.tar.gz" in page


def test_a_fleet_has_a_group_of_such_nodes_beside_those_that_stay_ready():
    listed = [row_of(node(name), diagnosed(name), name) for name in (BY_HAND, WORKS)]
    fleet = build(listed)
    assert fleet.counts == {Standing.NEXT_BOOT: 1, Standing.READY: 1}
    group = fleet.groups[0]
    assert (group.standing, group.causes, group.nodes) == (
        Standing.NEXT_BOOT,
        ("peermem-not-persistent",),
        "dgx1-07",
    )
    assert group.advice.startswith(f"Before the reboot: `gdr fix --steps persist-peermem {BY_HAND}`")
    assert boot_sentence(diagnosed(BY_HAND), lost(BY_HAND)) == group.summary
    assert "1 ready now, blocked after the next boot; 1 ready" in fleet_text(fleet)
    assert fleet_exit_code(fleet) == 1
