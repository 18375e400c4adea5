"""How two DGX Sparks are connected."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gdrkit.fleet.build import build
from gdrkit.fleet.cabling import cabling
from gdrkit.fleet.document import NodeSetting, Standing
from gdrkit.fleet.text import comparison_text, text
from tests.fleet.fleets import row
from tests.fleet.sparks import LINK, PORTS, spark


def pair(one=None, other=None):
    return cabling((one or spark("spark-a"), other or spark("spark-b")))


def devices(found):
    return [(one.device, one.other, one.known_by) for one in found.pairs]


def test_one_cable_is_two_devices_in_two_networks():
    found = pair()

    assert devices(found) == [
        ("roceP2p1s0f1", "roceP2p1s0f1", "network"), ("rocep1s0f1", "rocep1s0f1", "network"),
    ]  # fmt: skip
    assert found.cables == (("p1", "p1"),) and not found.problems and not found.notes
    assert (found.gbit_per_s, found.limited_by) == (200.0, "1 cable")


def test_two_cables_share_the_pcie_links():
    both = {"up": "p0 p1", "nets": "100 101 102 103"}
    found = pair(spark("spark-a", **both), spark("spark-b", **both))

    assert found.cables == (("p0", "p0"), ("p1", "p1"))
    assert (found.gbit_per_s, found.limited_by) == (2 * LINK, "2 PCIe links of 32 GT/s x4")
    assert any("hardly faster" in note for note in found.notes)


def changed(row, half, **fields):
    """The row of a Spark with fields of the ports of one half: `P2` in the name, or not."""
    ports = [replace(port, **fields) if ("P2" in port.device) is half else port for port in row.ports]
    return replace(row, ports=tuple(ports))


X2 = {"link": "32 GT/s x2", "link_gbit_per_s": 63.0}


def test_a_link_of_two_lanes_limits_the_rate_and_is_a_problem_where_it_was_built_with_four():
    """BIOS versions before April 2026 train the second controller at x2."""
    slow = changed(spark("spark-b", up="p0 p1", nets="1 2 3 4"), True, **X2, full_link="32 GT/s x4")
    found = pair(spark("spark-a", up="p0 p1", nets="1 2 3 4"), slow)

    assert (found.gbit_per_s, found.limited_by) == (189.0, "2 PCIe links of 32 GT/s x2 and 32 GT/s x4")
    (problem,) = found.problems
    assert problem.startswith("roceP2p1s0f0 and roceP2p1s0f1 of spark-b: their PCIe link is 32 GT/s x2, ")
    assert "built as 32 GT/s x4" in problem and "`sudo fwupdmgr update`" in problem
    assert not pair(other=changed(spark("spark-b"), True, **X2)).problems, "not known how it was built"


OFF = {"state": "DOWN", "addresses": (), "mtu": 1500}


@pytest.mark.parametrize("both", [False, True])
def test_a_half_that_is_down_beside_one_that_is_up_comes_first(both):
    """Its cable has a link. Of the half at the other end nothing is said: that is a consequence."""
    one, other = spark("spark-a"), changed(spark("spark-b"), True, **OFF)
    found = pair(changed(one, True, **OFF) if both else one, other)
    wrong = [port.device for port in other.ports if port.name == "p1" and "P2" in port.device]

    assert wrong == ["roceP2p1s0f1"] and len(found.problems) == 1 + both
    assert f"{wrong[0]} of spark-b is DOWN, though the other device of p1 is up" in found.problems[-1]
    assert "`sudo ip link set dev enP2p1s0f1np1 up`" in found.problems[-1]
    assert "an address in the network of its other end" in found.problems[-1]


def test_a_port_without_a_cable_is_no_half_that_is_down():
    assert not pair().problems
    assert {port.state for port in spark("spark-a").ports} == {"ACTIVE", "DOWN"}


def hcas(row, names):
    value = "=" + ",".join(f"{name}:1" for name in names)
    return replace(row, settings=(NodeSetting(name="NCCL_IB_HCA", value=value, why="all that are up"),))


ALL = [device for device, *_ in PORTS]


def test_two_nodes_never_get_lists_of_devices_of_different_lengths():
    """As NCCL then fails: the half that is down comes first, and what leads elsewhere is left out."""
    whole = hcas(spark("spark-a", up="p0 p1", nets="1 2 3 4"), ALL)
    off = hcas(changed(spark("spark-b", up="p0 p1", nets="1 2 3 4"), True, **OFF), ALL[::2])
    fewer = hcas(spark("spark-b", nets="3 4"), ALL[2:])
    shown = [
        " ".join(comparison_text(whole, row, width=80).partition("What to set")[2].split())
        for row in (off, fewer, whole)
    ]

    assert "NCCL_IB_HCA is not set bring roceP2p1s0f0 of spark-b and roceP2p1s0f1 of spark-b up" in shown[0]
    assert "NCCL_IB_HCA='" not in shown[0]
    assert shown[1].startswith("on both nodes NCCL_IB_HCA='=rocep1s0f1:1,roceP2p1s0f1:1' the devices that")
    assert shown[1].count("NCCL_IB_HCA") == 1
    assert f"NCCL_IB_HCA='=rocep1s0f0:1,{ALL[1]}:1,{ALL[2]}:1,{ALL[3]}:1' all that are up" in shown[2]


@pytest.mark.parametrize(
    ("nets", "other", "problem"),
    [
        ("100 101", "200 201", "in a network of the other"),
        ("100 101", "100 201", "roceP2p1s0f1 of spark-a shares no network"),
        ("100 101", "100 -", "roceP2p1s0f1 of spark-b shares no network"),
        ("- -", "100 101", "spark-a has no address on enp1s0f1np1, enP2p1s0f1np1"),
    ],
)
def test_addresses_that_do_not_meet_are_problems(nets, other, problem):
    found = pair(spark("spark-a", nets=nets), spark("spark-b", nets=other))
    assert any(problem in words for words in found.problems)


def test_a_cable_with_an_address_on_one_of_its_devices_carries_both():
    """As many owners have it: NCCL takes the link-local GIDs of the other device at both ends."""
    found = pair(spark("spark-a", nets="100 -"), spark("spark-b", nets="100 -"))

    assert devices(found) == [
        ("roceP2p1s0f1", "roceP2p1s0f1", "cable"), ("rocep1s0f1", "rocep1s0f1", "network"),
    ]  # fmt: skip
    assert not found.problems and found.gbit_per_s == 200


def test_a_node_without_a_cable():
    found = pair(other=spark("spark-b", up=""))
    assert [words.partition(":")[0] for words in found.problems] == ["no port of spark-b is up"]
    assert found.gbit_per_s is None and not found.pairs


def test_a_crossed_cable_is_noted():
    found = pair(other=spark("spark-b", up="p0"))

    assert found.cables == (("p1", "p0"),) and not found.problems
    assert any("p1 to p0" in note and "NCCL_IB_HCA differs" in note for note in found.notes)


def test_all_ports_in_one_network_are_noted():
    """As netplan's link-local addresses are: which port answers is not known by them."""
    found = pair(spark("spark-a", nets="100 100"), spark("spark-b", nets="100 100"))

    assert [by for *_, by in devices(found)] == ["shared", "shared"]
    assert all(one == other for one, other, _ in devices(found))
    assert any("192.168.100.0/24" in note for note in found.notes) and not found.problems


