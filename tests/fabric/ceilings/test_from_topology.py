"""Links read from saved topologies."""

import pytest

from gdrkit.evidence.target import open_host
from gdrkit.fabric.ceilings.from_node import node_links as machine_of_node
from gdrkit.fabric.ceilings.from_topology import node_links
from gdrkit.fabric.ceilings.node_links import Attachment, CommonPoint
from gdrkit.fabric.ceilings.path_rates import path_rates
from gdrkit.fabric.ceilings.paths import chain, node_total
from gdrkit.fabric.ceilings.remarks import remarks
from gdrkit.fabric.topology import from_node
from gdrkit.fabric.topology.from_file import read_topology
from gdrkit.node import Node
from tests.evidence_nodes import build
from tests.fabric.topology.xml_files import DUMP, ONE_SWITCH


def of(text):
    return node_links(read_topology(text.encode()).topology)


def test_a_handwritten_file_has_links_and_no_ports():
    found = of(ONE_SWITCH)
    (pair,) = found.pairs
    direct = chain(found, pair, "direct")

    assert pair.common_point is CommonPoint.SWITCH
    assert [limit.name for limit in direct.limits] == ["gpu-link", "nic-link"]
    assert direct.unknown
    assert direct.rate.low_gb_per_s == 0


def test_a_dump_of_nccl_shows_speeds_and_no_link_layer():
    found = of(DUMP)
    pair = next(pair for pair in found.pairs if pair.common_point is CommonPoint.SWITCH)
    direct = chain(found, pair, "direct")

    assert pair.function.name == "mlx5_0"
    assert direct.tightest.name == "nic-link"  # x8 at 32 GT/s below a port of 400 Gb/s
    assert "of a link layer that is not stated" in direct.limits[-1].description


def test_ports_of_one_device_share_its_link():
    found = of(DUMP)

    assert found.users["0000:18:00"] == ("mlx5_0", "mlx5_0/2")
    assert len(found.cards) == 1


def test_a_link_without_attributes_is_not_known():
    far = next(gpu for gpu in of(DUMP).gpus if gpu.address == "0000:4b:00.0")

    assert far.attachment is Attachment.C2C_SHARED
    assert far.links[1].pcie is None


SPARK = """<system version="1">
  <cpu numaid="0" arch="arm64" vendor="ARM" affinity="fffff">
    <pci busid="000f:01:00.0" class="0x030000" link_speed="32.0 GT/s PCIe" link_width="16">
      <gpu dev="0" sm="121" rank="0" gdr="0"><c2c bw="20000" count="1"/></gpu>
    </pci>
    <pci busid="0000:01:00.0" class="0x020000" link_speed="32.0 GT/s PCIe" link_width="4">
      <nic><net name="rocep1s0f0" dev="0" speed="200000" port="1" guid="0x1" gdr="0"/></nic>
    </pci>
    <pci busid="0002:01:00.0" class="0x020000" link_speed="32.0 GT/s PCIe" link_width="4">
      <nic><net name="roceP2p1s0f0" dev="1" speed="200000" port="1" guid="0x1" gdr="0"/></nic>
    </pci>
  </cpu>
</system>
"""


def test_a_spark_s_file_shows_one_port_twice():
    found = of(SPARK)

    assert found.gpus[0].attachment is Attachment.INTEGRATED
    assert list(found.on_port.values()) == [("rocep1s0f0", "roceP2p1s0f0")]
    assert node_total(found).rate.high_gb_per_s == 25  # not twice that, nor both links


@pytest.mark.parametrize("name", ["ubuntu-6.8-h100", "nic-x4", "acs-redirect", "gh200", "spark-two-cables"])
def test_a_node_and_its_graph_have_the_same_routes(name, tmp_path):
    """Read from facts and from the graph, a node has the same GPUs, links and common points."""
    node = Node(open_host(str(build(name, tmp_path))))
    by_facts, by_graph = machine_of_node(node), node_links(from_node.topology(node))

    def pairs(found):
        return {
            (pair.gpu.address, pair.function.name): (
                pair.common_point, pair.gpu.attachment,
                [link.pcie for link in pair.gpu_links], [link.pcie for link in pair.nic_links],
            )
            for pair in found.pairs
        }  # fmt: skip

    def down(found):
        return {function.name: function.down for function in found.functions}

    assert pairs(by_graph) == pairs(by_facts)
    assert down(by_graph) == down(by_facts)


def test_the_id_of_an_efa_counts_more_than_the_rate_in_a_file():
    """NCCL's plugin writes the rate that the driver reports."""
    efa = 'class="0x020000" vendor="0x1d0f" device="0xefa3"'
    (function,) = of(ONE_SWITCH.replace('class="0x020700"', efa)).functions
    assert str(function.port) == "400 Gb/s EFA"


GEFORCE = """<system version="1">
  <cpu numaid="0" arch="x86_64" vendor="GenuineIntel" affinity="ffff">
    <pci busid="0000:01:00.0" class="0x030000" vendor="0x10de" device="0x2684" link_speed="16.0 GT/s PCIe"
      link_width="16"><gpu dev="0" sm="89" rank="0" gdr="0"/></pci>
    <pci busid="0000:41:00.0" class="0x020700" vendor="0x15b3" device="0x101b" link_speed="16.0 GT/s PCIe"
      link_width="16"><nic><net name="mlx5_0" dev="0" speed="200000" port="1" gdr="0"/></nic></pci>
  </cpu>
</system>
"""


def test_a_geforce_in_a_file_has_no_direct_path():
    found = of(GEFORCE)
    (direct, staged, *_) = path_rates(found, 1)

    assert [gpu.refusal for gpu in found.gpus] == ["gpu-consumer"]
    assert (direct.name, direct.possible, staged.possible) == ("direct", False, True)
    assert "gpu-consumer" in " ".join(remarks(found))


@pytest.mark.parametrize("change", [("0x2684", "0x2330"), ('gdr="0"/></pci>', 'gdr="1"/></pci>')])
def test_a_gpu_that_may_or_that_nccl_found_able_has_one(change):
    found = of(GEFORCE.replace(*change))

    assert [gpu.refusal for gpu in found.gpus] == [""]
    assert path_rates(found, 1)[0].possible
