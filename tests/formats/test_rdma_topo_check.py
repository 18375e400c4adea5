"""The output of `rdma_topo check`: what each failed check shows, and where it means nothing."""

from __future__ import annotations

import pytest

from gdrkit.formats.rdma_topo_check import faults, read_checks

GRACE = "OK\tACS for grace_rp 0008:00:00.0 has correct values 0011101 = xx111x1"
ACS = "FAIL\tACS for cx_switch 0008:02:00.0 has incorrect values 0011101 != xx110x1, (0x1d != 0x19)"
WITHOUT_GROUPS = "FAIL\tKernel iommu_group missing for devices on NUMA node 0: 0000:41:00.0, 0000:43:00.0"
SHARED = "FAIL\tMultiple devices share the same kernel iommu_group for NUMA node 0: [4]"
ATS = "FAIL\tATS capability for cx_nic 0008:01:00.0 is available"


def codes(*lines: str) -> list[tuple[str, ...]]:
    return [fault.codes for fault in faults(read_checks(enumerate(lines, 1)))]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (ACS, ("acs-bits-differ",)),
        (ACS.replace("\t", "  "), ("acs-bits-differ",)),
        (
            "FAIL\tKernel iommu_group for DMA 0008:03:00.0 and GPU 0008:06:00.0 are not equal 5 != None",
            ("iommu-groups-differ",),
        ),
        (
            "FAIL\tKernel iommu_group for cx_nic 0008:03:00.0 and nvgpu 0008:06:00.0 are equal 5 == 5",
            ("iommu-groups-shared",),
        ),
        (
            "FAIL\tKernel iommu_group for cx_nic 0008:03:00.0 and nvgpu 0008:06:00.0 are not set",
            ("iommu-groups-shared",),
        ),
        (
            "FAIL\tKernel iommu_group is missing for nvgpu 0008:06:00.0",
            ("iommu-groups-shared", "iommu-groups-differ"),
        ),
        ("FAIL\tCould not read ACS control register for cx_switch 0008:02:00.0", ()),
    ],
)
def test_a_failed_check_has_its_cause(line: str, expected: tuple[str, ...]):
    assert codes(line) == [expected]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (WITHOUT_GROUPS, "iommu-groups-shared"),
        (SHARED, "iommu-groups-shared"),
        (ATS, "nic-ats-unexpected"),
    ],
)
def test_a_verdict_on_numa_nodes_counts_on_a_grace_or_vera_alone(line: str, code: str):
    """rdma_topo takes any x86 machine with a GPU on a root port for one of Grace."""
    assert codes(GRACE, line) == [(code,)]
    assert codes(GRACE.replace("grace_rp", "vera_rp"), line) == [(code,)]
    assert codes(line) == [()]
    assert codes(GRACE.replace("grace_rp", "generic_rp"), line) == [()]


@pytest.mark.parametrize(
    "line",
    [
        GRACE,
        "OK\tKernel iommu_group for DMA 0008:03:00.0 and GPU 0008:06:00.0 are both 5",
        "FAIL\ttests/test_acs.py: ACS for everyone",
        "The check says FAIL ACS for cx_switch 0008:02:00.0 has incorrect values",
    ],
)
def test_a_passed_check_and_other_words_are_no_fault(line: str):
    assert codes(line) == []
