"""Runs that are kept, and what changed between two of them."""

import json

import msgspec
import pytest

from gdrkit.evidence.errors import TargetError
from gdrkit.fleet import runs
from gdrkit.fleet.build import build, changes
from gdrkit.fleet.document import Standing
from gdrkit.fleet.text import text
from tests.fleet.fleets import row


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "gdrkit/fleet"


def kept(*rows, started="2026-11-22T23:31:05Z"):
    report = build(rows, started=started, seconds=1.0)
    return runs.keep(report), report


def test_a_run_is_read_as_it_was_kept():
    name, report = kept(row("a"), row("b", Standing.BLOCKED, causes=("no-gpu",), rails=(1,)))

    assert name == "20261122T233105Z"
    assert runs.read(name) == runs.read("last") == report


def test_runs_of_one_second_have_different_names_and_the_newest_is_the_last():
    first, _ = kept(row("a"))
    second, _ = kept(row("b"))
    third, report = kept(row("c"), started="2026-11-23T00:00:00Z")

    assert len({first, second, third}) == 3 and runs.names()[0] == third
    assert runs.read("last") == report


def test_old_runs_are_removed(monkeypatch, state):
    monkeypatch.setattr(runs, "KEPT", 2)
    (state).mkdir(parents=True)
    (state / "notes.json").touch()
    names = [kept(row("a"), started=f"2026-11-2{day}T00:00:00Z")[0] for day in range(4)]

    assert runs.names() == names[:1:-1]
    assert (state / "notes.json").exists()


def test_a_run_is_the_last_also_where_the_clock_was_set_back(monkeypatch):
    """It was removed at once, as the oldest of too many."""
    monkeypatch.setattr(runs, "KEPT", 11)
    before = [kept(row("a"))[0] for _ in range(11)]
    name, report = kept(row("b"), started="2020-01-01T00:00:00Z")

    assert runs.names() == [name, *before[:0:-1]]
    assert runs.read("last") == report


def test_the_run_before_one_is_the_one_that_was_made_before_it():
    """Its time says nothing where the clock was set forward by years, and back."""
    made = [
        kept(row(name), started=f"{year}-01-01T00:00:00Z")[1]
        for name, year in (("a", 2026), ("b", 2106), ("c", 1970))
    ]
    assert [runs.last_of((), before) for before in made] == [None, made[0], made[1]]
    assert runs.last_of((), build([row("d")], started="2030-01-01T00:00:00Z")) == made[2]


@pytest.mark.parametrize("content", ["", "{}", '{"schema": "gdrkit.report/1"}', "[1]", "\x00"])
def test_what_is_no_run_is_an_error(tmp_path, content):
    (tmp_path / "run.json").write_text(content)

    with pytest.raises(TargetError, match="not the JSON of gdr fleet doctor"):
        runs.read(str(tmp_path / "run.json"))


def test_a_run_that_is_not_there_is_an_error():
    with pytest.raises(TargetError, match="no run is kept"):
        runs.read("last")
    with pytest.raises(TargetError, match="no such file"):
        runs.read("20200101T000000Z")


def test_what_changed_is_grouped_by_what_happened():
    down = {"standing": Standing.BLOCKED, "causes": ("rdma-port-down",)}
    before = [row("n1"), row("n2"), row("n3", **down), row("gone"), row("same", **down)]
    after = [row("n1", **down), row("n2", **down), row("n3"), row("new"), row("same", **down)]

    found = [(c.kind, c.before, c.after, c.nodes, c.count) for c in changes(before, after)]

    assert found == [
        ("worse", "ready", "blocked: rdma-port-down", "n[1-2]", 2),
        ("gone", "ready", "", "gone", 1),
        ("new", "", "ready", "new", 1),
        ("better", "blocked: rdma-port-down", "ready", "n3", 1),
    ]


def test_versions_that_moved_are_changes_and_lost_evidence_is_none():
    before = [row("n1", traits={"driver": "570", "kernel": "6.8"}), row("n2", traits={"driver": "570"})]
    after = [row("n1", traits={"driver": "580"}), row("n2", traits={"driver": "580"})]

    (change,) = changes(before, after)

    assert (change.kind, change.before, change.after, change.nodes) == (
        "version",
        "driver 570",
        "580",
        "n[1-2]",
    )


