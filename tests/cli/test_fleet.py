"""`gdr fleet doctor` on a folder of bundles."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import xml.etree.ElementTree as ET

import jsonschema
import pytest
from machines.fleet import bundles, fleet

from gdrkit.cli import main
from gdrkit.cli.exit import NO_INPUT, USAGE
from gdrkit.cli.fleet_doctor import parser
from gdrkit.cli.fleet_run import _asked
from gdrkit.fleet import runs
from gdrkit.fleet.build import build
from gdrkit.fleet.document import Standing
from gdrkit.fleet.exit_code import exit_code
from gdrkit.fleet.judge import without_answer
from tests.fleet.fleets import row
from tests.fleet.programs import install, sends_file

BLOCKED_SEED = 204
"""A fleet in which the planted node has no driver loaded."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Six bundles, of which one is blocked and one is damaged."""
    place = tmp_path_factory.mktemp("fleet")
    drawn = fleet(BLOCKED_SEED, 16)
    chosen = [m for m in drawn.machines if m.name == drawn.planted]
    chosen += [m for m in drawn.machines if m.name != drawn.planted][:4]
    for number, packed in enumerate(bundles(tuple(chosen), place / "work")):
        packed.rename(place / f"{number}-{packed.name}")
    (place / "work").rename(tmp_path_factory.mktemp("rest") / "work")
    (place / "damaged.tar.gz").write_bytes(b"\x1f\x8b damaged")
    return place, drawn.planted


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    """Runs are kept in a folder of the test."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state/gdrkit/fleet"


@pytest.fixture(scope="module")
def judged(folder, tmp_path_factory):
    """The folder of state after a run over these bundles."""
    state = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(state))
        main(["fleet", "doctor", str(folder[0])])
    return state


@pytest.fixture
def kept(folder, judged, tmp_path):
    """That run is the last one; returns the odd node."""
    shutil.copytree(judged, tmp_path / "state")
    return folder[1]


def run(capsys, *words):
    code = main(["fleet", "doctor", *map(str, words)])
    return code, capsys.readouterr()


def test_the_text_counts_groups_and_names_the_odd_node(folder, capsys):
    place, odd = folder
    code, printed = run(capsys, place, "-v")

    assert code == 2
    assert printed.out.startswith("2 of 6 nodes need something: 1 blocked, 1 unreadable; 4 ready")
    first, second = printed.out.index("driver-not-loaded"), printed.out.index("damaged.tar.gz")
    assert first < second
    assert printed.out.partition("Odd ones out")[2].splitlines()[:2] == [": 1 node", f"  {odd}"]


def test_json_is_valid_against_its_schema(kept, capsys):
    _, printed = run(capsys, "--run", "last", "--json")
    document = json.loads(printed.out)
    main(["schema", "fleet"])
    schema = json.loads(capsys.readouterr().out)

    jsonschema.validate(document, schema)
    assert document["schema"] == "gdrkit.fleet/1" and len(document["nodes"]) == 6
    document["groups"][0]["standing"] = "sad"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, schema)


def test_a_hostlist_of_the_nodes_in_need(folder, capsys):
    _, printed = run(capsys, folder[0], "--nodes-only")

    assert printed.out == f"{folder[1]}\n"


@pytest.mark.parametrize(
    ("which", "nodes"),
    [
        (None, "b1"), ("blocked", "b1"), ("warnings", "boot1,w[1-2]"), ("unknown", "lost1,u1"),
        ("next-boot", "boot1"),
        ("gpu-missing", "b1,u1,w1"), ("link-degraded", "w2"), ("port-down", "b1"), ("no-gpu", ""),
        ("iommu-translating", "b1,u1,w1"),
    ],
)  # fmt: skip
def test_a_list_holds_only_what_was_asked_for(which, nodes, capsys):
    """What drains nodes by their standing must not drain one that is not known, and nothing drains one
    without an answer, whatever its error says. What was found on a node that is not known is found."""
    gone = {"warnings": "gpu-missing, 2 x iommu-translating"}
    rows = [
        row("b1", Standing.BLOCKED, causes=("port-down",), traits=gone),
        row("w1", Standing.WARNINGS, causes=("gpu-missing", "iommu-translating"), traits=gone),
        row("w2", Standing.WARNINGS, causes=("link-degraded",)),
        row("boot1", Standing.NEXT_BOOT, causes=("peermem-not-loaded",)),
        row("u1", Standing.UNKNOWN, causes=("gpu-missing: denied",), traits=gone),
        without_answer("ssh://lost1", "lost1", "gpu-missing", Standing.UNREACHABLE),
        row("r1"), row("i1", Standing.IMPOSSIBLE, causes=("no-gpu-here",)),
    ]  # fmt: skip
    runs.keep(build(rows, started="2026-11-28T02:00:00Z"))
    _, printed = run(capsys, "--run", "last", "--nodes-only", *([which] if which else []))

    assert printed.out == (f"{nodes}\n" if nodes else "") and not printed.err


def test_a_list_of_what_is_no_code_is_refused_with_the_one_that_was_meant(capsys):
    code, printed = run(capsys, "--run", "last", "--nodes-only", "gpu-mising")

    assert code == USAGE and "did you mean 'gpu-missing'" in printed.err


def test_a_line_of_json_for_each_node_has_its_row_and_the_time_of_the_run(capsys):
    rows = [row("n1", Standing.BLOCKED, causes=("port-down",), summary="a\x1b\u202e\nb"), row("n2")]
    runs.keep(build(rows, started="2026-11-28T02:00:00Z"))
    code, printed = run(capsys, "--run", "last", "--jsonl")
    lines = printed.out.split("\n")
    first, second = map(json.loads, lines[:2])

    assert code == 2 and lines[2:] == [""] and "\x1b" not in printed.out and "\u202e" not in printed.out
    assert first["schema"] == "gdrkit.fleet-node/1" and first["started"] == "2026-11-28T02:00:00Z"
    assert (first["name"], first["standing"], first["causes"]) == ("n1", "blocked", ["port-down"])
    assert (second["name"], second["standing"]) == ("n2", "ready") and first["summary"] == "a\x1b\u202e\nb"


def test_csv_and_junit_have_a_row_for_each_node(kept, capsys):
    _, printed = run(capsys, "--run", "last", "--csv")
    rows = list(csv.DictReader(io.StringIO(printed.out)))
    _, printed = run(capsys, "--run", "last", "--junit")
    suite = ET.fromstring(printed.out)

    assert [one["standing"] for one in rows].count("ready") == 4
    assert suite.get("tests") == "6" and suite.get("failures") == suite.get("errors") == "1"
    assert [case.get("name") for case in suite] == [one["node"] for one in rows]


def test_the_page_of_a_group_and_what_differs(kept, capsys):
    odd = kept
    _, group = run(capsys, "--run", "last", "--group", "1")
    two = sorted({f"gpu{n:03d}" for n in range(5)} - {odd})[:2]
    _, same = run(capsys, "--run", "last", "--compare", *two)
    other = "gpu000" if odd != "gpu000" else "gpu001"
    _, differs = run(capsys, "--run", "last", "--compare", odd, other)

    assert odd in group.out and "driver-not-loaded" in group.out
    assert same.out.startswith("No difference")
    assert f"  driver\n    {odd}  none\n    {other}  5" in differs.out and "kernel" not in differs.out
    assert f"of them, not as most of their kind: 1 node\n  {odd}\n" in group.out


@pytest.mark.parametrize(
    ("words", "code"),
    [(("--group", "99"), USAGE), (("--compare", "x", "y"), USAGE)],
)
def test_what_is_not_in_the_run_is_an_error(kept, capsys, words, code):
    found, printed = run(capsys, "--run", "last", *words)

    assert found == code and f"\n{printed.err}".startswith("\ngdr fleet doctor: no ")


def test_an_empty_folder_is_an_error(tmp_path, capsys):
    code, printed = run(capsys, tmp_path)

    assert code == NO_INPUT and "no bundle" in printed.err


@pytest.mark.parametrize(
    ("standings", "code"),
    [
        (("ready", "impossible"), 0),
        (("ready", "warnings"), 1),
        (("warnings", "unreachable"), 3),
        (("unknown", "blocked"), 2),
        (("blocked", "unreadable"), 2),
        ((), 3),
    ],
)
def test_the_exit_code_is_that_of_the_worst_node(standings, code):
    rows = [row(f"n{number}", Standing(name)) for number, name in enumerate(standings)]

    assert exit_code(build(rows)) == code


# -- nodes over ssh, and runs that are kept ----------------------------------------------------------------


@pytest.fixture
def nodes(folder, tmp_path, monkeypatch):
    """Two nodes: one answers; the other one does as soon as the file `up` exists."""
    bundle = next(path for path in sorted(folder[0].glob("*.tar.gz")) if folder[1] not in path.name)
    up = tmp_path / "up"
    fails = f'[ $node = gpu2 -a ! -e {up} ] && {{ echo "ssh: no route" >&2; exit 255; }}'
    install(tmp_path / "bin", "ssh", f"{fails}; {sends_file(bundle)}", monkeypatch)
    return up


def test_nodes_are_asked_and_what_failed_is_asked_again(nodes, state, capsys):
    code, first = run(capsys, "gpu[1-2]")
    nodes.touch()
    again, second = run(capsys, "--resume", "--since", "last")
    _, kept = run(capsys, "--run", "last", "--json")

    assert (code, again) == (3, 0)
    assert "gpu2: unreachable: cannot connect to ssh://gpu2: ssh: no route" in first.err
    assert first.out.startswith("1 of 2 nodes needs something: 1 unreachable; 1 ready")
    assert second.out.startswith("None of 2 nodes needs anything: 2 ready")
    assert "better: unreachable" in second.out
    assert len(list(state.iterdir())) == 2
    assert [row["name"] for row in json.loads(kept.out)["nodes"]] == ["gpu1", "gpu2"]


def test_hosts_are_read_from_a_file_and_sudo_is_asked_for(nodes, tmp_path, capsys):
    (tmp_path / "hosts").write_text("gpu1 # the first\n")
    code, printed = run(capsys, "--hosts", tmp_path / "hosts", "--sudo", "--csv")

    assert code == 0 and [one["node"] for one in csv.DictReader(io.StringIO(printed.out))] == ["gpu1"]


def test_a_run_whose_nodes_all_answered_needs_no_resume(folder, nodes, capsys):
    run(capsys, "gpu1")
    code, printed = run(capsys, "--resume")

    assert code == NO_INPUT and "each of these nodes gave an answer" in printed.err


def names_of(printed):
    return [row["name"] for row in json.loads(printed.out)["nodes"]]


@pytest.fixture
def two(folder, tmp_path):
    """A folder with two bundles."""
    good, bad = sorted(path for path in folder[0].glob("*.tar.gz") if folder[1] not in path.name)[:2]
    (tmp_path / "two").mkdir()
    for path in (good, bad):
        shutil.copy(path, tmp_path / "two")
    return tmp_path / "two"


def test_evidence_that_was_judged_is_not_judged_twice(two, monkeypatch, capsys):
    _, first = run(capsys, two, "--json")
    (two / "late.tar.gz").write_bytes(b"\x1f\x8b damaged")
    monkeypatch.chdir(two.parent)
    code, second = run(capsys, "--resume", "last", "two", "--json")

    assert code == 3 and names_of(second) == [*names_of(first), "late.tar.gz"]


def test_a_file_that_could_not_be_read_is_read_again(two, capsys):
    damaged = next(two.iterdir())
    good = damaged.read_bytes()
    damaged.write_bytes(good[:3000])
    before, first = run(capsys, two)
    damaged.write_bytes(good)
    after, second = run(capsys, "--resume", "--json")

    assert (before, after) == (3, 0) and "1 unreadable" in first.out
    assert len(names_of(second)) == 2


def test_who_is_not_asked_again_stays_without_an_answer(nodes, capsys):
    run(capsys, "gpu[1-2]")
    code, printed = run(capsys, "--resume", "last", "gpu3", "--json")

    assert code == 3 and names_of(printed) == ["gpu1", "gpu2", "gpu3"]


def test_evidence_that_calls_itself_as_a_node_keeps_no_node_from_being_asked(nodes, capsys):
    runs.keep(build([row("gpu1"), row("gpu2")], started="2026-11-20T10:00:00Z"))  # from files
    nodes.touch()
    code, printed = run(capsys, "--resume", "last", "gpu[1-2]", "--json")

    assert code != NO_INPUT and sorted(names_of(printed)) == [
        "gpu1",
        "gpu1.tar.gz",
        "gpu2",
        "gpu2.tar.gz",
    ]


@pytest.mark.parametrize("engine", ["ray", "kubernetes"])
def test_nodes_of_an_engine_whose_address_is_not_kept_need_its_option(engine, state, capsys):
    silent = without_answer(f"{engine}://n1", "n1", "it is dead", Standing.UNREACHABLE)
    runs.keep(build([silent], started="2026-11-20T10:00:00Z"))
    code, printed = run(capsys, "--resume")

    assert code == NO_INPUT and f"add --{engine}" in printed.err and not printed.out


def test_nodes_that_were_asked_in_two_ways_are_named_by_the_user(state, capsys):
    silent = [
        without_answer(f"{scheme}://{node}", node, "it is dead", Standing.UNREACHABLE)
        for scheme, node in (("ssh", "a1"), ("slurm", "b1"), ("slurm", "b2"))
    ]
    runs.keep(build(silent, started="2026-11-20T10:00:00Z"))
    code, printed = run(capsys, "--resume")

    assert code == NO_INPUT and "2 were asked with --slurm and 1 over ssh" in printed.err


def test_a_file_whose_name_is_no_text_is_judged_once(two, capsys):
    for number, path in enumerate(sorted(two.iterdir())):
        path.rename(os.fsdecode(bytes(two) + b"/%d\xff.tar.gz" % number))
    _, first = run(capsys, two, "--json")
    code, _ = run(capsys, "--resume", "last", two, "--json")

    assert len(names_of(first)) == 2 and code == NO_INPUT


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((), "no nodes to judge"),
        (("./nothing/here",), "./nothing/here: no such file or directory"),
        (("gpu[3-1]",), "neither a file nor a list of nodes"),
        (("--resume", "gpu[1-2]"), "write --resume last TARGET"),
        (("--run", "last"), "no run is kept"),
        (("--since", "20200101T000000Z", "gpu1"), "no such file"),
        (("--hosts", "/dev/null/x"), "not a directory"),
    ],
)
def test_what_names_no_nodes_is_an_error(words, why, capsys):
    code, printed = run(capsys, *words)

    assert code == NO_INPUT and why in printed.err and not printed.out


def test_a_folder_that_cannot_keep_runs_is_a_note(folder, tmp_path, monkeypatch, capsys):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    code, printed = run(capsys, folder[0])

    assert code == 2 and "the run is not kept" in printed.err and "of 6 nodes" in printed.out


def test_what_most_nodes_have_is_learned_and_who_departs_from_it_is_listed(folder, capsys):
    _, printed = run(capsys, folder[0], "--expect", "--json")
    document = json.loads(printed.out)

    (kind,) = document["expected"]
    assert kind["traits"]["driver"] and kind["count"] == 5
    assert [node["node"] for node in document["odd"]] == [folder[1]]


def test_a_file_of_expectations_makes_a_difference_a_warning(folder, tmp_path, capsys):
    (tmp_path / "node.toml").write_text('[versions]\nkernel = "1.2.3"\n')
    _, printed = run(capsys, folder[0], "--expect", tmp_path / "node.toml", "--json")
    groups = json.loads(printed.out)["groups"]

    assert any("expected-version-differs" in group["causes"] for group in groups)


# -- what changed since the last run of the same targets ---------------------------------------------------


def test_the_first_run_of_its_targets_has_nothing_to_compare_with_and_is_shown_whole(nodes, capsys):
    """A timer's first night does not fail."""
    code, printed = run(capsys, "gpu1", "--since", "last")

    assert code == 0 and printed.out.startswith("The node needs nothing") and "Since" not in printed.out
    assert "no earlier run of these targets" in printed.err


