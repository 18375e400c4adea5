"""The sentences on a node's ceilings."""

import pytest
from msgspec.structs import replace

from gdrkit.fabric.ceilings.node_links import CommonPoint, NicFunction, NodeLinks, PairLinks
from gdrkit.fabric.ceilings.remarks import remarks
from tests.fabric.ceilings.test_paths import GPU_GEN5, infiniband, link, nic, pair_of, roce, spark


def test_two_cables_of_a_spark():
    found = remarks(spark({"p0", "p1"}))

    assert any("show 800 Gb/s in total, but are 2 ports of one card: 400 Gb/s" in words for words in found)
    assert any(
        "the ceiling is about 52 % of the 400 Gb/s of 2 cables" in words
        and "A second cable adds almost nothing" in words
        for words in found
    )
    assert any("each alone carries 11.1 to 15.0 GB/s" in words for words in found)
    assert any("no memory of its own" in words for words in found)


def test_one_cable_of_a_spark_is_one_port_on_two_devices():
    found = remarks(spark({"p0"}))

    assert any("show 400 Gb/s in total, but are 1 port of one card: 200 Gb/s" in words for words in found)
    assert not any("cables" in words for words in found)
    assert any("use the other link of this card as well" in words for words in found)


def test_two_ports_on_a_link_that_carries_one():
    """2 x 100 Gb/s on PCIe 3.0 x16."""
    card = tuple(
        NicFunction(
            name=name, card="cx5", links=(link("0000:3b:00", 8.0, 16),), port_name=name, port=roce(100)
        )
        for name in ("mlx5_0", "mlx5_1")
    )
    (found,) = remarks(NodeLinks((GPU_GEN5,), card))

    assert "the link of this card carries" in found
    assert "A second cable adds almost nothing" in found


def test_two_ports_whose_link_carries_more_than_one_of_them():
    """2 x 200 Gb/s on PCIe 4.0 x16 carry more than one port: the second cable helps."""
    card = tuple(
        NicFunction(
            name=name, card="cx6", links=(link("0000:3b:00", 32.0, 8, 512),), port_name=name, port=roce(100)
        )
        for name in ("mlx5_0", "mlx5_1")
    )

    assert not any("adds almost nothing" in words for words in remarks(NodeLinks((GPU_GEN5,), card)))


def test_a_slot_that_is_too_narrow():
    machine, _ = pair_of(GPU_GEN5, nic("mlx5_0", [link("0000:1c:00", 32.0, 4)], infiniband(400, "NDR")))
    (found,) = remarks(machine)

    assert "mlx5_0: alone carries 12.1 to 14.4 GB/s, since its link is PCIe 32 GT/s x4" in found


def test_a_card_in_a_sufficient_slot_has_no_remark():
    machine, _ = pair_of(GPU_GEN5, nic("mlx5_0", [link("0000:1c:00", 32.0, 16)], infiniband(400, "NDR")))

    assert remarks(machine) == ()


def test_an_uplink_that_two_nics_share():
    uplink = link("0000:16:00.0", 16.0, 16)
    nics = tuple(
        nic(f"mlx5_{n}", [link(f"0000:{n + 24}:00", 16.0, 16), uplink], roce(200)) for n in range(2)
    )
    machine = NodeLinks(
        (GPU_GEN5,), nics, tuple(PairLinks(GPU_GEN5, f, CommonPoint.SWITCH, (), ()) for f in nics)
    )
    (found,) = remarks(machine)

    assert "mlx5_0 and mlx5_1 share the switch link 0000:16:00.0" in found


def test_a_card_with_an_unknown_link_has_no_remark():
    function = NicFunction(name="mlx5_0", card="a", links=(), port=roce(100))

    assert remarks(NodeLinks((GPU_GEN5,), (function,))) == ()


@pytest.mark.parametrize(
    ("port", "costs"),
    [(roce(25), "as much as the port: that costs no bandwidth here"), (infiniband(400, "NDR"), "GB/s.")],
)
def test_a_gpu_without_direct_path_says_what_host_memory_costs(port, costs):
    gpu = replace(GPU_GEN5, refusal="gpu-consumer")
    machine, _ = pair_of(gpu, nic("mlx5_0", [link("0000:1c:00", 32.0, 16)], port))
    (found,) = [words for words in remarks(machine) if "no direct path (gpu-consumer)" in words]

    assert "`direct` is what the links alone would carry. Copied through host memory it carries" in found
    assert costs in found
    assert ("costs no bandwidth" in found) == ("costs" in costs)
    known, _ = pair_of(GPU_GEN5, nic("mlx5_0", [link("0000:1c:00", 32.0, 16)], port))
    assert not any("no direct path" in words for words in remarks(known))


@pytest.mark.parametrize(
    ("port", "mtu", "packets"),
    [
        (roce(200, mtu=1024), 1500, "packets of 1024 bytes, since the interface's MTU is 1500"),
        (roce(200, mtu=4096), 9000, ""),
        (roce(200, mtu=1024), None, ""),  # an interface that was not read
        (infiniband(400, "NDR"), 2044, ""),  # IPoIB: the subnet manager sets the MTU of RDMA
    ],
)
def test_small_packets_of_roce_have_a_remark_and_a_command(port, mtu, packets):
    function = replace(nic("mlx5_0", [link("0000:18:00", 32.0, 16)], port), interface_mtu=mtu)
    found = [words for words in remarks(pair_of(GPU_GEN5, function)[0]) if "packets" in words]

    assert len(found) == bool(packets)
    assert all(packets in words and "ip link set dev NAME mtu 9000" in words for words in found)