def test_another_cause_is_a_change_that_is_neither_worse_nor_better():
    one = row("n", Standing.BLOCKED, causes=("a",))
    other = row("n", Standing.BLOCKED, causes=("b",))

    assert [change.kind for change in changes([one], [other])] == ["other"]
    assert changes([one], [one]) == ()


def test_the_text_says_when_the_other_run_was_made():
    _, before = kept(row("n1"))

    assert "nothing changed" in text(build([row("n1")], since=before))
    assert "worse: ready -> blocked" in text(build([row("n1", Standing.BLOCKED)], since=before))


def hostile(*nodes, **more):
    """A run as a file that gdr did not write: of each node the name and the target."""
    rows = [{"name": name, "target": target, "standing": "ready"} for name, target in nodes]
    return json.dumps({**msgspec.to_builtins(build([])), "nodes": rows, **more})


@pytest.mark.parametrize(
    "content",
    [
        hostile(x="DEEP").replace('"DEEP"', "[" * 200_000),
        hostile(("gpu1,gpu2", "/a")),
        hostile(("-oProxyCommand=id", "ssh://a")),
        hostile(("gpu1\nready", "/a")),
        hostile(("gpu1", "")),
        hostile(("gpu1", "ssh://other")),
        hostile(("gpu1", "ssh://root@gpu1")),
        hostile(("gpu1", "ssh://gpu1:2222")),
        hostile(("gpu1", "slurm://other")),
        hostile(("gpu1", "http://gpu1")),
        hostile(*[("a", "/a")] * 100_001),
    ],
    ids=[
        "too deep",
        "two nodes in one name",
        "an option",
        "a second line",
        "no target",
        "another host",
        "another user",
        "another port",
        "another node",
        "no launcher",
        "too many",
    ],
)
def test_a_run_that_gdr_never_wrote_is_refused(tmp_path, content):
    """An empty target would stand for this machine."""
    path = tmp_path / "run.json"
    path.write_text(hostile(("gpu1", "/a")))
    assert runs.read(str(path)).nodes[0].name == "gpu1"
    path.write_text(content)
    with pytest.raises(TargetError, match="not the JSON of gdr fleet doctor"):
        runs.read(str(path))


def test_a_run_with_an_address_that_is_none_is_refused(tmp_path):
    """Two such machines are compared by their networks."""
    path = tmp_path / "run.json"
    port = {"device": "rocep1s0f0", "interface": "", "name": "", "state": "ACTIVE", "rate_gbit_per_s": 200}
    port |= {"link": "", "link_gbit_per_s": None, "bus": "", "mtu": None, "gid": None, "mac": ""}
    for address, wanted in (("10.0.0.1/24", True), ("10.0.0.1/240", False), ("x", False)):
        run = json.loads(hostile(("gpu1", "/a")))
        run["nodes"][0]["ports"] = [{**port, "addresses": [address], "neighbours": None}]
        path.write_text(json.dumps(run))
        if wanted:
            assert runs.read(str(path)).nodes[0].ports[0].addresses == (address,)
        else:
            with pytest.raises(TargetError, match="not the JSON of gdr fleet doctor"):
                runs.read(str(path))


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("root@gpu1", "ssh://root@gpu1"), ("fe80::1", "ssh://[fe80::1]"), ("gpu1", "slurm://gpu1"),
        ("gpu1", "kubernetes://gpu1"), ("gpu1", "ray://gpu1"), ("gpu1", "/bundles/a://b.tar.gz"),
    ],
)  # fmt: skip
def test_the_target_of_a_row_is_a_path_or_its_node(tmp_path, name, target):
    path = tmp_path / "run.json"
    path.write_text(hostile((name, target)))

    assert runs.read(str(path)).nodes[0].target == target


def test_a_run_is_for_its_user_alone_and_is_not_kept_where_others_can_write(state):
    name, _ = kept(row("a"))
    assert (state / f"{name}.json").stat().st_mode & 0o777 == 0o600

    for mode in (0o770, 0o707):
        state.chmod(mode)
        with pytest.raises(PermissionError, match="others can write there"):
            kept(row("b"))
    assert runs.names() == [name]
