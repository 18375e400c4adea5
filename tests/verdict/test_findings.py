"""The status of a finding depends on the programs that lose a path by it, not on how many are known."""

import pytest

from gdrkit.evidence.target import open_host
from gdrkit.facts.libraries import LibraryCopy, nccl_copies, ucx_version
from gdrkit.node import Node
from gdrkit.rules.rule import Status
from gdrkit.verdict import Verdict, judge_node
from tests.evidence_nodes import build


@pytest.fixture(scope="module")
def stub(tmp_path_factory) -> Node:
    """A machine with dma-buf ready and a stub of nvidia-peermem."""
    path = build("ubuntu-6.8-h100", tmp_path_factory.mktemp("stub"))
    node = Node(open_host(str(path)))
    judge_node(node)  # reads the files while they exist
    return node


def status(verdict: Verdict, code: str) -> Status:
    (found,) = {f.status for f in verdict.findings if f.code == code}
    return found


def with_ucx(node: Node, version: str) -> Node:
    return node.after("another UCX", [ucx_version.becomes(version)])


def test_a_blocked_path_is_a_note_if_every_program_can_use_the_other(stub: Node):
    assert status(judge_node(stub), "peermem-stub") is Status.NOTE
    assert status(judge_node(with_ucx(stub, "1.18.0")), "peermem-stub") is Status.NOTE


def test_it_is_a_warning_if_only_another_program_needs_it(stub: Node):
    verdict = judge_node(with_ucx(stub, "1.13.1"))

    assert status(verdict, "ucx-lacks-dmabuf") is Status.WARNING
    assert status(verdict, "peermem-stub") is Status.WARNING


def test_it_fails_the_node_if_the_first_program_needs_it(stub: Node):
    verdict = judge_node(stub.after("an old NCCL", [nccl_copies.becomes((LibraryCopy("2.12.12", "here"),))]))

    assert status(verdict, "nccl-lacks-dmabuf") is Status.FAILED
    assert status(verdict, "peermem-stub") is Status.FAILED
