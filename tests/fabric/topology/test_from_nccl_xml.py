"""NCCL's topology files as a graph, and back."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gdrkit.fabric.nccl import writer as nccl_writer
from gdrkit.fabric.topology import from_nccl_xml
from gdrkit.fabric.topology.graph import Net, Role, Topology, TopologyGpu, TopologySource
from gdrkit.formats import nccl_xml
from gdrkit.formats.errors import FormatError
from tests.fabric.topology.xml_files import DUMP, ONE_SWITCH
from tests.shared_data import shared_files


def read(text):
    return from_nccl_xml.topology(nccl_xml.parse(text.encode()))


def again(topology):
    return from_nccl_xml.topology(nccl_xml.parse(nccl_xml.written(nccl_writer.system(topology))))


def test_a_handwritten_tree_has_gpus_and_nics_by_class():
    found = read(ONE_SWITCH)
    assert [gpu.id for gpu in found.gpus] == ["0000:1b:00.0"]
    assert [(net.id, net.device) for net in found.nets] == [("0000:18:00.0", "")]
    assert [bridge.address for bridge in found.above("0000:1b:00.0")] == ["0000:16:00.0"]
    assert found.by_address["0000:1b:00.0"].link.max_gt_per_s == 32.0


def test_a_dump_shows_what_nccl_found():
    found = read(DUMP)
    gpu = found.gpus[0]
    assert (gpu.index, gpu.compute_capability, gpu.gdr) == (0, 90, True)
    assert [(link.target, link.count) for link in gpu.nvlinks] == [("", 18), ("0000:4b:00.0", 2)]
    assert found.gpus[1].c2c.mbyte_per_s == 43125
    assert [(net.id, net.rate_gbit_per_s) for net in found.nets] == [
        ("mlx5_0", 400.0), ("mlx5_0/2", 200.0), ("eth0", 10.0)
    ]  # fmt: skip
    assert found.numa_node(found.nets[2]) == 0
    assert found.cpus[0].family == 25, "NCCL joins the two fields of CPUID to 175"


def test_an_unknown_link_is_unknown_and_not_of_width_0():
    link = read(DUMP).by_address["0000:46:00.0"].link
    assert (link.max_gt_per_s, link.max_width) == (None, None)


@pytest.mark.parametrize("text", [ONE_SWITCH, DUMP])
def test_written_files_have_all_that_was_read(text):
    found = read(text)
    assert again(found) == found


@pytest.mark.parametrize("path", shared_files("data/topologies/*.xml", "data/h200x2/*.xml.txt"))
def test_public_files_are_written_again_completely(path):
    try:
        found = from_nccl_xml.topology(nccl_xml.parse(path.read_bytes()))
    except FormatError as error:
        assert any(word in str(error) for word in ("RCCL", "<topology>", "<graphs>")), error
        return
    assert found.gpus
    assert again(found) == found


def test_speeds_are_written_in_the_form_that_every_nccl_accepts():
    text = ONE_SWITCH.replace("32.0 GT/s PCIe", "32.0 GT/s")
    assert b'link_speed="32.0 GT/s PCIe"' in nccl_xml.written(nccl_writer.system(read(text)))


def test_of_several_hosts_the_first_is_read_with_a_note():
    other = DUMP.replace('0x1d" numaid="1', '0x2e" numaid="0')
    found = read(other)
    assert [gpu.index for gpu in found.gpus] == [0]
    assert any("2 hosts" in note for note in found.notes)


@pytest.mark.parametrize(
    "text",
    [
        '<system version="1"/>',
        '<system version="1"><cpu numaid="0"/><cpu numaid="0"/></system>',
        '<system version="1"><cpu><pci busid="1b"/></cpu></system>',
        '<system version="1"><cpu numaid="x"/></system>',
        ONE_SWITCH.replace("0000:1b:00.0", "0000:18:00.0"),
        '<graphs version="1"/>',
    ],
)
def test_contradictory_files_are_refused(text):
    with pytest.raises(FormatError):
        read(text)


@pytest.mark.parametrize("kind, role", [("0x068000", Role.NVSWITCH), ("0x080100", Role.OTHER)])
def test_other_functions_keep_their_role(kind, role):
    found = read(ONE_SWITCH.replace("0x020700", kind))
    assert found.by_address["0000:18:00.0"].role is role


LEAVES = st.sampled_from(
    ['<gpu dev="0" sm="90"/>', '<gpu><nvlink target="x"/></gpu>', '<nic><net name="a" speed="100"/></nic>',
     "<nic/>", '<gpu dev="1"><c2c bw="1"/></gpu>', '<pcilink target="0000:01:00.0"/>']
)  # fmt: skip
BUSIDS = st.integers(0, 9).map(lambda n: f"0000:0{n}:00.0")
CLASSES = st.sampled_from(["0x060400", "0x030200", "0x020000", "0x068000", "", "0x"])
TREES = st.recursive(
    LEAVES,
    lambda below: st.builds(
        '<pci busid="{}" class="{}" link_width="{}">{}</pci>'.format,
        BUSIDS, CLASSES, st.integers(0, 16), st.lists(below, max_size=3).map("".join),
    ),
    max_leaves=8,
)  # fmt: skip


@settings(deadline=None)
@given(st.lists(TREES, max_size=4))
def test_any_elements_give_a_graph_that_is_written_and_read_again_or_a_format_error(trees):
    with contextlib.suppress(FormatError):
        found = read(f'<system version="1"><cpu numaid="0">{"".join(trees)}</cpu></system>')
        assert again(found) == found


def test_more_numa_nodes_than_any_machine_has_are_refused():
    cpus = "".join(f'<cpu numaid="{number}"/>' for number in range(129))
    with pytest.raises(FormatError, match="129 NUMA nodes"):
        read(f'<system version="1">{cpus}</system>')
    with pytest.raises(FormatError, match="two <cpu> with numaid 7"):
        read('<system version="1"><cpu numaid="7"/><cpu numaid="7"/></system>')


def test_more_functions_than_any_machine_has_are_refused():
    functions = "".join(f'<pci busid="{at >> 8:04x}:{at & 255:02x}:00.0"/>' for at in range(4097))
    with pytest.raises(FormatError, match="4097 PCI functions"):
        read(f'<system version="1"><cpu numaid="0">{functions}</cpu></system>')


def test_nets_of_one_name_are_told_apart_if_they_are_few():
    def nets(count):
        found = '<net name="a" port="1"/>' * count
        return read(f'<system version="1"><cpu numaid="0"><nic>{found}</nic></cpu></system>').nets

    assert [net.id for net in nets(4)] == ["a", "a/1", "a#2", "a#3"]
    with pytest.raises(FormatError, match="too many nets named 'a'"):
        nets(65)


@pytest.mark.parametrize("gpus, nets", [(257, 256), (1025, 1), (1, 1025)])
def test_more_devices_than_any_machine_has_are_refused(gpus, nets):
    with pytest.raises(FormatError, match=rf"({gpus} GPUs and )?{nets} NIC ports are more"):
        Topology(
            origin=TopologySource.NCCL_XML,
            gpus=tuple(TopologyGpu(id=f"GPU{at}") for at in range(gpus)),
            nets=tuple(Net(id=f"mlx5_{at}", device=f"mlx5_{at}") for at in range(nets)),
        )


@pytest.mark.parametrize("target", ["fffffff:ff:ff.0", "fffffff:ffff:ff"])
def test_a_link_to_any_switch_is_read_as_every_release_writes_it(target):
    """From 2.31 on all links to switches are one element, with a target of another spelling."""
    text = (
        '<system version="1"><cpu numaid="0" arch="arm64"><pci busid="0000:01:00.0" class="0x030200" '
        'link_speed="32.0 GT/s PCIe" link_width="16"><gpu dev="0" sm="90" rank="0" gdr="1">'
        f'<nvlink target="{target}" count="18" tclass="0x068000"/></gpu></pci></cpu></system>'
    )
    (gpu,) = from_nccl_xml.topology(nccl_xml.parse(text.encode())).gpus
    assert [(link.target, link.count) for link in gpu.nvlinks] == [("", 18)]
