"""A run over pairs of nodes: it ends at its deadline and on Ctrl-C, and keeps what came. Here `ssh` is a
script."""

import os
import signal
from functools import partial

import pytest

from gdrkit.cli.fleet_bench import _meet
from gdrkit.fleet.pair_document import PairRow, What
from gdrkit.fleet.pair_run import PairRun
from gdrkit.fleet.processes import Ssh
from gdrkit.transport.measure.remote import COMMAND
from tests.fleet.programs import install
from tests.system_programs import has_ended
from tests.work import within

WHAT = What("tcp", None, "", "127.0.0.0/8", 1000)
NODES = 'case "$node" in hung) echo $$ >{pid}; exec sleep 600;; *) eval "$last";; esac'


@pytest.fixture
def ssh(tmp_path, monkeypatch):
    install(tmp_path / "bin", "ssh", NODES.format(pid=tmp_path / "pid"), monkeypatch)


def run(*nodes, **options):
    return PairRun(Ssh(nodes), COMMAND, partial(_meet, WHAT), **options)


def ended(pid_file):
    return has_ended(int(pid_file.read_text()))


def test_a_node_that_hangs_is_given_up_at_its_round_s_share_and_not_asked_again(ssh, tmp_path):
    nodes = ("a", "b", "hung")
    pairs = run(*nodes, timeout_s=16.0)
    with within(100):
        complete = pairs.measure(nodes, 3, lambda row: None)

    assert complete and list(pairs.silent) == ["hung"]
    assert pairs.silent["hung"].summary == "it did not answer in time"
    assert [row.nodes for row in pairs.rows if row.gb_per_s] == [("a", "b")]
    assert [row.node for row in pairs.rows if row.why] == ["hung"] and ended(tmp_path / "pid")


def test_an_interrupt_keeps_what_came_and_ends_what_runs(ssh, tmp_path):
    nodes = ("a", "hung", "c", "b")
    pairs = run(*nodes, timeout_s=60.0)

    def arrived(row):
        if isinstance(row, PairRow):
            while not (tmp_path / "pid").exists():
                os.sched_yield()
            signal.raise_signal(signal.SIGINT)

    complete = pairs.measure(nodes, 1, arrived)

    assert not complete and [row.nodes for row in pairs.rows] == [("a", "b")] and ended(tmp_path / "pid")


def test_after_the_deadline_no_node_is_asked(ssh, tmp_path):
    pairs = run("a", "hung", timeout_s=0.0)
    assert pairs.measure(("a", "hung"), 3, lambda row: None)

    assert [row.why for row in pairs.rows] == ["not asked: the deadline of the run had passed"]
    assert not (tmp_path / "pid").exists()
