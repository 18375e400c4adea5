"""Which pairs the driver refuses, by chipset, driver version, parameter and bridges."""

from __future__ import annotations

import pytest

from gdrkit.evidence import Confidence, EvidenceMissing
from gdrkit.facts.rdma import Pair
from gdrkit.repair.remedies.override_topology_check import OVERRIDE_TOPOLOGY_CHECK
from gdrkit.rules.capabilities import DIRECT
from gdrkit.rules.engine import judge
from gdrkit.rules.rule import Failed
from gdrkit.rules.topology_refused import topology_refused
from gdrkit.verdict.cells import paths_closed_by
from tests.memory_host import MemoryHost
from tests.rules.machines import does_not_apply, driver, failed, kernel_log, missing, node, outcome, passes

PAIR = Pair("0000:02:00.0", "mlx5_0")


def machine(
    *, chipset: str = "0x1def 0xe100", shared: bool = False, gpu: str = "0x2330", override: str = "0",
    version: str = "580.65.06", log: str | None = None, **more: str,
):  # fmt: skip
    """A GPU below one root port, a NIC below another, or both below one switch."""
    vendor, device = chipset.split()
    roots = {"0000:00:01.0": (vendor, device), "0001:00:01.0": (vendor, device)}
    below_gpu = "pci0000:00/0000:00:01.0/"
    below_nic = below_gpu if shared else "pci0001:00/0001:00:01.0/"
    nic = "0000:03:00.0" if shared else "0001:01:00.0"
    places = {
        "0000:00:01.0": ("pci0000:00/0000:00:01.0", *roots["0000:00:01.0"], "0x060400"),
        "0001:00:01.0": ("pci0001:00/0001:00:01.0", *roots["0001:00:01.0"], "0x060400"),
        "0000:02:00.0": (f"{below_gpu}0000:02:00.0", "0x10de", gpu, "0x030200"),
        nic: (f"{below_nic}{nic}", "0x15b3", "0x1021", "0x020700"),
    }
    files: dict[str, str] = {"sys/bus/pci/drivers/mlx5_core/bind": ""}
    links = {}
    for address, (place, its_vendor, its_device, kind) in places.items():
        files |= {
            f"sys/devices/{place}/vendor": its_vendor + "\n",
            f"sys/devices/{place}/device": its_device + "\n",
            f"sys/devices/{place}/class": kind + "\n",
        }
        links[f"sys/bus/pci/devices/{address}"] = f"../../../devices/{place}"
    place = f"{below_nic}{nic}"
    files[f"sys/devices/{place}/infiniband/mlx5_0/node_guid"] = "1\n"
    links["sys/class/infiniband/mlx5_0"] = f"../../devices/{place}/infiniband/mlx5_0"
    files |= {
        "proc/cpuinfo": "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n",
        "sys/class/dmi/id/sys_vendor": "GIGABYTE\n",
        "sys/class/dmi/id/product_name": "G242-P32\n",
        "sys/class/dmi/id/board_name": "MP32-AR0\n",
    }
    option = f"GrdmaPciTopoCheckOverride: {override}\n" if override else ""
    params = {"proc/driver/nvidia/params": f"ResmanDebugLevel: 1\n{option}"}
    return node(
        driver(version),
        params,
        {"proc/sys/kernel/arch": "aarch64"},
        MemoryHost(files, links=links),
        more,
        log=log,
    )


def test_altra_without_a_common_switch_is_refused():
    found = failed(machine(), topology_refused, PAIR)

    assert "1def:e100" in found.seen
    assert found.subject == "0000:02:00.0 mlx5_0"
    assert paths_closed_by(topology_refused.takes(PAIR)) == DIRECT


def test_the_line_of_the_kernel_log_is_quoted():
    line = "NVRM: dma-buf attach failed: PCI topology not supported for dma-buf"

    assert line in failed(machine(log=kernel_log(line)), topology_refused, PAIR).seen


def test_a_common_bridge_or_the_override_passes():
    assert passes(machine(shared=True), topology_refused, PAIR)
    assert passes(machine(override="1"), topology_refused, PAIR)


@pytest.mark.parametrize(
    "chipset",
    ["0x8086 0x352a", "0x1def 0xe208", "0x1def 0xe20f", "0x10de 0x22ce"],
)
def test_other_chipsets_are_not_checked(chipset: str):
    assert does_not_apply(machine(chipset=chipset), topology_refused, PAIR)


@pytest.mark.parametrize("version", ["570.158.01", "575.57.08"])
def test_drivers_before_580_do_not_check(version: str):
    assert does_not_apply(machine(version=version), topology_refused, PAIR)


def test_an_override_of_2_refuses_on_any_chipset():
    assert "is 2" in failed(machine(chipset="0x8086 0x352a", override="2"), topology_refused, PAIR).seen


def test_a_driver_without_the_option_still_checks_and_no_remedy_sets_it():
    """595.91.07 and 615.71.09: the check stands, the option is gone."""
    newer = machine(version="615.71.09", override="")

    assert "R580" in failed(newer, topology_refused, PAIR).advice
    with pytest.raises(EvidenceMissing):
        list(OVERRIDE_TOPOLOGY_CHECK.effect(newer))


def test_a_driver_with_the_option_can_be_told_not_to_check():
    older = machine(version="595.45.04")

    assert failed(older, topology_refused, PAIR).advice == ""
    allowed = older.after("override", OVERRIDE_TOPOLOGY_CHECK.effect(older))
    assert passes(allowed, topology_refused, PAIR)


@pytest.mark.parametrize(
    ("version", "confidence"),
    [
        ("595.91.07", Confidence.CERTAIN),
        ("615.71.09", Confidence.CERTAIN),
        ("615.78.08", Confidence.LIKELY),
    ],
)
def test_beyond_the_newest_driver_that_was_read_the_answer_is_likely(version: str, confidence: Confidence):
    newer = machine(version=version, override="")

    assert isinstance(judge(newer, topology_refused, PAIR), Failed)
    assert newer.trail(judge, topology_refused, PAIR).confidence is confidence


def test_a_virtual_machine_is_not_checked():
    guest = {
        "sys/class/dmi/id/sys_vendor": "QEMU\n",
        "sys/class/dmi/id/product_name": "KVM Virtual Machine\n",
    }

    assert does_not_apply(machine(**guest), topology_refused, PAIR)


def test_a_coherent_gpu_is_not_checked():
    """A GH200: its GPU is coherent with its Grace CPU."""
    assert does_not_apply(machine(chipset="0x10de 0x22b1", gpu="0x2342"), topology_refused, PAIR)


def test_unknown_devices_are_unknown_and_it_does_not_apply_without_a_driver():
    assert missing(node(complete=False), topology_refused, PAIR)
    assert does_not_apply(node(), topology_refused, PAIR)
    assert outcome(machine(), topology_refused, PAIR)
