"""The traits of ports: networks, their order, partitions, names."""

from __future__ import annotations

import json

import pytest

from gdrkit.evidence import EvidenceMissing
from gdrkit.fleet import port_traits
from gdrkit.fleet.traits import TRAITS
from gdrkit.node import Node
from tests.memory_host import MemoryHost


def node(*ports, **files):
    """A node with a port of each network; "" for one without an address, "IB" for InfiniBand."""
    found, cards, commands = {}, [], {}
    for number, network in enumerate(ports):
        at = f"sys/class/infiniband/mlx5_{number}/ports/1"
        layer = "InfiniBand" if network == "IB" else "Ethernet"
        found |= {
            f"{at}/state": "4: ACTIVE\n", f"{at}/phys_state": "5: LinkUp\n",
            f"{at}/rate": "400 Gb/sec (4X NDR)\n", f"{at}/link_layer": f"{layer}\n",
            f"{at}/gid_attrs/ndevs/0": f"eth{number}\n",
        }  # fmt: skip
        net, _, way = network.partition(" ")
        local = [{"local": f"{net}.7", "prefixlen": 24}] if net else []
        cards.append({"ifname": f"eth{number}", "addr_info": local})
        route = "default via 10.0.0.1\n" if way else "10.0.0.0/24 proto kernel scope link\n"
        commands["ip", "route", "show", "table", "all", "dev", f"eth{number}"] = route
    commands["ip", "-j", "addr"] = json.dumps(cards)
    return Node(MemoryHost(found | files, commands=commands, complete=True))


@pytest.mark.parametrize(
    ("ports", "networks", "order"),
    [
        (("10.1.0", "10.2.0"), "10.1.0.0/24, 10.2.0.0/24", "sorted"),
        (("10.2.0", "10.1.0"), "10.1.0.0/24, 10.2.0.0/24", "2 1"),
        (("10.9.0", "10.10.0"), "10.9.0.0/24, 10.10.0.0/24", "sorted"),
        (("10.1.0", "10.1.0"), "10.1.0.0/24", "sorted"),
        ((), "none", "sorted"),
    ],
)
def test_the_networks_and_their_order(ports, networks, order):
    """Equal networks in another order are crossed cables, or devices that firmware numbered anew."""
    assert port_traits.networks(node(*ports)) == networks
    assert port_traits.network_order(node(*ports)) == order


@pytest.mark.parametrize(
    ("ports", "networks"),
    [(("10.1.0 routed", "10.2.0 routed"), "routed"), (("10.1.0", ""), "10.1.0.0/24, no address")],
)
def test_the_order_of_networks_that_are_routed_or_missing_is_not_known(ports, networks):
    assert port_traits.networks(node(*ports)) == networks
    with pytest.raises(EvidenceMissing):
        port_traits.network_order(node(*ports))


def test_a_port_that_is_down_takes_nothing_from_what_the_others_have():
    """Such a node differs in the number of its ports alone, if another port is in the same network."""
    down = {"sys/class/infiniband/mlx5_2/ports/1/state": "1: DOWN\n"}
    whole, less = node("10.1.0", "10.2.0", "10.2.0"), node("10.1.0", "10.2.0", "10.2.0", **down)

    for trait in (port_traits.networks, port_traits.network_order, port_traits.link_layers):
        assert trait(whole) == trait(less)
    assert port_traits.nic_count(whole) != port_traits.nic_count(less)


def test_where_all_ports_are_down_their_traits_are_not_known():
    alone = node("10.1.0", **{"sys/class/infiniband/mlx5_0/ports/1/state": "1: DOWN\n"})

    for trait in (port_traits.networks, port_traits.link_layers, port_traits.mtus, port_traits.gid_kinds):
        with pytest.raises(EvidenceMissing):
            trait(alone)
    assert port_traits.nic_count(alone) == "0 active, 1 in all"


def test_partition_keys_are_those_of_infiniband():
    keys = {"sys/class/infiniband/mlx5_0/ports/1/pkeys/0": "0x8001\n"}

    assert port_traits.partition_keys(node("IB", "10.1.0", **keys)) == "0x8001"
    assert port_traits.partition_keys(node("10.1.0")) == "none"


def test_the_names_and_the_traffic_class_of_every_port():
    tc = {"sys/class/infiniband/mlx5_1/tc/1/traffic_class": "Global tclass=106\n"}
    made = node("10.1.0", "10.2.0", **tc)

    assert port_traits.names(made) == "mlx5_0 mlx5_1"
    assert port_traits.traffic_class(made) == "Global tclass=106, none"


def test_a_port_without_a_gid_of_ipv4_has_no_index():
    with pytest.raises(EvidenceMissing):
        port_traits.gid_indexes(node("10.1.0", **{"sys/class/infiniband/mlx5_0/ports/1/gids/0": "fe80::1"}))


COUNTERS = "sys/class/infiniband/mlx5_{}/ports/1/counters/{}"


def counting(first, second):
    """Two ports, each with how often its link went down and its symbol errors; None: not counted."""
    found = {
        COUNTERS.format(number, name): f"{count}\n"
        for number, counts in enumerate((first, second))
        for name, count in zip(("link_downed", "symbol_error"), counts, strict=True)
        if count is not None
    }
    return node("IB", "IB", **found)


@pytest.mark.parametrize(
    ("second", "errors"),
    [
        ((0, 0), "few"),
        ((9, 9), "few"),
        ((10, 0), "mlx5_1 link_downed 10 or more, since an unknown time"),
        ((137, 912345), "mlx5_1 link_downed 10 or more, symbol_error 100000 or more, since an unknown time"),
        ((None, 1000), "mlx5_1 symbol_error 1000 or more, since an unknown time"),
        ((None, None), "few"),  # a port whose driver counts nothing
    ],
)
def test_errors_of_links_by_port_to_the_order_of_magnitude(second, errors):
    assert port_traits.link_errors(counting((1, 3), second)) == errors


def test_where_nothing_counts_errors_they_are_not_few():
    with pytest.raises(EvidenceMissing):
        port_traits.link_errors(counting((None, None), (None, None)))
    with pytest.raises(EvidenceMissing):
        port_traits.link_errors(counting((0, 0), ("garbled", 0)))


def test_a_nic_that_is_missing_is_no_other_version_of_firmware():
    read = next(trait.read for trait in TRAITS if trait.name == "NIC firmware")
    at = "sys/class/infiniband/mlx5_{}/{}"
    versions = [
        {at.format(n, "fw_ver"): f"28.4{minor}\n", at.format(n, "board_id"): "MT_1\n"}
        for n, minor in enumerate((3, 3, 2))
    ]
    one, two, three = versions[0], versions[0] | versions[1], versions[0] | versions[1] | versions[2]

    assert read(node("IB", **one)) == read(node("IB", "IB", **two)) == "MT_1 28.43"
    assert read(node("IB", "IB", "IB", **three)) == "MT_1 28.42, MT_1 28.43"
