"""Which rules are asked, and what a verdict says that it assumes."""

from __future__ import annotations

import gc
import weakref

import pytest

from gdrkit.catalogue import CALLED_FOR_BY, CODES
from gdrkit.evidence.target import open_host
from gdrkit.node import Node
from gdrkit.verdict import assumptions, judge_node
from tests.evidence_nodes import laid_down
from tests.hiding_host import HidingHost


@pytest.mark.parametrize(
    ("name", "hidden", "asked"),
    [
        ("no-gpu", frozenset[str](), False),
        ("gpus-gone", frozenset[str](), True),  # nvidia is loaded, which it would not be without a GPU
        ("no-gpu", {"sys/module", "proc/modules", "proc/driver"}, True),  # whether it is, is not known
        ("ubuntu-6.8-h100", {"sys/module", "proc/modules"}, True),
        ("hypervisor", frozenset[str](), True),  # whose GPUs belong to its guests
    ],
)
def test_rules_about_gpus_are_asked_unless_there_is_none_for_sure(name: str, hidden: set[str], asked: bool):
    verdict = judge_node(Node(HidingHost(open_host(str(laid_down(name))), hidden)))
    about_gpus = [r.rule.code for r in verdict.check_results if CODES[r.rule.code] in CALLED_FOR_BY["a GPU"]]
    assert bool(about_gpus) is asked


@pytest.mark.parametrize(
    ("name", "assumed"), [("no-gpu", [("nccl", "NCCL 2.23.4 or newer")]), ("ubuntu-6.8-h100", [])]
)
def test_a_release_that_is_not_shown_is_assumed(name: str, assumed: list[tuple[str, str]]):
    node = Node(open_host(str(laid_down(name))))
    assert [(one.consumer, one.text) for one in assumptions(node)] == assumed


def test_a_judged_node_is_freed_without_a_garbage_collection():
    """An error that is kept must not refer to the frames it went through, and so to the node."""
    gc.disable()
    try:
        node = Node(open_host(str(laid_down("gpus-gone"))))
        judge_node(node)
        freed = weakref.ref(node)
        del node
        assert freed() is None
    finally:
        gc.enable()
