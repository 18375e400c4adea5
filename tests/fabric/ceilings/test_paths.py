"""Chains of limits of constructed nodes: the tightest limit, shared limits, unknown limits."""

import pytest
from msgspec.structs import replace

from gdrkit.fabric.ceilings.links import PcieLink
from gdrkit.fabric.ceilings.node_links import (
    Attachment,
    CommonPoint,
    LinkedGpu,
    NicFunction,
    NodeLinks,
    PairLinks,
    UpstreamLink,
)
from gdrkit.fabric.ceilings.paths import card_chain, chain, node_total, possible
from gdrkit.fabric.ceilings.ports import NetworkPort


def link(address, gt_per_s, width, max_payload_bytes=256):
    return UpstreamLink(
        address, PcieLink(gt_per_s=gt_per_s, width=width, max_payload_bytes=max_payload_bytes)
    )


def roce(rate, mtu=4096):
    return NetworkPort(rate_gbit_per_s=rate, link_layer="Ethernet", mtu_bytes=mtu, ip_version=4)


def infiniband(rate, generation):
    return NetworkPort(rate_gbit_per_s=rate, link_layer="InfiniBand", mtu_bytes=4096, generation=generation)


def nic(name, links, port, card="", port_name="p0"):
    return NicFunction(name=name, card=card or name, links=tuple(links), port_name=port_name, port=port)


def pair_of(gpu, function, common_point=CommonPoint.SWITCH):
    """One GPU and one NIC with only their own links between them."""
    pair = PairLinks(gpu, function, common_point, gpu.links, function.links)
    return NodeLinks((gpu,), (function,), (pair,)), pair


GPU_GEN5 = LinkedGpu("0000:1b:00.0", links=(link("0000:1b:00", 32.0, 16),))
GPU_GEN4 = LinkedGpu("0000:07:00.0", links=(link("0000:07:00", 16.0, 16),))


def spark(cables):
    """One ConnectX-7, two links of four lanes, each port on both. MaxPayload needs root, so it is
    unknown."""
    functions = tuple(
        NicFunction(
            name=name,
            card="e09d",
            links=(link(bus, 32.0, 4, None),),
            port_name=port,
            port=roce(200) if port in cables else None,
            active=port in cables,
        )
        for name, bus, port in (
            ("rocep1s0f0", "0000:01:00", "p0"),
            ("rocep1s0f1", "0000:01:00", "p1"),
            ("roceP2p1s0f0", "0002:01:00", "p0"),
            ("roceP2p1s0f1", "0002:01:00", "p1"),
        )
    )
    gpu = LinkedGpu("000f:01:00.0", Attachment.INTEGRATED)
    pairs = tuple(PairLinks(gpu, f, CommonPoint.ROOT_COMPLEX, (), f.links) for f in functions)
    return NodeLinks((gpu,), functions, pairs)


def test_one_cable_of_a_spark_carries_200_gbit_and_needs_both_links():
    machine = spark({"p0"})
    bounds = node_total(machine).rate

    assert bounds.high_gb_per_s * 8 == pytest.approx(196.07, abs=0.01)  # the port, at an MTU of 4096
    assert 189.85 / 8 in bounds  # the sum in NVIDIA's guide
    one = chain(machine, machine.pairs[0], "host-mapped")
    assert 12.0 in one.rate
    assert one.rate.high_gb_per_s < bounds.low_gb_per_s
    assert one.tightest.name == "nic-link"


def test_a_second_cable_of_a_spark_adds_no_link():
    """The forum's 25.67 GB/s over two cables is the rate of two links of four lanes, not half of a rate."""
    one, two = (node_total(spark(cables)).rate for cables in ({"p0"}, {"p0", "p1"}))

    assert 25.67 in two
    assert two.low_gb_per_s == one.low_gb_per_s
    assert two.high_gb_per_s < 400 / 8 * 0.65
    assert card_chain(spark({"p0", "p1"}).functions).tightest.name == "nic-link"
    assert card_chain(spark({"p0"}).functions).tightest.name == "port"


def test_functions_of_a_spark_name_the_others_on_their_link_and_port():
    machine = spark({"p0", "p1"})
    limits = {limit.name: limit for limit in chain(machine, machine.pairs[0], "host-mapped").limits}

    assert limits["nic-link"].shared_with == ("rocep1s0f1",)
    assert limits["port"].shared_with == ("roceP2p1s0f0",)


def test_a_second_port_of_a_spark_that_is_down_has_no_effect():
    one = spark({"p0"})
    functions = tuple(replace(f, down="" if f.active else "DOWN") for f in one.functions)
    known = NodeLinks(one.gpus, functions)

    assert node_total(known).rate == node_total(one).rate
    assert card_chain(functions).tightest.rate == card_chain(one.functions).tightest.rate
    assert card_chain(functions).unknown == ()


