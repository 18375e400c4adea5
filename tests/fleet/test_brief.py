"""The first screen about a fleet: at most 25 lines, the most urgent first, and commands to copy."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gdrkit.fleet.brief import LINES, brief
from gdrkit.fleet.build import build
from gdrkit.fleet.document import INTERRUPTED, WELL, Standing
from gdrkit.fleet.headline import headline
from gdrkit.fleet.hostlist import fold
from gdrkit.fleet.judge import without_answer
from gdrkit.fleet.text import text
from gdrkit.rules.remedy_names import RemedyName
from tests.fleet.fleets import row
from tests.fleet.sparks import spark

STUB = {"causes": ("peermem-stub",), "remedies": (RemedyName.REBUILD_DRIVER, RemedyName.LOAD_PEERMEM)}
LONG = (
    "Port 1 of mlx5_0 is DOWN: it is turned off, as administrators do. `sudo ip link set ib0 up` starts it."
)


def crowd():
    """More groups, odd nodes, kinds and versions than fit on a screen, of names and causes of any length."""
    rows = [row(f"good{n:03d}", traits={"driver": "1", "NCCL": "2.27"}) for n in range(400)]
    for n in range(60):
        causes = tuple(f"code-{n}-{k}" for k in range(1 + n % 9))
        name = f"a-node-with-a-long-name-{n * 7}-of-rack-{n}"
        traits = {"driver": f"{n}", "NCCL": f"2.{n}", "kernel": f"k{n}"}
        standing = list(Standing)[n % 6]
        odd = row(name, standing, causes=causes, traits=traits, advice=f"{LONG} {n}", calls_itself="x")
        rows.append(replace(odd, target=f"ssh://{name}"))
        rows.append(row(f"b{n}", Standing.BLOCKED, needs_reboot=True, **STUB, rails=tuple(range(n % 8))))
    return rows


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
@pytest.mark.parametrize("complete", [True, False])
def test_a_fleet_of_any_size_is_one_screen_of_lines_that_fit(width, complete):
    shown = brief(build(crowd(), complete=complete, expect=True), width=width).splitlines()

    assert len(shown) <= LINES and len(shown) > 18
    assert all(len(line) <= width for line in shown if not line.startswith("        ")), shown
    assert shown[0].startswith("120 of 520 nodes need something: 70 blocked")


def test_each_part_of_the_whole_report_stands_after_an_empty_line():
    lines = text(build(crowd(), expect=True), width=100).splitlines()
    headings = [at for at, line in enumerate(lines) if line[:1].isupper()]
    assert {lines[at].partition(":")[0] for at in headings} >= {
        "Answered by another name",
        "Must be the same on all nodes of a job",
    }
    assert {lines[at - 1] for at in headings} == {""}
    assert "    GPUs: 8 x H100" in lines


def test_what_changed_of_any_size_is_one_screen_and_nothing_else_is_on_it():
    before = build(
        [row(f"n{n}", Standing.BLOCKED, **STUB) for n in range(600)], started="2026-11-28T02:00:00Z"
    )
    shown = brief(build(crowd(), since=before), width=80).splitlines()

    assert len(shown) <= LINES and "Do this first" not in shown
    assert any("gone" in line for line in shown) and any(line.strip().startswith("and ") for line in shown)


def test_the_whole_screen_of_a_small_fleet():
    rows = [
        *(row(f"gpu{n:03d}", traits={"driver": "580.95"}) for n in range(8)),
        row("gpu008", traits={"driver": "590.48"}),
        *(row(f"gpu{n:03d}", Standing.BLOCKED, needs_reboot=True, **STUB) for n in (9, 10)),
        row("gpu011", Standing.BLOCKED, causes=("port-down",), rails=(3,), advice=LONG),
        row("login1", Standing.IMPOSSIBLE, causes=("no-gpu",)),
    ]
    assert (
        brief(build(rows, seconds=7), width=80)
        == """\
3 of 13 nodes need something: 3 blocked; 1 impossible, 9 ready (judged in 7 s)

  1     2 blocked      peermem-stub   gpu[009-010]
  2     1 blocked      rail 3: port-down   gpu011

Do this first
     2  rebuild-driver, then load-peermem, with a reboot   gpu[009-010]
        gdr fix gpu009.tar.gz
     1  Port 1 of mlx5_0 is DOWN: it is turned off, as ...   gpu011
        sudo ip link set ib0 up

Odd ones out: 1 node
  gpu008   driver: 590.48; 8 of 9 have 580.95

Versions that differ: driver 590.48 on gpu008

