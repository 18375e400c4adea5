"""What a node needs, as configurations ask for it."""

from __future__ import annotations

import pytest

from gdrkit.facts.modules import is_loaded
from gdrkit.facts.wheels import LibraryCopy
from gdrkit.programs.nvshmem.facts import nvshmem_copies
from gdrkit.repair.config.request import ConfigRequest, choose, is_remedy_needed, state_of
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.verdict.path_state import State
from tests.repair.config.outputs import node


@pytest.mark.parametrize(
    ("name", "needed"),
    [
        ("iommu-translating",
         {"USE_DMABUF", "INSTALL_OFED", "RESTART_OFED", "REBUILD_DRIVER", "IOMMU_PASSTHROUGH"}),
        ("gh200", {"LOAD_PEERMEM", "RESTART_OFED"}),
    ],
)  # fmt: skip
def test_remedies_of_a_failed_rule_are_needed_and_no_others(name, needed):
    """NCCL's GIN needs a newer NCCL there, but nothing shows that a job uses it."""
    found = {remedy.name for remedy in RemedyName if is_remedy_needed(node(name), remedy) is True}
    assert found == needed


def test_an_option_that_weakens_isolation_is_only_for_programs_that_are_there_or_asked_about():
    """Hardly a driver has PeerMappingOverride set."""
    remedy, here = RemedyName.ALLOW_PEER_MAPPING, node("acs-redirect")
    assert not is_remedy_needed(here, remedy)
    assert is_remedy_needed(here, remedy, "nvshmem")
    assert not is_remedy_needed(here, remedy, "mooncake")
    copy = nvshmem_copies.becomes((LibraryCopy("3.4.5", "a wheel"),))
    assert is_remedy_needed(here.after("installed", [copy]), remedy)


def test_the_state_of_a_path_is_that_for_the_first_consumer():
    """What another would meet is not known there."""
    assert state_of(node("ofed-upgraded"), "peermem") is State.READY
    assert state_of(node("ofed-upgraded"), "dmabuf") is State.BLOCKED


@pytest.mark.parametrize(
    ("name", "path", "note"),
    [
        ("volta-proprietary", "peermem", "dma-buf is impossible on this node: gpu-before-turing"),
        ("a6000-tower", "dmabuf", "GPUDirect RDMA is impossible on this node: no-rdma-device"),
        ("ofed-upgraded", "peermem", "dma-buf is blocked on this node: "),
    ],
)
def test_the_path_that_can_become_ready_is_chosen_and_why_not_the_other(name, path, note):
    choice = choose(ConfigRequest(node=node(name)))
    assert choice.path == path and choice.notes[0].startswith(note)


def test_peermem_is_chosen_where_dma_buf_is_impossible_even_if_it_is_not_loaded_yet():
    whole = node("volta-proprietary")
    unloaded = whole.after("unloaded", [is_loaded.becomes(False, "nvidia_peermem")])
    assert state_of(unloaded, "peermem") is State.BLOCKED
    assert choose(ConfigRequest(node=unloaded)).path == "peermem"


def test_a_gpu_that_can_never_have_a_path_does_not_count_beside_one_that_can():
    """A professional GPU and a GeForce in one machine; a GeForce alone makes it impossible."""
    both = node("display-card")
    alone = node("geforce-desktop")

    assert state_of(both, "dmabuf") is not State.IMPOSSIBLE
    assert state_of(alone, "dmabuf") is State.IMPOSSIBLE
