"""Groups of nodes with one cause, and what frees the most of them."""

import pytest
from msgspec.structs import replace

from gdrkit.evidence.errors import TargetError
from gdrkit.fleet.brief import brief
from gdrkit.fleet.build import build
from gdrkit.fleet.document import INTERRUPTED, Standing
from gdrkit.fleet.headline import headline
from gdrkit.fleet.judge import cause_of, without_answer
from gdrkit.fleet.text import group_text, text
from gdrkit.fleet.worker import row_of, task_of
from gdrkit.rules.remedy_names import RemedyName
from tests.evidence_nodes import laid_down
from tests.fleet.fleets import row
from tests.work import steps

SILENT = Standing.UNREACHABLE
STUB = {"causes": ("peermem-stub",), "remedies": (RemedyName.REBUILD_DRIVER, RemedyName.LOAD_PEERMEM)}


def blocked(*names, **fields):
    return [row(name, Standing.BLOCKED, **fields) for name in names]


def test_nodes_with_the_same_verdict_and_causes_are_one_group():
    report = build([*blocked("gpu1", "gpu2", "gpu3", **STUB), row("gpu4")])

    assert [(g.standing, g.causes, g.nodes, g.count) for g in report.groups] == [
        ("blocked", ("peermem-stub",), "gpu[1-3]", 3),
        ("ready", (), "gpu4", 1),
    ]


def test_a_fault_of_another_rail_is_another_group():
    cause = {"causes": ("rdma-port-down",)}
    report = build([*blocked("a1", "a2", rails=(4,), **cause), *blocked("b1", rails=(5,), **cause)])

    assert [(g.rails, g.nodes) for g in report.groups] == [((4,), "a[1-2]"), ((5,), "b1")]
    assert "rail 4: rdma-port-down   a[1-2]" in text(report)


def test_the_most_urgent_group_comes_first_and_of_those_the_largest():
    rows = [
        *(row(f"u{n}", Standing.UNKNOWN, causes=("x: denied",)) for n in range(5)),
        *blocked("b1", causes=("no-gpu",)),
        *blocked("s1", "s2", **STUB),
    ]

    assert [g.nodes for g in build(rows).groups] == ["s[1-2]", "b1", "u[0-4]"]


def test_what_to_fix_first_is_the_plan_that_frees_the_most_nodes():
    other = {**STUB, "causes": ("driver-mismatch",)}
    down = {"causes": ("rdma-port-down",)}
    report = build([*blocked("a1", "a2", **STUB), *blocked("b1", **other), *blocked("c1", "c2", **down)])

    assert [(fix.frees, fix.nodes, len(fix.remedies)) for fix in report.fixes] == [
        (3, "a[1-2],b1", 2), (2, "c[1-2]", 0)
    ]  # fmt: skip
    assert report.fixes[0].advice == "gdr fix: rebuild-driver, then load-peermem"


def test_a_group_says_what_its_code_means_and_advice_is_said_once():
    """A plan is short, and is shown wherever it helps."""
    down, level = {"causes": ("port-down",)}, {"causes": ("port-down", "gdr-level-too-low")}
    report = build([*blocked("a1", "a2", **down), *blocked("b1", **level), *blocked("c1", **STUB)])
    groups, _, fixes = text(report, width=100).partition("What to fix first\n")

    assert groups.count("No port of the RDMA device is active.") == 2
    assert groups.count("`ibstat`") == 1 and "as group 1\n" in groups
    assert fixes.startswith("     3  see groups 1, 3   a[1-2],b1\n     1  gdr fix: rebuild-driver, then ")
    assert "nvidia-peermem is a stub: its init function only returns -EINVAL." in groups
    assert groups.count("gdr fix: rebuild-driver, then load-peermem") == 1


def test_a_group_says_what_the_cause_says_on_its_nodes_and_names_one_where_that_differs():
    off = "Port 1 of mlx5_1 is DOWN: `sudo ibportstate -C mlx5_1 -D 0 1 enable` starts it."
    other = off.replace("mlx5_1", "mlx5_3")
    down = blocked("a1", "a2", causes=("port-down",), advice=off)
    alike = build(down)
    mixed = build([*down, *blocked("b1", causes=("port-down",), advice=other)])

    assert [group.advice for group in alike.groups] == [fix.advice for fix in alike.fixes] == [off]
    assert [group.advice for group in mixed.groups] == [f"for example on a1: {off}"]
    assert [(fix.advice, fix.frees) for fix in mixed.fixes] == [(f"for example on a1: {off}", 3)]


