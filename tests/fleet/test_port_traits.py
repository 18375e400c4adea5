"""The traits of ports: networks, their order, partitions, names."""

from __future__ import annotations

import json

import pytest

from gdrkit.evidence import EvidenceMissing
from gdrkit.fleet import port_traits
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
