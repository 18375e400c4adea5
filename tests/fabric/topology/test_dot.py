"""The graph for Graphviz."""

import re
import subprocess

from hypothesis import given
from hypothesis import strategies as st

from gdrkit.evidence.target import open_host
from gdrkit.fabric.topology import from_file, from_nccl_xml, from_node
from gdrkit.fabric.topology.dot import dot
from gdrkit.fabric.topology.graph import Role, Topology, TopologyDevice, TopologyGpu, TopologySource
from gdrkit.formats import nccl_xml
from gdrkit.node import Node
from tests.evidence_nodes import build
from tests.fabric.topology.test_from_file import MATRIX
from tests.fabric.topology.xml_files import DUMP
from tests.system_programs import program

WORD = r'"((?:[^"\\]|\\.)*)"'


def lines(topology):
    return dot(topology).splitlines()[2:-1]


def test_every_device_is_a_node_joined_to_its_parent(tmp_path):
    found = from_node.topology(Node(open_host(str(build("acs-redirect", tmp_path)))))
    drawn = lines(found)
    for device in found.devices:
        above = device.parent or f"host {device.host_bridge}"
        assert any(line.startswith(f'  "{above}" -- "{device.address}" ') for line in drawn)
    assert '"#e05050"' in next(line for line in drawn if line.startswith('  "0000:17:01.0" ['))
    assert '"#e05050"' not in next(line for line in drawn if line.startswith('  "0000:17:00.0" ['))


def test_a_device_is_labelled_with_the_gpu_or_the_nic_that_it_is(tmp_path):
    found = from_node.topology(Node(open_host(str(build("acs-redirect", tmp_path)))))
    drawn = lines(found)
    assert found.gpus and found.nets
    for thing, word in [(gpu, gpu.name) for gpu in found.gpus] + [(net, net.id) for net in found.nets]:
        (node,) = (line for line in drawn if line.startswith(f'  "{thing.address}" ['))
        assert word and word in node


def test_a_narrow_link_is_red(tmp_path):
    found = from_node.topology(Node(open_host(str(build("nic-x4", tmp_path)))))
    assert [line for line in lines(found) if "color=" in line and "--" in line and "e05050" in line] == [
        '  "0000:17:00.0" -- "0000:18:00.0" [label="32 GT/s x4", color="#e05050"]'
    ]


def test_nvlink_is_drawn_once_and_c2c_to_the_cpu():
    drawn = lines(from_nccl_xml.topology(nccl_xml.parse(DUMP.encode())))
    assert [line for line in drawn if "NVLink" in line] == [
        '  "0000:1b:00.0" -- "NVSwitch" [style=dashed, label="NVLink x18"]',
        '  "0000:1b:00.0" -- "0000:4b:00.0" [style=dashed, label="NVLink x2"]',
    ]
    assert '  "numa1" -- "0000:4b:00.0" [style=bold, label="C2C"]' in drawn


def test_a_matrix_is_drawn_with_its_names():
    drawn = lines(from_file.read_topology(MATRIX.encode()).topology)
    assert sum("NVLink x18" in line for line in drawn) == 1
    assert any(line.startswith('  "mlx5_0" [') for line in drawn)


@given(st.text(max_size=30))
def test_any_name_is_quoted_as_one_word(name):
    device = TopologyDevice(address="0000:01:00.0", role=Role.GPU, host_bridge="0000:00")
    gpu = TopologyGpu(id="0000:01:00.0", address="0000:01:00.0", name=name)
    drawn = dot(Topology(origin=TopologySource.SYSFS, devices=(device,), gpus=(gpu,)))
    bare = re.sub(WORD, "", drawn, flags=re.DOTALL)
    assert '"' not in bare
    assert bare.count("[") == bare.count("]")


def test_graphviz_reads_it(tmp_path):
    found = from_node.topology(Node(open_host(str(build("ubuntu-6.8-h100", tmp_path)))))
    run = subprocess.run(
        [program("dot"), "-Tplain"], input=dot(found), capture_output=True, text=True, check=True
    )
    assert run.stdout.count("\nnode ") == len(found.devices) + len(found.host_bridges) + len(found.cpus)
