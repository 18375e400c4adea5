"""A run over ssh: every node has a row, whatever it does. Here `ssh` is a script."""

import gzip
import itertools
import os
import signal
import time
from types import SimpleNamespace

import pytest

from gdrkit.evidence.archive import HEADERS_LIMIT
from gdrkit.evidence.errors import TargetError
from gdrkit.fleet import pool
from gdrkit.fleet.document import INTERRUPTED, Standing
from gdrkit.fleet.launcher import hosts_in, named
from gdrkit.fleet.processes import Ssh
from gdrkit.fleet.run import Run
from gdrkit.formats.errors import FormatError
from tests.evidence.readers.tars import member, tar_bytes
from tests.fleet.programs import install, runs_here, sends_file
from tests.system_programs import has_ended

NODES = """case "$node" in
  good*) {send};;
  refused) echo "ssh: connect to host refused port 22: Connection refused" >&2; exit 255;;
  hung) echo $$ >{pids}; exec sleep 600;;
  nopython) exit 127;;
  banner) cat >/dev/null; echo "Welcome to banner"; exec cat {bundle};;
  sudo) echo "sudo: a password is required" >&2; exit 1;;
  silent) exec cat >/dev/null;;
esac"""


@pytest.fixture
def ssh(tmp_path, monkeypatch, bundle):
    install(
        tmp_path / "bin",
        "ssh",
        NODES.format(send=sends_file(bundle), bundle=bundle, pids=tmp_path / "pid"),
        monkeypatch,
    )


def ask(folder, *nodes, timeout_s=60.0, fanout=32, **options):
    rows = []
    folder.mkdir(exist_ok=True)
    run = Run(Ssh(nodes), str(folder), timeout_s=timeout_s, **options)
    complete = run.ask(nodes, rows.append, fanout)
    return complete, {row.name: row for row in rows}


def test_a_node_that_answers_is_judged_and_its_bundle_removed(ssh, tmp_path):
    complete, rows = ask(tmp_path / "bundles", "good1", "good2")

    assert complete and list(map(str, (tmp_path / "bundles").iterdir())) == []
    assert {name: (row.standing, row.target) for name, row in rows.items()} == {
        "good1": ("ready", "ssh://good1"),
        "good2": ("ready", "ssh://good2"),
    }


@pytest.mark.parametrize(
    ("node", "why"),
    [
        ("refused", "Connection refused"),
        ("nopython", "python3 not found"),
        ("banner", "not a bundle: ssh://banner sent: Welcome"),
        ("sudo", "sudo: a password is required"),
        ("silent", "gdr collect failed"),
    ],
)
def test_a_node_without_a_bundle_is_a_row_with_its_reason(ssh, tmp_path, node, why):
    _, rows = ask(tmp_path / "bundles", node, "good")

    assert rows[node].standing is Standing.UNREACHABLE and why in rows[node].summary
    assert rows["good"].standing is Standing.READY


