"""A node's own evidence as a graph."""

import pytest
from msgspec.structs import replace

from gdrkit.diagnosis import diagnose
from gdrkit.evidence import EvidenceMissing
from gdrkit.evidence.target import open_host
from gdrkit.fabric.nccl import writer as nccl_writer
from gdrkit.fabric.topology import from_nccl_xml, from_node
from gdrkit.fabric.topology.graph import NvLink, Role, SmiPath, TopologySource
from gdrkit.fabric.topology.paths import link_fault, obstacles, smi_paths, unknown_ports
from gdrkit.facts.pci import gpus
from gdrkit.facts.pci_registers import link
from gdrkit.formats import nccl_xml
from gdrkit.node import Node
from tests.evidence_nodes import build, expected
from tests.memory_host import MemoryHost

SMI_PAIR = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV18\t0-31\nGPU1\tNV18\t X \t0-31\n"


def read(name, folder):
    return from_node.topology(Node(open_host(str(build(name, folder)))))


def test_a_switch_shows_its_ports_and_what_they_enforce(tmp_path):
    found = read("acs-redirect", tmp_path)
    assert [(d.address, d.port) for d in found.above("0000:1b:00.0")] == [
        ("0000:15:01.0", "root-port"), ("0000:16:00.0", "upstream-port"), ("0000:17:01.0", "downstream-port")
    ]  # fmt: skip
    port = found.by_address["0000:17:01.0"]
    assert port.redirects
    assert found.by_address["0000:17:00.0"].acs == ()
    assert found.by_address["0000:18:00.0"].max_payload_bytes == 512


def test_a_redirecting_port_is_an_obstacle_of_its_own_pair_with_its_address(tmp_path):
    found = read("acs-redirect", tmp_path)
    seen = obstacles(found, found.gpus[0], found.nets[0])
    assert [(o.code, o.address) for o in seen] == [("acs-redirect", "0000:17:01.0")]


@pytest.mark.parametrize(
    "name", ["ubuntu-6.8-h100", "dgx-a100-proprietary", "gh200", "acs-redirect", "iommu-translating"]
)
def test_distances_equal_those_of_doctor(name, tmp_path):
    found = read(name, tmp_path)
    doctors = expected(name).distances
    pairs = {
        f"{gpu.address} {net.device}": smi_paths(found, gpu, net) for gpu in found.gpus for net in found.nets
    }
    assert doctors
    assert {pair: tuple(map(str, pairs[pair])) for pair in doctors} == {
        pair: (doctors[pair],) for pair in doctors
    }


@pytest.mark.parametrize(
    "name", ["acs-redirect", "gb200-force-pcie", "iommu-translating", "nic-x4", "ubuntu-6.8-h100", "gh200"]
)
def test_obstacles_equal_the_findings_of_doctor(name, tmp_path):
    target = str(build(name, tmp_path))
    found = from_node.topology(Node(open_host(target)))
    seen = {o.code for gpu in found.gpus for net in found.nets for o in obstacles(found, gpu, net)}
    doctors = {f.code for f in diagnose(open_host(target)).findings if f.status in ("failed", "warning")}
    assert seen == doctors & {"acs-redirect", "acs-bits-differ", "iommu-translating", "link-degraded"}


def test_a_narrow_link_is_recognised_by_the_maximum_of_both_ends(tmp_path):
    found = read("nic-x4", tmp_path)
    assert [(o.code, o.seen) for o in obstacles(found, found.gpus[0], found.nets[0])] == [
        ("link-degraded", "x4 of x16")
    ]


def test_a_translating_iommu_is_reported(tmp_path):
    found = read("iommu-translating", tmp_path)
    assert [o.code for o in obstacles(found, found.gpus[0], found.nets[0])] == ["iommu-translating"]


def test_registers_that_need_root_are_unknown_and_not_off(tmp_path):
    found = read("spark-two-cables", tmp_path)
    assert all(device.acs is None for device in found.devices)
    assert any("ACS" in note and "as root" in note for note in found.notes)


def test_ports_below_a_shared_switch_are_unknown_if_not_readable(tmp_path):
    found = read("ubuntu-6.8-h100", tmp_path)
    pair = found.gpus[0], found.nets[0]
    assert smi_paths(found, *pair) == (SmiPath.PIX,)
    assert unknown_ports(found, *pair) == ()


