"""Ports of one card that NCCL fuses into one NIC."""

import pytest
from msgspec import structs

from gdrkit.fabric.nccl.merge import FusedNic, fuse
from gdrkit.fabric.nccl.settings import settings
from gdrkit.fabric.nccl.view import view
from gdrkit.fabric.topology.from_file import read_topology
from gdrkit.formats import nccl_xml
from gdrkit.formats.errors import FormatError
from gdrkit.programs.nccl.releases import release
from tests.fabric.nccl.nccl_topologies import cpu, gpu, net, nic, switch, system_xml


def card(*nets):
    return system_xml(cpu(0, switch("10", gpu("18"), nic("19", *nets))))


TWO_PORTS = card(net(0, guid="0xe41d2d03000000aa"), net(1, guid="0xe41d2d03000000aa", port=2))


def fused(root, version="2.28.9", environment=None, layers=None):
    rules = release(version)
    return fuse(root, rules, settings(rules, environment or {}), layers=layers)


def names(root):
    return [node.get("name") for node in root.walk() if node.name == "net"]


@pytest.mark.parametrize("version", ["2.20.5", "2.23.4", "2.24.3", "2.30.7"])
def test_two_ports_of_a_card_become_one_nic(version):
    root, found = fused(TWO_PORTS, version)
    assert found == (FusedNic("mlx5_0+mlx5_1", ("mlx5_0", "mlx5_1"), 800_000),)
    assert names(root) == ["mlx5_0+mlx5_1"]


def test_the_fused_nic_is_numbered_after_the_others_since_2_24():
    def numbers(version):
        return [node.get("dev") for node in fused(TWO_PORTS, version)[0].walk() if node.name == "net"]

    assert numbers("2.23.4") == ["0"]
    assert numbers("2.24.3") == ["2"]


@pytest.mark.parametrize(
    ("version", "environment"),
    [("2.19.4", {}), ("2.28.9", {"NCCL_IB_MERGE_NICS": "0"}), ("2.28.9", {"NCCL_NET_MERGE_LEVEL": "LOC"}),
     ("2.28.9", {"NCCL_NET_MERGE_LEVEL": "NONE"})],
)  # fmt: skip
def test_when_nothing_is_fused(version, environment):
    assert fused(TWO_PORTS, version, environment) == (TWO_PORTS, ())


def test_sockets_and_other_cards_are_not_fused():
    sockets = card(net(0, name="eth0", guid="0x0"), net(1, name="eth1", guid="0x1"))
    assert fused(sockets)[1] == ()
    apart = system_xml(cpu(0, nic("19", net(0)), nic("29", net(1))))
    assert fused(apart)[1] == ()


def test_at_most_four_ports_are_fused_and_two_before_2_24():
    five = card(*(net(dev, guid="0xe41d2d03000000aa") for dev in range(5)))
    assert [len(one.parts) for one in fused(five)[1]] == [4]
    assert [len(one.parts) for one in fused(five, "2.22.3")[1]] == [2, 2]


def ports(*layers):
    """One card with ports of these link layers, and the layer of each by its number."""
    nets = (net(dev, guid="0xe41d2d03000000aa") for dev in range(len(layers)))
    return card(*nets), dict(enumerate(layers))


IB, ETHERNET = "InfiniBand", "Ethernet"


@pytest.mark.parametrize("version", ["2.20.5", "2.23.4", "2.26.2", "2.30.7"])
def test_infiniband_and_ethernet_are_not_fused(version):
    root, layers = ports(IB, ETHERNET)
    assert fused(root, version, layers=layers) == (root, ())
    root, layers = ports(ETHERNET, ETHERNET)
    assert [one.parts for one in fused(root, version, layers=layers)[1]] == [("mlx5_0", "mlx5_1")]


@pytest.mark.parametrize("version", ["2.24.3", "2.25.1"])
def test_two_releases_fail_on_a_card_with_both_link_layers(version):
    root, layers = ports(IB, ETHERNET)
    with pytest.raises(FormatError, match="NCCL fails"):
        fused(root, version, layers=layers)


@pytest.mark.parametrize(
    ("version", "kinds", "parts"),
    [
        ("2.23.4", (IB, ETHERNET, IB), [("mlx5_0", "mlx5_2")]),
        (
            "2.28.9",
            (IB, ETHERNET, IB),
            [],
        ),  # the first is not fused with either, nor the second with the third
        ("2.28.9", (ETHERNET, IB, IB), [("mlx5_1", "mlx5_2")]),
    ],
)
def test_of_three_ports_the_plugin_fuses_equal_ones_and_the_topology_drops_the_first(version, kinds, parts):
    root, layers = ports(*kinds)
    assert [one.parts for one in fused(root, version, layers=layers)[1]] == parts


@pytest.mark.parametrize("kinds", [(IB, ""), ("", ETHERNET), ("", "")])
def test_a_port_of_unknown_link_layer_counts_as_like_the_others(kinds):
    root, layers = ports(*kinds)
    assert len(fused(root, layers=layers)[1]) == 1


def test_the_link_layers_of_a_graph_are_used():
    saved = read_topology(nccl_xml.written(TWO_PORTS))
    nets = tuple(
        structs.replace(one, link_layer=layer)
        for one, layer in zip(saved.topology.nets, (IB, ETHERNET), strict=True)
    )
    mixed = structs.replace(saved, topology=structs.replace(saved.topology, nets=nets))
    assert view(mixed, "2.28.9", {}).fused == ()


def test_both_ports_of_a_fused_nic_have_an_answer():
    saved = read_topology(nccl_xml.written(TWO_PORTS))
    seen = view(saved, "2.28.9", {})
    assert [one.parts for one in seen.fused] == [("mlx5_0", "mlx5_1")]
    assert len(seen.pairs) == 2
    assert {pair.send.because for pair in seen.pairs.values()} == {""}


def test_a_port_that_is_left_out_is_not_fused():
    saved = read_topology(nccl_xml.written(TWO_PORTS))
    seen = view(saved, "2.28.9", {"NCCL_IB_HCA": "=mlx5_0"})
    assert seen.fused == ()
    assert sorted(pair.send.because for pair in seen.pairs.values()) == ["", "NCCL_IB_HCA==mlx5_0"]


def test_a_refusal_names_the_source_of_nccls_test():
    saved = read_topology(nccl_xml.written(TWO_PORTS))
    seen = view(saved, "2.28.9", {"NCCL_NET_GDR_LEVEL": "LOC"})
    assert {pair.receive.because for pair in seen.pairs.values()} == {"PIX is farther than LOC"}
    assert {pair.receive.source for pair in seen.pairs.values()} == {
        "src/graph/paths.cc, ncclTopoCheckGdr()"
    }
