"""UCX's tables and `ucx_info -d` in a text."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.explain.explaining import explained
from tests.programs.ucx.test_domains import CUDA, NIC

UCX = Path(__file__).parents[1] / "programs" / "ucx"


def open_codes(text: str) -> tuple[str, ...]:
    return tuple(cause.code for cause in explained(text).answer.others)


@pytest.mark.parametrize(
    ("name", "kind", "first"),
    [
        ("direct", "working", ""),
        ("staged", "several", "ucx-misses-peermem"),
        ("tcp", "several", "ucx-transport-excluded"),
    ],
)
@pytest.mark.parametrize("bare", [False, True])
def test_tables_are_answered_with_or_without_their_prefixes(name, kind, first, bare):
    text = (UCX / "tables" / f"{name}.txt").read_text()
    if bare:
        text = "\n".join(line.partition("]   ")[2] or line for line in text.splitlines()) + "\n"

    found = explained(text).answer

    assert found.kind == kind and (found.others[0].code if first else "") == first


def test_what_was_chosen_is_not_surer_than_likely():
    assert explained((UCX / "tables" / "direct.txt").read_text()).answer.sureness == "likely"


@pytest.mark.parametrize("before", ["$ ucx_info -d\n", ""])
def test_a_ucx_without_a_nic_opens_the_build_first(before: str):
    listing = (UCX / "recorded" / "ucx_info-d-1.22.0.txt").read_text()

    assert open_codes(before + listing)[:2] == ("ucx-lacks-verbs", "no-rdma-device")
    assert not open_codes(before + listing + NIC.format(dmabuf=", dmabuf", cuda=", cuda (reg)"))


def test_the_configuration_proves_it():
    text = "$ ucx_info -v\n" + (UCX / "recorded" / "ucx_info-v-1.22.0.txt").read_text()

    found = explained(text).answer

    assert (found.cause, found.sureness) == ("ucx-lacks-verbs", "certain")
    assert "--without-verbs" in found.lines[0].text or found.lines[0].text.startswith("Configured with")


@pytest.mark.parametrize(("cuda", "codes"), [("", True), (", cuda (reg,cache)", False)])
def test_a_nic_that_cannot_register_gpu_memory_is_named(cuda: str, codes: bool):
    text = "$ ucx_info -d\n" + NIC.format(dmabuf=", dmabuf", cuda=cuda) + CUDA.format(dmabuf="")

    assert bool(open_codes(text)) is codes
