"""What a row says of a node: its standing, the GPUs it concerns, and errors in words."""

from __future__ import annotations

import pytest

from gdrkit.evidence.errors import TargetError
from gdrkit.fleet.groups import groups
from gdrkit.fleet.judge import reason_of
from gdrkit.fleet.worker import row_of, task_of
from tests.evidence_nodes import laid_down


@pytest.mark.parametrize(
    ("name", "standing", "rails"),
    [
        ("ubuntu-6.8-h100", "ready", ()),
        ("acs-redirect", "warnings", ()),
        ("rail-down", "blocked", (7,)),  # one GPU of eight
        ("h200-vm", "blocked", ()),  # all of them
        ("zgx-3285", "impossible", ()),
    ],
)
def test_a_row_has_the_standing_of_its_node_and_the_gpus_that_lack_something(
    name: str, standing: str, rails: tuple[int, ...]
):
    row = row_of(task_of(str(laid_down(name))))
    assert (row.standing, row.rails) == (standing, rails)


def test_what_fails_whatever_the_missing_evidence_shows_is_the_first_cause_of_an_unknown_node():
    row = row_of(task_of(str(laid_down("gpu-operator-waits"))))
    (group,) = groups([row])

    assert row.standing == "unknown" and row.causes[0] == "operator-waits-for-ofed"
    assert all(cause.endswith(": not collected") for cause in row.causes[1:]) and row.causes[1:]
    assert group.advice.startswith("Set rdma.enabled: false and use dma-buf; or deploy NicClusterPolicy")
    assert ". To find out, run: kubectl exec POD" in group.advice


def test_what_fails_without_deciding_is_no_cause_of_an_unknown_node():
    row = row_of(task_of(str(laid_down("dgx-os-5-nv-peer-mem"))))

    assert row.traits["failed"] != "none"
    assert all(cause.endswith(": not collected") for cause in row.causes)
    assert groups([row])[0].advice.startswith("to find out, run: readlink")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (TargetError("no bundle"), "no bundle"),
        (PermissionError(13, "Permission denied"), "permission denied"),
        (OSError("Odd"), "odd"),
        (MemoryError(), "judging it takes too much memory"),
        (ValueError("a bug"), "internal error: ValueError: a bug"),
    ],
)
def test_an_error_is_told_in_words(error: BaseException, words: str):
    assert reason_of(error) == words