@pytest.fixture
def worst(tmp_path_factory):
    """A bundle with as many headers as an archive may have, and records that take no reader's time.

    It is packed in pieces, which are one file: RFC 1952, 2.2."""
    members = tar_bytes(*[member("proc/x")] * 2048, end=False)
    path = tmp_path_factory.mktemp("worst") / "bundle"
    path.write_bytes(gzip.compress(members, 9) * (HEADERS_LIMIT // 2048))
    return path


def test_a_bundle_that_takes_long_costs_its_row_and_is_ended_at_the_deadline(
    tmp_path, monkeypatch, bundle, worst
):
    """It comes first, and its headers take seconds. The clock of the pool moves half a minute at each look,
    so that it passes the deadline by then, and stops short of the end of the grace."""
    begin, looks = time.monotonic(), itertools.count()
    clock = SimpleNamespace(monotonic=lambda: begin + min(30 * next(looks), 100))
    monkeypatch.setattr(pool, "time", clock)
    monkeypatch.setattr(pool, "GRACE_S", 120.0)
    monkeypatch.setattr(pool, "cores", lambda: 1)
    script = f'case "$node" in good*) {sends_file(bundle)};; worst) {sends_file(worst)};; esac'
    install(tmp_path / "bin", "ssh", script, monkeypatch)

    complete, rows = ask(tmp_path / "bundles", "worst", "good1", "good2", fanout=1)

    assert complete and rows["good1"].standing is rows["good2"].standing is Standing.READY
    assert rows["worst"].standing is Standing.UNREADABLE
    assert rows["worst"].summary == "not judged before the deadline of the run"


def test_a_node_that_hangs_costs_its_row_and_everything_ends_at_the_deadline(ssh, tmp_path, monkeypatch):
    monkeypatch.setattr(pool, "GRACE_S", 120.0)  # what came before the deadline is judged on any machine
    monkeypatch.setattr(pool, "LEAST_S", 120.0)
    _, rows = ask(tmp_path / "bundles", "hung", "good", timeout_s=3.0)
    _, late = ask(tmp_path / "bundles", "hung", "good", timeout_s=0.5, fanout=1)

    assert "timed out" in rows["hung"].summary and rows["good"].standing is Standing.READY
    assert "not asked" in late["good"].summary


def test_an_interrupt_keeps_what_came_and_ends_what_runs(ssh, tmp_path):
    rows = []
    (tmp_path / "bundles").mkdir()
    run = Run(Ssh(["good", "hung"]), str(tmp_path / "bundles"))

    def arrived(row):
        rows.append(row)
        if row.name == "good":
            signal.raise_signal(signal.SIGINT)

    complete = run.ask(["good", "hung"], arrived)

    assert not complete
    assert {row.name: row.summary for row in rows if row.name == "hung"} == {"hung": INTERRUPTED}
    assert [row.name for row in rows] == ["good", "hung"]
    pid = int((tmp_path / "pid").read_text())
    assert has_ended(pid)


def test_sudo_never_asks_for_a_password(tmp_path, monkeypatch):
    install(tmp_path / "bin", "ssh", 'echo "ran: $last" >&2; exit 1', monkeypatch)
    _, rows = ask(tmp_path / "bundles", "n1", sudo=True)

    assert "ran: sudo -n python3 -I -" in rows["n1"].summary


@pytest.mark.slow
def test_the_real_collector_is_sent_and_judged(tmp_path, monkeypatch):
    install(tmp_path / "bin", "ssh", runs_here(), monkeypatch)
    _, rows = ask(tmp_path / "bundles", "here")

    assert rows["here"].standing not in (Standing.UNREACHABLE, Standing.UNREADABLE)
    assert rows["here"].traits["kernel"] == os.uname().release


@pytest.mark.parametrize(
    ("node", "target"),
    [("gpu1", "ssh://gpu1"), ("root@gpu1", "ssh://root@gpu1"), ("fe80::1%eth0", "ssh://[fe80::1%eth0]"),
     ("root@::1", "ssh://root@[::1]")],
)  # fmt: skip
def test_a_row_names_its_node_as_gdr_doctor_takes_it(node, target):
    assert Ssh([]).target(node) == target
    assert Ssh([]).command(node, "true")[-2:] == [node.rpartition("@")[2], "true"]


def test_a_file_of_hosts_has_hostlists_and_comments():
    assert hosts_in("gpu[1-2] # rack 1\n\n# none\nlogin1,login2\n") == ["gpu1", "gpu2", "login1", "login2"]
    with pytest.raises(FormatError):
        hosts_in("gpu[1-\n2]")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gpu1\n\ngpu 2!\n", "line 3: not the name of a node: '2!'$"),
        (
            "ClusterName=hpc\nNodeName=gpu[1-2] Gres=gpu:8\n",
            "line 1: not the name .*: of slurm.conf, `--slurm`",
        ),
        ("NODELIST NODES S:C:T\ngpu1 1 2:56:2\n", "line 1: .*: `sinfo -hN -o %N` prints the names alone"),
        ("[gpu]\ngpu[001:003] ansible_user=admin\n", r"line 1: .*gpu\[001:003\] is gpu\[001-003\] here"),
    ],
)
def test_a_file_that_lists_no_hosts_is_refused_with_its_line_and_what_has_the_names(text, words):
    with pytest.raises(FormatError, match=words):
        hosts_in(text)


def test_words_are_paths_that_exist_or_nodes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gpu1").touch()

    assert named(["gpu1", "gpu[2-3]", "ssh://root@gpu4"]) == (["gpu1"], ["gpu2", "gpu3", "root@gpu4"])
    with pytest.raises(TargetError, match="no such file or directory"):
        named(["./missing/file"])
    with pytest.raises(TargetError, match="neither a file nor a list of nodes"):
        named(["missing[file"])
