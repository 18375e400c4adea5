"""Of several copies, modules, GPUs, NICs or log lines: which one decides, and that each is looked at."""

from __future__ import annotations

import functools

import pytest
from msgspec.structs import replace

from gdrkit.catalogue import every_rule
from gdrkit.evidence import Missing, MissingReason
from gdrkit.evidence.target import open_host
from gdrkit.facts.driver import PEER_API, PeermemLinkage, peermem_linkage
from gdrkit.facts.libraries import libcuda_version, nccl_copies
from gdrkit.facts.pci import gpus
from gdrkit.facts.rdma import rdma_devices
from gdrkit.facts.wheels import LibraryCopy
from gdrkit.formats.expectation import Expectation
from gdrkit.node import Node, Supposition
from gdrkit.programs.environment import Environment, environment, parse_conf
from gdrkit.programs.nccl.library_rules import nccl_misses_peermem
from gdrkit.programs.nccl.log_rules import proof_misread
from gdrkit.programs.nccl.setting_rules import hca_not_selected
from gdrkit.programs.nvshmem.facts import nvshmem_copies
from gdrkit.programs.nvshmem.rules import nvshmem_misses_peermem
from gdrkit.rules.dependency_failed import dependency_failed
from gdrkit.rules.driver_mismatch import driver_mismatch
from gdrkit.rules.driver_not_loaded import driver_not_loaded
from gdrkit.rules.expectation import expected_firmware_differs, unexpected_device
from gdrkit.rules.gpu_operator import operator_ofed_changed
from gdrkit.rules.iommu import iommu_translating
from gdrkit.rules.missing_neighbours import gpu_missing
from gdrkit.rules.module_symbols import module_symbol_missing
from gdrkit.rules.ofed_rebuilt_after_driver import ofed_rebuilt_after_driver
from gdrkit.rules.rule import Failed, Passed, Unknown
from gdrkit.verdict.check_results import check_results
from tests.evidence_nodes import laid_down
from tests.facts.test_trust import MOK, secured
from tests.hardware import SERVER, machine
from tests.hiding_host import HidingHost
from tests.kernel_tree import KernelTree
from tests.memory_host import MemoryHost
from tests.module_builder import build_module, sign
from tests.programs.nccl.test_log_rules import CLAIMS, LOG, STAGED, A, log
from tests.rules.hardware import outcomes
from tests.rules.machines import does_not_apply, failed, missing, node, outcome, passes
from tests.rules.test_expectation import expecting
from tests.rules.test_gpu_passed_through import HELD
from tests.rules.test_missing_neighbours import rail, rails


@functools.cache
def plain(name: str) -> Node:
    return Node(open_host(str(laid_down(name))))


def after(name: str, *changes: Supposition) -> Node:
    return plain(name).after("derived", changes)


GPU_CASES = [(7, 1, Failed), (7, 2, Failed), (6, 2, Failed), (5, 2, Passed), (3, 1, Failed), (8, 1, Passed)]
SECOND = SERVER.replace("0000:1", "0000:2").replace("mlx5_0", "mlx5_1")
VERSIONS = ("2.20.5", "2.12.12", "2.11.4", "2.27.5")
COPIES = tuple(LibraryCopy(version, f"copy {version}") for version in VERSIONS)


def test_the_oldest_copy_is_named_wherever_it_is():
    for copies in (COPIES, COPIES[::-1]):
        found = failed(after("a100-nccl-2.20", nccl_copies.becomes(copies)), nccl_misses_peermem)
        assert found.seen.startswith("NCCL 2.11.4 (copy 2.11.4)")


@pytest.mark.parametrize("first", ["loaded", "fine"])
def test_the_first_dependency_that_cannot_be_loaded_is_named(first):
    """After one that is loaded, or that can be."""
    tree = secured().module(
        first, content=sign(build_module(first), MOK), loaded="" if first == "loaded" else None
    )
    tree.module("second").module("third")
    wanted = ("third", "second", first)
    tree.module("x", content=sign(build_module("x", depends=wanted), MOK), depends=wanted)
    found = failed(tree.node(), dependency_failed, "x")
    assert found.seen == "second: module-unsigned: no signature"


