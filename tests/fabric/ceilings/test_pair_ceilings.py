"""The ceilings in a node's report."""

import pytest

from gdrkit.diagnosis import diagnose
from gdrkit.evidence.target import open_host
from gdrkit.fabric.ceilings.pair_ceilings import ceilings
from gdrkit.node import Node
from gdrkit.report.build import build as report_of
from gdrkit.verdict import judge_node
from tests.evidence_nodes import build
from tests.memory_host import MemoryHost


def test_the_report_names_the_tightest_limit_of_each_pair(tmp_path):
    report = diagnose(open_host(str(build("nic-x4", tmp_path))))
    (pair,) = report.pairs

    assert pair.ceiling.tightest == "nic-link"
    assert 12 < pair.ceiling.low_gb_per_s < pair.ceiling.high_gb_per_s < 15


def test_both_ports_of_one_function_pair_share_their_link(tmp_path):
    report = diagnose(open_host(str(build("spark-two-cables", tmp_path))))
    found = {pair.device: pair.ceiling for pair in report.pairs}

    assert found["rocep1s0f0"].shared_with == ("rocep1s0f1",)
    assert found["rocep1s0f0"].high_gb_per_s == pytest.approx(15.05)


def test_a_node_without_evidence_has_no_ceilings():
    assert ceilings(Node(MemoryHost())) == {}


def test_a_report_has_only_the_ceilings_that_it_is_given(tmp_path):
    node = Node(open_host(str(build("nic-x4", tmp_path))))
    (pair,) = report_of(node, judge_node(node), "nccl", chains=(), plans=(), prediction=None).pairs

    assert pair.ceiling is None
