"""The status of a finding depends on the programs that lose a path by it, not on how many are known."""

import pytest

from gdrkit.catalogue import every_rule
from gdrkit.evidence import Missing, MissingReason
from gdrkit.evidence.target import open_host
from gdrkit.facts.expected_devices import absent_gpus
from gdrkit.facts.gpu import is_integrated
from gdrkit.facts.libraries import nccl_copies, verbs_has_dmabuf
from gdrkit.facts.pci import PciGpu, gpus
from gdrkit.facts.rdma import Pair, distance, pairs
from gdrkit.facts.virtual import virtual_machine
from gdrkit.facts.wheels import LibraryCopy
from gdrkit.html.node_sections import layers
from gdrkit.node import Node
from gdrkit.programs.environment import NCCL_CONF, environment
from gdrkit.programs.nvshmem.facts import nvshmem_copies
from gdrkit.programs.ucx.facts import ucx_version
from gdrkit.report.text import text
from gdrkit.rules.rule import Status
from gdrkit.verdict import Verdict, judge_node
from gdrkit.verdict.matrix import pairs_to_judge, path_states_of_pairs
from gdrkit.verdict.path_state import State
from tests.evidence_nodes import build, diagnosed, laid_down


@pytest.fixture(scope="module")
def stub(tmp_path_factory) -> Node:
    """A machine with dma-buf ready and a stub of nvidia-peermem."""
    path = build("ubuntu-6.8-h100", tmp_path_factory.mktemp("stub"))
    node = Node(open_host(str(path)))
    judge_node(node)  # reads the files while they exist
    return node


@pytest.mark.parametrize(("asked", "wanted"), [("nccl", Status.NOTE), ("nvshmem", Status.WARNING)])
def test_a_program_that_few_jobs_use_counts_only_if_it_is_asked_about(asked, wanted):
    node = Node(open_host(str(laid_down("a100-nccl-2.20"))))
    old = node.after("an old NVSHMEM", [nvshmem_copies.becomes((LibraryCopy("3.2.5", "image"),))])
    assert status(judge_node(old, asked=asked), "nvshmem-misses-peermem") is wanted


@pytest.mark.parametrize(
    ("setting", "best"),
    [("NCCL_IB_DISABLE=1", "socket"), ("NCCL_NET=Socket", "socket"), ("NCCL_DMABUF_ENABLE=0", "staged")],
)
def test_without_rdma_there_is_no_staging_either(tmp_path, setting, best):
    tree = build("ubuntu-22.04-peer-api", tmp_path)
    (tree / "etc/nccl.conf").write_text(f"{setting}\n")
    assert judge_node(Node(open_host(str(tree)))).of("nccl").best_fallback == best


def test_a_fallback_is_not_the_best_one_while_a_better_one_may_be(stub: Node):
    """NCCL copies past the NIC or uses TCP: its settings decide, and nobody collected them."""
    unseen = Missing(NCCL_CONF, MissingReason.NOT_COLLECTED, "cat /etc/nccl.conf")
    node = stub.after("not collected", [environment.becomes(unseen, NCCL_CONF)])
    assert judge_node(stub).of("nccl").best_fallback == "staged"
    assert judge_node(node).of("nccl").best_fallback is None


def test_mapped_host_memory_is_the_best_fallback_only_where_every_gpu_is_integrated(stub: Node):
    first, *others = gpus(stub)
    assert others
    for integrated, best in (((), "staged"), ((first,), "staged"), ((first, *others), "host-mapped")):
        node = stub.after(
            "integrated", [is_integrated.becomes(gpu in integrated, gpu) for gpu in gpus(stub)]
        )
        assert judge_node(node).of("verbs").best_fallback == best
    unknown = Missing("attributes", MissingReason.NOT_COLLECTED, "nvidia-smi")
    unseen = stub.after("unseen", [is_integrated.becomes(unknown, gpu) for gpu in gpus(stub)])
    assert judge_node(unseen).of("verbs").best_fallback != "host-mapped"


def test_the_states_of_a_few_pairs_for_one_program_are_those_of_the_whole_matrix(stub: Node):
    whole = judge_node(stub).matrix
    some = list(whole)[:3]
    found = path_states_of_pairs(stub, every_rule(), some, "ucx")
    assert found == {pair: tuple(j for j in whole[pair] if j.consumer == "ucx") for pair in some}


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


def test_a_blocked_path_is_a_note_if_the_other_lacks_only_evidence_that_it_lacks_too(stub: Node):
    """In a virtual machine, a job may give NCCL another topology, for dma-buf as for nvidia-peermem."""
    guest = [virtual_machine.becomes("kvm"), *(distance.becomes("PHB", pair) for pair in pairs(stub))]
    node = stub.after("a guest", guest)
    unseen = Missing("the kernel's symbols", MissingReason.NOT_COLLECTED, "cat /proc/kallsyms")

    assert judge_node(node).of("nccl").state is State.UNKNOWN
    assert status(judge_node(node), "peermem-stub") is Status.NOTE
    other = stub.after("dma-buf unseen", [verbs_has_dmabuf.becomes(unseen)])
    assert judge_node(other).of("nccl").state is State.UNKNOWN
    assert status(judge_node(other), "peermem-stub") is Status.FAILED


def test_a_gpu_that_is_expected_and_not_there_has_a_pair_of_its_own(stub: Node):
    assert pairs_to_judge(stub)[-1] in pairs(stub)
    absent = stub.after("expected", [absent_gpus.becomes((PciGpu("an H100"),))])
    assert pairs_to_judge(absent) == (*pairs(stub), Pair("an H100", ""))


@pytest.mark.parametrize("name", ["nic-x4", "zgx-3285"])
def test_what_was_read_of_the_device_itself_is_shown_before_what_was_read_around_it(name):
    found = judge_node(Node(open_host(str(laid_down(name))))).findings
    narrow = [finding for finding in found if finding.code == "link-narrower-than-port"]
    assert narrow
    for finding in narrow:
        quoted = [evidence.source.split("/") for evidence in finding.evidence if evidence.text]
        assert [finding.subject in parts for parts in quoted[:3]] == [True, True, False]


@pytest.mark.parametrize(
    ("name", "code", "permanent"),
    [
        ("no-gpu", "no-gpu", True),
        ("gpus-gone", "no-gpu", False),  # they fell off the bus: another start may bring them back
        ("zgx-3285", "gpu-integrated", True),
        ("rail-down", "port-down", False),
    ],
)
def test_what_lasts_is_said_of_the_outcome_and_not_of_the_rule(name, code, permanent):
    """In the document, in the terminal and on the page."""
    report = diagnosed(name)
    (found,) = [one for one in report.findings if one.code == code]
    assert (found.status, found.permanent) == ("failed", permanent)

    shown = next(line for line in text(report).splitlines() if line[2:].startswith(str(found.layer)))
    assert shown.split()[-1] == ("permanent" if permanent else "failed")
    assert ("<small>permanent," in layers(report, "")) is permanent
