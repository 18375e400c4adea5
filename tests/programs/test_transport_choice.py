"""PyTorch's expandable segments, by the release of PyTorch."""

from __future__ import annotations

import pytest

from gdrkit.evidence import Confidence
from gdrkit.programs.mooncake.consumer import MOONCAKE
from gdrkit.programs.nixl.consumer import NIXL
from gdrkit.programs.transport_choice import torch_expandable_segments
from gdrkit.rules.capabilities import DIRECT
from gdrkit.rules.engine import judge
from tests.rules.machines import does_not_apply, environments, failed, missing, node

SYSTEM = "etc/environment"


def with_torch(*versions: str, setting: str = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"):
    return node(environments("torch", versions, "torch"), {SYSTEM: f"{setting}\n"})


@pytest.mark.parametrize(
    "setting",
    [
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        "PYTORCH_ALLOC_CONF=max_split_size_mb:512,expandable_segments:True",
    ],
)
def test_before_2_8_programs_that_register_such_memory_lose_their_direct_paths(setting: str):
    machine = with_torch("2.7.1+cu128", setting=setting)
    found = failed(machine, torch_expandable_segments, SYSTEM)

    assert found.takes is None
    assert torch_expandable_segments.takes(SYSTEM) == (*NIXL.own(*DIRECT), *MOONCAKE.own(*DIRECT))
    assert machine.confidence(judge, torch_expandable_segments, SYSTEM) is Confidence.LIKELY


def test_from_2_8_on_it_is_a_remark():
    """The memory can be registered then, but a range over several pieces is not one dma-buf."""
    found = failed(with_torch("2.8.0+cu129"), torch_expandable_segments, SYSTEM)

    assert (found.takes, found.expected) == ((), "no expandable segments")


def test_of_two_copies_the_older_takes_nothing_away():
    assert failed(with_torch("2.9.1", "2.6.0"), torch_expandable_segments, SYSTEM).takes == ()


@pytest.mark.parametrize("value", ["expandable_segments:False", "max_split_size_mb:512", ""])
def test_other_settings_of_the_allocator_do_not_matter(value: str):
    machine = with_torch("2.7.1", setting=f"PYTORCH_CUDA_ALLOC_CONF={value}")

    assert does_not_apply(machine, torch_expandable_segments, SYSTEM)


def test_it_is_unknown_without_the_release_or_the_settings():
    assert missing(with_torch(), torch_expandable_segments, SYSTEM).source == "version of PyTorch"
    assert missing(node(complete=False), torch_expandable_segments, SYSTEM).source == SYSTEM
