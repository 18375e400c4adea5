"""Whether the driver maps a coherent GPU's memory for an EFA, by branch, option and IOMMU group."""

from __future__ import annotations

import pytest

from gdrkit.evidence import Confidence, EvidenceMissing
from gdrkit.facts.driver import driver_parameters, driver_version
from gdrkit.facts.pci import iommu_group
from gdrkit.node import Node
from gdrkit.repair.remedies import remedy_of
from gdrkit.rules.efa_mapping_refused import efa_mapping_refused
from gdrkit.rules.iommu import iommu_groups_differ
from gdrkit.verdict.cells import paths_closed_by
from gdrkit.verdict.check_results import check_results, trail_of
from tests.hardware import BARE_METAL, SERVER, machine
from tests.rules.hardware import failed, missing, not_applicable, passed

REFUSED = "[   90.0] NVRM: dma-buf attach failed: topology not supported for mapping type FORCE_PCIE\n"
LOG = "[    0.000000] Linux version 6.8.0\n"
OPTION = "GrdmaPciTopoCheckOverride"


def with_efa(
    driver: str, *, gpu: str = "gb200 group=1", nic: str = "efa", option: str | None = "0", log: str = LOG
) -> Node:
    """A server with a NIC that has no IOMMU group. `option` None: the driver does not list it."""
    outline = SERVER.replace("h100-sxm", gpu).replace("cx7-ib", nic)
    loaded = {
        **BARE_METAL,
        "proc/modules": "nvidia 1 0 - Live 0x0\n",
        "sys/module/nvidia/version": f"{driver}\n",
        "sys/module/nvidia/initstate": "live\n",
        "proc/driver/nvidia/params": "ResmanDebugLevel: 1\n" + (f"{OPTION}: {option}\n" if option else ""),
    }
    node = machine(outline, files=loaded, commands={("dmesg",): log})
    return node.after("", [iommu_group.becomes("", "0000:18:00.0")])


@pytest.mark.parametrize("driver", ["595.58.03", "595.91.07"])
def test_r595_does_not_map_for_an_efa(driver: str):
    found = failed(with_efa(driver, option=None), efa_mapping_refused)

    assert paths_closed_by(efa_mapping_refused.takes(found.subject)) == ("dmabuf", "efa-p2p")
    assert (found.expected, driver in found.seen) == ("a driver of the branch R580", True)


def test_the_option_of_r595_does_not_reach_a_coherent_gpu():
    failed(with_efa("595.45.04", option="1"), efa_mapping_refused)


@pytest.mark.parametrize(
    ("driver", "option"), [("580.173.02", "1"), ("590.48.01", "1"), ("570.86.15", "1"), ("575.51.03", "2")]
)
def test_the_option_maps_up_to_r590(driver: str, option: str):
    passed(with_efa(driver, option=option, log=LOG + REFUSED), efa_mapping_refused)


@pytest.mark.parametrize(
    ("driver", "option"), [("580.173.02", "0"), ("580.173.02", "2"), ("570.86.15", "0")]
)
def test_without_the_option_older_drivers_refuse_too(driver: str, option: str):
    assert failed(with_efa(driver, option=option), efa_mapping_refused).expected == f"{OPTION} 1"


def test_a_newer_driver_is_unknown_until_the_kernel_log_decides():
    assert missing(with_efa("615.71.09", option=None), efa_mapping_refused).ask == "sudo dmesg"
    failed(with_efa("615.71.09", option=None, log=LOG + REFUSED), efa_mapping_refused)


@pytest.mark.parametrize(
    ("gpu", "driver", "nic"),
    [
        ("gb200 group=1", "595.91.07", "cx7-ib"),
        ("h100-sxm group=1", "595.91.07", "efa"),
        ("gb200 group=1", "565.77", "efa"),
    ],
)
def test_other_nics_gpus_and_drivers_before_the_mapping_are_not_accused(gpu: str, driver: str, nic: str):
    not_applicable(with_efa(driver, gpu=gpu, nic=nic), efa_mapping_refused)


def test_no_iommu_at_all_maps():
    passed(with_efa("595.91.07").after("", [iommu_group.becomes("", "0000:1b:00.0")]), efa_mapping_refused)


def test_the_groups_of_an_efa_are_not_judged_twice():
    node = with_efa("595.91.07", log=LOG + REFUSED)
    not_applicable(node, iommu_groups_differ)
    failed(node, efa_mapping_refused)


def test_without_the_kernel_log_the_answer_rests_on_what_was_measured_elsewhere():
    for log, measured in ((LOG, True), (LOG + REFUSED, False)):
        node = with_efa("595.91.07", option=None, log=log)
        (result,) = check_results(node, [efa_mapping_refused])
        cited = [one for one in trail_of(node, result).sources if one.name.startswith("NVIDIA/aicr")]
        assert [one.confidence for one in cited] == [Confidence.LIKELY] * measured


def test_going_back_to_r580_cures_r595_and_is_not_offered_on_r580():
    remedy = remedy_of("use-driver-580")
    node = with_efa("595.91.07", option=None)
    after = node.after(remedy.name, tuple(remedy.effect(node)))

    assert driver_version(after).startswith("580.") and driver_parameters(after)[OPTION] == "1"
    passed(after, efa_mapping_refused)
    with pytest.raises(EvidenceMissing):
        tuple(remedy.effect(with_efa("580.173.02")))