def test_a_rule_without_subjects_does_not_end_the_others():
    unknown = [
        result for result in check_results(Node(MemoryHost()), every_rule()) if result.subject is None
    ]
    assert len(unknown) > 5
    assert {result.rule for result in check_results(Node(MemoryHost()), every_rule())} > {
        r.rule for r in unknown
    }


@pytest.mark.parametrize(
    ("models", "said"),
    [
        ({"10de:2330": 4, "NVIDIA L40S": 1}, None),
        ({"NVIDIA L40S": 1, "10de:2330": 4}, None),
        ({"NVIDIA A100": 4, "NVIDIA L40S": 1}, ", among them "),
        ({}, None),
    ],
)
def test_a_gpu_of_one_of_several_expected_models_is_no_other_model(models, said):
    wanted = Expectation(gpus=4, gpu_models=models)
    found = outcomes(expecting(machine("".join(rails(4))), wanted), unexpected_device)
    assert [said is not None and said in row.seen for row in found if isinstance(row, Failed)] == (
        [] if said is None else [True]
    )


@pytest.mark.parametrize("symbols", [PEER_API[:1], PEER_API[1:], PEER_API])
def test_one_symbol_of_another_version_is_enough(symbols):
    host = HidingHost(plain("gpu-operator-ofed-changed").host, {"dmesg"})
    linkage = PeermemLinkage(uses_peer_api=True, mismatched=symbols)
    found = failed(Node(host).after("x", [peermem_linkage.becomes(linkage)]), operator_ofed_changed)
    assert found.seen == f"CRC of {PEER_API[0]} differs"
    other = PeermemLinkage(uses_peer_api=True, mismatched=("nvidia_p2p_get_pages",))
    assert passes(Node(host).after("x", [peermem_linkage.becomes(other)]), operator_ofed_changed)


def test_a_nic_that_is_the_nearest_of_one_gpu_must_be_selected():
    conf = "etc/nccl.conf"
    found = Environment(conf, "node", parse_conf("NCCL_IB_HCA=none\n", conf))
    node = after("dgx-a100-proprietary", environment.becomes(found, conf))
    kinds = [type(row) for row in outcomes(node, hca_not_selected)]
    assert kinds == [Failed] * len(rdma_devices(node)) and len(kinds) > 7


@pytest.mark.parametrize("outline", [HELD + SECOND, SECOND + HELD], ids=["first", "second"])
def test_one_gpu_that_is_passed_through_explains_a_translating_iommu(outline):
    node = machine(outline, spec={"iommu": "DMA"})
    assert len(gpus(node)) == 2
    assert {type(row) for row in outcomes(node, iommu_translating)} == {Passed}
    alone = machine(SECOND, spec={"iommu": "DMA"})
    assert {type(row) for row in outcomes(alone, iommu_translating)} == {Failed}


@pytest.mark.parametrize("why", [MissingReason.UNDECIDED, MissingReason.GARBLED, MissingReason.DENIED])
def test_a_version_of_libcuda_that_cannot_be_read_is_unknown(why):
    unread = Missing("libcuda", why, "ls -l /usr/lib")
    assert missing(after("a100-nccl-2.20", libcuda_version.becomes(unread)), driver_mismatch) == unread


def test_a_nic_whose_firmware_was_not_read_is_unknown():
    node = expecting(machine("".join(rails(1))), Expectation(firmware={"": "28.43"}))
    (device,) = rdma_devices(node)
    unread, fits, other = (replace(device, firmware=text) for text in ("", "28.43", "28.39"))
    assert missing(node, expected_firmware_differs, unread).source == f"firmware of {device.name}"
    assert passes(node, expected_firmware_differs, fits)
    assert failed(node, expected_firmware_differs, other).seen == "28.39"


