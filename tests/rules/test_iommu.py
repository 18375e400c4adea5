"""The IOMMU's mode, and its groups."""

import pytest

from gdrkit.rules.iommu import iommu_groups_differ, iommu_translating
from gdrkit.verdict.cells import paths_closed_by
from tests.hardware import SERVER, machine
from tests.rules.hardware import failed, missing, not_applicable, outcome, passed
from tests.rules.test_registration import DIRECT, connectx_8

__all__ = ["connectx_8"]


@pytest.mark.parametrize("kind", ["DMA", "DMA-FQ"])
def test_a_translating_iommu_slows_both_paths(kind):
    found = failed(machine(spec={"iommu": kind}), iommu_translating)

    assert (found.subject, found.expected) == ("mlx5_0", "identity")
    assert paths_closed_by(iommu_translating.slows) == ("dmabuf", "peermem")


@pytest.mark.parametrize("kind", ["identity", "off"])
def test_passthrough_and_no_iommu_both_pass(kind):
    passed(machine(spec={"iommu": kind}), iommu_translating)


def test_a_device_given_to_a_guest_is_not_applicable():
    not_applicable(machine(spec={"iommu": "blocked"}), iommu_translating)


def test_a_mode_that_was_not_collected_is_unknown():
    missing(machine(without=("sys/kernel/iommu_groups",)), iommu_translating)


@pytest.mark.usefixtures("connectx_8")
class TestGroups:
    def test_a_data_direct_function_in_another_group_slows_dmabuf(self):
        node = machine(DIRECT.replace("driver=mlx5_ib group=2", "driver=mlx5_ib group=3"))

        assert failed(node, iommu_groups_differ).subject == "0008:06:00.0"
        assert paths_closed_by(iommu_groups_differ.slows) == ("dmabuf",)

    def test_one_group_passes(self):
        passed(machine(DIRECT), iommu_groups_differ)

    def test_a_refused_pcie_mapping_fails_with_any_nic(self):
        line = "[   90.0] NVRM: dma-buf attach failed: topology not supported for mapping type FORCE_PCIE\n"
        outline = SERVER.replace("h100-sxm", "gb200 group=1").replace("cx7-ib", "cx7-ib group=2")
        commands = {("dmesg",): "[    0.000000] Linux version 6.8.0\n" + line}

        assert "in group 1" in failed(machine(outline, commands=commands), iommu_groups_differ).seen
        not_applicable(machine(outline), iommu_groups_differ)

    def test_gpus_behind_pcie_and_machines_without_iommu_are_not_applicable(self):
        not_applicable(machine(), iommu_groups_differ)
        not_applicable(machine(DIRECT, spec={"iommu": "off"}), iommu_groups_differ)
        not_applicable(machine(SERVER.replace("h100-sxm", "gh200")), iommu_groups_differ)

    def test_groups_that_were_not_collected_are_unknown(self):
        gpu = "sys/devices/pci0008:00/0008:00:00.0/0008:01:00.0/0008:02:00.0/0008:06:00.0"
        assert outcome(machine(DIRECT, without=(f"{gpu}/iommu_group",)), iommu_groups_differ)
        missing(machine(DIRECT, without=(f"{gpu}/iommu_group",)), iommu_groups_differ)
