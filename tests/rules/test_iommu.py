"""The IOMMU's mode, and its groups."""

import pytest

from gdrkit.evidence import Confidence, EvidenceMissing
from gdrkit.facts.passthrough import passthrough_argument, passthrough_costs_cuda
from gdrkit.facts.pci import iommu_group
from gdrkit.node import Node
from gdrkit.repair.remedies import remedy_of
from gdrkit.rules.iommu import iommu_groups_differ, iommu_translating
from gdrkit.verdict.cells import paths_closed_by
from tests.hardware import BARE_METAL, SERVER, machine
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


GH200 = SERVER.replace("h100-sxm", "gh200")


def kernel(release: str, architecture: str) -> dict[str, str]:
    return BARE_METAL | {
        "proc/sys/kernel/osrelease": f"{release}\n",
        "proc/sys/kernel/arch": f"{architecture}\n",
    }


@pytest.mark.parametrize(
    ("architecture", "argument"), [("x86_64", "`iommu=pt`"), ("aarch64", "`iommu.passthrough=1`")]
)
def test_each_architecture_gets_its_own_argument(architecture, argument):
    node = machine(spec={"iommu": "DMA"}, files=kernel("6.8.0-45-generic", architecture))
    assert argument in failed(node, iommu_translating).advice
    assert passthrough_argument(node) == argument.strip("`")


def test_an_architecture_that_is_not_known_gets_none():
    node = machine(spec={"iommu": "DMA"}, files=kernel("6.8.0", "riscv64"))
    assert failed(node, iommu_translating).advice == ""
    with pytest.raises(EvidenceMissing):
        passthrough_argument(node)


LOG = {("dmesg",): "[    0.000000] Linux version 6.11.0\n"}


def translating(outline: str, commands: dict[tuple[str, ...], str]) -> Node:
    return machine(outline, spec={"iommu": "DMA-FQ"}, files=kernel("6.11.0", "aarch64"), commands=commands)


def test_before_linux_6_11_a_coherent_gpu_keeps_translation_because_passthrough_costs_cuda():
    old, new = (
        machine(GH200, spec={"iommu": "DMA"}, files=kernel(k, "aarch64"), commands=LOG)
        for k in ("6.8.0", "6.11.0")
    )
    passed(old, iommu_translating)
    with pytest.raises(EvidenceMissing):
        tuple(remedy_of("iommu-passthrough").effect(old))
    assert "iommu.passthrough=1" in failed(new, iommu_translating).advice
    assert tuple(remedy_of("iommu-passthrough").effect(new))
    h100 = machine(spec={"iommu": "DMA"}, files=kernel("6.8.0", "aarch64"))
    assert "iommu.passthrough=1" in failed(h100, iommu_translating).advice


@pytest.mark.usefixtures("connectx_8")
def test_translation_is_a_note_where_nics_reach_gpu_memory_through_the_cpu_anyway():
    """On a GH200. Not below a common switch, as with a Data Direct function, or with another GPU."""
    direct, gh200, h100 = (
        failed(translating(outline, LOG), iommu_translating) for outline in (DIRECT, GH200, SERVER)
    )
    assert (direct.as_expected, gh200.as_expected, h100.as_expected) == (False, True, False)
    assert gh200.advice.startswith("Nothing, unless")
    missing(translating(GH200, {}), iommu_translating)  # whether a program asks for another mapping
    assert failed(translating(SERVER, {}), iommu_translating).advice == h100.advice


@pytest.mark.parametrize(
    ("release", "confidence"), [("6.11.0", Confidence.CERTAIN), ("9.1.0", Confidence.LIKELY)]
)
def test_that_a_kernel_beyond_those_that_were_read_bears_passthrough_is_likely(release, confidence):
    node = machine(GH200, spec={"iommu": "DMA"}, files=kernel(release, "aarch64"))
    assert not passthrough_costs_cuda(node)
    assert node.trail(passthrough_costs_cuda).confidence is confidence


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

        found = failed(machine(outline, commands=commands), iommu_groups_differ)
        assert ("in group 1" in found.seen, found.advice) == (True, "")  # an ACS setting may help
        not_applicable(machine(outline), iommu_groups_differ)

    def test_no_acs_setting_helps_a_nic_without_a_group(self):
        line = "[   90.0] NVRM: dma-buf attach failed: topology not supported for mapping type FORCE_PCIE\n"
        outline = SERVER.replace("h100-sxm", "gb200 group=1")
        commands = {("dmesg",): "[    0.000000] Linux version 6.8.0\n" + line}
        node = machine(outline, commands=commands).after("", [iommu_group.becomes("", "0000:18:00.0")])
        found = failed(node, iommu_groups_differ)

        assert found.seen.endswith("in none") and "has none" in found.advice

    def test_gpus_behind_pcie_and_machines_without_iommu_are_not_applicable(self):
        not_applicable(machine(), iommu_groups_differ)
        not_applicable(machine(DIRECT, spec={"iommu": "off"}), iommu_groups_differ)
        not_applicable(machine(SERVER.replace("h100-sxm", "gh200")), iommu_groups_differ)

    def test_groups_that_were_not_collected_are_unknown(self):
        gpu = "sys/devices/pci0008:00/0008:00:00.0/0008:01:00.0/0008:02:00.0/0008:06:00.0"
        assert outcome(machine(DIRECT, without=(f"{gpu}/iommu_group",)), iommu_groups_differ)
        missing(machine(DIRECT, without=(f"{gpu}/iommu_group",)), iommu_groups_differ)