@pytest.mark.parametrize(
    ("symbols", "said"), [(1, "a"), (3, "a, b, c"), (4, "a, b, c and 1 more"), (6, "a, b, c and 3 more")]
)
def test_three_symbols_are_named(symbols, said):
    tree = KernelTree().module("x", imports=dict.fromkeys("abcdef"[:symbols], 1))
    assert failed(tree.node(), module_symbol_missing, "x").seen == f"nothing exports {said}"


@pytest.mark.parametrize(
    ("versions", "kind"),
    [
        (("3.2.5",), Failed),
        (("3.3.8",), Unknown),
        (("3.3.8", "3.2.5"), Failed),
        (("3.2.5", "3.3.8"), Failed),
        (("3.2.6", "3.3.8"), Unknown),
        (("3.3.9", "3.3.20"), Passed),
    ],
)
def test_one_nvshmem_that_is_known_not_to_look_is_enough(versions, kind):
    copies = tuple(LibraryCopy(version, f"copy {version}") for version in versions)
    found = outcome(after("a100-nccl-2.20", nvshmem_copies.becomes(copies)), nvshmem_misses_peermem)
    assert type(found) is kind


@pytest.mark.parametrize("symbols", [PEER_API[:1], PEER_API[1:], PEER_API])
def test_without_one_symbol_of_the_api_there_is_nothing_to_compare(symbols):
    linkage = PeermemLinkage(uses_peer_api=True, unresolved=symbols)
    node = after("ofed-rebuilt", peermem_linkage.becomes(linkage))
    assert does_not_apply(node, ofed_rebuilt_after_driver, "nvidia_peermem")


@pytest.mark.parametrize(
    ("outdated", "lacking", "waits"),
    [
        ((), (), True),
        (PEER_API[:1], (), False),
        ((), (Missing("ib_core.ko", MissingReason.NOT_COLLECTED, "modinfo ib_core"),), False),
    ],
)
def test_a_module_waits_for_the_installed_ofed_only_if_that_exports_all_it_was_built_with(
    outdated: tuple[str, ...], lacking: tuple[Missing, ...], waits: bool
):
    linkage = PeermemLinkage(uses_peer_api=True, mismatched=PEER_API, outdated=outdated, lacking=lacking)
    node = after("ofed-not-running", peermem_linkage.becomes(linkage))
    found = failed(node, ofed_rebuilt_after_driver, "nvidia_peermem")
    assert ("does not run yet" in found.seen) is waits


def test_one_leg_through_tcp_is_said_beside_others():
    socket = (STAGED + "/GDRDMA").replace("NET/IB", "NET/Socket")
    for legs in ((socket, STAGED), (STAGED, socket)):
        found = failed(node(log(A + CLAIMS[0], *(A + leg for leg in legs))), proof_misread, LOG)
        assert found.seen == f"{CLAIMS[0]}, and 2 channel lines through TCP or host memory"


@pytest.mark.parametrize(("beside", "alone", "kind"), GPU_CASES)
def test_a_gpu_is_missed_where_most_nics_of_the_kind_have_one(beside, alone, kind):
    parts = [rail(number, gpu="" if number >= beside else "h100-sxm") for number in range(beside + alone)]
    assert {type(row) for row in outcomes(machine("".join(parts)), gpu_missing)} == {kind}


def test_a_driver_is_not_missed_where_it_is_not_known_whether_there_is_a_gpu():
    """A storage node has none, and needs no driver."""
    unseen = Missing("GPUs", MissingReason.NOT_COLLECTED, "lspci")
    bare = machine()
    assert missing(bare.after("unseen", [gpus.becomes(unseen)]), driver_not_loaded).source == "GPUs"
    assert does_not_apply(bare.after("none", [gpus.becomes(())]), driver_not_loaded)