def test_nodes_of_one_cause_that_need_different_things_are_apart():
    """A cable and a subnet manager, on the same rail; another device needs the same."""
    cable = "Port 1 of mlx5_3 is DOWN: there is no link. `sudo mlxlink -d mlx5_3` says what is wrong."
    manager = (
        "Port 1 of mlx5_3 is INIT: no subnet manager has set it up. `sudo ibhosts -C mlx5_3` lists hosts."
    )
    down = {"causes": ("port-down",), "rails": (3,)}
    report = build([
        *blocked("a1", advice=cable, **down), *blocked("a2", advice=cable.replace("5_3", "5_4"), **down),
        *blocked("b1", advice=manager, **down),
    ])  # fmt: skip

    assert [(g.nodes, g.advice) for g in report.groups] == [
        ("a[1-2]", f"for example on a1: {cable}"), ("b1", manager)
    ]  # fmt: skip
    assert [(fix.frees, fix.nodes) for fix in report.fixes] == [(2, "a[1-2]"), (1, "b1")]
    screen = brief(report)
    assert "sudo mlxlink -d mlx5_3\n" in screen and "sudo ibhosts -C mlx5_3\n" in screen
    assert group_text(report, report.groups[1], colour=False, width=100).splitlines()[1] == "  b1"


def test_the_row_of_a_node_has_what_its_first_cause_says_there():
    """A rail that is down, and a fault whose page says what to do on every node."""
    rail, gone = (row_of(task_of(str(laid_down(name)))) for name in ("rail-down", "nic-gone"))

    assert rail.causes[0] == "port-down" and "mlx5_" in rail.advice and "<" not in rail.advice
    assert build([rail]).groups[0].advice == rail.advice
    assert gone.causes[0] == "nic-missing" and not gone.advice


def test_evidence_that_root_would_read_is_asked_for_with_sudo():
    denied, absent = ("a: denied", "b: denied"), ("a: denied", "b: not collected")
    rows = [
        row("n1", Standing.UNKNOWN, causes=denied),
        row("n2", Standing.UNKNOWN, causes=absent, to_find_out=("lspci -vvv",)),
    ]

    assert [g.advice for g in build(rows).groups] == [
        "run again with --sudo, or collect as root",
        "to find out, run: lspci -vvv",
    ]


def test_the_headline_counts_every_node_once():
    rows = [row("a"), row("b"), *blocked("c"), row("d", Standing.UNREACHABLE)]

    assert headline(build(rows)) == "2 of 4 nodes need something: 1 blocked, 1 unreachable; 2 ready"


def test_nodes_of_one_name_are_called_as_their_files():
    rows = [row("host1"), row("host1"), row("gpu7")]
    named = [
        type(rows[0])(name=r.name, target=f"{n}/b{n}.tar.gz", standing=r.standing)
        for n, r in enumerate(rows)
    ]
    same_file = [type(rows[0])(name="x", target=f"{n}/b.tar.gz", standing=Standing.READY) for n in range(3)]

    assert [one.name for one in build(named).nodes] == ["b0.tar.gz", "b1.tar.gz", "gpu7"]
    assert [one.name for one in build(same_file).nodes] == ["b.tar.gz", "b.tar.gz-2", "b.tar.gz-3"]


def test_no_node_has_no_groups():
    assert build([]).groups == () and headline(build([])) == "No node was judged"


@pytest.mark.parametrize("end", ["", "; last line: collecting /sys"])
def test_nodes_that_did_not_answer_are_one_group_however_little_time_each_had(end):
    """Who is asked last has the least time left; what a node said before is another reason."""
    times = ("20", "7.45", "1.8e+03")
    rows = [
        without_answer(f"ssh://n{n}", f"n{n}", f"timed out: no bundle within {s} s{end}", SILENT)
        for n, s in enumerate(times)
    ]
    rows.append(without_answer("ssh://n9", "n9", "timed out: no bundle within 20 s; last line: x", SILENT))
    one, other = build(rows).groups

    assert (one.causes, one.count, other.count) == ((f"timed out: no bundle in time{end}",), 3, 1)
    assert [node.summary for node in rows[:3]] == [f"timed out: no bundle within {s} s{end}" for s in times]


def test_nodes_that_fail_alike_are_one_group_though_their_names_are_in_the_reason():
    rows = []
    for n in (1, 1, 12):
        reason = f"cannot connect to ssh://n{n}: host n{n} port 2{n}"
        rows.append(without_answer(f"ssh://n{n}", f"n{n}", reason, Standing.UNREACHABLE))

    assert rows[0].causes == ("cannot connect to it: its port 21",)
    assert rows[2].causes == ("cannot connect to it: its port 212",)
    assert rows[0].summary == "cannot connect to ssh://n1: host n1 port 21"


