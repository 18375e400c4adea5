"""The output of `rdma_topo check` in a text."""

from __future__ import annotations

import pytest

from tests.explain.explaining import codes, explained
from tests.formats.test_rdma_topo_check import ACS, ATS, GRACE, SHARED, WITHOUT_GROUPS

GROUPS = "FAIL\tKernel iommu_group for DMA 0008:03:00.0 and GPU 0008:06:00.0 are not equal 5 != 9"
ASKED = "$ sudo rdma_topo check\n"


@pytest.mark.parametrize("before", [ASKED, ""])
def test_each_failed_check_is_proven(before: str):
    found = explained(before + "\n".join((GRACE, ACS, GROUPS)) + "\n")

    assert (found.answer.cause, found.answer.sureness) == ("acs-bits-differ", "certain")
    assert codes(before + ACS + "\n" + GROUPS + "\n") == {"acs-bits-differ", "iommu-groups-differ"}


@pytest.mark.parametrize("line", [WITHOUT_GROUPS, SHARED, ATS])
def test_a_verdict_that_means_nothing_on_x86_accuses_nothing(line: str):
    found = explained(f"{ASKED}{line}\n")

    assert (found.answer.kind, found.answer.cause) == ("nothing", None)
    assert codes(f"{ASKED}{GRACE}\n{line}\n")


@pytest.mark.parametrize(
    "line",
    [
        "E: No supported topology detected",
        "No ConnectX DMA Direct functions detected",
    ],
)
def test_another_layout_is_no_fault(line: str):
    assert explained(f"{ASKED}{line}\n").answer.kind == "harmless"


def test_a_whole_pass_is_no_cause():
    assert explained(f"{ASKED}{GRACE}\n").answer.kind == "nothing"


def test_a_line_in_prose_is_only_a_claim():
    found = explained(f"My colleague says that it printed `{ACS}` last week.\n")

    assert found.answer.sureness != "certain"