def test_a_card_with_one_link_of_unknown_rate_has_no_limit_by_its_links():
    links = [link("0000:01:00", 32.0, 4), UpstreamLink("0000:02:00", None)]
    functions = tuple(nic(f"mlx5_{n}", [one], roce(200), card="card") for n, one in enumerate(links))
    for order in (functions, functions[::-1]):
        found = card_chain(order)
        assert found.unknown == ("PCIe link of 0000:02:00",)
        assert [limit.name for limit in found.limits] == ["port"]


def test_a_link_above_ports_that_are_down_carries_nothing():
    """One function of a Spark has an active port: the link of the other functions is not used."""
    functions = tuple(
        replace(f, down="" if f.name == "rocep1s0f0" else "DOWN", active=f.name == "rocep1s0f0")
        for f in spark({"p0"}).functions
    )

    assert card_chain(functions).tightest.name == "nic-link"
    assert card_chain(functions).rate.high_gb_per_s == pytest.approx(15.05, abs=0.01)


DOWN = NicFunction(
    name="mlx5_1", card="b", links=(link("0000:98:00", 32.0, 16),), port=None, active=False, down="DOWN"
)


def test_a_port_that_is_down_carries_nothing_on_any_path():
    machine, pair = pair_of(GPU_GEN5, DOWN, CommonPoint.ROOT_COMPLEX)

    for path in possible(pair):
        found = chain(machine, pair, path)
        assert (found.rate.high_gb_per_s, found.tightest.name, found.unknown) == (0.0, "port", ())
    assert node_total(machine).rate.high_gb_per_s == 0.0
    assert node_total(machine).limits[0].subject == "0 cards"


def test_an_unknown_port_stays_unknown_if_another_one_is_down():
    unknown = nic("mlx5_2", [link("0000:18:00", 32.0, 16)], None)
    machine = NodeLinks((GPU_GEN5,), (DOWN, unknown))

    assert node_total(machine).unknown == ("port of mlx5_2",)
    assert node_total(machine).rate.high_gb_per_s == pytest.approx(57.6, abs=0.05)
    assert card_chain((DOWN, replace(unknown, card="b"))).unknown == ("port of mlx5_2",)


def test_a_device_whose_port_is_down_shares_no_link():
    machine = hgx()
    functions = (machine.functions[0], replace(machine.functions[1], down="DOWN", active=False))
    part = NodeLinks(machine.gpus, functions, machine.pairs[:1])
    uplink = next(limit for limit in chain(part, part.pairs[0], "staged").limits if limit.shared_with)

    assert uplink.shared_with == ("0000:1c:00.0", "mlx5_0")


def test_a_spark_has_neither_a_direct_nor_a_staged_path():
    assert possible(spark({"p0"}).pairs[0]) == ("host-mapped", "socket")


def test_25_gbe_on_gen3_x8_is_bound_by_its_port():
    """The link could carry 57 Gbit/s; the published run reached 24.51 (docs/measurements.md)."""
    machine, pair = pair_of(GPU_GEN4, nic("mlx5_0", [link("0000:04:00", 8.0, 8)], roce(25)))
    found = chain(machine, pair, "direct")

    assert found.tightest.name == "port"
    assert found.rate.high_gb_per_s * 8 == pytest.approx(24.51, abs=0.01)


def test_a_400g_port_is_just_below_gen5_x16():
    machine, pair = pair_of(GPU_GEN5, nic("mlx5_0", [link("0000:18:00", 32.0, 16)], infiniband(400, "NDR")))
    found = chain(machine, pair, "direct")

    assert found.tightest.name == "port"
    assert found.rate.high_gb_per_s == pytest.approx(49.68, abs=0.01)


def test_two_100g_ports_exceed_gen3_x16():
    shared = [link("0000:3b:00", 8.0, 16)]
    functions = tuple(
        nic(f"mlx5_{n}", shared, infiniband(100, "EDR"), card="a", port_name=f"p{n}") for n in (0, 1)
    )
    found = card_chain(functions)

    assert found.tightest.name == "nic-link"
    assert found.rate.high_gb_per_s == pytest.approx(14.4, abs=0.01)


def test_a_gh200_is_bound_by_its_port_though_the_path_is_through_its_cpu():
    gpu = LinkedGpu("0009:01:00.0", Attachment.C2C, (link("0009:01:00", 32.0, 16),))
    machine, pair = pair_of(
        gpu, nic("mlx5_0", [link("0000:01:00", 32.0, 16)], infiniband(400, "NDR")), CommonPoint.ROOT_COMPLEX
    )
    found = chain(machine, pair, "direct")

    assert [limit.name for limit in found.limits] == ["gpu-c2c", "nic-link", "port"]
    assert found.tightest.name == "port"


