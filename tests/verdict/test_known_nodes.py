"""The whole verdict on every node in tests/evidence, as it was reviewed: every field of every finding.

What must hold is in each expected.toml; here is what else would change, to be read in a commit."""

from __future__ import annotations

import functools

import pytest

from gdrkit.evidence.target import open_host
from gdrkit.node import Node
from gdrkit.verdict import Verdict, judge_node
from tests.evidence_nodes import laid_down, names
from tests.known_answers import matrix_text, verdict_text

each_node = pytest.mark.parametrize("name", names())


@functools.cache
def verdict(name: str) -> Verdict:
    return judge_node(Node(open_host(str(laid_down(name)))))


@each_node
def test_findings_and_states(name, snapshot):
    assert verdict_text(verdict(name)) == snapshot


@each_node
def test_the_matrix(name, snapshot):
    assert matrix_text(verdict(name)) == snapshot
