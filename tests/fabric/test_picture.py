"""The boxes of a node: their order, their places and their faults."""

from __future__ import annotations

import pytest

from gdrkit.evidence.target import open_host
from gdrkit.fabric.picture import BETWEEN_CPUS, NARROWEST_CPU, picture
from gdrkit.fabric.topology import from_nccl_xml, from_node
from gdrkit.fabric.topology.graph import Role, Topology, TopologyDevice, TopologySource
from gdrkit.formats import nccl_xml
from gdrkit.node import Node
from tests.evidence_nodes import build
from tests.fabric.topology.xml_files import DUMP


def drawn(node, folder):
    return picture(from_node.topology(Node(open_host(str(build(node, folder))))))


def boxes(found, kind):
    return [box for box in found.walk() if box.kind == kind]


def test_every_gpu_and_every_port_has_one_box_below_the_switch_of_its_rail(tmp_path):
    found = drawn("ubuntu-6.8-h100", tmp_path)
    assert [box.name for box in boxes(found, "gpu")] == [f"GPU {number}" for number in range(8)]
    assert {box.name for box in boxes(found, "nic")} == {f"mlx5_{number}" for number in range(10)}
    assert [[below.name for below in switch.below] for switch in boxes(found, "switch")] == [
        [f"GPU {number}", f"mlx5_{number}"] for number in range(8)
    ]
    assert found.switch_levels == 1


def test_boxes_lie_within_the_box_above_and_never_over_one_another(tmp_path):
    found = drawn("ubuntu-6.8-h100", tmp_path)
    for box in found.walk():
        for one, other in zip(box.below, box.below[1:], strict=False):
            assert one.right <= other.left
        for below in box.below:
            assert box.left <= below.left <= below.middle <= below.right <= box.right
    first, second = found.cpus
    assert second.left - first.right == pytest.approx(BETWEEN_CPUS)
    assert found.width == second.right


def test_the_fault_of_a_folded_port_marks_the_device_below_it(tmp_path):
    marked = {box.name: box.redirects for box in boxes(drawn("acs-redirect", tmp_path), "nic")}
    assert marked == {"mlx5_0": False, "mlx5_1": True}
    clean = drawn("ubuntu-6.8-h100", tmp_path)
    assert not any(box.redirects for box in clean.walk())


def test_a_narrow_link_says_how_wide_it_could_be(tmp_path):
    found = drawn("nic-x4", tmp_path)
    assert {box.name: (box.lanes, box.link) for box in found.walk() if box.link} == {
        "mlx5_0": (4, "x4 of x16")
    }


def test_only_a_nic_behind_a_translating_iommu_is_marked(tmp_path):
    found = drawn("iommu-translating", tmp_path)
    assert {box.kind for box in found.walk() if box.translates} == {"nic"}
    assert not any(box.translates for box in drawn("ubuntu-6.8-h100", tmp_path).walk())


def test_a_machine_without_switches_has_no_level_for_them_and_room_for_its_words(tmp_path):
    found = drawn("gh200", tmp_path)
    assert found.switch_levels == 0
    assert found.width == NARROWEST_CPU
    assert [box.gpu.c2c is not None for box in boxes(found, "gpu")] == [True]


def test_a_file_of_nccl_is_drawn_too():
    found = picture(from_nccl_xml.topology(nccl_xml.parse(DUMP.encode())))
    assert len(boxes(found, "gpu")) == 2


def test_a_switch_below_a_switch_is_on_the_next_level():
    devices = tuple(
        TopologyDevice(address=address, role=role, parent=parent, host_bridge="0000:00", numa_node=0)
        for address, role, parent in (
            ("0000:01:00.0", Role.BRIDGE, ""),
            ("0000:02:00.0", Role.BRIDGE, "0000:01:00.0"),
            ("0000:03:00.0", Role.GPU, "0000:02:00.0"),
            ("0000:04:00.0", Role.NIC, "0000:01:00.0"),
        )
    )
    found = picture(Topology(origin=TopologySource.NCCL_XML, devices=devices))
    assert [(box.name, box.level) for box in boxes(found, "switch")] == [("01:00.0", 0), ("02:00.0", 1)]
    assert found.switch_levels == 2


def test_a_node_without_devices_has_no_box():
    assert picture(Topology(origin=TopologySource.SYSFS)).cpus == ()