def test_staging_on_an_h200_is_bound_by_the_measured_copy():
    """55.2 and 55.4 GB/s by copy, 36.5 by NCCL through shared memory."""
    machine, pair = pair_of(GPU_GEN5, nic("mlx5_0", [link("0000:18:00", 32.0, 16)], infiniband(800, "XDR")))
    found = chain(machine, pair, "staged")

    copy = {limit.name: limit for limit in found.limits}["host-copy"]
    for gb_per_s in (36.5, 55.2, 55.4):
        assert gb_per_s in copy.rate


def test_an_a100_with_200g_is_bound_by_the_port_not_by_gen4_x16():
    machine, pair = pair_of(GPU_GEN4, nic("mlx5_0", [link("0000:0c:00", 16.0, 16)], infiniband(200, "HDR")))

    assert chain(machine, pair, "direct").tightest.name == "port"
    assert chain(machine, pair, "direct").rate.high_gb_per_s == pytest.approx(24.84, abs=0.01)


def hgx():
    """Two GPUs and two NICs below each switch, one link of 16 lanes from the switch to the processor."""
    uplink = link("0000:16:00.0", 32.0, 16)
    gpus = tuple(LinkedGpu(f"0000:1{n}:00.0", links=(link(f"0000:1{n}:00", 32.0, 16), uplink)) for n in "bc")
    nics = tuple(
        nic(f"mlx5_{n}", [link(f"0000:1{n + 8}:00", 32.0, 16), uplink], infiniband(400, "NDR"))
        for n in (0, 1)
    )
    pairs = tuple(PairLinks(g, f, CommonPoint.SWITCH, g.links[:1], f.links[:1]) for g in gpus for f in nics)
    return NodeLinks(gpus, nics, pairs)


def test_below_a_switch_the_direct_path_avoids_the_uplink_that_the_staged_one_shares():
    machine = hgx()
    direct, staged = (chain(machine, machine.pairs[0], path) for path in ("direct", "staged"))

    assert "switch-uplink" not in {limit.name for limit in direct.limits}
    uplink = next(limit for limit in staged.limits if limit.name == "switch-uplink")
    assert set(uplink.shared_with) == {"0000:1c:00.0", "mlx5_0", "mlx5_1"}


def test_a_distant_pair_has_a_lower_bound_below_that_of_its_links():
    machine, pair = pair_of(
        GPU_GEN5, nic("mlx5_0", [link("0000:98:00", 32.0, 16)], infiniband(400, "NDR")), CommonPoint.SOCKETS
    )
    near = pair_of(GPU_GEN5, pair.function)
    far, close = chain(machine, pair, "direct"), chain(*near, "direct")

    assert far.rate.high_gb_per_s == close.rate.high_gb_per_s
    assert far.rate.low_gb_per_s < close.rate.low_gb_per_s


def test_one_gpu_bounds_a_node_with_four_nics():
    nics = tuple(
        nic(f"mlx5_{n}", [link(f"0000:{n}8:00", 32.0, 16)], infiniband(400, "NDR")) for n in range(4)
    )
    machine = NodeLinks((GPU_GEN5,), nics)

    assert node_total(machine).tightest.name == "gpu-links"
    assert node_total(machine).rate.high_gb_per_s == pytest.approx(57.6, abs=0.05)


def test_an_unknown_link_leaves_an_upper_bound_and_no_lower_one():
    function = nic("mlx5_0", [UpstreamLink("0000:18:00", None)], infiniband(400, "NDR"))
    machine, pair = pair_of(GPU_GEN5, function)
    found = chain(machine, pair, "direct")

    assert found.unknown == ("PCIe link of mlx5_0",)
    assert found.rate.low_gb_per_s == 0.0
    assert found.rate.high_gb_per_s == pytest.approx(49.68, abs=0.01)


def test_a_pair_without_known_limits_has_no_ceiling():
    pair = PairLinks(LinkedGpu("0000:1b:00.0"), NicFunction(name="mlx5_0", card="a"), CommonPoint.UNKNOWN)
    machine = NodeLinks((pair.gpu,), (pair.function,), (pair,))
    found = chain(machine, pair, "direct")

    assert found.rate is None
    assert found.tightest is None
    assert set(found.unknown) == {"PCIe link of 0000:1b:00.0", "PCIe link of mlx5_0", "port of mlx5_0"}


def test_sockets_over_infiniband_are_unknown():
    machine, pair = pair_of(GPU_GEN5, nic("mlx5_0", [link("0000:18:00", 32.0, 16)], infiniband(400, "NDR")))

    assert "IP over this port" in chain(machine, pair, "socket").unknown


def test_sockets_over_ethernet_lose_tcp_headers_and_have_a_low_lower_bound():
    machine, pair = pair_of(GPU_GEN5, nic("mlx5_0", [link("0000:18:00", 32.0, 16)], roce(100)))
    found = chain(machine, pair, "socket")

    assert found.tightest.name == "tcp"
    assert found.rate.low_gb_per_s == 3.5
    assert found.rate.high_gb_per_s < 12.5