`gdr fleet doctor --run last -v` has all, `--group N` one, `--compare A B` two
"""
    )


def test_a_single_step_says_what_it_does_and_a_reboot_is_said_once():
    clean = {"causes": ("ib-disabled-by-env",), "remedies": (RemedyName.CLEAN_NCCL_SETTINGS,)}
    again = {"causes": ("driver-mismatch",), "remedies": (RemedyName.REBOOT,), "needs_reboot": True}
    rows = [row("a1", Standing.BLOCKED, **clean), row("b1", Standing.BLOCKED, **again)]
    shown = brief(build(rows), width=120)

    off = "remove the settings from /etc/nccl.conf that turn the direct path off"
    assert f"  clean-nccl-settings: {off}   a1\n" in shown
    assert "  reboot: reboot into the driver that is installed   b1\n" in shown


def test_a_command_with_a_placeholder_is_not_one_to_type():
    advice = "Remove the old build: `sudo dkms remove mlnx-ofed-kernel/<old version> --all`."
    shown = brief(build([row("n1", Standing.BLOCKED, causes=("ofed-multiple-dkms",), advice=advice)]))

    assert "\n        gdr fleet doctor --run last --group 1\n" in shown
    assert "\n        sudo dkms" not in shown


@pytest.mark.parametrize(
    ("width", "ends"), [(120, "; 2 ready (judged in 7 s)"), (60, "; 2 ready"), (50, "")]
)
def test_the_first_line_leaves_out_what_is_needed_least_before_it_is_cut(width, ends):
    rows = [*(row(f"w{n}", Standing.WARNINGS) for n in range(2)), row("r1"), row("r2")]
    first = brief(build(rows, seconds=7), width=width).splitlines()[0]

    assert first == f"2 of 4 nodes need something: 2 with warnings{ends}"


EVERY_STANDING = [
    row(f"{standing}{n}", standing)
    for count, standing in enumerate((*(one for one in Standing if one not in WELL), *WELL), 11)
    for n in range(count)
]


@pytest.mark.parametrize(
    ("width", "words"),
    [
        (140, ": 11 blocked, 12 unreachable, 13 unreadable, 14 unknown, 15 next-boot, 16 with warnings"),
        (110, ": 11 blocked, 12 unreachable, 13 unreadable, 14 unknown, 31 others"),
        (80, ": 11 blocked, 12 unreachable, 58 others"),
        (60, ": 11 blocked, 70 others"),
        (46, ""),
    ],
)
def test_the_least_urgent_standings_are_added_up_where_not_all_of_them_fit(width, words):
    first = brief(build(EVERY_STANDING, seconds=7), width=width).splitlines()[0]

    assert first == f"81 of 116 nodes need something{words}"


@given(st.lists(st.integers(0, 12_000), min_size=8, max_size=8), st.integers(40, 200), st.integers(0, 9000))
def test_no_number_of_the_first_line_is_cut_at_any_width(numbers, width, seconds):
    """Where a standing is named, so is each more urgent one, and the counts add up to the nodes in need."""
    counts = {standing: count for standing, count in zip(Standing, numbers, strict=True) if count}
    need = sum(count for standing, count in counts.items() if standing not in WELL)
    report = replace(build([row("n1"), row("n2", Standing.BLOCKED)]), counts=counts, seconds=seconds)
    first = headline(report, width)
    listed = first.partition(": ")[2].partition(";")[0]

    assert len(first) <= width and "..." not in first
    if need and listed:
        assert sum(map(int, re.findall(r"(?:^|, )(\d+) ", listed))) == need


def test_a_command_stays_whole_and_the_one_of_a_cluster_opens_the_node_over_ssh():
    command = "sudo ip link set " + "x" * 120 + " up"
    advice = f"It is down. `{command}` starts it, and `true` does nothing."
    long = brief(build([row("n1", Standing.BLOCKED, causes=("port-down",), advice=advice)]), width=80)
    blocked = row("n2", Standing.BLOCKED, **STUB)
    slurm = build([replace(blocked, target="slurm://n2")])
    spaced = build([replace(blocked, target="my folder/n2.tar.gz")])

    assert f"        {command}\n" in long
    assert "        gdr fix ssh://n2\n" in brief(slurm)
    assert "        gdr fix 'my folder/n2.tar.gz'\n" in brief(spaced)


def test_nodes_without_an_answer_and_the_next_boot_have_their_step_after_the_blocked_ones():
    rows = [
        row("u1", Standing.UNKNOWN, causes=("acs-redirect: denied",)),
        row("n1", Standing.NEXT_BOOT, causes=("driver-mismatch",), advice="`sudo update-initramfs -u` now."),
        row("b1", Standing.BLOCKED, **STUB),
        without_answer("ssh://s1", "s1", INTERRUPTED, Standing.UNREACHABLE),
    ]
    shown = brief(build(rows, complete=False), width=100).splitlines()

    steps = shown[shown.index("Do this first") + 1 :]
    assert [line.split()[-1] for line in steps if line[:6].strip()][:3] == ["b1", "s1", "n1"]
    assert shown[1].startswith("Interrupted: 1 node without an answer")


BEFORE_BOOT = "Before the reboot: `gdr fix --steps persist-peermem` says how."


def test_the_next_boot_has_a_step_however_many_nodes_are_blocked():
    blocked = [
        row(f"b{n}", Standing.BLOCKED, causes=("port-down",), advice=f"Repair {'x' * n}.") for n in range(5)
    ]
    boot = row("n1", Standing.NEXT_BOOT, causes=("peermem-not-persistent",), advice=BEFORE_BOOT)

    assert _stepped(blocked) == ["b0", "b1", "b2"]
    assert _stepped([*blocked, boot]) == ["b0", "b1", "n1"]
    assert _stepped([*blocked[:2], boot, row("w1", Standing.WARNINGS)]) == ["b0", "b1", "n1"]
    assert "\n        gdr fix --steps persist-peermem n1.tar.gz\n" in brief(build([*blocked, boot]))


def _stepped(rows):
    """The nodes of the steps that are shown."""
    steps = brief(build(rows), width=100).partition("Do this first\n")[2].splitlines()
    return [line.split()[-1] for line in steps if line[:6].strip().isdecimal()]


def test_odd_nodes_of_no_group_above_come_first():
    """In the document and on the page what works worse than its peers is odder than what only differs."""
    rows = [row(f"n{n}", traits={"driver": "1", "failed": "none"}) for n in range(12)]
    rows.append(row("bad", Standing.BLOCKED, causes=("no-gpu",), traits={"driver": "1", "failed": "no-gpu"}))
    rows.append(row("other", traits={"driver": "2", "failed": "none"}))
    words = brief(build(rows)).partition("Odd ones out")[2]

    assert build(rows).odd[0].node == "bad"
    assert words.index("other   driver: 2; 13 of 14 have 1") < words.index("bad   failed: no-gpu")


def test_two_machines_on_a_cable_show_it():
    shown = brief(build([spark("spark-a"), spark("spark-b")]), width=80)

    assert "Between the two nodes: " in shown and shown.count("\n") <= LINES


def test_a_fleet_that_is_well_says_only_that():
    shown = brief(build([row("n1"), row("n2")]))

    assert shown.startswith("None of 2 nodes needs anything: 2 ready\n") and shown.count("\n") == 3


@given(st.lists(st.text(max_size=300), min_size=1, max_size=4), st.text(max_size=400))
def test_no_text_of_a_node_makes_it_longer_or_reaches_the_terminal(causes, advice):
    rows = [row(f"n{n}", Standing.BLOCKED, causes=(cause,), advice=advice) for n, cause in enumerate(causes)]
    shown = brief(build(rows), width=80)

    assert shown.count("\n") <= LINES and "\x1b" not in shown and "\x00" not in shown


def test_lists_of_codes_differ_only_in_what_not_both_have():
    """A note that every node has makes no difference, so it is not shown."""
    usual = {"notes": "no-efa-device, peermem-not-loaded", "warnings": "none"}
    rows = [row(f"n{n}", traits=usual) for n in range(9)]
    rows.append(row("odd", traits={"notes": "no-efa-device, peermem-stub", "warnings": "acs-redirect"}))
    report = build(rows)
    (found,) = report.odd

    assert {d.trait: (d.value, d.peers) for d in found.differences} == {
        "notes": ("peermem-stub", "peermem-not-loaded"),
        "warnings": ("acs-redirect", "none"),
    }
    assert fold(["odd"]) == found.node and "no-efa-device" not in brief(report)


def test_a_trait_that_jobs_need_to_be_the_same_is_never_cut_before_its_node():
    layers = "Ethernet and InfiniBand"
    rows = [row(f"gpu{n}", traits={"link layer": "InfiniBand", "GIDs": "none"}) for n in range(5)]
    rows.append(row("gpu207", traits={"link layer": layers, "GIDs": "RoCE v2 with IPv4"}))
    narrow, wide = (brief(build(rows), width=width).splitlines()[-3] for width in (80, 200))
    title = "Not the same on all nodes of a job"

    assert narrow == f"{title}: link layer on gpu207; GIDs on gpu207"
    assert wide == f"{title}: link layer {layers} on gpu207; GIDs RoCE v2 with IPv4 on gpu207"
