"""The networks of an interface: addresses, routes, neighbours."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.evidence import EvidenceMissing
from gdrkit.facts import networks
from gdrkit.node import Node
from tests.memory_host import MemoryHost

ADDR = ("ip", "-j", "addr")
ROUTE = ("ip", "route", "show", "table", "all", "dev")
NEIGH = ("ip", "neigh", "show", "dev")
CARDS = [
    {
        "ifname": "enp1s0f1np1",
        "address": "4C:BB:47:00:D1:E2",
        "addr_info": [
            {"family": "inet", "local": "192.168.100.10", "prefixlen": 24},
            {"family": "inet6", "local": "fe80::4ebb:47ff:fe00:d1e2", "prefixlen": 64},
        ],
    },
    {"ifname": "ens6", "addr_info": [{"family": "inet6", "local": "fd00::5", "prefixlen": 64}]},
    {"ifname": "ens7", "addr_info": [{"family": "inet6", "local": "fe80::5", "prefixlen": 64}]},
    {"ifname": "ens8", "addr_info": [{"family": "inet", "local": "169.254.3.9", "prefixlen": 16}]},
]


def node(files=None, **commands):
    found = {ADDR: json.dumps(CARDS)}
    for name, output in commands.items():
        words = {"route": ROUTE, "neigh": NEIGH}[name]
        found[(*words, "ens0")] = output
    return Node(MemoryHost(files or {}, commands=found))


@pytest.mark.parametrize(
    ("net", "found"),
    [
        ("enp1s0f1np1", ("192.168.100.0/24",)),
        ("ens6", ("fd00::/64",)),
        ("ens7", ()),
        ("ens8", ("169.254.0.0/16",)),
    ],
)
def test_the_networks_of_an_interface(net, found):
    """IPv4 comes first; a link-local address of IPv6, which every interface has, does not count."""
    assert networks.networks(node(), net) == found


def test_an_interface_that_is_not_listed_is_not_known():
    with pytest.raises(EvidenceMissing):
        networks.networks(node(), "ens9")


def test_addresses_that_were_replaced_are_not_known():
    with pytest.raises(EvidenceMissing, match="without --anonymize"):
        networks.networks(node({"gdr_manifest.json": '{"anonymized": true}'}), "ens6")


def test_the_addresses_of_a_sosreport():
    lines = "2: ens0    inet 10.1.0.5/16 brd 10.1.255.255 scope global ens0\\       valid_lft forever\n"
    host = MemoryHost({"sos_commands/networking/ip_-o_addr": lines})

    assert networks.networks(Node(host), "ens0") == ("10.1.0.0/16",)


@pytest.mark.parametrize("in_json", [True, False])
@pytest.mark.parametrize("last", [networks.ADDRESSES_LIMIT - 1, networks.ADDRESSES_LIMIT])
def test_the_first_addresses_of_an_interface_count(in_json: bool, last: int):
    """The address of another network is the last that counts, or the one after it."""
    addresses = [f"10.1.0.{number}" for number in range(last)] + ["10.2.0.1"]
    found = [{"local": one, "prefixlen": 24} for one in addresses]
    shown = {ADDR: json.dumps([{"ifname": "ens0", "addr_info": found}])} if in_json else {}
    lines = "".join(f"2: ens0    inet {one}/24 scope global ens0\n" for one in addresses)
    host = MemoryHost({} if in_json else {"sos_commands/networking/ip_-o_addr": lines}, commands=shown)
    seen = networks.networks(Node(host), "ens0")
    assert ("10.2.0.0/24" in seen) is (last < networks.ADDRESSES_LIMIT)


@pytest.mark.parametrize(
    ("routes", "routed"),
    [
        ("default via 10.1.0.1 table 102 \n10.1.0.0/24 proto kernel scope link src 10.1.0.5 \n", True),
        ("10.0.0.0/8 via inet6 fe80::1 proto bgp \n", True),
        ("10.1.0.0/24 proto kernel scope link src 10.1.0.5 \nlocal 10.1.0.5 table local \n", False),
        ("", False),
    ],
)
def test_an_interface_with_a_gateway_reaches_other_networks(routes, routed):
    assert networks.is_routed(node(route=routes), "ens0") is routed


def test_routes_that_were_not_collected_are_not_known():
    with pytest.raises(EvidenceMissing):
        networks.is_routed(node(), "ens0")


def test_neighbours_that_answered():
    text = (
        "192.168.100.11 lladdr 4c:bb:47:00:d1:e3 REACHABLE \n"
        "fe80::1 lladdr 4c:bb:47:00:d1:e3 router STALE \n"
        "192.168.100.12 FAILED \n192.168.100.13 lladdr 02:00:00:00:00:09 FAILED \n"
    )
    assert networks.neighbours(node(neigh=text), "ens0") == ("4c:bb:47:00:d1:e3",)


@pytest.mark.parametrize("net", ["-x", "../../etc", "", "a b", "x" * 16])
def test_no_command_gets_a_name_that_is_not_one_of_an_interface(net):
    with pytest.raises(EvidenceMissing, match="odd name"):
        networks.neighbours(node(), net)


@given(
    st.text() | st.recursive(st.none() | st.text() | st.integers(), lambda c: st.lists(c)).map(json.dumps)
)
def test_no_text_crashes_them(text):
    commands = {ADDR: text, (*ROUTE, "ens0"): text, (*NEIGH, "ens0"): text}
    for fact in (networks.networks, networks.is_routed, networks.neighbours):
        try:
            fact(Node(MemoryHost({}, commands=commands)), "ens0")
        except EvidenceMissing:
            continue