def test_each_function_of_a_card_is_listed_with_its_ports(tmp_path):
    found = read("spark-two-cables", tmp_path)
    assert len(found.nets) == 4
    assert {net.rate_gbit_per_s for net in found.nets} == {200.0}
    assert len({net.guid for net in found.nets}) == 1, "one card"
    assert found.gpus[0].is_integrated
    assert found.gpus[0].compute_capability == 121


def test_output_of_lspci_gives_the_same_tree(tmp_path):
    found = read("dgx-os-5-nv-peer-mem", tmp_path)
    assert found.origin is TopologySource.LSPCI
    assert len(found.gpus) == 8
    assert found.by_address[found.gpus[0].address].parent
    assert any("RDMA" not in note and "ACS" in note for note in found.notes)


def test_only_the_upstream_port_of_a_switch_is_written_for_nccl(tmp_path):
    found = read("ubuntu-6.8-h100", tmp_path)
    written = from_nccl_xml.topology(nccl_xml.parse(nccl_xml.written(nccl_writer.system(found))))
    upward = {d.address for d in found.devices if d.port == "upstream-port"}
    assert {d.address for d in written.devices if d.role is Role.BRIDGE} == upward
    assert [gpu.address for gpu in written.gpus] == [gpu.address for gpu in found.gpus]
    assert written.by_address[found.gpus[0].address].numa_node == 0
    assert [(cpu.arch, cpu.vendor) for cpu in written.cpus] == [("x86_64", "GenuineIntel")] * 2


def test_a_second_port_of_a_card_is_written_below_the_function_that_nccl_uses(tmp_path):
    found = read("spark-two-cables", tmp_path)
    written = nccl_writer.system(found, details=True)
    nets = [
        [net.get("name") for net in nic.walk() if net.name == "net"]
        for nic in written.walk()
        if nic.name == "nic"
    ]
    assert sorted(map(len, nets)) == [2, 2], "two functions on each of the two links"


def two_gpus(**more):
    files = {
        f"sys/devices/pci0000:00/{address}/uevent": "PCI_CLASS=30200\nPCI_ID=10DE:2335\n"
        for address in ("0000:00:06.0", "0000:00:07.0")
    }
    links = {
        f"sys/bus/pci/devices/{a}": f"../../../devices/pci0000:00/{a}"
        for a in ("0000:00:06.0", "0000:00:07.0")
    }
    return Node(MemoryHost(files, links=links, **more))


def test_nvlink_has_the_drivers_width_without_an_invented_switch():
    found = from_node.topology(two_gpus(commands={("nvidia-smi", "topo", "-m"): SMI_PAIR}))
    assert found.gpus[0].nvlinks == (NvLink("0000:00:07.0", 18),)


def test_nvlink_is_unknown_unless_the_driver_is_asked():
    found = from_node.topology(two_gpus())
    assert found.gpus[0].nvlinks is None
    assert any("NVLink" in note for note in found.notes)


def test_the_driver_is_not_asked_unless_it_may_be():
    node = two_gpus(commands={("nvidia-smi", "topo", "-m"): SMI_PAIR})
    found = from_node.topology(node, ask_driver=False)
    assert found.gpus[0].nvlinks is None
    assert "nvidia-smi topo -m" not in node.host.opened


def test_a_matrix_of_other_gpus_is_ignored():
    one = "\tGPU0\tCPU Affinity\nGPU0\t X \t0-31\n"
    found = from_node.topology(two_gpus(commands={("nvidia-smi", "topo", "-m"): one}))
    assert found.gpus[0].nvlinks is None


def test_without_any_list_of_devices_there_is_no_graph():
    with pytest.raises(EvidenceMissing):
        from_node.topology(Node(MemoryHost()))


@pytest.mark.parametrize(("name", "fault"), [("gh200", ""), ("rail-down", "x1 of x16")])
def test_the_unused_link_of_a_gpu_behind_its_cpu_is_no_fault(name, fault, tmp_path):
    """NICs reach the memory of a GH200 over C2C: its PCIe link may well have one lane."""
    node = Node(open_host(str(build(name, tmp_path))))
    address = gpus(node)[0].address
    lane = replace(link(node, address), current_width=1)
    found = from_node.topology(node.after("one lane", [link.becomes(lane, address)]))
    assert found.by_address[address].link.width == 1
    assert link_fault(found.by_address[address], is_gpu=True) == fault
