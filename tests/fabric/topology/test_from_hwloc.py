"""hwloc's exports as a graph, compared with the same node read directly."""

from pathlib import Path

import pytest

from gdrkit.evidence.target import open_host
from gdrkit.fabric.nccl import writer as nccl_writer
from gdrkit.fabric.topology import from_hwloc, from_nccl_xml, from_node
from gdrkit.fabric.topology.graph import Role, TopologySource
from gdrkit.fabric.topology.paths import smi_paths
from gdrkit.formats import hwloc_xml, nccl_xml
from gdrkit.formats.errors import FormatError
from gdrkit.node import Node
from tests.evidence_nodes import build
from tests.fabric.topology import lstopo
from tests.system_programs import missing

EXPORTED = Path(__file__).parent / "lstopo-2.9-h100.xml"
"""The output of the real lstopo 2.9.0 for the evidence node ubuntu-6.8-h100; see lstopo.py."""


def read(content):
    return from_hwloc.topology(hwloc_xml.parse(content))


def paths(found):
    return {(gpu.id, net.device): smi_paths(found, gpu, net) for gpu in found.gpus for net in found.nets}


def same(hwloc, direct):
    """Whether both show the same machine, as far as hwloc shows it."""
    assert {(d.address, d.role, d.parent, d.host_bridge) for d in hwloc.devices} == {
        (d.address, d.role, d.parent, d.host_bridge) for d in direct.devices
    }
    assert [gpu.id for gpu in hwloc.gpus] == [gpu.id for gpu in direct.gpus]
    assert {(n.id, n.address, n.state, n.netdev) for n in hwloc.nets} == {
        (n.id, n.address, n.state, n.netdev) for n in direct.nets
    }
    assert paths(hwloc) == paths(direct)


def test_lstopo_and_sysfs_show_the_same_machine(tmp_path):
    direct = from_node.topology(Node(open_host(str(build("ubuntu-6.8-h100", tmp_path)))))
    same(read(EXPORTED.read_bytes()), direct)


@pytest.mark.skipif(not lstopo.PROGRAM, reason=missing("lstopo-no-graphics"))
@pytest.mark.parametrize("name", ["ubuntu-6.8-h100", "acs-redirect", "gh200"])
def test_lstopo_here_and_sysfs_show_the_same_machine(name, tmp_path):
    tree = build(name, tmp_path)
    hwloc = read(lstopo.export(tree))
    same(hwloc, from_node.topology(Node(open_host(str(tree)))))


def test_nccl_computes_the_same_from_a_link_with_only_its_bandwidth():
    found = read(EXPORTED.read_bytes())
    written = from_nccl_xml.topology(nccl_xml.parse(nccl_xml.written(nccl_writer.system(found))))
    assert found.by_address["0000:1b:00.0"].link.gbyte_per_s == 63.015385
    link = written.by_address["0000:1b:00.0"].link
    assert (link.max_gt_per_s, link.max_width) == (32.0, 16)
    assert found.origin is TopologySource.HWLOC_XML


def test_each_numa_node_has_the_processor_of_its_package():
    def package(number, model):
        infos = {"CPUVendor": "GenuineIntel", "CPUFamilyNumber": 6, "CPUModelNumber": model, "CPUModel": "x"}
        told = "".join(f'<info name="{name}" value="{value}"/>' for name, value in infos.items())
        numa = f'<object type="NUMANode" os_index="{number}" cpuset="0x{1 << number:x}"/>'
        return f'<object type="Package">{told}{numa}</object>'

    found = read(machine(package(0, 143) + package(1, 207) + HOST.format(DEVICE)))
    assert [(cpu.numa_node, cpu.vendor, cpu.family, cpu.model, cpu.name) for cpu in found.cpus] == [
        (0, "GenuineIntel", 6, 143, "x"),
        (1, "GenuineIntel", 6, 207, "x"),
    ]


def test_what_hwloc_does_not_show_is_unknown():
    found = read(EXPORTED.read_bytes())
    assert all(device.acs is None and device.iommu_group is None for device in found.devices)
    assert all(net.rate_gbit_per_s is None for net in found.nets)
    assert all(gpu.nvlinks is None for gpu in found.gpus)


DEVICE = '<object type="PCIDev" pci_busid="0000:1b:00.0" pci_type="0302 [10de:2330] [10de:16c1] a1"/>'
HOST = '<object type="Bridge" bridge_type="0-1" bridge_pci="0000:[15-1b]">{}</object>'


def machine(inside):
    return f'<topology version="2.0"><object type="Machine">{inside}</object></topology>'.encode()


def test_one_gpu_below_a_host_bridge_is_sufficient():
    (device,) = read(machine(HOST.format(DEVICE))).devices
    assert (device.role, device.host_bridge, device.parent) == (Role.GPU, "0000:15", "")


@pytest.mark.parametrize(
    "inside", ["", DEVICE, HOST.format(""), HOST.format(DEVICE * 2), '<object type="NUMANode"/>']
)
def test_a_file_without_bridges_or_devices_is_refused(inside):
    with pytest.raises(FormatError):
        read(machine(inside))
