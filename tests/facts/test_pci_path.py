"""Links between a device and the root complex."""

import pytest

from gdrkit.evidence import EvidenceMissing
from gdrkit.facts.pci_path import kernel_gbit_per_s, links_to_root
from tests.hardware import SERVER, SPARK, machine

GPU, UP = "0000:1b:00.0", "0000:16:00.0"


def test_a_path_through_a_switch_has_two_links():
    gpu, switch = links_to_root(machine(SERVER.replace("pex89-up", "pex89-up link=16.0x16")), GPU)

    assert (gpu.address, gpu.gt_per_s, gpu.width) == (GPU, 32.0, 16)
    assert (switch.address, switch.gt_per_s, switch.best_gt_per_s) == (UP, 16.0, 32.0)


def test_a_link_can_do_what_the_weaker_end_can():
    (segment,) = links_to_root(
        machine("0000:15:01.0 skx-root max=8.0x8\n  0000:18:00.0 cx7-ib link=8.0x8 max=32.0x16\n"),
        "0000:18:00.0",
    )

    assert (segment.best_gt_per_s, segment.best_width) == (8.0, 8)


def test_so_it_is_above_a_switch():
    outline = SERVER.replace("pex89-up", "pex89-up max=32.0x16").replace("spr-root", "spr-root max=8.0x8")
    _, switch = links_to_root(machine(outline), GPU)

    assert (switch.address, switch.best_gt_per_s, switch.best_width) == (UP, 8.0, 8)


@pytest.mark.parametrize(
    ("link", "gbit_per_s"),
    [("2.5x16", 32), ("8.0x16", 126), ("16.0x16", 252), ("32.0x4", 126), ("32.0x16", 504)],
)
def test_bandwidth_is_speed_times_lanes_less_encoding(link, gbit_per_s):
    outline = SPARK.replace("gb10-root", f"gb10-root max={link}").replace(
        "cx7-spark", f"cx7-spark max={link}"
    )
    (segment,) = links_to_root(machine(outline), "0000:01:00.0")

    assert round(segment.gbit_per_s) == gbit_per_s


def test_an_unreadable_switch_is_left_out_and_an_unreadable_device_is_not():
    switch = "sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0"
    node = machine(files={f"{switch}/current_link_width": "0\n"})
    assert [segment.address for segment in links_to_root(node, GPU)] == [GPU]

    device = f"{switch}/0000:17:00.0/{GPU}"
    with pytest.raises(EvidenceMissing):
        links_to_root(machine(files={f"{device}/current_link_width": "0\n"}), GPU)


@pytest.mark.parametrize(
    ("gt_per_s", "width", "printed"),
    [(2.5, 1, "2.000"), (5.0, 2, "8.000"), (8.0, 4, "31.504"), (8.0, 16, "126.016"), (16.0, 16, "252.048"),
     (32.0, 16, "504.112"), (64.0, 4, "256.000")],
)  # fmt: skip
def test_a_link_has_the_bandwidth_that_the_kernel_prints(gt_per_s: float, width: int, printed: str):
    """Lines of `available PCIe bandwidth` in public kernel logs; the last two by the kernel's source."""
    assert f"{kernel_gbit_per_s(gt_per_s, width):.3f}" == printed
