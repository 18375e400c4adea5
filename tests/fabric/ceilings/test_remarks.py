"""What is said of a node's ceilings in words."""

from gdrkit.fabric.ceilings.node_links import CommonPoint, NicFunction, NodeLinks, PairRoute
from gdrkit.fabric.ceilings.remarks import remarks
from tests.fabric.ceilings.test_paths import GPU_GEN5, infiniband, nic, pair, roce, spark, wire


def test_two_cables_of_a_spark():
    said = remarks(spark({"p0", "p1"}))

    assert any("show 800 Gb/s together, but are 2 ports of one card: 400 Gb/s" in words for words in said)
    assert any(
        "about 52 % of the 400 Gb/s of 2 cables is the ceiling" in words
        and "A second cable buys nothing to speak of" in words
        for words in said
    )
    assert any("each alone moves 11.1 to 15.0 GB/s" in words for words in said)
    assert any("no memory of its own" in words for words in said)


def test_one_cable_of_a_spark_is_one_port_on_two_devices():
    said = remarks(spark({"p0"}))

    assert any("show 400 Gb/s together, but are 1 port of one card: 200 Gb/s" in words for words in said)
    assert not any("cables" in words for words in said)
    assert any("The rest takes the other link" in words for words in said)


def test_two_ports_on_a_link_that_carries_one():
    """2 x 100 Gb/s on PCIe 3.0 x16."""
    card = tuple(
        NicFunction(
            name=name, card="cx5", wires=(wire("0000:3b:00", 8.0, 16),), port_name=name, port=roce(100)
        )
        for name in ("mlx5_0", "mlx5_1")
    )
    (said,) = remarks(NodeLinks((GPU_GEN5,), card))

    assert "the link of this card carries" in said
    assert "A second cable buys nothing to speak of" in said


def test_two_ports_whose_link_carries_more_than_one_of_them():
    """2 x 200 Gb/s on PCIe 4.0 x16 carry more than one port does: the second cable is not in vain."""
    card = tuple(
        NicFunction(
            name=name, card="cx6", wires=(wire("0000:3b:00", 32.0, 8, 512),), port_name=name, port=roce(100)
        )
        for name in ("mlx5_0", "mlx5_1")
    )

    assert not any("buys nothing" in words for words in remarks(NodeLinks((GPU_GEN5,), card)))


def test_a_slot_that_is_too_narrow():
    machine, _ = pair(GPU_GEN5, nic("mlx5_0", [wire("0000:1c:00", 32.0, 4)], infiniband(400, "NDR")))
    (said,) = remarks(machine)

    assert "mlx5_0: alone moves 12.1 to 14.4 GB/s, for its link is PCIe 32 GT/s x4" in said


def test_a_card_in_the_right_slot_needs_no_word():
    machine, _ = pair(GPU_GEN5, nic("mlx5_0", [wire("0000:1c:00", 32.0, 16)], infiniband(400, "NDR")))

    assert remarks(machine) == ()


def test_an_uplink_that_two_nics_share():
    uplink = wire("0000:16:00.0", 16.0, 16)
    nics = tuple(
        nic(f"mlx5_{n}", [wire(f"0000:{n + 24}:00", 16.0, 16), uplink], roce(200)) for n in range(2)
    )
    machine = NodeLinks(
        (GPU_GEN5,), nics, tuple(PairRoute(GPU_GEN5, f, CommonPoint.SWITCH, (), ()) for f in nics)
    )
    (said,) = remarks(machine)

    assert "mlx5_0 and mlx5_1 share the switch link 0000:16:00.0" in said


def test_a_card_whose_link_nobody_could_read_has_no_word():
    function = NicFunction(name="mlx5_0", card="a", wires=(), port=roce(100))

    assert remarks(NodeLinks((GPU_GEN5,), (function,))) == ()