def test_a_neighbour_shows_the_port_at_the_other_end():
    """Crossed cables in one network: the kernel has seen the address of the other port."""
    one, other = (spark(name, up="p0 p1", nets="100 100 100 100") for name in ("spark-a", "spark-b"))
    macs = {port.device: port.mac for port in other.ports}
    seen = {"rocep1s0f0": "rocep1s0f1", "rocep1s0f1": "rocep1s0f0"}
    ports = [replace(p, neighbours=(macs[seen[p.device]],) if p.device in seen else ()) for p in one.ports]

    found = pair(replace(one, ports=tuple(ports)), other)
    assert {("rocep1s0f0", "rocep1s0f1", "neighbour"), ("rocep1s0f1", "rocep1s0f0", "neighbour")} <= set(
        devices(found)
    )


def test_addresses_that_are_not_known_are_no_problem_and_no_connection():
    found = pair(spark("spark-a", nets="? ?"))

    assert not found.pairs and not found.problems and found.gbit_per_s is None
    words = comparison_text(spark("spark-a", nets="? ?"), spark("spark-b"), width=80)
    assert "not known which port leads where" in words


def test_a_link_that_is_not_known_leaves_the_rate_open():
    assert pair(spark("spark-a", link_gbit_per_s=None)).gbit_per_s is None