def test_the_last_run_is_that_of_the_same_targets(nodes, capsys):
    """What is judged in between, of other nodes or in another way, does not show a change."""
    run(capsys, "gpu[1-2]")
    nodes.touch()
    run(capsys, "gpu3")
    code, printed = run(capsys, "gpu[1-2]", "--since", "last")
    lines = printed.out.splitlines()

    assert code == 0 and lines[0].startswith("None of 2 nodes needs anything")
    assert lines[2].startswith("Since 20") and lines[3].split()[:2] == ["1", "better:"]
    assert "gpu3" not in printed.out and "new" not in printed.out


def test_a_kept_run_is_compared_with_the_one_before_it(nodes, capsys):
    run(capsys, "gpu[1-2]")
    nodes.touch()
    run(capsys, "gpu[1-2]")
    _, printed = run(capsys, "--run", "last", "--since", "last")
    _, whole = run(capsys, "--run", "last", "--since", "last", "-v")

    assert "better: unreachable" in printed.out and "Versions" not in printed.out
    assert "better: unreachable" in whole.out and len(whole.out) > len(printed.out)


def test_the_last_run_names_its_targets_which_may_be_of_somebody_else(nodes, capsys):
    run(capsys, "gpu[1-2]")
    _, own = run(capsys, "gpu3")
    _, again = run(capsys, "--run", "last")
    _, listed = run(capsys, "--run", "last", "--nodes-only")

    assert "the run of" not in own.err + listed.err
    assert again.err.startswith("note: the run of 20") and again.err.endswith(": gpu3\n")


def test_a_folder_is_the_same_target_however_it_is_written(two, monkeypatch, capsys):
    run(capsys, two)
    monkeypatch.chdir(two.parent)
    _, printed = run(capsys, "two/", "--since", "last")

    assert "nothing changed" in printed.out


@pytest.mark.parametrize("words", [["--slurm"], ["--slurm", "--partition", "h100"], ["--ray"], ["a"]])
def test_another_way_to_ask_is_another_target(words):
    seen = {_asked(parser().parse(each)) for each in (words, ["--kubernetes"], ["--ray", "http://h:1"], [])}
    assert len(seen) == 4