def test_a_node_without_evidence_has_the_advice_of_its_error():
    """Without one, the node may be down."""
    lost = [
        without_answer("ssh://n1", "n1", TargetError("a profile talks", "it must print nothing"), SILENT),
        without_answer("ssh://n2", "n2", "no answer", SILENT),
    ]

    assert [group.advice for group in build(lost).groups] == [
        "it must print nothing; --resume asks it again",
        "check that it is up; --resume asks it again",
    ]


def test_a_run_that_was_interrupted_says_how_many_are_left_and_that_they_are_asked_again():
    rows = [row("n1"), without_answer("ssh://n2", "n2", INTERRUPTED, SILENT)]
    rows.append(without_answer("/n3.tar.gz", "n3", INTERRUPTED, Standing.UNREADABLE))
    report = build(rows, complete=False)

    assert "\nInterrupted: 2 nodes without an answer; `gdr fleet doctor --resume` asks again\n" in text(
        report
    )
    assert {group.advice for group in report.groups} == {"", "--resume asks it"}


def test_nodes_where_it_is_impossible_are_listed_and_ready_ones_are_not():
    report = build([row("gpu1"), row("login1", Standing.IMPOSSIBLE, causes=("no-gpu",))])

    assert "1 impossible   no-gpu   login1\n" in text(report) and "gpu1" not in text(report)


def test_a_name_that_is_a_word_of_the_reason_stands_for_the_node_once():
    for name, cause in (
        ("empty", "it is empty, or cut off in its header"),
        ("full.tar", "it is empty, or cut off in its header"),
    ):
        reason = f"{name} is empty, or cut off in its header"
        assert without_answer(f"/runs/{name}", name, reason, Standing.UNKNOWN).causes == (cause,)


@pytest.mark.parametrize("name", ["gpu050", "alpha"])
@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("ssh: connect to host {} port 22: refused", "ssh: connect to its port 22: refused"),
        ("ssh: Could not resolve hostname {}: Name or service not known",
         "ssh: Could not resolve its hostname: Name or service not known"),
        ("Connection closed by {} port 22", "Connection closed by its port 22"),
        ("Host key verification failed.", "Host key verification failed."),
    ],
)  # fmt: skip
def test_what_ssh_says_stays_english_without_the_name(name, reason, cause):
    words = f"cannot connect to ssh://{name}: {reason.format(name)}"
    row = without_answer(f"ssh://{name}", name, words, Standing.UNREACHABLE)

    assert row.causes == (f"cannot connect to it: {cause}",) and row.summary == words


def test_a_reason_that_begins_with_the_node_is_what_follows():
    row = without_answer(
        "/runs/n1.tar.gz", "n1", "/runs/n1.tar.gz: no such file or directory", Standing.UNREADABLE
    )
    assert row.causes == ("no such file or directory",)


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("not a bundle or sosreport: n1.tar.gz", "not a bundle or sosreport"),
        ("unsupported format: n1.tar.gz", "unsupported format"),
        ("not a valid rdma_topo dump: n1.tar.gz: no devices", "not a valid rdma_topo dump: no devices"),
        ("refusing n1.tar.gz: more than 9 sections", "refusing it: more than 9 sections"),
    ],
)
def test_a_reason_that_only_points_to_the_file_does_without_it(reason, cause):
    assert cause_of(reason, {"/runs/n1.tar.gz", "n1.tar.gz"}) == cause


def test_what_nodes_share_of_a_reason_is_found_without_compiling_their_names():
    """100,000 nodes that are down took 12 s."""
    names = [f"gpu{n}" for n in range(3)]
    assert (
        max(steps(cause_of, f"{name}: host {name} is down", {name, f"slurm://{name}"}) for name in names)
        < 100
    )


def test_a_name_in_a_longer_word_is_not_the_node():
    for reason in ("n12 n1x xn1 n1n1 n1-ib a.n1", "host n1-ib"):
        assert cause_of(reason, {"n1", "ssh://n1"}) == reason
    assert cause_of("x host n1.", {"n1", ""}) == "x it."


@pytest.mark.parametrize(("target", "shown"), [("b.tar.gz", "b.tar.gz"), ("slurm://gpu1", "ssh://gpu1")])
def test_a_command_in_advice_names_the_node_that_it_judges(target, shown):
    """As the doctor's own page about one node does; in the short form the words have no room for it, and the
    command below them is that of the first step."""
    rows = [replace(one, target=target) for one in blocked("gpu1", causes=("driver-not-loaded",))]
    report = build([*rows, row("gpu2")])

    for said in (report.groups[0].advice, report.fixes[0].advice):
        assert f"`gdr modprobe nvidia {shown}` predicts" in said
    words, command = brief(report).partition("Do this first\n")[2].splitlines()[:2]
    assert "Find the reason first: `gdr modprobe nvidia` predicts" in words
    assert command.strip() == f"gdr modprobe nvidia {shown}"