@pytest.mark.parametrize(("mtu", "where"), [(1500, "problems"), (8000, "problems"), (9000, "")])
def test_both_ends_need_one_mtu(mtu, where):
    found = pair(other=spark("spark-b", mtu=mtu))
    assert bool(found.problems) is bool(where)


@pytest.mark.parametrize(("mtu", "problem"), [(1500, True), (9000, False), (None, False)])
def test_a_smaller_mtu_is_a_problem_also_where_no_cable_is_known(mtu, problem):
    """Without addresses; a node of which some MTU is not known may have the larger one."""
    rows = spark("spark-a", nets="? ?", mtu=9000), spark("spark-b", nets="? ?", mtu=mtu)
    found = pair(*rows)
    words = " ".join(comparison_text(*rows, width=80).split())

    assert [one.startswith("spark-b has MTU 1500 on ") for one in found.problems] == [True] * problem
    assert ("`sudo ip link set dev NAME mtu 9000`" in words) is problem
    assert "not known which port leads where" in words


@pytest.mark.parametrize(("mtu", "noted"), [(1500, True), (4199, True), (4200, False), (9000, False)])
def test_a_small_mtu_is_noted(mtu, noted):
    found = pair(spark("spark-a", mtu=mtu), spark("spark-b", mtu=mtu))
    assert any("packets of 4096" in note for note in found.notes) is noted and not found.problems


@pytest.mark.parametrize("rows", [1, 3])
def test_only_two_nodes_are_a_pair(rows):
    assert cabling([spark(f"spark-{letter}") for letter in "abc"[:rows]]) is None


def test_a_node_of_another_kind_is_no_end_of_such_a_cable():
    assert cabling((spark("spark-a"), row("gpu1"))) is None
    silent = replace(spark("spark-c"), standing=Standing.UNREACHABLE)
    assert cabling((spark("spark-a"), spark("spark-b"), silent)) is not None


def test_the_fleet_and_the_comparison_say_the_same_in_80_columns():
    rows = (spark("spark-a"), spark("spark-b", up="p0"))
    shown = [text(build(rows), width=80), comparison_text(*rows, width=80)]

    for words in shown:
        section = words.partition("Between the two nodes")[2]
        assert section.startswith(": connected, at most 200 Gbit/s\n")
        assert "p1 of spark-a to p0 of spark-b" in section
        assert "Ignore `Invalid argument`" in " ".join(section.split())
        assert "What to set on spark-a\n    NCCL_IB_HCA='=p1'" in section
        assert max(map(len, words.splitlines())) <= 80


NETS = st.sampled_from(("100", "101", "-", "?"))


@given(st.tuples(*[NETS] * 4), st.tuples(*[NETS] * 4), st.sampled_from(("", "p0", "p1", "p0 p1")))
def test_every_port_has_at_most_one_other_end(some, others, up):
    found = pair(
        spark("spark-a", up="p0 p1", nets=" ".join(some)), spark("spark-b", up=up, nets=" ".join(others))
    )

    for names in ([one.device for one in found.pairs], [one.other for one in found.pairs]):
        assert len(set(names)) == len(names)
    assert found.pairs or found.gbit_per_s is None
